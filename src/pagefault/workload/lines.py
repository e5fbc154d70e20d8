"""Where the lines of a trace come from: a file or stdin, plain or gzipped, in chunks of bounded size."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import sys
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, cast

from pagefault.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK_BYTES = 1 << 20
MAX_LINE_BYTES = 64 << 20
_GZIP_MAGIC = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"


class _Counted(io.RawIOBase):
    """Reads through to another stream and counts, also where that one cannot tell its position."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self.stream.read(len(buffer))
        buffer[: len(data)] = data
        self.count += len(data)
        return len(data)


@dataclass
class LineSource:
    """The lines of one trace.

    Attributes:
        name: For messages: the path, or ``<stdin>``.
        bytes_total: Size of the file as it lies on disk; 0 where it is not known.
    """

    name: str
    bytes_total: int
    _raw: _Counted
    _bytes: IO[bytes]
    _started: bool = field(default=False)

    @property
    def bytes_read(self) -> int:
        """Bytes taken from the file so far; of the compressed ones where it is compressed."""
        return self._raw.count

    def chunks(self) -> Iterator[tuple[int, list[bytes]]]:
        """Whole lines without their ends, about `CHUNK_BYTES` at a time, and the first one's number from 1.

        A byte-order mark, CRLF and a missing end of the last line are taken as what they are.

        Raises:
            TraceError: The file cannot be read on, its gzip data is broken, or a line is over 64 MiB.
        """
        number = 1
        rest = b""
        while block := self._read(number):
            if number == 1 and not rest:
                block = block.removeprefix(_BOM)
            text, newline, tail = block.rpartition(b"\n")
            if not newline:
                rest += block
                if len(rest) > MAX_LINE_BYTES:
                    raise TraceError(
                        f"{self.name}:{number}: expected lines of text, found one of over "
                        f"{MAX_LINE_BYTES >> 20} MiB"
                    )
                continue
            lines = _split(rest + text)
            yield number, lines
            number += len(lines)
            rest = tail
        if rest:
            yield number, _split(rest)

    def _read(self, number: int) -> bytes:
        try:
            return self._bytes.read(CHUNK_BYTES)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise TraceError(
                f"{self.name}: broken gzip data after line {number - 1} ({error}); "
                "the file is damaged or cut short: fetch it again"
            ) from error
        except OSError as error:
            raise TraceError(f"cannot read {self.name}: {error.strerror or error}") from error


@contextlib.contextmanager
def open_lines(path: str | os.PathLike[str]) -> Iterator[LineSource]:
    """Open a trace; ``-`` is stdin. Gzip is recognised by its first bytes, whatever the name.

    Raises:
        TraceError: There is no such file, it is a folder, or it may not be read.
    """
    with contextlib.ExitStack() as stack:
        if os.fspath(path) == "-":
            if sys.stdin is None:
                raise TraceError("cannot read <stdin>: it is closed; give the trace as a file or a pipe")
            name, size, stream = "<stdin>", 0, sys.stdin.buffer
        else:
            name = os.fspath(path)
            stream = stack.enter_context(_open(Path(path)))
            size = os.fstat(stream.fileno()).st_size
        raw = _Counted(stream)
        buffered = io.BufferedReader(raw, CHUNK_BYTES)
        zipped = buffered.peek(2)[:2] == _GZIP_MAGIC
        opened = cast("IO[bytes]", gzip.GzipFile(fileobj=buffered) if zipped else buffered)
        yield LineSource(name, size, raw, opened)


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise TraceError(f"no trace at {path}: there is no such file; give a path, or - for stdin") from None
    except IsADirectoryError:
        raise TraceError(f"{path} is a folder; give the trace file in it") from None
    except (OSError, ValueError) as error:
        raise TraceError(f"cannot open {path}: {getattr(error, 'strerror', None) or error}") from error


def _split(text: bytes) -> list[bytes]:
    return text.replace(b"\r\n", b"\n").removesuffix(b"\r").split(b"\n")
