"""Charts of measured rows: what paging costs, ours beside others, block sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagefault.report.block_size_charts import DEFAULT_BLOCK, sweep_chart, sweeps_of
from pagefault.report.charts import Chart, once, percent, several, shown, table, view
from pagefault.report.implementations import (
    FLOOR,
    FLOOR_IS,
    LAYOUTS,
    NAIVE,
    OURS,
    SHUFFLED,
    caveat,
    marks,
    order,
    rows_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagefault.report.charts import Spec
    from pagefault.report.implementations import Cases
    from pagefault.report.results import Measured

TWO_LINES = (
    "length(datum.label) < 20 ? datum.label : "
    "split(replace(datum.label, regexp('^([^ ]+ [^ ]+) '), '$1|'), '|')"
)
"""A label's first two words, and the rest below."""


def kernel_charts(measured: Sequence[Measured]) -> list[Chart]:
    """Charts of the rows of each device: ours beside others, what paging costs, and block sizes."""
    charts = []
    for gpu in dict.fromkeys(row.gpu for row in measured):
        rows = [row for row in measured if row.gpu == gpu]
        cases: Cases = {}
        for row in rows:
            cases.setdefault(row.case, {})[row.implementation] = row
        rivals = {case: found for case, found in cases.items() if not set(found) & set(LAYOUTS)}
        paging = {case: found for case, found in cases.items() if set(found) & set(LAYOUTS)}
        sweeps = {name: sizes for name, sizes in sweeps_of(cases).items() if len(sizes) > 1}
        swept = {found[size] for found in sweeps.values() for size in found if size != DEFAULT_BLOCK}
        of_memory = {case: found for case, found in rivals.items() if FLOOR in found}
        others = {case: found for case, found in rivals.items() if FLOOR not in found}
        if of_memory:
            charts += _compared("kernels", of_memory, gpu)
        if others:  # bound by arithmetic: prefill
            charts += _compared("kernels-no-floor", others, gpu)
        if paging:
            single = {case: found for case, found in paging.items() if case not in swept}
            charts += _compared("paging", single or paging, gpu)
        charts += [
            sweep_chart(name, {size: cases[case] for size, case in sizes.items()}, gpu)
            for name, sizes in sweeps.items()
        ]
    return charts


def _compared(id_: str, found: Cases, gpu: str) -> list[Chart]:
    """Latency, and share of the floor where it was measured, by case and implementation."""
    rows = [row for case in found.values() for row in case.values()]
    names = order(found)
    charts = []
    if any(row.ratio for row in rows if row.implementation != FLOOR):
        charts.append(_shares(id_, found, [name for name in names if name != FLOOR], gpu))
    charts.append(_latency(id_, found, names, gpu))
    return charts


def _case_axis(found: Cases) -> Spec:
    return {
        "field": "case",
        "type": "nominal",
        "sort": list(found),
        "title": None,
        "axis": {"grid": True, "tickBand": "extent", "labelExpr": TWO_LINES},
    }


def _shares(id_: str, found: Cases, names: Sequence[str], gpu: str) -> Chart:
    rows = [row for row in rows_of(found, names) if row["ratio"] is not None]
    lead = OURS if OURS in names else SHUFFLED
    ours = {row["case"]: row["ratio"] for row in rows if row["implementation"] == lead}
    title = (
        f"Attention through page tables runs at {percent(min(ours.values()) / 100)} to "
        f"{percent(max(ours.values()) / 100)} of the floor's speed"
        if ours
        else "Share of the floor's speed"
    )
    return Chart(
        id=f"{id_}-floor",
        title=title,
        subtitle="The floor's time over the time taken, by case and implementation; 100% would be reading alone. "
        f"{FLOOR_IS} {gpu}.",
        commands=once(row.command for each in found.values() for row in each.values()),
        spec=view(
            rows,
            30 * len(found) + 20,
            mark={"type": "point", "filled": True, "opacity": 0.95},
            encoding={
                "size": {
                    "condition": {"test": f"datum.implementation === '{lead}'", "value": 150},
                    "value": 75,
                },
                "y": _case_axis(found),
                "x": {
                    "field": "ratio",
                    "type": "quantitative",
                    "title": "share of the floor's speed, %",
                    "scale": {"domain": [0, 100], "nice": False},
                },
                **marks(names),
                "tooltip": [
                    {"field": "case"},
                    {"field": "implementation"},
                    {"field": "ratio", "title": "of the floor's speed, %", "format": ".3~r"},
                    {"field": "p50", "title": "median, µs", "format": ",.4~r"},
                ],
            },
        ),
        alt=f"Share of the floor's speed by case, {lead}: "
        + ", ".join(f"{case} {shown(ratio)}%" for case, ratio in ours.items())
        + ".",
        table=table(
            ("case", *(f"{name}, %" for name in names)),
            (
                (
                    case,
                    *(
                        None if (row := each.get(name)) is None or row.ratio is None else 100 * row.ratio
                        for name in names
                    ),
                )
                for case, each in found.items()
            ),
        ),
        caveat=caveat([row for each in found.values() for row in each.values()]),
        sources=once(row.source for each in found.values() for row in each.values()),
    )


def _latency_title(found: Cases, gpu: str) -> str:
    if gpu == "CPU":
        return "Times of what stands in for the kernels on a CPU: they say nothing of a GPU"
    costs = [
        each[SHUFFLED].p50 / each[NAIVE].p50 for each in found.values() if SHUFFLED in each and NAIVE in each
    ]
    if costs:
        low, high = min(costs), max(costs)
        span = f"{low:.2f}×" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}×"
        return f"Attention over scattered frames takes {span} the time of contiguous memory"
    ratios = [
        each[OURS].p50 / min(row.p50 for name, row in each.items() if name not in (OURS, FLOOR))
        for each in found.values()
        if OURS in each and set(each) - {OURS, FLOOR}
    ]
    if ratios:
        return (
            f"Attention through page tables takes {min(ratios):.2f} to {max(ratios):.2f}× the time of the fastest "
            f"other, in {several(len(ratios), 'case')}"
        )
    return f"Time of attention in {several(len(found), 'case')}"


def _latency(id_: str, found: Cases, names: Sequence[str], gpu: str) -> Chart:
    rows = rows_of(found, names)
    spread = max(row["p80"] for row in rows) > 4 * min(row["p20"] for row in rows)
    x = {
        "type": "quantitative",
        "title": "µs a call" + (" (logarithmic)" if spread else ""),
        "scale": {"type": "log", "nice": False, "padding": 12} if spread else {"zero": True},
        "axis": {"tickCount": 6, "labelOverlap": True, **({"format": ",~f"} if spread else {})},
    }
    offset = {"yOffset": {"field": "implementation", "sort": list(names)}} if len(names) < 4 else {}
    return Chart(
        id=f"{id_}-latency",
        title=_latency_title(found, gpu),
        subtitle="Median time of one call by case and implementation, with bars from the 20th to the 80th percentile. "
        f"{gpu}.",
        commands=once(row.command for each in found.values() for row in each.values()),
        spec=view(
            rows,
            (44 if offset else 34) * len(found) + 20,
            layer=[
                {
                    "mark": {"type": "rule", "strokeWidth": 1.5},
                    "encoding": {"x": {**x, "field": "p20"}, "x2": {"field": "p80"}},
                },
                {
                    "mark": {"type": "point", "filled": True, "size": 70, "opacity": 0.95},
                    "encoding": {
                        "x": {**x, "field": "p50"},
                        "shape": marks(names)["shape"],
                        "tooltip": [
                            {"field": "case"},
                            {"field": "implementation"},
                            {"field": "p50", "title": "median, µs", "format": ",.4~r"},
                            {"field": "p20", "title": "20th percentile", "format": ",.4~r"},
                            {"field": "p80", "title": "80th percentile", "format": ",.4~r"},
                        ],
                    },
                },
            ],
            encoding={"y": _case_axis(found), "color": marks(names)["color"], **offset},
        ),
        alt="Median times in µs: "
        + "; ".join(
            f"{case}: " + ", ".join(f"{name} {shown(each[name].p50)}" for name in names if name in each)
            for case, each in found.items()
        )
        + ".",
        table=table(
            ("case", *(f"{name}, µs" for name in names)),
            (
                (case, *(None if (row := each.get(name)) is None else row.p50 for name in names))
                for case, each in found.items()
            ),
        ),
        caveat=caveat([row for each in found.values() for row in each.values()]),
        sources=once(row.source for each in found.values() for row in each.values()),
    )
