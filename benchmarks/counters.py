r"""What limits paged decode, by the GPU's own counters: run under Nsight Compute, then turned into rows.

    ncu --csv --clock-control none --profile-from-start off --metrics $(python -m benchmarks.counters --metrics) \
        python -m benchmarks.counters --case 64x4096 > counters.txt
    python -m benchmarks.counters --case 64x4096 --read counters.txt --csv benchmarks/results/h200-counters.csv

The first runs the floor and a decode step once each, with cold caches. A row is a kernel and a counter.
"""

from __future__ import annotations

import argparse
import csv
import io
from pathlib import Path

METRICS = {
    "gpu__time_duration.sum": "time",
    "dram__bytes_read.sum": "bytes read",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "share of the memory's peak",
    "sm__cycles_elapsed.max": "cycles",
    "sm__cycles_active.min": "cycles of the multiprocessor that ends first",
    "sm__cycles_active.avg": "cycles of a multiprocessor, mean",
    "sm__cycles_active.max": "cycles of the multiprocessor that ends last",
    "launch__registers_per_thread": "registers a thread",
}
COLUMNS = ("case", "kernel", "counter", "unit", "value", "gpu", "command")


def run(name: str) -> None:
    """Calls the floor and a decode step, compiled before the profiler looks."""
    import torch

    from benchmarks.attention import floors, ours
    from benchmarks.cases import CASES, make_inputs

    case = next(case for case in CASES if case.name == name)
    inputs = make_inputs(case)
    calls = [*(rival.calls for rival in floors(inputs).values()), ours(case, inputs).calls]
    for call in calls:
        call[0]()
    torch.cuda.synchronize()
    torch.cuda.profiler.start()  # type: ignore[no-untyped-call]
    for call in calls:
        call[1 % len(call)]()
        torch.cuda.synchronize()
    torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]


def rows(name: str, text: str, command: str) -> list[dict[str, str]]:
    """The counters that Nsight Compute printed; the fastest of the floor's sizes is the floor.

    Args:
        name: The case.
        text: What it printed with ``--csv``.
        command: For the rows.
    """
    lines = [line for line in text.splitlines() if line.startswith('"')]
    launches: dict[str, list[dict[str, str]]] = {}
    for line in csv.DictReader(io.StringIO("\n".join(lines))):
        launches.setdefault(line["ID"], []).append(line)
    fastest: dict[str, tuple[float, list[dict[str, str]]]] = {}
    for found in launches.values():
        kernel = found[0]["Kernel Name"].split("(")[0]
        time = next(number(line) for line in found if line["Metric Name"] == "gpu__time_duration.sum")
        if kernel not in fastest or time < fastest[kernel][0]:
            fastest[kernel] = time, found
    return [
        {
            "case": name, "kernel": kernel, "counter": METRICS[line["Metric Name"]], "unit": line["Metric Unit"],
            "value": f"{number(line):g}", "gpu": line.get("Device", ""), "command": command,
        }
        for kernel, (_, found) in fastest.items()
        for line in found
    ]  # fmt: skip


def number(line: dict[str, str]) -> float:
    """A counter's value; it prints thousands apart."""
    return float(line["Metric Value"].replace(",", ""))


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--metrics", action="store_true", help="print the names of the counters")
    parser.add_argument("--case", default="64x4096")
    parser.add_argument("--read", type=Path, help="what Nsight Compute printed")
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    if options.metrics:
        print(",".join(METRICS))
    elif options.read is None:
        run(options.case)
    else:
        from benchmarks.cases import command_of

        made = rows(options.case, options.read.read_text(encoding="utf-8"), command_of("counters"))
        kept = list(csv.DictReader(options.csv.open())) if options.csv.exists() else []
        kept = [row for row in kept if row["case"] != options.case]
        temporary = options.csv.with_suffix(".tmp")
        with temporary.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows([*kept, *made])
        temporary.replace(options.csv)


if __name__ == "__main__":
    main()
