"""`Workload`: who asks for how much and when, as arrays.

One internal form for every trace and every synthetic mix. A request is a row index; nothing here is an object
a request, so a million requests cost their numbers and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pagefault.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

MAX_TOKENS = 100_000_000
"""The longest prompt or output taken for real; what is longer is a broken file, not a request."""

MAX_NS = 100 * 365 * 86_400 * 10**9
"""The latest arrival taken for real: a hundred years after time zero, well inside int64."""


@dataclass(frozen=True, eq=False)
class Workload:
    """Requests in order of arrival, one array a property.

    All arrays are int64 and read-only; what is passed in is converted, and copied only where it has to be.

    Attributes:
        arrival_ns: ``[n]``, nanoseconds from time zero, ascending, not negative.
        prompt_tokens: ``[n]``, 1 to `MAX_TOKENS`.
        output_tokens: ``[n]``, 1 to `MAX_TOKENS`.
        hash_offsets: ``[n + 1]`` or None: the prompt-block ids of request ``i`` are
            ``hash_ids[hash_offsets[i] : hash_offsets[i + 1]]``.
        hash_ids: ``[hash_offsets[-1]]``: one id a block of `hash_tokens` prompt tokens; equal ids mean equal
            tokens up to and including that block. The last block of a prompt may be partly filled.
        hash_tokens: Tokens an id stands for; 0 without ids.
        priority: ``[n]`` or None; smaller is more urgent.
        session: ``[n]`` or None: requests of one conversation share a value; -1 where it is not known.

    Raises:
        InputError: An array has the wrong shape or type, a value is out of range, or arrivals descend.
    """

    arrival_ns: NDArray[np.int64]
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    hash_offsets: NDArray[np.int64] | None = None
    hash_ids: NDArray[np.int64] | None = None
    hash_tokens: int = 0
    priority: NDArray[np.int64] | None = None
    session: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            given = getattr(self, field.name)
            if field.name != "hash_tokens" and given is not None:
                object.__setattr__(self, field.name, _column(field.name, given))
        for name in ("prompt_tokens", "output_tokens", "priority", "session"):
            column = getattr(self, name)
            if column is not None and len(column) != len(self):
                raise InputError(f"{name} has {len(column)} entries, expected {len(self)}: one a request")
        _check_range("arrival_ns", self.arrival_ns, 0, MAX_NS)
        _check_range("prompt_tokens", self.prompt_tokens, 1, MAX_TOKENS)
        _check_range("output_tokens", self.output_tokens, 1, MAX_TOKENS)
        if np.any(self.arrival_ns[1:] < self.arrival_ns[:-1]):
            raise InputError("arrival_ns descends; expected requests in order of arrival: sort them first")
        self._check_hashes()

    def _check_hashes(self) -> None:
        if self.hash_offsets is None or self.hash_ids is None:
            if self.hash_offsets is not None or self.hash_ids is not None or self.hash_tokens:
                raise InputError("hash_offsets, hash_ids and hash_tokens go together: give all three or none")
            return
        if self.hash_tokens < 1:
            raise InputError(
                f"hash_tokens is {self.hash_tokens}, expected the tokens an id stands for: 1 or more"
            )
        if len(self.hash_offsets) != len(self) + 1 or self.hash_offsets[0] != 0:
            raise InputError(f"hash_offsets must be {len(self) + 1} numbers that begin with 0")
        if self.hash_offsets[-1] != len(self.hash_ids):
            raise InputError(
                f"hash_offsets ends at {self.hash_offsets[-1]}, but there are {len(self.hash_ids)} hash_ids"
            )
        expected = -(-self.prompt_tokens // self.hash_tokens)
        wrong = np.flatnonzero(np.diff(self.hash_offsets) != expected)
        if wrong.size:
            at = int(wrong[0])
            raise InputError(
                f"request {at} has {np.diff(self.hash_offsets)[at]} hash ids, expected {expected[at]}: "
                f"{self.prompt_tokens[at]} prompt tokens in blocks of {self.hash_tokens}"
            )

    def __len__(self) -> int:
        return len(self.arrival_ns)

    @property
    def duration_ns(self) -> int:
        """From the first arrival to the last, in nanoseconds; 0 for fewer than two requests."""
        return int(self.arrival_ns[-1] - self.arrival_ns[0]) if len(self) else 0

    @property
    def total_tokens(self) -> NDArray[np.int64]:
        """``[n]``: prompt and output together, what a request's cache holds at its end."""
        return self.prompt_tokens + self.output_tokens

    def head(self, count: int) -> Workload:
        """The first `count` requests (all, if there are fewer), without copying.

        Raises:
            InputError: `count` is negative.
        """
        if count < 0:
            raise InputError(f"cannot take the first {count} requests; expected 0 or more")
        cut: dict[str, Any] = {
            name: column[:count]
            for name in ("arrival_ns", "prompt_tokens", "output_tokens", "priority", "session")
            if (column := getattr(self, name)) is not None
        }
        if self.hash_offsets is not None and self.hash_ids is not None:
            offsets = self.hash_offsets[: count + 1]
            cut |= {"hash_offsets": offsets, "hash_ids": self.hash_ids[: offsets[-1]]}
        return replace(self, **cut)

    def scaled(self, factor: float) -> Workload:
        """The same requests arriving `factor` times as fast: every arrival time is divided by it.

        Raises:
            InputError: `factor` is not a positive, finite number, or the last arrival no longer fits.
        """
        if not (np.isfinite(factor) and factor > 0):
            raise InputError(f"arrival rate factor is {factor}, expected a number above 0")
        if len(self) and self.arrival_ns[-1] / factor > MAX_NS:
            raise InputError(f"arrival rate factor {factor} stretches the arrivals over more than a century")
        return replace(self, arrival_ns=np.rint(self.arrival_ns / factor).astype(np.int64))


def gather_rows(
    offsets: NDArray[np.int64], values: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of a CSR pair in another order.

    Args:
        offsets: int64 ``[n + 1]``; row ``i`` is ``values[offsets[i] : offsets[i + 1]]``.
        values: int64 ``[offsets[-1]]``.
        rows: int64 ``[m]``, indices of rows.

    Returns:
        Offsets ``[m + 1]`` and values of the rows asked for.
    """
    counts = np.diff(offsets)[rows]
    moved = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(counts, out=moved[1:])
    source = np.repeat(offsets[rows] - moved[:-1], counts)
    source += np.arange(moved[-1])
    return moved, values[source]


def _column(name: str, given: ArrayLike) -> NDArray[np.int64]:
    """A read-only int64 view of what was given; floats are refused, not rounded."""
    array = np.asarray(given)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InputError(f"{name} is {array.dtype} of shape {array.shape}, expected integers of shape [n]")
    column = array.astype(np.int64, copy=False).view()
    column.flags.writeable = False
    return column


def _check_range(name: str, column: NDArray[np.int64], low: int, high: int) -> None:
    wrong = np.flatnonzero((column < low) | (column > high))
    if wrong.size:
        at = int(wrong[0])
        raise InputError(f"{name}[{at}] is {column[at]}, expected {low:,} to {high:,}")
