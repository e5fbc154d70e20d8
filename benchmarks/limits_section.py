"""What limits decode, in docs/results.md: made from benchmarks/results/h200-counters.csv."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.serving_section import read_rows, table
from benchmarks.tried_section import shown

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.serving_section import Row

SHOWN = {
    "floor": "floor",
    "pagefault": "PageFault",
    "pagefault contiguous": "ours, contiguous",
    "sdpa cudnn": "SDPA cuDNN, contiguous",
}


def limits(results: Path) -> str:
    """The table of counters and what they say."""
    rows = read_rows(results / "h200-counters.csv")
    commits = ", ".join(sorted({row["commit"] for row in rows}))
    return (
        "### What limits it\n\n"
        "Nsight Compute's counters of one call each, on cold caches and without the overlap that launches have in a "
        "graph, so times are longer than above. *First, mean, last*: when the multiprocessors end, as shares of the "
        "kernel's cycles. Commit "
        + commits
        + ".\n\n"
        + table(
            [
                "case", "whose", "kernel", "µs", "read MB", "memory busy", "clock GHz", "first, mean, last end",
                "registers", "instructions, millions",
            ],
            [_line(row) for row in rows],
        )
        + "\nThe commands stand in `benchmarks/counters.py`; [how the kernels work](guides/kernels.md) says what they "
        "mean.\n"
    )  # fmt: skip


def _line(row: Row) -> list[str]:
    time, cycles = float(row["time_ns"]), float(row["cycles"])
    ends = ", ".join(f"{float(row[name]) / cycles:.2f}" for name in ("first_ends", "mean_ends", "last_ends"))
    return [
        shown(row["case"]),
        SHOWN[row["implementation"]],
        f"`{row['kernel'][:24]}`",
        f"{time / 1000:.1f}",
        f"{float(row['bytes_read']) / 1e6:,.0f}",
        f"{float(row['memory_percent']):.0f}%",
        f"{cycles / time:.2f}",
        ends,
        row["registers"],
        f"{float(row['instructions']) / 1e6:.1f}" if row["instructions"] else "–",
    ]
