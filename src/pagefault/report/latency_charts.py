"""How long requests waited, from event logs: the distributions of TTFT and TPOT."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pagefault.report.charts import (
    COLOURS,
    DASHES,
    GREY,
    SHAPES,
    Chart,
    duration,
    figure,
    left_axis,
    legend,
    scale_of,
    table,
    time_unit,
    view,
)
from pagefault.report.extremes import evenly
from pagefault.report.runs import DrawnRun, commands_of, cut_short

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from pagefault.report.charts import Spec

    Ints = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

MARKED = (50, 90, 99)

MOST_POINTS = 300
"""Of a curve: so many of the requests, evenly by rank."""


def distribution(
    id_: str, what: str, runs: Sequence[DrawnRun], times: Sequence[Floats], left_out: str
) -> Chart:
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
    }
    colour = {
        "field": "run",
        "scale": scale_of(names, COLOURS),
        "legend": None if only else legend(symbolType="stroke", symbolStrokeWidth=2.5, symbolSize=300),
    }
    layers: list[Spec] = [
        {
            "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 2},
            "encoding": {
                "color": colour,
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
                "color": colour,
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
                "encoding": {"text": {"field": "says"}},
            }
        )
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
        commands=commands_of(runs),
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
        caveat=cut_short(runs),
        thinned=left_out.strip()
        if drawn == count
        else f"{left_out}{drawn:,} of {count:,} requests are drawn, evenly by rank, the fastest and the slowest among "
        "them.",
    )
