"""A result is a row: what was measured, on what, with which versions, at which commit."""

from __future__ import annotations

import csv
import io
import os
import subprocess
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from pagefault.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagefault.bench.timing import Timing


@dataclass(frozen=True, slots=True)
class Environment:
    """Where, with what and by which command rows were measured.

    Attributes:
        gpu: The device's name.
        driver: Its driver's version; empty on a CPU.
        torch: PyTorch's version.
        triton: Triton's version; empty where it is not installed.
        commit: Of PageFault: PAGEFAULT_COMMIT, or what git says of the checkout; `unknown` otherwise.
        command: As it was typed; empty where nobody said.
    """

    gpu: str
    driver: str
    torch: str
    triton: str
    commit: str
    command: str


@dataclass(frozen=True, slots=True)
class Row:
    """One implementation on one case. Times in microseconds a call.

    Attributes:
        case: What was measured.
        implementation: Whose.
        p20: See `Timing`, and so are the next five.
        kv_bytes: Valid bytes of K and V.
        ratio: The floor's median over this one's; 0 where no floor was measured.
        error: What the check before the timing found: against the oracle, or of a paged layout against naive;
            None for what computes nothing.
        note: What the implementation is spared or given, if anything.
        version: Of a library that is not this one.
        gpu: See `Environment`, and so are the last five.
    """

    case: str
    implementation: str
    p20: float
    p50: float
    p80: float
    mean: float
    sd: float
    min: float
    kv_bytes: int
    ratio: float
    error: float | None
    note: str
    version: str
    gpu: str
    driver: str
    torch: str
    triton: str
    commit: str
    command: str


def make_row(
    case: str,
    implementation: str,
    timing: Timing,
    where: Environment,
    *,
    kv_bytes: int,
    floor: float | None,
    error: float | None,
    note: str = "",
    version: str = "",
) -> Row:
    """A row from a timing, rounded to what can be measured.

    Args:
        case: See `Row`.
        implementation: See `Row`.
        timing: The times.
        where: The environment.
        kv_bytes: See `Row`.
        floor: The floor's median in microseconds, if there is one.
        error: See `Row`.
        note: See `Row`.
        version: See `Row`.
    """
    return Row(
        case=case,
        implementation=implementation,
        **{name: round(value, 3) for name, value in asdict(timing).items()},
        kv_bytes=kv_bytes,
        ratio=0.0 if floor is None else round(floor / timing.p50, 4),
        error=None if error is None else float(f"{error:.2e}"),
        note=note,
        version=version,
        **asdict(where),
    )


def environment(device: torch.device, command: str = "") -> Environment:
    """The environment of now, for rows that a command makes."""
    driver = ""
    if device.type == "cuda":
        driver = _output(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]).split("\n")[0]
    commit = os.environ.get("PAGEFAULT_COMMIT") or _output(["git", "describe", "--always", "--dirty"])
    try:
        triton = version("triton")
    except PackageNotFoundError:
        triton = ""
    return Environment(
        gpu=torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU",
        driver=driver,
        torch=torch.__version__,
        triton=triton,
        commit=commit or "unknown",
        command=command,
    )


def read_results(path: Path | str) -> str:
    """The text of a results file that rows are to be added to; empty where there is none.

    Raises:
        InputError: What is there is no such file.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        rows_as_csv((), text)
    except UnicodeDecodeError:
        raise InputError(f"{path} is no results file (it is not text): give another name") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return text


def rows_as_csv(rows: Sequence[Row], before: str = "") -> str:
    """The text of a results file.

    Args:
        rows: New rows.
        before: What the file holds already; rows of a case and implementation that are measured again are replaced.

    Raises:
        InputError: `before` is not such a file.
    """
    columns = [field.name for field in fields(Row)]
    reader = csv.DictReader(io.StringIO(before))
    if before and reader.fieldnames != columns:
        raise InputError(
            f"the file has the columns {', '.join(reader.fieldnames or ['none'])}; expected those of a results "
            f"file ({', '.join(columns)}): give another name"
        )
    again = {(row.case, row.implementation) for row in rows}
    lines = list(reader)
    if any(None in line or None in line.values() for line in lines):
        raise InputError(f"a line of the file has not {len(columns)} columns: give another name")
    kept = [row for row in lines if (row["case"], row["implementation"]) not in again]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows([*kept, *map(asdict, rows)])
    return stream.getvalue()


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=Path(__file__).resolve().parent
        )
    except OSError:
        return ""
    return done.stdout.strip()
