"""Rows and a picture of a profile: ``python -m benchmarks.timeline TRACE --csv F --plot F``.

TRACE is what ``pagefault bench --profile TRACE`` wrote on a GPU.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from benchmarks import files
from pagefault.cli.console import atomic_path

SHOWN_STEPS = 4
COLOURS = ("#0072b2", "#d55e00", "#009e73")


@dataclass(frozen=True)
class Row:
    """A kernel on the device: when it began, counted from its stage's first, and how long it ran."""

    stage: str
    kernel: str
    start_us: float
    us: float


def rows_of(trace: dict[str, Any]) -> list[Row]:
    """The kernels within each range on the device, in order of time."""
    events = trace["traceEvents"]
    kernels = sorted(
        (event for event in events if event.get("cat") == "kernel"), key=lambda event: event["ts"]
    )
    stages = [event for event in events if event.get("cat") == "gpu_user_annotation"]
    rows = []
    for stage in sorted(stages, key=lambda event: event["ts"]):
        inside = [
            event
            for event in kernels
            if stage["ts"] <= event["ts"] + 1 and event["ts"] <= stage["ts"] + stage["dur"]
        ]
        begin = min((event["ts"] for event in inside), default=0.0)
        rows += [
            Row(stage["name"], event["name"], round(event["ts"] - begin, 3), event["dur"]) for event in inside
        ]
    return rows


def plot(rows: list[Row], path: Path) -> None:
    """A lane a stage, its first steps; kernels in colours."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "pagefault"  # the same file for the same rows
    import matplotlib.pyplot as plt

    stages = list(dict.fromkeys(row.stage for row in rows))
    kernels = list(dict.fromkeys(row.kernel for row in rows))
    figure, axes = plt.subplots(figsize=(8, 2.4), layout="constrained")
    for lane, stage in enumerate(stages):
        mine = [row for row in rows if row.stage == stage][: SHOWN_STEPS * len(kernels)]
        for number, kernel in enumerate(kernels):
            bars = [(row.start_us, row.us) for row in mine if row.kernel == kernel]
            # A dependent kernel starts while the one before it still runs: it gets the lower half of the lane.
            height = 0.8 / len(kernels)
            bottom = lane + 0.1 + (len(kernels) - 1 - number) * height
            axes.broken_barh(
                bars,
                (bottom, height),
                color=COLOURS[number],
                label=kernel if lane == 0 else None,
                edgecolor="white",
            )
    axes.set_yticks([lane + 0.5 for lane in range(len(stages))], stages)
    axes.invert_yaxis()
    axes.set_xlabel("µs")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False)
    figure.legend(loc="outside upper right", ncols=len(kernels), frameon=False)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None})


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--csv", type=files.target)
    parser.add_argument("--plot", type=files.target, help="needs matplotlib")
    options = parser.parse_args()
    if not options.trace.is_file():
        parser.error(f"{options.trace}: no such file; expected a timeline of pagefault bench --profile")
    try:
        rows = rows_of(json.loads(options.trace.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError):
        parser.error(f"{options.trace} is no timeline: write one with pagefault bench --profile")
    if not rows:
        parser.error(
            f"{options.trace} has no kernels on a GPU: write it with pagefault bench --profile on one"
        )
    if options.csv:
        files.write_rows(options.csv, [field.name for field in fields(Row)], map(asdict, rows))
    if options.plot:
        plot(rows, options.plot)


if __name__ == "__main__":
    main()
