"""Charts of event logs: queue, running and stalled, the pool's use, lost work, and what requests waited for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pagefault.report.charts import (
    BLUE,
    COLOURS,
    DASHES,
    GREY,
    PURPLE,
    SHAPES,
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
    time_unit,
    view,
)
from pagefault.report.extremes import evenly, extremes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from pagefault.report.charts import Spec
    from pagefault.report.events import RunLog

    Ints = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

MOST_RUNS = 6
"""More lines than that cannot be told apart."""

BINS = 900
"""Spans of time for all runs of a chart together."""

MOST_POINTS = 300
"""Of a line that only rises."""

STATES = ("computing", "stalled", "swapped out", "in the queue")
STATE_COLOURS = (BLUE, VERMILLION, PURPLE, GREY)
MARKED = (50, 90, 99)
SIMULATED = "Simulated time."


def drawn_runs(runs: Sequence[RunLog]) -> list[RunLog]:
    """The runs that are drawn: all with a step, or an even choice of `MOST_RUNS`, the first and the last among them."""
    stepped = [run for run in runs if any(True for _ in run.steps())]
    return [stepped[index] for index in evenly(len(stepped), MOST_RUNS)]


def run_charts(runs: Sequence[RunLog]) -> list[Chart]:
    """Charts that compare runs of event logs.

    Args:
        runs: With a name each; at most `MOST_RUNS` of them are drawn.
    """
    drawn = [_Run(run) for run in drawn_runs(runs)]
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
            charts.append(_distribution(id_, what, drawn, times, left_out))
    return charts


class _Run:
    """A run as arrays.

    Attributes:
        name: See `Header`.
        log: The run.
        steps: See `RunLog.columns`, of steps; `t` is int64 ns.
        preempted: When sequences lost their frames, int64 ns, rising.
        lost: Tokens that must be computed again because of each of these, int64.
        ttft: From queued to the first token of each finished request, float64 s.
        tpot: Mean time a token after the first, of each that has more than one, float64 s.
    """

    def __init__(self, log: RunLog) -> None:
        self.log, self.name, self.steps = log, log.header.name, log.columns()
        preemptions = [line for line in log.lines if line.e == "preempted"]
        self.preempted = np.array([line.t for line in preemptions], np.int64)
        self.lost = np.array([line.lost for line in preemptions], np.int64)
        queued: dict[int, int] = {}
        first: dict[int, int] = {}
        ttft, tpot = [], []
        for line in log.sequence_events():
            if line.e == "queued":
                queued.setdefault(line.id, line.t)
            elif line.e == "first_token":
                first.setdefault(line.id, line.t)
            elif line.e == "finished" and line.id in first and line.id in queued:
                ttft.append((first[line.id] - queued[line.id]) / 1e9)
                if line.tokens > 1:
                    tpot.append((line.t - first[line.id]) / (line.tokens - 1) / 1e9)
        self.ttft, self.tpot = np.array(ttft, np.float64), np.array(tpot, np.float64)

    @property
    def states(self) -> dict[str, Ints]:
        """Sequences in each of `STATES` at each step."""
        steps = self.steps
        counts = (steps["running"] - steps["stalled"], steps["stalled"], steps["swapped"], steps["waiting"])
        return dict(zip(STATES, counts, strict=True))

    @property
    def used(self) -> Floats:
        """Share of the pool that is not free at each step, in %."""
        blocks = self.log.header.pool_blocks
        return 100 * (blocks - self.steps["free"]) / blocks


@dataclass(frozen=True)
class _Clock:
    """The time axis that runs share."""

    unit: str
    size: float
    end: float

    @classmethod
    def of(cls, runs: Sequence[_Run]) -> _Clock:
        end = max(run.log.end_ns for run in runs)
        unit, size = time_unit(end)
        return cls(unit, size, figure(end / size))

    def at(self, time_ns: int) -> float:
        return figure(time_ns / self.size)

    def axis(self, **parts: object) -> Spec:
        return {
            "field": "t",
            "type": "quantitative",
            "title": f"simulated time, {self.unit}",
            "scale": {"domain": [0, self.end], "nice": False},
            "axis": {"grid": False, "tickCount": 6},
            **parts,
        }


def _commands(runs: Sequence[_Run]) -> tuple[str, ...]:
    return once(run.log.header.command for run in runs)


def _cut_short(runs: Sequence[_Run]) -> str:
    names = [run.name for run in runs if not run.log.complete]
    return f"The log ends before its run did: {', '.join(names)}." if names else ""


def _thinned(left_out: str, kept: int, steps: int) -> str:
    if kept == steps:
        return left_out.strip()
    return (
        f"{left_out}{kept:,} of {steps:,} steps are drawn: in each of many equal spans of time those with the least "
        "and the most, so that every peak is there."
    )


def _states(runs: Sequence[_Run], left_out: str) -> Chart:
    clock = _Clock.of(runs)
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
        commands=_commands(runs),
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
                        for value in (_over_time(run, run.states[state]), run.states[state].max())
                    ),
                )
                for run in runs
            ),
        ),
        caveat=_cut_short(runs),
        thinned=_thinned(left_out, kept, sum(run.steps["t"].size for run in runs)),
    )


def _over_time(run: _Run, values: Ints | Floats) -> float:
    """The mean over time, each step counted for the time since the one before it."""
    weights = np.diff(run.steps["t"], prepend=0).astype(np.float64)
    whole = float(weights.sum())
    return float(values @ weights) / whole if whole else float(values[0])


def _states_title(runs: Sequence[_Run]) -> str:
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


def _line_encoding(names: Sequence[str], clock: _Clock) -> Spec:
    only = len(names) == 1
    return {
        "x": clock.axis(),
        "color": {
            "field": "run",
            "scale": scale_of(names, COLOURS),
            "legend": None if only else legend(symbolType="stroke", symbolStrokeWidth=2.5, symbolSize=300),
        },
        "strokeDash": {
            "field": "run",
            "scale": scale_of(names, DASHES),
            "legend": None if only else legend(),
        },
    }


def _usage(runs: Sequence[_Run], left_out: str) -> Chart:
    clock, kept = _Clock.of(runs), 0
    rows: list[Spec] = []
    for run in runs:
        chosen = extremes(run.steps["t"], [run.used], BINS // len(runs))
        kept += chosen.size
        rows += [
            {"run": run.name, "t": clock.at(int(run.steps["t"][i])), "used": figure(run.used[i])}
            for i in chosen
        ]
    means = [_over_time(run, run.used) for run in runs]
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
        subtitle="Share of the frames that are not free, over time: what is reserved, stored and cached by reference.",
        commands=_commands(runs),
        spec=view(
            rows,
            240,
            mark={"type": "line", "strokeWidth": 1.5},
            encoding={
                **_line_encoding([run.name for run in runs], clock),
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
        caveat=_cut_short(runs),
        thinned=_thinned(left_out, kept, sum(run.steps["t"].size for run in runs)),
    )


def _lost(runs: Sequence[_Run], left_out: str) -> Chart:
    clock = _Clock.of(runs)
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
        encoding = _line_encoding(names, clock)
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
                "y": {"field": field, "type": "quantitative", "title": title, "axis": left_axis(format="~s")},
                "tooltip": tooltip,
            },
        )

    worst = max(runs, key=lambda run: int(run.lost.sum()))
    how = once(line.how for run in runs for line in run.log.lines if line.e == "preempted")
    return Chart(
        id="serving-preemptions",
        title=f"{worst.name}: {several(worst.preempted.size, 'preemption')} lose {int(worst.lost.sum()):,} tokens",
        subtitle=f"Preemptions and the tokens they lost, added up over time. Preempted by {' and '.join(how)}.",
        commands=_commands(runs),
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


def _distribution(id_: str, what: str, runs: Sequence[_Run], times: Sequence[Floats], left_out: str) -> Chart:
    """The share of requests that had to wait no longer, by time; percentiles marked."""
    everything = np.concatenate(times)
    unit, size = time_unit(1e9 * float(everything.max()))
    least = float(everything.min())
    spread = least > 0 and float(everything.max()) > 40 * least
    rows: list[Spec] = []
    marks: list[Spec] = []
    measured = [(run, some) for run, some in zip(runs, times, strict=True) if some.size]
    names = [run.name for run, _ in measured]
    drawn = 0
    for run, some in measured:
        ordered = np.sort(some)
        chosen = evenly(ordered.size, MOST_POINTS)
        drawn += chosen.size
        rows += [
            {
                "run": run.name,
                "time": figure(ordered[i] * 1e9 / size),
                "share": figure(100 * (i + 1) / ordered.size),
            }
            for i in chosen
        ]
        marks += [
            {
                "run": run.name,
                "time": figure(value * 1e9 / size),
                "share": percentile,
                "which": f"p{percentile}",
                "says": f"p{percentile} {duration(value)}",
            }
            for percentile, value in zip(MARKED, np.percentile(ordered, MARKED).tolist(), strict=True)
        ]
    only = len(names) == 1
    x = {
        "field": "time",
        "type": "quantitative",
        "title": f"{what}, {unit}" + (" (logarithmic)" if spread else ""),
        "scale": {"type": "log", "nice": False} if spread else {"zero": True},
        "axis": {"grid": True, "tickCount": 6, **({"labelOverlap": True, "format": ",~f"} if spread else {})},
    }
    encoding = {
        "y": {
            "field": "share",
            "type": "quantitative",
            "title": "requests, %",
            "scale": {"domain": [0, 100]},
            "axis": left_axis(),
        },
        "x": x,
        "color": {
            "field": "run",
            "scale": scale_of(names, COLOURS),
            "legend": None if only else legend(symbolType="stroke", symbolStrokeWidth=2.5, symbolSize=300),
        },
    }
    layers: list[Spec] = [
        {
            "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 2},
            "encoding": {
                "strokeDash": {
                    "field": "run",
                    "scale": scale_of(names, DASHES),
                    "legend": None if only else legend(),
                },
                "tooltip": [
                    {"field": "run"},
                    {"field": "time", "title": unit, "format": ",.4~r"},
                    {"field": "share", "title": "had it by then, %", "format": ".3~r"},
                ],
            },
        },
        {
            "data": {"values": marks},
            "mark": {"type": "point", "filled": True, "size": 75, "opacity": 1},
            "encoding": {
                "shape": {
                    "field": "which",
                    "scale": scale_of([f"p{mark}" for mark in MARKED], SHAPES),
                    "legend": None if only else legend(symbolFillColor=GREY, symbolStrokeColor=GREY),
                },
                "tooltip": [{"field": "run"}, {"field": "says", "title": what}],
            },
        },
    ]
    if only:
        layers.append(
            {
                "data": {"values": marks},
                "mark": {"type": "text", "align": "right", "dx": -9, "dy": -7, "fontWeight": 600},
                "encoding": {"text": {"field": "says"}, "color": {"value": None}},
            }
        )
        del layers[-1]["encoding"]["color"]
        layers[-1]["encoding"] |= {"color": {"condition": [], "value": GREY}}
    found = {run.name: np.percentile(some, MARKED).tolist() for run, some in measured}
    title = (
        f"{what.capitalize()}: {duration(found[names[0]][0])} for half of the requests, up to "
        f"{duration(found[names[0]][2])} for 99 of 100"
        if only
        else f"{what.capitalize()}, median: "
        + "; ".join(f"{name} {duration(some[0])}" for name, some in found.items())
    )
    count = sum(some.size for _, some in measured)
    return Chart(
        id=id_,
        title=title,
        subtitle=f"Share of the {count:,} finished requests that had waited no longer, by {what}. "
        "Marked: half, nine of ten, 99 of 100.",
        commands=_commands(runs),
        spec=view(rows, 240, layer=layers, encoding=encoding),
        alt="; ".join(
            f"{name}: " + ", ".join(f"p{p} {duration(v)}" for p, v in zip(MARKED, some, strict=True))
            for name, some in found.items()
        )
        + ".",
        table=table(
            ("run", "requests", *(f"p{percentile}, s" for percentile in MARKED), "longest, s"),
            ((run.name, some.size, *found[run.name], float(some.max())) for run, some in measured),
        ),
        caveat=_cut_short(runs),
        thinned=left_out.strip()
        if drawn == count
        else f"{left_out}{drawn:,} of {count:,} requests are drawn, evenly by rank, the fastest and the slowest among "
        "them.",
    )
