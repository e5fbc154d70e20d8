"""Where benchmarks write, and what their options may be: told before anything is measured, in a line."""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pagefault.cli.console import atomic_file, check_writable
from pagefault.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def target(text: str) -> Path:
    """A file to write, as the type of an option."""
    try:
        check_writable(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return Path(text)


def count(text: str) -> int:
    """A number of something that there must be, as the type of an option."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, given {text}")
    return int(text)


def write(path: Path, text: str) -> None:
    """A text that appears when it is whole."""
    with atomic_file(path) as stream:
        stream.write(text)


def write_rows(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Rows as CSV, which appear when they are whole; empty where a row lacks a column."""
    with atomic_file(path) as stream:
        writer = csv.DictWriter(stream, columns, lineterminator="\n", restval="")
        writer.writeheader()
        writer.writerows(rows)
