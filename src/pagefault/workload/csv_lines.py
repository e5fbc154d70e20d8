"""Parsers of the comma-separated formats, column by column."""

from __future__ import annotations

import csv
import hashlib
import re
from typing import TYPE_CHECKING

import numpy as np

from pagefault.workload.batch import BadLine, Batch, decode, to_ns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pagefault.workload.batch import Parser
    from pagefault.workload.formats import Format

SECOND_NS = 10**9

# 2023-11-16 18:17:03.9799600 and 2024-05-10 00:00:00.009930+00:00, the fraction left out where it is zero.
# Years that int64 nanoseconds since 1970 can hold.
_STAMP = re.compile(
    r"((?:19[7-9]|20[0-9]|21[0-9])[0-9]-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?)"
    r"(Z|[+-][0-9]{2}:?[0-9]{2})?"
)


def split_header(line: bytes) -> list[str]:
    """The column names in a header line.

    Raises:
        BadLine: It is not UTF-8 or not CSV.
    """
    return [name.strip() for name in _rows([line])[0]]


def csv_parser(layout: Format, header: Sequence[str]) -> Parser:
    """A parser of lines below `header` (see `batch.Parser`): columns by name, further ones ignored."""
    wanted = {name: header.index(name) for name in (*layout.required, *layout.optional) if name in header}

    def parse(lines: list[bytes]) -> Batch | None:
        filled = [line for line in lines if line.strip()]
        if not filled:
            return None
        rows = _rows(filled)
        if len(rows) != len(filled):
            raise BadLine("expected one record a line, found a quoted line break")
        for row in rows:
            if len(row) != len(header):
                raise BadLine(
                    f"expected {len(header)} fields ({','.join(header)}), found {len(row)}: "
                    f"{','.join(row)[:80]!r}"
                )
        columns = list(zip(*rows, strict=True))
        cells = {name: columns[index] for name, index in wanted.items()}
        return Batch(
            arrival_ns=_arrivals(layout, cells),
            prompt_tokens=_whole_numbers(layout.prompt, cells[layout.prompt]),
            output_tokens=_whole_numbers(layout.output, cells[layout.output]),
            session=_sessions(cells["Session ID"]) if "Session ID" in cells else None,
        ).checked(layout)

    return parse


def _rows(lines: list[bytes]) -> list[list[str]]:
    try:
        return list(csv.reader(decode(lines).split("\n"), skipinitialspace=True, strict=True))
    except csv.Error as error:
        raise BadLine(f"expected comma-separated fields: {error}") from None


def _arrivals(layout: Format, cells: Mapping[str, Sequence[str]]) -> NDArray[np.int64]:
    if layout.time not in cells:
        return np.zeros(len(cells[layout.prompt]), dtype=np.int64)
    if layout.name == "azure":
        return _stamps(layout.time, cells[layout.time])
    return _seconds(layout.time, cells[layout.time])


def _whole_numbers(field: str, cells: Sequence[str]) -> NDArray[np.int64]:
    """Plain decimal digits, nothing else: no sign, fraction, exponent or underscore."""
    joined = "".join(cells)
    if not (joined.isascii() and joined.isdigit()):
        cells = [cell.strip() for cell in cells]
    wrong = next((cell for cell in cells if not (cell.isascii() and cell.isdigit() and len(cell) < 19)), None)
    if wrong is not None:
        raise BadLine(f"{field}: expected a whole number of tokens, found {wrong[:80]!r}")
    return np.fromiter(map(int, cells), dtype=np.int64, count=len(cells))


def _seconds(field: str, cells: Sequence[str]) -> NDArray[np.int64]:
    try:
        return to_ns(field, list(map(float, cells)), SECOND_NS)
    except ValueError as error:
        raise BadLine(f"{field}: expected seconds, {error}") from None


def _stamps(field: str, cells: Sequence[str]) -> NDArray[np.int64]:
    """Dates with a time, to nanoseconds since 1970; without an offset they are taken as UTC."""
    found = [_STAMP.fullmatch(cell.strip()) for cell in cells]
    try:
        local = np.array([match[1] for match in found if match], dtype="datetime64[ns]").astype(np.int64)
    except ValueError:  # the right shape, but no such day or hour
        local = np.empty(0, dtype=np.int64)
    if len(local) != len(cells):
        wrong = next((cell for cell, match in zip(cells, found, strict=True) if not match), cells[0])
        raise BadLine(f"{field}: expected a time as in 2023-11-16 18:17:03.9799600, found {wrong[:80]!r}")
    offsets = [match[2] for match in found if match]
    known = {text: _offset_ns(text) for text in set(offsets)}
    if any(known.values()):
        local = local - np.array([known[text] for text in offsets], dtype=np.int64)
    return local


def _offset_ns(text: str | None) -> int:
    if text is None or text == "Z":
        return 0
    minutes = 60 * int(text[1:3]) + int(text[-2:])
    return (-minutes if text[0] == "-" else minutes) * 60 * SECOND_NS


def _sessions(cells: Sequence[str]) -> NDArray[np.int64]:
    """63-bit hashes in place of names, so that millions of names need not be kept; -1 for an empty cell."""
    return np.fromiter((_name_hash(cell) if cell else -1 for cell in cells), dtype=np.int64, count=len(cells))


def _name_hash(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little") >> 1
