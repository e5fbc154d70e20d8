"""Reads result files of any kind; what a file is, its content says."""

from __future__ import annotations

import csv
import io
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from pagefault.errors import InputError
from pagefault.report.events import is_event_log, read_events
from pagefault.report.results import Classic, Measured, Memory, Results, Served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pagefault.report.events import RunLog

KINDS = (
    "an event log (pagefault sim --events FILE), the output of pagefault calc, sim or bench with --json, "
    "or a results file (pagefault bench --csv FILE)"
)

T = TypeVar("T", Memory, Classic, Served)


def load(paths: Iterable[Path | str]) -> Results:
    """Read result files, of any kinds and in any order; one that is given twice counts once.

    Args:
        paths: Files.

    Returns:
        What they hold.

    Raises:
        InputError: No file was given, or one cannot be read, is broken or is none of what can be shown; the message
            names it.
    """
    results = Results()
    logs: list[tuple[Path, RunLog]] = []
    files = list(dict.fromkeys(map(Path, paths)))
    if not files:
        raise InputError(f"no results were given: expected files, each {KINDS}")
    for path in files:
        try:
            if is_event_log(path):
                logs += [(path, run) for run in read_events(path)]
                continue
            text = path.read_bytes().decode("utf-8-sig")
        except IsADirectoryError:
            raise InputError(f"{path} is a folder; give the files in it, each {KINDS}") from None
        except UnicodeDecodeError:
            raise _unknown(path, "is no text") from None
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror or error}; expected {KINDS}") from error
        _add(results, path, text)
    results.runs = _named_apart(logs)
    latest = {(row.gpu, row.case, row.implementation): row for row in results.measured}
    results.measured = list(latest.values())
    return results


def _unknown(path: Path, why: str) -> InputError:
    return InputError(f"{path} {why}; expected {KINDS}")


def _add(results: Results, path: Path, text: str) -> None:
    start = text.lstrip()
    if not start:
        raise _unknown(path, "is empty")
    if start[0] in "{[":
        _add_json(results, path, text)
    elif {"case", "implementation", "p50"} <= set(start.splitlines()[0].split(",")):
        results.measured += _rows(path, text)
    else:
        raise _unknown(path, f"is no result that is known: it begins with {start.splitlines()[0][:40]!r}")


def _add_json(results: Results, path: Path, text: str) -> None:
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise _unknown(path, f"is no whole JSON object ({error}): was it cut off?") from None
    keys = set(value) if isinstance(value, dict) else set()
    if value_is(value, "experiment", "classic"):
        results.classic.append(_decoded(path, value, Classic))
    elif "comparisons" in keys:
        _add_bench(results, path, value)
    elif {"ttft", "tpot", "verdict"} <= keys:
        results.served.append(_decoded(path, value, Served))
    elif {"paged", "naive", "sweep"} <= keys:
        results.memory.append(_decoded(path, value, Memory))
    else:
        shown = ", ".join(sorted(keys)[:5]) or "none"
        raise _unknown(path, f"is JSON, and no result that is known (its keys: {shown})")


def value_is(value: object, key: str, wanted: str) -> bool:
    """Whether it is a mapping with this under that key."""
    return isinstance(value, dict) and value.get(key) == wanted


def _decoded(path: Path, value: Mapping[str, Any], kind: type[T]) -> T:
    try:
        found = msgspec.convert({**value, "source": path.name}, kind)
        if isinstance(found, Classic) and not found.runs:
            raise msgspec.ValidationError("no runs - at `$.runs`")
    except msgspec.ValidationError as error:
        raise InputError(
            f"{path}: {error}; it looks like the output of another version: make it again with this one"
        ) from None
    return found


class _Quantiles(msgspec.Struct):
    p20: float
    p50: float
    p80: float


class _Where(msgspec.Struct):
    gpu: str


class _Comparison(msgspec.Struct):
    name: str
    environment: _Where
    latency_us: dict[str, _Quantiles]
    floor_us: _Quantiles | None = None


class _Bench(msgspec.Struct):
    comparisons: list[_Comparison]
    serving: dict[str, Any] | None = None
    command: str = ""


def _add_bench(results: Results, path: Path, value: Mapping[str, Any]) -> None:
    try:
        bench = msgspec.convert(value, _Bench)
    except msgspec.ValidationError as error:
        raise InputError(
            f"{path}: {error}; it looks like the output of another version: make it again with this one"
        ) from None
    command = bench.command or str((bench.serving or {}).get("command", ""))
    for each in bench.comparisons:
        floor = each.floor_us
        times = each.latency_us | ({} if floor is None else {"floor": floor})
        results.measured += [
            Measured(
                case=each.name,
                implementation=name,
                p50=time.p50,
                p20=time.p20,
                p80=time.p80,
                ratio=None if floor is None else floor.p50 / time.p50,
                gpu=each.environment.gpu,
                note="",
                command=command,
                source=path.name,
            )
            for name, time in times.items()
        ]
    if bench.serving is not None:
        results.classic.append(_decoded(path, bench.serving, Classic))


def _rows(path: Path, text: str) -> list[Measured]:
    rows = []
    reader = csv.DictReader(io.StringIO(text))
    for row in reader:
        cells = {name: value or "" for name, value in row.items() if name is not None}

        def number(name: str, cells: Mapping[str, str] = cells, line: int = reader.line_num) -> float | None:
            try:
                return float(cells[name]) if cells.get(name) else None
            except ValueError:
                raise InputError(
                    f"{path}:{line}: {name} is {cells[name]!r}; expected a number: is the file a results file of "
                    "pagefault bench --csv?"
                ) from None

        median = number("p50")
        if median is None or not 0 < median < float("inf"):
            raise InputError(
                f"{path}:{reader.line_num}: p50 is {cells.get('p50')!r}; expected a time above 0"
            )
        rows.append(
            Measured(
                case=cells["case"],
                implementation=cells["implementation"],
                p50=median,
                p20=number("p20"),
                p80=number("p80"),
                ratio=number("ratio") or None,
                gpu=cells.get("gpu") or "an unnamed device",
                note=cells.get("note", ""),
                command=cells.get("command", ""),
                source=path.name,
            )
        )
    if not rows:
        raise _unknown(path, "has no rows")
    return rows


def _named_apart(logs: Sequence[tuple[Path, RunLog]]) -> list[RunLog]:
    """The runs; those that would have the name of another are told apart by their seed, their file, or a number."""
    ways: tuple[Callable[[Path, RunLog], str], ...] = (
        lambda _path, _run: "",
        lambda _path, run: f", seed {run.header.about['seed']}" if "seed" in run.header.about else "",
        lambda path, _run: f" ({path.stem})",
    )
    names = [run.header.name for _, run in logs]
    for way in ways:
        count = Counter(names)
        names = [
            name + way(path, run) if count[name] > 1 else name
            for name, (path, run) in zip(names, logs, strict=True)
        ]
    count, seen = Counter(names), Counter[str]()
    for (_, run), name in zip(logs, names, strict=True):
        seen[name] += 1
        unique = name if count[name] == 1 else f"{name} #{seen[name]}"
        run.header.about["run"] = unique
    return [run for _, run in logs]
