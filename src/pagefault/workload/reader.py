"""`read_trace`: any trace PageFault knows, into a `Workload`."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from pagefault.errors import MissingExtra, TraceError
from pagefault.workload.batch import BadLine, Batch
from pagefault.workload.conversations import conversation_of, numbered
from pagefault.workload.csv_lines import csv_parser, split_header
from pagefault.workload.formats import Format, known_formats, recognise
from pagefault.workload.lines import LineSource, open_lines
from pagefault.workload.requests import Workload, gather_rows

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pagefault.workload.batch import Parser

Progress = Callable[[int, int, int], None]
"""Called with bytes read, bytes in all (0 if not known) and requests so far."""

Chunk = tuple[int, list[bytes]]

PIECES = 16
"""A chunk with a broken line is cut into so many, and those that fail again, down to the line itself."""


@dataclass(frozen=True)
class Trace:
    """A workload and what was seen while it was read.

    Attributes:
        workload: The requests, in order of arrival.
        source: The path, or ``<stdin>``.
        format: The `Format` it was read as.
        bad_lines: Lines skipped because they could not be understood (with ``skip_bad``).
        first_bad: Place and reason of the first of them; empty if there is none.
        failed: Requests left out because they produced 0 output tokens.
        out_of_order: Places where a timestamp was earlier than the one before; the requests were sorted.
        has_arrivals: False where the file says no arrival times: all are at 0 then.
        notes: All of that in sentences, for people.
    """

    workload: Workload
    source: str
    format: Format
    bad_lines: int
    first_bad: str
    failed: int
    out_of_order: int
    has_arrivals: bool
    notes: tuple[str, ...]


def read_trace(
    path: str | os.PathLike[str], skip_bad: bool = False, progress: Progress | None = None
) -> Trace:
    """Read a trace; its format is recognised by its header or the keys of its first object.

    The formats are the rows of `formats.FORMATS`. The file may be gzipped whatever its name. It is read in
    chunks of a MiB into growing arrays: memory is that of the result and a chunk.

    Args:
        path: The file, or ``-`` for stdin.
        skip_bad: Count lines that are broken and go on, instead of stopping at the first.
        progress: Called after every chunk.

    Raises:
        TraceError: The file cannot be read, its format is not known, a line is broken (the message has its
            number and what was expected), or no request is left.
        MissingExtra: The trace is JSON lines and msgspec is not installed.
    """
    with open_lines(path) as source:
        layout, parser, chunks, has_arrivals = _recognise(source)
        table = _Table()
        for batch, lines in _batches(source.name, parser, chunks, skip_bad, table):
            table.add(batch, lines)
            if progress is not None:
                progress(source.bytes_read, source.bytes_total, len(table))
    return table.finish(source.name, layout, has_arrivals)


def _recognise(source: LineSource) -> tuple[Format, Parser, Iterator[Chunk], bool]:
    """The format, its parser, the chunks below the header, and whether there are arrival times."""
    chunks = source.chunks()
    for number, lines in chunks:
        filled = next((index for index, line in enumerate(lines) if line.strip()), None)
        if filled is None:
            continue
        first = lines[filled]
        if first.lstrip().startswith(b"{"):
            layout = recognise("jsonl", _first_keys(lines))
            if layout is None:
                break
            return layout, _json_parser(layout), chain([(number, lines)], chunks), True
        try:
            header = split_header(first)
        except BadLine:
            break
        layout = recognise("csv", set(header))
        if layout is None:
            break
        rest = (number + filled + 1, lines[filled + 1 :])
        return layout, csv_parser(layout, header), chain([rest], chunks), layout.time in header
    else:
        raise TraceError(f"{source.name} is empty; expected a trace, one of: {known_formats()}")
    seen = first.decode("utf-8", "backslashreplace").strip()
    shown = seen if len(seen) <= 120 else f"{seen[:120]}…"
    raise TraceError(
        f"{source.name}:{number + filled}: not the beginning of a known trace: {shown!r}; "
        f"expected one of: {known_formats()}"
    )


def _first_keys(lines: list[bytes]) -> set[str]:
    """The keys of the first line that is a JSON object: a broken first line is reported by the parser."""
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            return set(row)
    return set()


def _json_parser(layout: Format) -> Parser:
    try:
        from pagefault.workload.json_lines import json_parser
    except ModuleNotFoundError as error:
        if error.name != "msgspec":
            raise
        raise MissingExtra(f"reading a {layout.title} needs msgspec: pip install msgspec") from error
    return json_parser(layout)


def _batches(
    name: str, parser: Parser, chunks: Iterator[Chunk], skip_bad: bool, table: _Table
) -> Iterator[tuple[Batch, int]]:
    """Batches and of how many filled lines they were made; broken lines are found by cutting up."""

    def parse(number: int, lines: list[bytes]) -> Iterator[tuple[Batch, int]]:
        try:
            batch = parser(lines)
        except BadLine as error:
            if len(lines) > 1:
                size = -(-len(lines) // PIECES)
                for start in range(0, len(lines), size):
                    yield from parse(number + start, lines[start : start + size])
                return
            table.add_bad(f"{name}:{number}: {error}")
            if not skip_bad:
                raise TraceError(f"{table.first_bad} (--skip-bad goes on without such lines)") from None
        else:
            if batch is not None:
                yield batch, sum(1 for line in lines if line.strip())

    for number, lines in chunks:
        yield from parse(number, lines)


class _Table:
    """Growing columns: array.array grows in place, so the arrays are never there twice."""

    def __init__(self) -> None:
        self.columns: dict[str, array[int]] = {}
        self.failed = 0
        self.bad_lines = 0
        self.first_bad = ""

    def __len__(self) -> int:
        return len(self.columns.get("arrival_ns", ()))

    def add(self, batch: Batch, lines: int) -> None:
        """Append a batch that was made of so many lines: what it lacks of them had failed."""
        self.failed += lines - len(batch.arrival_ns)
        for name, values in vars(batch).items():
            if values is not None:
                self.columns.setdefault(name, array("q")).frombytes(values.tobytes())

    def add_bad(self, message: str) -> None:
        self.bad_lines += 1
        self.first_bad = self.first_bad or message

    def column(self, name: str) -> NDArray[np.int64] | None:
        values = self.columns.get(name)
        if values is None:
            return None
        return np.frombuffer(values, dtype=np.int64) if values else np.empty(0, dtype=np.int64)

    def finish(self, name: str, layout: Format, has_arrivals: bool) -> Trace:
        """Sort by arrival, number the conversations, say what was seen."""
        arrival, prompt, output = map(self.column, ("arrival_ns", "prompt_tokens", "output_tokens"))
        if arrival is None or prompt is None or output is None or not len(arrival):
            raise TraceError(f"{name}: {self._why_nothing(layout)}")
        columns: dict[str, Any] = {"prompt_tokens": prompt, "output_tokens": output}
        session, parent = self.column("session"), self.column("parent")
        if session is not None:
            columns["session"] = session if parent is None else conversation_of(session, parent)
        counts, ids = self.column("hash_counts"), self.column("hash_ids")
        out_of_order = int(np.count_nonzero(arrival[1:] < arrival[:-1]))
        offsets = None if counts is None else np.concatenate(([0], np.cumsum(counts)))
        if out_of_order:
            order = np.argsort(arrival, kind="stable")
            arrival = arrival[order]
            columns = {key: values[order] for key, values in columns.items()}
            if offsets is not None and ids is not None:
                offsets, ids = gather_rows(offsets, ids, order)
        if "session" in columns:
            columns["session"] = numbered(columns["session"])
        if layout.absolute:
            arrival = arrival - arrival[0]
        workload = Workload(
            arrival, hash_offsets=offsets, hash_ids=ids, hash_tokens=layout.hash_tokens, **columns
        )
        return Trace(
            workload=workload,
            source=name,
            format=layout,
            bad_lines=self.bad_lines,
            first_bad=self.first_bad,
            failed=self.failed,
            out_of_order=out_of_order,
            has_arrivals=has_arrivals,
            notes=tuple(self._notes(out_of_order, has_arrivals)),
        )

    def _why_nothing(self, layout: Format) -> str:
        if self.bad_lines and not self.failed:
            return f"none of its {self.bad_lines:,} lines could be read; the first: {self.first_bad}"
        if self.bad_lines or self.failed:
            return (
                f"no request left: {self.failed:,} with 0 output tokens ({layout.output}), "
                f"{self.bad_lines:,} broken lines"
            )
        return f"no request in it: a {layout.title} needs lines below its header"

    def _notes(self, out_of_order: int, has_arrivals: bool) -> Iterator[str]:
        if self.bad_lines:
            yield f"{_many(self.bad_lines, 'broken line')} skipped; the first: {self.first_bad}"
        if self.failed:
            yield f"{_many(self.failed, 'failed request')} (0 output tokens) left out"
        if out_of_order:
            yield (
                f"timestamps out of order: {_many(out_of_order, 'request')} earlier than the one before; "
                "sorted by arrival"
            )
        if not has_arrivals:
            yield "no arrival times in the file: all requests arrive at 0"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
