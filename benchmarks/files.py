"""Where benchmarks write: a file appears under its name only when it is whole."""

from __future__ import annotations

import argparse
import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def target(text: str) -> Path:
    """A file to write, as the type of an option: its folder must be there before anything is measured."""
    path = Path(text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{path}: there is no folder {path.parent}")
    return path


def write(path: Path, text: str) -> None:
    """A text, by way of a temporary name in the same folder."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Rows as CSV: columns in the order in which the rows name them, empty where a row has none."""
    lines = list(rows)
    stream = io.StringIO()
    columns = dict.fromkeys(name for line in lines for name in line)
    writer = csv.DictWriter(stream, columns, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(lines)
    write(path, stream.getvalue())
