"""Charts of the classic experiment: what a watermark gains and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagefault.report.charts import (
    BLUE,
    GREEN,
    VERMILLION,
    Chart,
    brief,
    factor,
    figure,
    left_axis,
    once,
    percent,
    table,
    view,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pagefault.report.charts import Spec
    from pagefault.report.results import Classic, ClassicRun

ONE_RUN = "One seed: another draw of lengths may put the best watermark elsewhere; --seeds shows the spread."


@dataclass(frozen=True)
class Point:
    """The runs at one watermark: one a seed."""

    watermark: float
    runs: tuple[ClassicRun, ...]

    def of(self, value: Callable[[ClassicRun], float]) -> list[float]:
        """A figure of each run."""
        return [value(run) for run in self.runs]

    def mean(self, value: Callable[[ClassicRun], float]) -> float:
        """Its mean."""
        return sum(self.of(value)) / len(self.runs)


def _points(classic: Classic) -> list[Point]:
    marks = sorted({run.setup.watermark for run in classic.paged})
    return [Point(mark, tuple(run for run in classic.paged if run.setup.watermark == mark)) for mark in marks]


def _ratio(run: ClassicRun) -> float:
    return run.throughput_vs_naive


def _about(classic: Classic) -> str:
    setup = classic.paged[0].setup
    seeds = list(dict.fromkeys(run.setup.seed for run in classic.runs))
    return (
        f"{setup.jobs} jobs, {setup.workers} at once, {setup.pool_blocks} blocks of {setup.block_size} tokens, "
        + (f"{len(seeds)} seeds" if len(seeds) > 1 else f"seed {seeds[0]}")
        + f"; a victim ({setup.victim}) is preempted by {setup.preempt}"
    )


def _percent_axis(points: Sequence[Point], **parts: object) -> Spec:
    marks = [figure(100 * point.watermark) for point in points]
    return {
        "field": "watermark",
        "type": "quantitative",
        "title": None,
        "scale": {
            "domain": [min(marks), max(marks)] if len(marks) > 1 else [marks[0] - 1, marks[0] + 1],
            "padding": 14,
        },
        "axis": {"grid": False},
        **parts,
    }


def _panel(
    points: Sequence[Point],
    value: Callable[[ClassicRun], float],
    title: str,
    colour: str,
    height: int,
    best: Point | None = None,
    *,
    last: bool = False,
) -> Spec:
    """A figure over the watermark: the mean as a line, its range and every seed where there are several."""
    rows: list[Spec] = [
        {
            "watermark": figure(100 * point.watermark),
            "mean": figure(point.mean(value)),
            "least": figure(min(point.of(value))),
            "most": figure(max(point.of(value))),
            "seeds": len(point.runs),
            "says": f"best: {100 * point.watermark:g}%, {factor(point.mean(value))}"
            if point is best
            else None,
        }
        for point in points
    ]
    x = _percent_axis(
        points, **({"title": "watermark, % of the pool that admission leaves free"} if last else {})
    )
    y = {"type": "quantitative", "title": title, "axis": left_axis(), "scale": {"zero": True, "domainMin": 0}}
    several_seeds = any(len(point.runs) > 1 for point in points)
    tooltip = [
        {"field": "watermark", "title": "watermark, %"},
        {"field": "mean", "title": title, "format": ",.3~r"},
    ]
    layers: list[Spec] = []
    if several_seeds:
        tooltip += [
            {"field": "least", "title": "least of the seeds", "format": ",.3~r"},
            {"field": "most", "title": "most of the seeds", "format": ",.3~r"},
            {"field": "seeds"},
        ]
        dots = [
            {"watermark": figure(100 * point.watermark), "mean": figure(value(run)), "seed": run.setup.seed}
            for point in points
            for run in point.runs
        ]
        layers += [
            {
                "mark": {"type": "area", "color": colour, "opacity": 0.18},
                "encoding": {"x": x, "y": {**y, "field": "least"}, "y2": {"field": "most"}},
            },
            {
                "data": {"values": dots},
                "mark": {"type": "point", "color": colour, "opacity": 0.45, "size": 14, "filled": True},
                "encoding": {
                    "x": x,
                    "y": {**y, "field": "mean"},
                    "tooltip": [{"field": "seed"}, {"field": "mean", "title": title, "format": ",.3~r"}],
                },
            },
        ]
    layers.append(
        {
            "mark": {"type": "line", "color": colour, "point": {"size": 55, "filled": True, "color": colour}},
            "encoding": {"x": x, "y": {**y, "field": "mean"}, "tooltip": tooltip},
        }
    )
    if best is not None:
        marked = {"transform": [{"filter": "isValid(datum.says)"}]}
        right = 2 * best.watermark > points[0].watermark + points[-1].watermark
        beside = {"align": "right", "dx": -12} if right else {"align": "left", "dx": 12}
        layers += [
            {
                **marked,
                "mark": {
                    "type": "point",
                    "shape": "diamond",
                    "size": 220,
                    "strokeWidth": 2.5,
                    "color": VERMILLION,
                },
                "encoding": {"x": x, "y": {**y, "field": "mean"}},
            },
            {
                **marked,
                "mark": {"type": "text", "fontWeight": 600, "dy": -12, **beside},
                "encoding": {"x": x, "y": {**y, "field": "mean"}, "text": {"field": "says"}},
            },
            {
                "data": {"values": [{"naive": 1}]},
                "mark": {"type": "rule", "strokeDash": [5, 4]},
                "encoding": {"y": {"field": "naive", "type": "quantitative"}},
            },
            {
                "data": {"values": [{"naive": 1, "says": "naive"}]},
                "mark": {"type": "text", "align": "right", "dy": -7, "x": "width", "dx": -4},
                "encoding": {"y": {"field": "naive", "type": "quantitative"}, "text": {"field": "says"}},
            },
        ]
    return view(rows, height, layer=layers)


def throughput(classic: Classic) -> Chart:
    """Throughput and preemptions by watermark, the best marked."""
    points = _points(classic)
    best = max(points, key=lambda point: point.mean(_ratio))
    seeds = len(best.runs)
    gain = factor(best.mean(_ratio))
    mark = f"{100 * best.watermark:g}%"
    over = f" in the mean of {seeds} seeds" if seeds > 1 else ""
    return Chart(
        id="serving-watermark",
        title=f"Of {len(points)} watermarks {mark} serves fastest: {gain} the throughput of naive{over}"
        if len(points) > 1
        else f"A paged cache with a watermark of {mark} serves {gain} as fast as naive{over}",
        subtitle="Throughput over the naive cache's, and times a sequence lost its frames, by watermark. "
        f"{_about(classic)}."
        + (" The band goes from the least to the most of the seeds, a dot is one." if seeds > 1 else ""),
        commands=once([classic.command]),
        spec={
            "vconcat": [
                _panel(points, _ratio, "throughput, × naive", BLUE, 210, best),
                _panel(points, lambda run: float(run.preemptions), "preemptions", VERMILLION, 130, last=True),
            ]
        },
        alt="Throughput over naive by watermark: "
        + ", ".join(f"{100 * point.watermark:g}%: {factor(point.mean(_ratio))}" for point in points)
        + ".",
        table=table(
            ("watermark, %", "× naive", "least", "most", "preemptions", "decoding", "seeds"),
            (
                (
                    100 * point.watermark,
                    point.mean(_ratio),
                    min(point.of(_ratio)),
                    max(point.of(_ratio)),
                    point.mean(lambda run: run.preemptions),
                    point.mean(lambda run: run.decoding),
                    len(point.runs),
                )
                for point in points
            ),
        ),
        caveat=ONE_RUN if seeds == 1 and len(points) > 2 else "",
        sources=(classic.source,),
    )


def trade(classic: Classic) -> Chart:
    """What is lost by too low a watermark, and what is waited for by too high a one."""
    points = _points(classic)
    first, last = points[0], points[-1]

    def lost(run: ClassicRun) -> float:
        return 100 * run.discarded_share

    def wait(run: ClassicRun) -> float:
        return run.wait_ms

    return Chart(
        id="serving-trade",
        title=f"From a watermark of {100 * first.watermark:g}% to {100 * last.watermark:g}%, lost work goes from "
        f"{percent(first.mean(lost) / 100)} to {percent(last.mean(lost) / 100)}, the wait from "
        f"{brief(first.mean(wait))} to {brief(last.mean(wait))} ms"
        if len(points) > 1
        else f"{percent(first.mean(lost) / 100)} of the tokens made are thrown away; a job waits "
        f"{brief(first.mean(wait))} ms",
        subtitle="Share of the output tokens that restarts threw away, and mean time in line before the first "
        f"admission, by watermark. {_about(classic)}.",
        commands=once([classic.command]),
        spec={
            "vconcat": [
                _panel(points, lost, "tokens lost, %", VERMILLION, 130),
                _panel(points, wait, "wait, ms", GREEN, 130, last=True),
            ]
        },
        alt="By watermark, tokens lost and wait: "
        + "; ".join(
            f"{100 * point.watermark:g}%: {point.mean(lost):.2g}%, {brief(point.mean(wait))} ms"
            for point in points
        )
        + ".",
        table=table(
            ("watermark, %", "tokens lost, %", "wait, ms"),
            ((100 * point.watermark, point.mean(lost), point.mean(wait)) for point in points),
        ),
        sources=(classic.source,),
    )
