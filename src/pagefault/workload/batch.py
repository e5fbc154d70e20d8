"""A batch of parsed lines, and the checks that every format shares.

A parser turns a list of lines into one `Batch`, or raises `BadLine` and names what is wrong with the first
line that is. It does so for ten thousand lines or for a single one by the same code: the reader hands over
whole chunks, and only where a chunk fails looks for the line in ever smaller pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pagefault.workload.requests import MAX_NS, MAX_TOKENS, gather_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pagefault.workload.formats import Format


class BadLine(Exception):
    """A line that is not what its format says: what was expected, what was found."""


@dataclass
class Batch:
    """Requests in the order of the file; all arrays int64.

    Attributes:
        arrival_ns: ``[n]``.
        prompt_tokens: ``[n]``.
        output_tokens: ``[n]``.
        hash_counts: ``[n]``, ids a request, where the format has ids.
        hash_ids: ``[sum(hash_counts)]``.
        session: ``[n]``, the id of a conversation (or of a turn, where `parent` is there); -1 if not known.
        parent: ``[n]``, the turn that a turn continues; -1 for none.
    """

    arrival_ns: NDArray[np.int64]
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    hash_counts: NDArray[np.int64] | None = None
    hash_ids: NDArray[np.int64] | None = None
    session: NDArray[np.int64] | None = None
    parent: NDArray[np.int64] | None = None

    def checked(self, layout: Format) -> Batch:
        """The requests that produced something, every number within its range.

        Raises:
            BadLine: A length is out of range, or ids do not cover the prompt.
        """
        check_range(layout.output, self.output_tokens, 0, MAX_TOKENS)
        check_range(layout.prompt, self.prompt_tokens, 0, MAX_TOKENS)
        kept = self if self.output_tokens.all() else self._take(np.flatnonzero(self.output_tokens))
        check_range(layout.prompt, kept.prompt_tokens, 1, MAX_TOKENS)
        if kept.hash_counts is not None:
            expected = -(-kept.prompt_tokens // layout.hash_tokens)
            wrong = np.flatnonzero(kept.hash_counts != expected)
            if wrong.size:
                at = int(wrong[0])
                raise BadLine(
                    f"hash_ids: expected {expected[at]} ids ({layout.prompt} {kept.prompt_tokens[at]} in "
                    f"blocks of {layout.hash_tokens} tokens), found {kept.hash_counts[at]}"
                )
        return kept

    def _take(self, rows: NDArray[np.int64]) -> Batch:
        taken = Batch(self.arrival_ns[rows], self.prompt_tokens[rows], self.output_tokens[rows])
        if self.session is not None:
            taken.session = self.session[rows]
        if self.parent is not None:
            taken.parent = self.parent[rows]
        if self.hash_counts is not None and self.hash_ids is not None:
            offsets = np.concatenate(([0], np.cumsum(self.hash_counts)))
            taken.hash_counts = self.hash_counts[rows]
            taken.hash_ids = gather_rows(offsets, self.hash_ids, rows)[1]
        return taken


Parser = Callable[[list[bytes]], Batch | None]
"""Lines to a batch; None where all of them are blank. Raises `BadLine`."""


def check_range(field: str, values: NDArray[Any], low: int, high: int) -> None:
    """Raise `BadLine` for the first value outside `low` to `high` (NaN is outside)."""
    fine = (values >= low) & (values <= high)
    if not fine.all():
        raise BadLine(f"{field}: expected {low:,} to {high:,}, found {values[np.argmin(fine)]}")


def to_ns(field: str, values: Sequence[float], unit_ns: int) -> NDArray[np.int64]:
    """Times in units of `unit_ns` nanoseconds as whole nanoseconds, int64 ``[n]``.

    Fractions are converted apart from the whole part, so that a large time does not cost them their digits.

    Raises:
        BadLine: A time is negative, later than a hundred years, or not a number.
    """
    times = np.array(values)
    if times.dtype.kind not in "if":  # integers beyond int64
        raise BadLine(f"{field}: expected 0 to {MAX_NS // unit_ns:,}, found {max(values, key=abs)}")
    check_range(field, times, 0, MAX_NS // unit_ns)
    whole = times.astype(np.int64)
    fraction = np.rint((times - whole) * unit_ns).astype(np.int64)
    return np.asarray(whole * unit_ns + fraction, dtype=np.int64)


def decode(lines: list[bytes]) -> str:
    """Lines as text, joined by newlines.

    Raises:
        BadLine: They are not UTF-8.
    """
    try:
        return b"\n".join(lines).decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadLine(
            f"expected UTF-8 text, found byte 0x{error.object[error.start]:02x} at position {error.start + 1}"
        ) from None
