"""What all commands share: tables, units, JSON, progress bars, and files that appear whole or not at all.

Results go to stdout, everything said about them (progress, notes, errors) to stderr, so that a pipe sees
data only. Rich, which takes longer to import than most results to print, is kept for what moves or is coloured.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
import tempfile
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from pagefault.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rich.console import Console

WIDTH = 80
"""Every table fits this many columns; a wider terminal is not filled."""


@cache
def console() -> Console:
    """The console on stdout, at most `WIDTH` columns wide and coloured only on a terminal."""
    return _make_console(sys.stdout)


@cache
def err() -> Console:
    """The console on stderr: progress, notes, errors."""
    return _make_console(sys.stderr)


def _make_console(stream: TextIO) -> Console:
    from rich.console import Console

    width = WIDTH if not stream.isatty() else None
    made = Console(file=stream, width=width, highlight=False, soft_wrap=False)
    if made.width > WIDTH:
        made.width = WIDTH
    return made


_PLAIN = str.maketrans(
    {
        "×": "x",
        "÷": "/",
        "−": "-",
        "±": "+-",
        "≥": ">=",
        "⌈": "ceil(",
        "⌉": ")",
        "Σ": "sum of",
        "µ": "u",
        "…": "...",
        "─": "-",
    }
)


def _encodable(text: str) -> str:
    """The text as stdout can show it: signs of arithmetic in letters where the encoding has no others."""
    encoding = sys.stdout.encoding or "utf-8"
    if encoding.lower().startswith("utf"):
        return text
    return text.translate(_PLAIN).encode(encoding, "replace").decode(encoding)


def say(text: str = "") -> None:
    """One line of result text, printed as it is: no markup, no wrapping."""
    sys.stdout.write(_encodable(text) + "\n")


def heading(text: str) -> None:
    """A line above a group of results, bold on a terminal."""
    bold = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    say(f"\x1b[1m{text}\x1b[0m" if bold else text)


def note(text: str) -> None:
    """One remark about the result, on stderr."""
    err().print(text, markup=False, soft_wrap=True, style="dim")


def table(title: str | None, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under right-aligned headings; the first column is left-aligned.

    Args:
        title: A line above the table, or None.
        columns: Headings.
        rows: Cells, already formatted (anything else is shown by `str`).
    """
    cells = [[str(cell) for cell in row] for row in (columns, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    if title:
        heading(title)
    for index, row in enumerate(cells):
        first, *rest = (
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        say("   ".join((first, *rest)).rstrip())
        if index == 0:
            say("─" * (sum(widths) + 3 * (len(widths) - 1)))


def facts(rows: Iterable[tuple[str, str, str]], label_width: int = 18, value_width: int = 13) -> None:
    """Print rows of a label, a right-aligned figure with its unit, and how the figure came about.

    What does not fit `WIDTH` columns goes on below, at the same indent; a figure stays with its unit, and a
    word that is longer than a line, whole.
    """
    import re
    import textwrap

    indent = label_width + value_width + 2
    for label, value, how in rows:
        glued = re.sub(
            r"(\d) (B|KB|MB|GB|TB|GiB|tokens|blocks|GPUs|layers|KV)\b", "\\1\N{NO-BREAK SPACE}\\2", how
        )
        wrapped = textwrap.wrap(glued, WIDTH - indent, break_on_hyphens=False, break_long_words=False)
        first, *rest = [line.replace("\N{NO-BREAK SPACE}", " ") for line in wrapped] or [""]
        say(f"{label:<{label_width}}{value:>{value_width}}  {first}".rstrip())
        for line in rest:
            say(" " * indent + line)


_command: ContextVar[str | None] = ContextVar("command", default=None)


@contextlib.contextmanager
def as_command(command: str) -> Iterator[None]:
    """What the block makes says that this command made it, as if it had been typed."""
    token = _command.set(command)
    try:
        yield
    finally:
        _command.reset(token)


def command_line() -> str:
    """The command as it was typed, for results to say where they come from."""
    import shlex

    return _command.get() or shlex.join(["pagefault", *sys.argv[1:]])


def emit_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object on stdout. NaN and infinity, which JSON does not know, become null."""
    sys.stdout.write(dump_json(value) + "\n")


def dump_json(value: Mapping[str, Any]) -> str:
    """The JSON text of a result; NumPy scalars and arrays become numbers and lists."""
    return json.dumps(_plain(value), indent=2, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # a NumPy scalar or array
        return _plain(value.tolist())
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value


def bytes_mb(size: float) -> str:
    """Bytes as decimal megabytes with two decimals: ``10.63 MB`` (1 MB = 10^6 B)."""
    return f"{size / 1e6:.2f} MB"


def bytes_si(size: float) -> str:
    """Bytes in the decimal unit that suits them: ``512 B``, ``8.19 KB``, ``10.63 MB``, ``80.00 GB``."""
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if abs(size) >= factor:
            return f"{size / factor:,.2f} {unit}"
    return f"{size:,.0f} B"


def bytes_gib(size: float) -> str:
    """Bytes as binary gibibytes with two decimals: ``11.12 GiB`` (1 GiB = 2^30 B)."""
    return f"{size / 2**30:.2f} GiB"


def percent(share: float, decimals: int = 1) -> str:
    """A share as a percentage: ``98.7%``."""
    return f"{100 * share:.{decimals}f}%"


def _no_progress(_done: float, _total: float, _text: str) -> None:
    pass


@contextlib.contextmanager
def progress(description: str) -> Iterator[Callable[[float, float, str], None]]:
    """A progress bar on stderr, drawn only where stderr is a terminal.

    Yields:
        ``update(done, total, text)``: done and total in any one unit; text is shown behind the bar.
    """
    if not sys.stderr.isatty():
        yield _no_progress
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    parts = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[text]}"),
    )
    with Progress(*parts, console=err(), transient=True) as bars:
        task = bars.add_task(description, total=None, text="")

        def update(done: float, total: float, text: str) -> None:
            bars.update(task, completed=done, total=total or None, text=text)

        yield update


def check_writable(path: str) -> None:
    """Refuse a path that cannot be written before a long run, not after it.

    A result is renamed into place when it is whole, so a device or a pipe would be replaced by a file.

    Raises:
        InputError: Its folder does not exist or cannot be written to, or it is there and is no ordinary file.
    """
    target = Path(path)
    try:
        if not path or (target.exists() and not target.is_file()):
            raise OSError
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
        os.close(handle)
        Path(name).unlink()
    except OSError:
        raise InputError(
            f"cannot write {path or 'a file without a name'}: give a file in an existing folder that can be written to"
        ) from None


def is_full(error: BaseException) -> bool:
    """Whether a write failed because the device, the quota or the file's allowed size is used up."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def full_message(error: BaseException) -> str:
    """What to do about an error that `is_full`."""
    return f"{getattr(error, 'strerror', None) or error}; free some space or write to another device"


@contextlib.contextmanager
def atomic_path(path: Path | str) -> Iterator[Path]:
    """A file that appears under its name only when it is whole.

    The block writes to a temporary name in the same folder, which is renamed at its end; when the block
    raises, nothing is left behind.

    Raises:
        InputError: The folder does not exist or cannot be written to, or the device is full.
    """
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    except OSError as error:
        raise InputError(
            f"cannot write {target}: {error.strerror or error}; give a path in an existing, writable folder"
        ) from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if is_full(error):
            raise InputError(f"cannot write {target}: {full_message(error)}") from error
        raise


@contextlib.contextmanager
def atomic_file(path: Path | str) -> Iterator[TextIO]:
    """A text file that appears under its name only when it is whole; see `atomic_path`.

    Raises:
        InputError: The folder does not exist or cannot be written to, or the device is full.
    """
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
        yield stream
