"""Charts of time by block size."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pagefault.report.charts import DASHES, Chart, left_axis, legend, once, shown, table, view
from pagefault.report.implementations import ORDERED, OURS, SHUFFLED, caveat, marks, order, rows_of, scale

if TYPE_CHECKING:
    from pagefault.report.implementations import Cases
    from pagefault.report.results import Measured

_BLOCK = re.compile(r"^(?P<before>.*?) ?\bblock (?P<size>\d+)(?P<after>.*)$")
DEFAULT_BLOCK = 16
"""Of a case that says nothing."""


def sweeps_of(cases: Cases) -> dict[str, dict[int, str]]:
    """Cases that differ in their block size only: what they have in common → block size → case."""
    found: dict[str, dict[int, str]] = {}
    for case in cases:
        match = _BLOCK.match(case)
        name = f"{match['before']}{match['after']}" if match else case
        found.setdefault(name, {})[int(match["size"]) if match else DEFAULT_BLOCK] = case
    return {name: dict(sorted(sizes.items())) for name, sizes in found.items()}


def sweep_chart(name: str, sizes: dict[int, dict[str, Measured]], gpu: str) -> Chart:
    """Median times of one case by block size.

    Args:
        name: Of the case, without its block size.
        sizes: Block size → implementation → row.
        gpu: Where it was measured.
    """
    found: Cases = {str(size): rows for size, rows in sizes.items()}
    names = order(found)
    rows = [{**row, "size": int(row.pop("case"))} for row in rows_of(found, names)]
    lead = next((each for each in (SHUFFLED, ORDERED, OURS) if each in names), names[0])
    times = {size: each[lead].p50 for size, each in sizes.items() if lead in each}
    fastest, slowest = min(times, key=lambda size: times[size]), max(times, key=lambda size: times[size])
    x = {"field": "size", "type": "ordinal", "title": "block size, tokens", "axis": {"labelAngle": 0}}
    y = {
        "type": "quantitative",
        "title": "µs a call",
        "scale": {"zero": False, "padding": 8},
        "axis": left_axis(),
    }
    return Chart(
        id="kernels-block-size",
        title=f"{name}: blocks of {fastest} are fastest; blocks of {slowest} take "
        f"{times[slowest] / times[fastest]:.2f}× the time",
        subtitle="Median time of one call by block size, with bars from the 20th to the 80th percentile; the axis does "
        f"not begin at 0. {gpu}.",
        commands=once(row.command for each in sizes.values() for row in each.values()),
        spec=view(
            rows,
            230,
            layer=[
                {
                    "mark": {"type": "rule", "strokeWidth": 1.5},
                    "encoding": {"y": {**y, "field": "p20"}, "y2": {"field": "p80"}},
                },
                {
                    "mark": {"type": "line", "strokeWidth": 1.5},
                    "encoding": {
                        "y": {**y, "field": "p50"},
                        "strokeDash": {
                            "field": "implementation",
                            "scale": scale(names, DASHES[:-1], DASHES[-1]),
                            "legend": legend(),
                        },
                    },
                },
                {
                    "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
                    "encoding": {
                        "y": {**y, "field": "p50"},
                        "shape": marks(names)["shape"],
                        "tooltip": [
                            {"field": "size", "title": "block size"},
                            {"field": "implementation"},
                            {"field": "p50", "title": "median, µs", "format": ",.4~r"},
                            {"field": "p20", "title": "20th percentile", "format": ",.4~r"},
                            {"field": "p80", "title": "80th percentile", "format": ",.4~r"},
                        ],
                    },
                },
            ],
            encoding={"x": x, "color": marks(names)["color"]},
        ),
        alt=f"{name}, {lead} by block size: "
        + ", ".join(f"{size}: {shown(time)} µs" for size, time in times.items())
        + ".",
        table=table(
            ("block size", *(f"{each}, µs" for each in names)),
            (
                (size, *(None if (row := each.get(name)) is None else row.p50 for name in names))
                for size, each in sizes.items()
            ),
        ),
        caveat=caveat([row for each in sizes.values() for row in each.values()]),
        sources=once(row.source for each in sizes.values() for row in each.values()),
    )
