r"""What limits paged decode, by the GPU's own counters: run under Nsight Compute, then turned into rows.

    ncu --csv --clock-control none --profile-from-start off --metrics $(python -m benchmarks.counters --metrics) \
        python -m benchmarks.counters --case 64x4096 > counters.txt
    python -m benchmarks.counters --read counters.txt --csv benchmarks/results/h200-counters.csv

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
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import files
from benchmarks.cases import BLOCK_SIZES, CASES, chosen_cases, command_of
from pagefault.bench import Environment, environment
from pagefault.errors import InputError

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
PRINTED = {"ID", "Kernel Name", "Metric Name", "Metric Value"}
COLUMNS = [
    *("case", "implementation", "kernel", *METRICS.values()),
    *(field.name for field in fields(Environment)),
]
KERNELS = {"read_floor": "floor", "decode_heads": "pagefault", "decode_head": "pagefault"}


def run(case: Case) -> None:
    """Calls the floor, a decode step and what else takes the case, compiled before the profiler looks."""
    import torch
    from torch.nn.attention import SDPBackend

    from benchmarks.attention import floors, ours
    from benchmarks.cases import make_inputs
    from benchmarks.rivals import contiguous_copies, ours_contiguous, sdpa

    where = {"case": case.name} | asdict(environment(torch.device("cuda"), command_of("counters")))
    print(WHERE + json.dumps(where), flush=True)
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


def rows(text: str) -> list[dict[str, str]]:
    """A row a kernel; the fastest of the floor's sizes is the floor.

    Args:
        text: What Nsight Compute printed with ``--csv``, and the program's line of where it ran.

    Raises:
        InputError: That line is missing, there is no kernel, or other counters than `METRICS`.
    """
    where = _where(text)
    case = where.pop("case")
    lines = [line for line in text.splitlines() if line.startswith('"')]
    launches: dict[str, dict[str, str]] = {}
    for line in csv.DictReader(io.StringIO("\n".join(lines))):
        if not set(line) >= PRINTED or line["Metric Name"] not in METRICS:
            raise InputError(
                f"expected the columns {', '.join(sorted(PRINTED))} and the counters of --metrics"
            )
        kernel = line["Kernel Name"].split("(")[0]
        row = launches.setdefault(line["ID"], {"case": case, "implementation": "", "kernel": kernel})
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
        raise InputError("expected the counters of a kernel, found none")
    return [row | where for row in found]


def _where(text: str) -> dict[str, str]:
    """The case, and where it ran."""
    said = [line.removeprefix(WHERE) for line in text.splitlines() if line.startswith(WHERE)]
    try:
        where = json.loads(said[0])
        return {"case": str(where.pop("case")), **asdict(Environment(**where))}
    except (IndexError, ValueError, TypeError, KeyError, AttributeError):
        raise InputError(
            f"expected the line {WHERE!r} with what this program writes behind it under Nsight Compute"
        ) from None


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
    parser.add_argument("--case", help="what to run; 64x4096 if not given")
    parser.add_argument("--read", type=Path, help="what Nsight Compute printed")
    parser.add_argument("--csv", type=files.target)
    options = parser.parse_args()
    if options.metrics:
        print(",".join(METRICS))
    elif options.read is None:
        if options.csv is not None:
            parser.error("--csv is for the rows of --read FILE, what Nsight Compute printed")
        run(chosen_cases(parser, options.case or "64x4096", (*CASES, *BLOCK_SIZES))[0])
    elif options.case is not None:
        parser.error("--case says what to run; which case a file is of stands in it")
    elif options.csv is None or not options.read.is_file():
        parser.error(
            f"--read {options.read}: expected a file that Nsight Compute wrote, and --csv FILE for its rows"
        )
    else:
        try:
            add(options.csv, rows(options.read.read_text(encoding="utf-8")))
        except (InputError, UnicodeDecodeError) as error:
            parser.error(f"--read {options.read}: {error}")


def add(path: Path, made: list[dict[str, str]]) -> None:
    """Rows into a file, in place of those of the same case.

    Raises:
        InputError: The file has other columns.
    """
    kept: list[dict[str, str]] = []
    if path.exists():
        with path.open(encoding="utf-8", newline="") as stream:
            reader = csv.DictReader(stream)
            if reader.fieldnames != COLUMNS:
                raise InputError(f"{path} has other columns than such rows: give another name")
            kept = [row for row in reader if row["case"] != made[0]["case"]]
    files.write_rows(path, COLUMNS, [*kept, *made])


if __name__ == "__main__":
    main()
