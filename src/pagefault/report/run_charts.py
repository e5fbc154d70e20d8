"""Charts of event logs over time: queue, running and stalled, the pool's use, lost work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pagefault.report.charts import (
    BLUE,
    GREY,
    PURPLE,
    SHORT,
    VERMILLION,
    Chart,
    duration,
    figure,
    left_axis,
    legend,
    once,
    percent,
    scale_of,
    several,
    table,
    view,
)
from pagefault.report.extremes import evenly, extremes
from pagefault.report.latency_charts import distribution
from pagefault.report.runs import (
    STATES,
    Clock,
    DrawnRun,
    commands_of,
    cut_short,
    drawn_runs,
    line_encoding,
    mean_over_time,
    said_thinned,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from pagefault.report.charts import Spec
    from pagefault.report.events import RunLog

    Ints = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

BINS = 600
"""Spans of time for all runs of a chart together."""

MOST_POINTS = 300
"""Of a line that only rises."""

STATE_COLOURS = (BLUE, VERMILLION, PURPLE, GREY)


def run_charts(runs: Sequence[RunLog]) -> list[Chart]:
    """Charts that compare runs of event logs.

    Args:
        runs: With a name each; at most `MOST_RUNS` of them are drawn.
    """
    drawn = [DrawnRun(run) for run in drawn_runs(runs)]
    if not drawn:
        return []
    left_out = "" if len(drawn) == len(runs) else f"{len(drawn)} of {several(len(runs), 'run')} are drawn. "
    charts = [_states(drawn, left_out), _usage(drawn, left_out)]
    if any(run.preempted.size for run in drawn):
        charts.append(_lost(drawn, left_out))
    for id_, what, times in (
        ("serving-ttft", "time to first token", [run.ttft for run in drawn]),
        ("serving-tpot", "time an output token after the first", [run.tpot for run in drawn]),
    ):
        if any(some.size for some in times):
            charts.append(distribution(id_, what, drawn, times, left_out))
    return charts


def _states(runs: Sequence[DrawnRun], left_out: str) -> Chart:
    clock = Clock.of(runs)
    present = [state for state in STATES if any(run.states[state].any() for run in runs)] or [STATES[0]]
    colours = [STATE_COLOURS[STATES.index(state)] for state in present]
    top = max(int(sum(run.states[state] for state in present).max()) for run in runs)  # type: ignore[union-attr]
    panels, kept = [], 0
    for run in runs:
        chosen = extremes(
            run.steps["t"], [run.states[state] for state in present], max(BINS // len(runs) // 3, 40)
        )
        kept += chosen.size
        rows: list[Spec] = [
            {
                "t": clock.at(int(run.steps["t"][index])),
                **{state: int(run.states[state][index]) for state in present},
            }
            for index in chosen
        ]
        panels.append(
            view(
                rows,
                150 if len(runs) > 1 else 240,
                **({"title": {"text": run.name, "anchor": "start"}} if len(runs) > 1 else {}),
                transform=[
                    {"fold": present, "as": ["state", "sequences"]},
                    {"calculate": f"indexof({present}, datum.state)".replace("'", '"'), "as": "order"},
                ],
                mark={"type": "area", "line": {"strokeWidth": 0.5}, "opacity": 0.9},
                encoding={
                    "x": clock.axis(**({} if run is runs[-1] else {"title": None})),
                    "y": {
                        "field": "sequences",
                        "type": "quantitative",
                        "stack": True,
                        "title": "sequences",
                        "scale": {"domain": [0, top]},
                        "axis": left_axis(),
                    },
                    "color": {
                        "field": "state",
                        "scale": scale_of(present, colours),
                        "legend": legend() if run is runs[0] else None,
                    },
                    "order": {"field": "order"},
                    "tooltip": [
                        {"field": "t", "title": f"time, {clock.unit}"},
                        *({"field": state, "title": state, "format": ","} for state in present),
                    ],
                },
            )
        )
    return Chart(
        id="serving-states",
        title=_states_title(runs),
        subtitle=f"Sequences in the system, from the bottom: {', '.join(present)}.",
        commands=commands_of(runs),
        spec={"vconcat": panels} if len(panels) > 1 else panels[0],
        alt="; ".join(
            f"{run.name}: at most "
            + ", ".join(f"{int(run.states[state].max()):,} {state}" for state in present)
            for run in runs
        )
        + ".",
        table=table(
            ("run", *(f"{state}, {which}" for state in present for which in ("mean", "most"))),
            (
                (
                    run.name,
                    *(
                        float(value)
                        for state in present
                        for value in (mean_over_time(run, run.states[state]), run.states[state].max())
                    ),
                )
                for run in runs
            ),
        ),
        caveat=cut_short(runs),
        thinned=said_thinned(left_out, kept, sum(run.steps["t"].size for run in runs)),
    )


def _states_title(runs: Sequence[DrawnRun]) -> str:
    worst = max(runs, key=lambda run: int(run.states["stalled"].max()))
    stalled = int(worst.states["stalled"].max())
    if stalled:
        at = int(np.argmax(worst.states["stalled"]))
        holding = int(worst.steps["running"][at])
        return (
            f"{worst.name}: up to {stalled:,} of {several(holding, 'sequence')} that hold frames stall for want of "
            "more"
        )
    longest = max(runs, key=lambda run: int(run.states["in the queue"].max()))
    queue = int(longest.states["in the queue"].max())
    most = int(max(run.steps["running"].max() for run in runs))
    if not queue:
        return f"At most {several(most, 'sequence')} at once, and none ever waits"
    return (
        f"{longest.name}: the queue grows to {queue:,}; nobody stalls"
        if len(runs) > 1
        else (f"At most {most:,} sequences run at once; the queue grows to {queue:,}")
    )


def _usage(runs: Sequence[DrawnRun], left_out: str) -> Chart:
    clock, kept = Clock.of(runs), 0
    rows: list[Spec] = []
    for run in runs:
        chosen = extremes(run.steps["t"], [run.used], BINS // len(runs))
        kept += chosen.size
        rows += [
            {"run": run.name, "t": clock.at(int(run.steps["t"][i])), "used": figure(run.used[i])}
            for i in chosen
        ]
    means = [mean_over_time(run, run.used) for run in runs]
    peaks = [float(run.used.max()) for run in runs]
    tooltip = [
        {"field": "run"},
        {"field": "t", "title": f"time, {clock.unit}"},
        {"field": "used", "title": "in use, %", "format": ".3~r"},
    ]
    each = "; ".join(f"{run.name} {percent(mean / 100)}" for run, mean in zip(runs, means, strict=True))
    return Chart(
        id="serving-kv-usage",
        title=f"The KV pool is {percent(means[0] / 100)} full in the mean and {percent(peaks[0] / 100)} at its peak"
        if len(runs) == 1
        else f"KV pool in use, in the mean: {each}",
        subtitle="Share of the frames that are not free, over time. A mean is over all of the time, pauses included.",
        commands=commands_of(runs),
        spec=view(
            rows,
            240,
            mark={"type": "line", "strokeWidth": 1.5},
            encoding={
                **line_encoding([run.name for run in runs], clock),
                "y": {
                    "field": "used",
                    "type": "quantitative",
                    "title": "frames in use, %",
                    "scale": {"domainMin": 0},
                    "axis": left_axis(),
                },
                "tooltip": tooltip,
            },
        ),
        alt=f"Use of the pool over time. Means: {each}.",
        table=table(
            ("run", "mean, %", "peak, %", "frames"),
            (
                (run.name, mean, peak, run.log.header.pool_blocks)
                for run, mean, peak in zip(runs, means, peaks, strict=True)
            ),
        ),
        caveat=cut_short(runs),
        thinned=said_thinned(left_out, kept, sum(run.steps["t"].size for run in runs)),
    )


def _lost(runs: Sequence[DrawnRun], left_out: str) -> Chart:
    clock = Clock.of(runs)
    names = [run.name for run in runs]
    rows: list[Spec] = []
    total = drawn = 0
    for run in runs:
        chosen = evenly(run.preempted.size, MOST_POINTS)
        total, drawn = total + run.preempted.size, drawn + chosen.size
        lost = np.cumsum(run.lost)
        rows.append({"run": run.name, "t": 0, "preemptions": 0, "lost": 0})
        rows += [
            {
                "run": run.name,
                "t": clock.at(int(run.preempted[i])),
                "preemptions": int(i) + 1,
                "lost": int(lost[i]),
            }
            for i in chosen
        ]
        rows.append(
            {
                "run": run.name,
                "t": clock.at(run.log.end_ns),
                "preemptions": run.preempted.size,
                "lost": int(run.lost.sum()),
            }
        )
    tooltip = [
        {"field": "run"},
        {"field": "t", "title": f"time, {clock.unit}"},
        {"field": "preemptions", "title": "preemptions so far", "format": ","},
        {"field": "lost", "title": "tokens lost so far", "format": ","},
    ]

    def panel(field: str, title: str, *, first: bool) -> Spec:
        encoding = line_encoding(names, clock)
        if first:
            encoding["x"]["title"] = None
        else:
            encoding["color"]["legend"] = encoding["strokeDash"]["legend"] = None
        return view(
            rows,
            150,
            mark={"type": "line", "interpolate": "step-after", "strokeWidth": 2},
            encoding={
                **encoding,
                "y": {
                    "field": field,
                    "type": "quantitative",
                    "title": title,
                    "axis": left_axis(labelExpr=SHORT),
                },
                "tooltip": tooltip,
            },
        )

    worst = max(runs, key=lambda run: int(run.lost.sum()))
    how = once(line.how for run in runs for line in run.log.lines if line.e == "preempted")
    return Chart(
        id="serving-preemptions",
        title=f"{worst.name}: {several(worst.preempted.size, 'preemption')} lose {int(worst.lost.sum()):,} tokens",
        subtitle="Preemptions and the tokens they lost, of prompts and outputs, added up over time. "
        f"Preempted by {' and '.join(how)}.",
        commands=commands_of(runs),
        spec={
            "vconcat": [
                panel("preemptions", "preemptions", first=True),
                panel("lost", "tokens lost", first=False),
            ]
        },
        alt="; ".join(
            f"{run.name}: {several(run.preempted.size, 'preemption')}, {int(run.lost.sum()):,} tokens"
            for run in runs
        )
        + ".",
        table=table(
            ("run", "preemptions", "tokens lost", "first", "last"),
            (
                (
                    run.name,
                    run.preempted.size,
                    int(run.lost.sum()),
                    duration(run.preempted[0] / 1e9) if run.preempted.size else None,
                    duration(run.preempted[-1] / 1e9) if run.preempted.size else None,
                )
                for run in runs
            ),
        ),
        caveat="Tokens that a prefix cache still has at the next try are counted as lost here."
        if "recompute" in how
        else "",
        thinned=left_out.strip()
        if drawn == total
        else f"{left_out}{drawn:,} of {total:,} preemptions are drawn.",
    )
