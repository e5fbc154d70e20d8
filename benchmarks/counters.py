r"""What limits paged decode, by the GPU's own counters: run under Nsight Compute, then turned into rows.

    ncu --csv --clock-control none --profile-from-start off --metrics $(python -m benchmarks.counters --metrics) \
        python -m benchmarks.counters --case 64x4096 > counters.txt
    python -m benchmarks.counters --case 64x4096 --read counters.txt --csv benchmarks/results/h200-counters.csv

The first runs the floor, a decode step and SDPA once each, on cold caches, and prints where it ran.
A row is a kernel.
"""

from __future__ import annotations

import benchmarks.with_torch  # noqa: F401

# isort: split
import argparse
import csv
import io
import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import files
from benchmarks.cases import BLOCK_SIZES, CASES, chosen_cases, command_of

if TYPE_CHECKING:
    from benchmarks.cases import Case
    from benchmarks.rivals import Rival

METRICS = {
    "gpu__time_duration.sum": "time_ns",
    "dram__bytes_read.sum": "bytes_read",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "memory_percent",
    "sm__cycles_elapsed.max": "cycles",
    "sm__cycles_active.min": "first_ends",
    "sm__cycles_active.avg": "mean_ends",
    "sm__cycles_active.max": "last_ends",
    "smsp__inst_executed.sum": "instructions",
    "launch__registers_per_thread": "registers",
}
WHERE = "measured on: "
"""Begins the line that says where the program ran, in JSON."""
KERNELS = {"read_floor": "floor", "decode_heads": "pagefault", "decode_head": "pagefault"}


def run(case: Case) -> None:
    """Calls the floor, a decode step and what else takes the case, compiled before the profiler looks."""
    import torch
    from torch.nn.attention import SDPBackend

    from benchmarks.attention import floors, ours
    from benchmarks.cases import make_inputs
    from benchmarks.rivals import contiguous_copies, ours_contiguous, sdpa
    from pagefault.bench import environment

    print(WHERE + json.dumps(asdict(environment(torch.device("cuda"), command_of("counters")))), flush=True)
    inputs = make_inputs(case)
    rivals: list[Rival] = [*floors(inputs).values(), ours(case, inputs)]
    if case.even and case.dtype != "fp8":
        copies = contiguous_copies(case, inputs)
        rivals += [
            make(case, inputs, copies)
            for make in (ours_contiguous, partial(sdpa, SDPBackend.CUDNN_ATTENTION, "sdpa cudnn"))
        ]
    for rival in rivals:
        rival.calls[0]()
    torch.cuda.synchronize()
    torch.cuda.profiler.start()  # type: ignore[no-untyped-call]
    for rival in rivals:
        rival.calls[1]()
        torch.cuda.synchronize()
    torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]


def rows(name: str, text: str) -> list[dict[str, str]]:
    """A row a kernel; the fastest of the floor's sizes is the floor.

    Args:
        name: The case.
        text: What Nsight Compute printed with ``--csv``, and the program's line of where it ran.

    Raises:
        ValueError: That line is missing, or there is no kernel.
    """
    found_where = [line.removeprefix(WHERE) for line in text.splitlines() if line.startswith(WHERE)]
    if not found_where:
        raise ValueError(
            f"no line that begins with {WHERE!r}, which this program prints under Nsight Compute"
        )
    where: dict[str, str] = json.loads(found_where[0])
    lines = [line for line in text.splitlines() if line.startswith('"')]
    launches: dict[str, dict[str, str]] = {}
    for line in csv.DictReader(io.StringIO("\n".join(lines))):
        kernel = line["Kernel Name"].split("(")[0]
        row = launches.setdefault(line["ID"], {"case": name, "implementation": "", "kernel": kernel})
        row[METRICS[line["Metric Name"]]] = line["Metric Value"].replace(",", "")
    found: list[dict[str, str]] = []
    whose = ""
    for row in launches.values():
        before, whose = whose, _whose(row["kernel"], whose, found)
        row["implementation"] = whose
        if whose == before == "floor":
            found[-1] = min(found[-1], row, key=lambda one: float(one["time_ns"]))
        else:
            found.append(row)
    if not found:
        raise ValueError("no counters of a kernel in it")
    return [row | where for row in found]


def _whose(kernel: str, before: str, found: list[dict[str, str]]) -> str:
    """Whose kernel this is: a combine belongs to what came before; a second decode kernel reads contiguous memory."""
    if kernel == "combine":
        return before
    if kernel not in KERNELS:
        return "sdpa cudnn"
    mine = KERNELS[kernel]
    seen = any(row["implementation"] == "pagefault" for row in found)
    return "pagefault contiguous" if mine == "pagefault" and seen else mine


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--metrics", action="store_true", help="print the names of the counters")
    parser.add_argument("--case", default="64x4096")
    parser.add_argument("--read", type=Path, help="what Nsight Compute printed")
    parser.add_argument("--csv", type=files.target)
    options = parser.parse_args()
    if options.metrics:
        print(",".join(METRICS))
    elif options.read is None:
        run(chosen_cases(parser, options.case, (*CASES, *BLOCK_SIZES))[0])
    elif options.csv is None or not options.read.is_file():
        parser.error(
            f"--read {options.read}: expected a file that Nsight Compute wrote, and --csv FILE for its rows"
        )
    else:
        try:
            made = rows(options.case, options.read.read_text(encoding="utf-8"))
        except ValueError as error:
            parser.error(f"--read {options.read}: {error}")
        kept = list(csv.DictReader(options.csv.open())) if options.csv.exists() else []
        kept = [row for row in kept if row["case"] != options.case]
        files.write_rows(options.csv, [*kept, *made])


if __name__ == "__main__":
    main()
