"""The goals of decode and a second run of the comparison: made from h200.csv and h200-again.csv."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.cases import BLOCK_SIZES, CASES
from benchmarks.serving_section import read_rows, table
from benchmarks.tried_section import shown

if TYPE_CHECKING:
    from pathlib import Path

# Floor over time, set before the kernels were written: to reach, and to aim for.
GOALS = {
    "64x4096": (0.95, 0.97),
    "256x1024": (0.93, 0.96),
    "1x131072": (0.93, 0.95),
    "16x2048": (0.84, 0.90),
    "64 mixed": (0.80, 0.85),
    "1x8192": (0.69, 0.75),
    "32x2048 32/32": (0.96, 0.975),
    "128x4096 8/1": (0.88, 0.93),
    "64x4096 fp16": (0.95, 0.97),
    "64x4096 fp8": (0.87, 0.92),
}


def again(results: Path) -> str:
    """Floor over time in both runs, beside the goals."""
    first, second = (
        {(row["case"], row["implementation"]): row for row in read_rows(results / name)}
        for name in ("h200.csv", "h200-again.csv")
    )
    commit = next(iter(second.values()))["commit"]
    lines = []
    for case in (*CASES, *BLOCK_SIZES):
        goals = [f"{goal:g}" for goal in GOALS[case.name]] if case.name in GOALS else ["–", "–"]
        ratios = [float(run[case.name, "pagefault"]["ratio"]) for run in (first, second)]
        marks = ["**" if case.name in GOALS and ratio >= GOALS[case.name][0] else "" for ratio in ratios]
        figures = [f"{mark}{ratio:.3f}{mark}" for ratio, mark in zip(ratios, marks, strict=True)]
        rivals = [
            f"{float(second[case.name, name]['ratio']):.3f}" if (case.name, name) in second else "–"
            for name in ("pagefault contiguous", "sdpa cudnn")
        ]
        lines.append([shown(case.name), *goals, *figures, *rivals])
    notes = [
        f"{shown(name)}: {row['note']}."
        for (name, implementation), row in second.items()
        if implementation == "pagefault" and row["note"]
    ]
    return (
        "### Goals, and a second run\n\n"
        f"Floor over time of PageFault in the run above and in one of commit {commit}, on a machine of the same kind "
        "and without FlashInfer; bold: the goal is reached. In the large cases runs differ by some thousandths, which "
        "is what is missing.\n\n"
        + table(
            [
                "case", "to reach", "to aim for", "above", "second run", "its ours, contiguous",
                "its SDPA cuDNN, contiguous",
            ],
            lines,
        )
        + "".join(f"\n{note}\n" for note in notes)
    )  # fmt: skip
