"""Charts of `pagefault calc`: what is reserved, what is stored, what fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagefault.report.charts import (
    BLUE,
    COLOURS,
    GREY,
    OCHRE,
    SHORT,
    VERMILLION,
    Chart,
    byte_unit,
    factor,
    figure,
    left_axis,
    legend,
    once,
    percent,
    scale_of,
    table,
    view,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pagefault.report.charts import Spec
    from pagefault.report.results import Memory

PARTS = ("stored", "wasted in blocks", "reserved, empty")
RESERVES = (
    "Naive here reserves the maximum length for every sequence. A server that reserves less wastes less, and refuses "
    "longer requests."
)


def memory_charts(found: Sequence[Memory]) -> list[Chart]:
    """Charts of each calculation: naive against paged, block sizes, what fits, and the budget where there is one."""
    charts = []
    for memory in found:
        charts.append(_stored(memory))
        if memory.sweep:
            charts.append(_block_sizes(memory))
        if memory.naive.holds is not None and memory.paged.holds is not None:
            charts.append(_capacity(memory))
        if memory.budget and memory.budget_bytes is not None:
            charts.append(_budget(memory))
    return charts


def _about(memory: Memory) -> str:
    said = [f"{memory.num_seqs:,} sequences: {memory.lengths}"]
    if memory.model:
        said.append(
            f"{memory.model.name}, {memory.model.kv_dtype}"
            + f", {memory.model.tp} GPUs" * (memory.model.tp > 1)
        )
    return "; ".join(said)


def _whose(memory: Memory) -> str:
    return f"{memory.model.name}: " if memory.model else ""


def _stored(memory: Memory) -> Chart:
    naive, paged = memory.naive, memory.paged
    names = ("naive", f"paged, block {memory.block_size}")
    stored = paged.stored_bytes
    parts = {
        names[0]: (stored, 0.0, naive.reserved_bytes - stored),
        names[1]: (stored, paged.reserved_bytes - stored, 0.0),
    }
    unit, size = byte_unit(naive.reserved_bytes)
    rows: list[Spec] = [
        {"cache": name, "part": part, "size": figure(value / size), "order": order}
        for name, sizes in parts.items()
        for order, (part, value) in enumerate(zip(PARTS, sizes, strict=True))
    ]
    savings = naive.reserved_bytes / paged.reserved_bytes
    totals = _totals(names, (naive.reserved_bytes / size, paged.reserved_bytes / size), unit)
    return Chart(
        id="memory-stored",
        title=f"{_whose(memory)}Paging stores the same {memory.tokens:,} tokens in {factor(savings)} less memory"
        if savings > 1
        else f"{_whose(memory)}Paging needs {factor(1 / savings)} the memory of naive for {memory.tokens:,} tokens",
        subtitle=f"Memory of the KV cache in {unit}. {_about(memory)}. Naive reserves {memory.max_len:,} tokens each.",
        commands=once([memory.command]),
        spec=view(
            rows,
            150,
            layer=[
                {
                    "mark": "bar",
                    "encoding": {
                        "x": {"field": "size", "type": "quantitative", "title": f"reserved, {unit}"},
                        "color": {
                            "field": "part",
                            "type": "nominal",
                            "scale": scale_of(PARTS, (BLUE, VERMILLION, GREY)),
                            "legend": legend(),
                        },
                        "order": {"field": "order"},
                        "tooltip": [
                            {"field": "cache", "title": "cache"},
                            {"field": "part", "title": "part"},
                            {"field": "size", "title": unit, "format": ",.4~r"},
                        ],
                    },
                },
                totals,
            ],
            encoding={
                "y": {
                    "field": "cache",
                    "type": "nominal",
                    "sort": list(names),
                    "title": None,
                    "scale": {"padding": 0.25},
                }
            },
        ),
        alt=f"Two bars. Naive reserves {naive.reserved_bytes / size:.4g} {unit}, of which {percent(naive.utilization)} "
        f"hold tokens; paged {paged.reserved_bytes / size:.4g} {unit}, of which {percent(paged.utilization)} do.",
        table=table(
            ("cache", *(f"{part}, {unit}" for part in PARTS), f"in all, {unit}"),
            ((name, *(value / size for value in sizes), sum(sizes) / size) for name, sizes in parts.items()),
        ),
        caveat=RESERVES,
        sources=(memory.source,),
    )


def _totals(names: Iterable[str], values: Iterable[float], unit: str) -> Spec:
    """Writes each bar's length behind it."""
    rows = [
        {"cache": name, "total": figure(value), "says": f"{value:,.4g} {unit}".strip()}
        for name, value in zip(names, values, strict=True)
    ]
    return {
        "data": {"values": rows},
        "mark": {"type": "text", "align": "left", "dx": 5, "fontWeight": 600},
        "encoding": {
            "x": {
                "field": "total",
                "type": "quantitative",
                "scale": {"domainMin": 0, "domainMax": figure(1.18 * max(row["total"] for row in rows))},  # type: ignore[type-var, operator]
            },
            "text": {"field": "says"},
        },
    }


def _block_sizes(memory: Memory) -> Chart:
    rows: list[Spec] = [
        {
            "size": each.block_size,
            "wasted": figure(100 * each.fragmentation_bytes / each.reserved_bytes),
            "entries": each.table_entries,
            "chosen": each.block_size == memory.block_size,
        }
        for each in memory.sweep
    ]
    least, most = rows[0], rows[-1]
    chosen = next((row for row in rows if row["chosen"]), rows[0])
    x = {"field": "size", "type": "ordinal", "axis": {"labelAngle": 0}}
    tooltip = [
        {"field": "size", "title": "block size, tokens"},
        {"field": "wasted", "title": "wasted, %", "format": ".3~r"},
        {"field": "entries", "title": "table entries", "format": ","},
    ]
    wasted = view(
        rows,
        150,
        layer=[
            {
                "mark": "bar",
                "encoding": {
                    "x": {**x, "title": None},
                    "y": {
                        "field": "wasted",
                        "type": "quantitative",
                        "title": "wasted inside blocks, %",
                        "axis": left_axis(),
                    },
                    "color": {
                        "condition": {"test": "datum.chosen", "value": VERMILLION},
                        "value": GREY,
                    },
                    "tooltip": tooltip,
                },
            },
            {
                "mark": {"type": "text", "dy": -6},
                "encoding": {
                    "x": x,
                    "y": {"field": "wasted", "type": "quantitative"},
                    "text": {"field": "wasted", "format": ".2~r"},
                },
            },
        ],
    )
    entries = view(
        rows,
        130,
        mark={"type": "line", "point": {"size": 60, "filled": True}, "color": BLUE},
        encoding={
            "x": {**x, "title": "block size, tokens"},
            "y": {
                "field": "entries",
                "type": "quantitative",
                "scale": {"type": "log"},
                "title": "table entries",
                "axis": left_axis(labelExpr=SHORT),
            },
            "tooltip": tooltip,
        },
    )
    return Chart(
        id="memory-block-size",
        title=f"{_whose(memory)}Blocks of {chosen['size']} tokens waste {percent(chosen['wasted'] / 100)} of the "
        "memory they take"
        + (f"; blocks of {most['size']}, {percent(most['wasted'] / 100)}" if most is not chosen else ""),
        subtitle="Share of paged memory that holds no token, and entries of a page table for "
        f"{memory.max_len:,} tokens, by block size. {_about(memory)}.",
        commands=once([memory.command]),
        spec={"vconcat": [wasted, entries]},
        alt=f"From blocks of {least['size']} to blocks of {most['size']} tokens the waste goes from "
        f"{least['wasted']:.2g}% to {most['wasted']:.3g}%, the entries a sequence from {least['entries']:,} to "
        f"{most['entries']:,}.",
        table=table(
            ("block size, tokens", "wasted, %", "table entries a sequence"),
            ((row["size"], row["wasted"], row["entries"]) for row in rows),
        ),
        sources=(memory.source,),
    )


def _capacity(memory: Memory) -> Chart:
    naive, paged = memory.naive.holds or 0, memory.paged.holds or 0
    names = ("naive", f"paged, block {memory.block_size}")
    rows: list[Spec] = [{"cache": name, "fit": fit} for name, fit in zip(names, (naive, paged), strict=True)]
    return Chart(
        id="memory-capacity",
        title=f"{_whose(memory)}The same memory holds {paged:,} sequences at once in place of {naive:,}"
        + (f": {factor(paged / naive)}" if naive else ""),
        subtitle=f"Sequences that fit, if all are like these in the mean. {_about(memory)}.",
        commands=once([memory.command]),
        spec=view(
            rows,
            120,
            layer=[
                {
                    "mark": "bar",
                    "encoding": {
                        "x": {
                            "field": "fit",
                            "type": "quantitative",
                            "title": "sequences at once",
                        },
                        "color": {"field": "cache", "scale": scale_of(names, (GREY, BLUE)), "legend": None},
                        "tooltip": [
                            {"field": "cache"},
                            {"field": "fit", "title": "sequences", "format": ","},
                        ],
                    },
                },
                _totals(names, (naive, paged), ""),
            ],
            encoding={"y": {"field": "cache", "type": "nominal", "sort": list(names), "title": None}},
        ),
        alt=f"Two bars: naive {naive:,} sequences, paged {paged:,}.",
        table=table(("cache", "sequences at once"), zip(names, (naive, paged), strict=True)),
        caveat=RESERVES,
        sources=(memory.source,),
    )


def _budget(memory: Memory) -> Chart:
    left = memory.budget_bytes or 0.0
    whole = next((line.bytes for line in memory.budget if line.bytes > 0), left)
    taken = [(line.label, -line.bytes) for line in memory.budget if line.bytes < 0]
    parts = [("KV cache", left), *taken]
    unit, size = byte_unit(whole)
    names = [name for name, _ in parts]
    rows: list[Spec] = [
        {
            "part": name,
            "size": figure(value / size),
            "says": f"{value / size:,.1f} {unit} · {percent(value / whole)}",
        }
        for name, value in parts
    ]
    return Chart(
        id="memory-budget",
        title=f"{_whose(memory)}{percent(left / whole)} of the GPU's memory is left for the KV cache",
        subtitle=f"Where the {whole / size:,.1f} {unit} of a GPU go. {_about(memory)}.",
        commands=once([memory.command]),
        spec=view(
            rows,
            34 * len(rows) + 20,
            layer=[
                {
                    "mark": "bar",
                    "encoding": {
                        "x": {
                            "field": "size",
                            "type": "quantitative",
                            "title": unit,
                            "scale": {
                                "domainMin": 0,
                                "domainMax": figure(1.6 * max(row["size"] for row in rows)),
                            },
                        },
                        "color": {
                            "field": "part",
                            "scale": scale_of(names, (BLUE, GREY, OCHRE, *COLOURS[1:4])),
                            "legend": None,
                        },
                        "tooltip": [{"field": "part"}, {"field": "says", "title": "takes"}],
                    },
                },
                {
                    "mark": {"type": "text", "align": "left", "dx": 5},
                    "encoding": {
                        "x": {"field": "size", "type": "quantitative"},
                        "text": {"field": "says"},
                    },
                },
            ],
            encoding={
                "y": {
                    "field": "part",
                    "type": "nominal",
                    "sort": names,
                    "title": None,
                    "axis": {"labelLimit": 120},
                }
            },
        ),
        alt="Bars: " + "; ".join(f"{row['part']} {row['says']}" for row in rows) + ".",
        table=table(
            ("part", unit, "share, %"), ((name, value / size, 100 * value / whole) for name, value in parts)
        ),
        sources=(memory.source,),
    )
