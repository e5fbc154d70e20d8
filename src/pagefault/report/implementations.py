"""What charts of measured rows share: implementations in order, each with the same look everywhere, and caveats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagefault.report.charts import COLOURS, SHAPES, figure, legend, once, scale_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagefault.report.charts import Spec
    from pagefault.report.results import Measured

    Cases = dict[str, dict[str, Measured]]

OURS, NAIVE, ORDERED, SHUFFLED, FLOOR = "pagefault", "naive", "paged ordered", "paged shuffled", "floor"
LAYOUTS = (NAIVE, ORDERED, SHUFFLED)
FLOOR_IS = "The floor reads the same K and V through the same page tables and does no attention."
ONE_MACHINE = "One machine; what is compared was measured in turn in one process."
ON_CPU = (
    "Measured on a CPU, where PyTorch operations stand in for the kernels: these times say nothing of a GPU."
)


def caveat(rows: Sequence[Measured]) -> str:
    """What stands above a chart of these rows: how they were measured, what each implementation is spared."""
    notes = once(f"{row.implementation}: {row.note}" for row in rows if row.note)
    gpu = rows[0].gpu
    return " ".join(
        [ON_CPU if gpu == "CPU" else ONE_MACHINE, *(f"{note.rstrip('.')}." for note in notes[:4])]
    )


def order(found: Cases) -> list[str]:
    """Implementations, ours first and the floor last."""
    names = dict.fromkeys(name for rows in found.values() for name in rows)
    first = [name for name in (OURS, *LAYOUTS) if name in names]
    others = [name for name in names if name not in (*first, FLOOR)]
    return [*first, *others, *([FLOOR] if FLOOR in names else [])]


def rows_of(found: Cases, names: Sequence[str]) -> list[Spec]:
    """The rows as a chart's data: times in µs, `ratio` in % of the floor's speed."""
    return [
        {
            "case": case,
            "implementation": name,
            "p50": figure(row.p50),
            "p20": figure(row.p50 if row.p20 is None else row.p20),
            "p80": figure(row.p50 if row.p80 is None else row.p80),
            "ratio": None if row.ratio is None else figure(100 * row.ratio),
        }
        for case, rows in found.items()
        for name in names
        if (row := rows.get(name)) is not None
    ]


def scale(names: Sequence[str], values: Sequence[object], of_floor: object) -> Spec:
    """Gives each implementation the same look in every chart, with and without a floor."""
    scale = scale_of(names, values)
    if names[-1] == FLOOR:
        scale["range"][-1] = of_floor
    return scale


def marks(names: Sequence[str]) -> Spec:
    """Colour and shape by implementation."""
    return {
        "color": {
            "field": "implementation",
            "scale": scale(names, COLOURS[:-1], COLOURS[-1]),
            "legend": legend(labelLimit=200),
        },
        "shape": {
            "field": "implementation",
            "scale": scale(names, SHAPES[:-1], SHAPES[-1]),
            "legend": legend(),
        },
    }
