"""What the room's arrays are, and the few array idioms that several of its modules need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefault.errors import InputError

Ints = npt.NDArray[np.int64]
"""Rows, pages, lengths, slots: int64 on the host, so that no product overflows."""
Frames = npt.NDArray[np.int32]
"""Frame ids, int32 as in the block table that kernels read."""
Keys = npt.NDArray[np.uint64]
"""Block keys, uint64 [n, 2]: 128 bits a full block."""
Mask = npt.NDArray[np.bool_]
IntLike = int | Sequence[int] | npt.NDArray[Any]
"""What public methods take where they say rows or tokens: one integer, a list, or an integer array."""

NO_FRAME = -1
"""The block table's entry for a page with no frame behind it. It never means anything else."""


def as_ints(values: IntLike, what: str) -> Ints:
    """`values` as a 1-D int64 array, without a copy where they already are one.

    Raises:
        InputError: The values are not integers, or have more than one dimension.
    """
    if type(values) is np.ndarray and values.dtype == np.int64 and values.ndim == 1:
        return values
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        if array.size:
            raise InputError(f"{what} must be integers; got {array.dtype} values like {array.ravel()[0]!r}")
        array = array.astype(np.int64)
    if array.ndim > 1:
        raise InputError(f"{what} must be one integer or a 1-D array of them; got shape {array.shape}")
    return array.astype(np.int64, copy=False).reshape(-1)


def as_count(value: Any, what: str, least: int = 0) -> int:
    """`value` as an int of at least `least`.

    Raises:
        InputError: It is not an integer, or too small.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InputError(f"{what} must be an integer; got {value!r}")
    if value < least:
        raise InputError(f"{what} must be at least {least}; got {value}")
    return int(value)


def per_row(values: IntLike, n: int, what: str) -> Ints | int:
    """One non-negative number for all n rows as an int, or one a row as int64 [n].

    Raises:
        InputError: Neither of the two.
    """
    if isinstance(values, (int, np.integer)):
        return as_count(values, what)
    array = as_ints(values, what)
    if array.size != n:
        raise InputError(f"{what} must be one number or one a row ({n}); got {array.size}")
    if array.size and array.min() < 0:
        raise InputError(f"{what} must not be negative; got {array.min()}")
    return array


def spans(starts: Ints, stops: Ints, descending: bool = False) -> tuple[Ints, Ints]:
    """All integers of the half-open ranges `[starts[i], stops[i])`, one range after the other.

    Args:
        starts: First integer of each range, int64 [n].
        stops: One past the last, int64 [n]; a range with `stop <= start` is empty.
        descending: Walk each range from its end; the order of the ranges stays.

    Returns:
        (i of the range each integer belongs to, the integer), int64 [sum of the ranges' sizes] both.
    """
    sizes = np.maximum(stops - starts, 0)
    owner = np.repeat(np.arange(sizes.size), sizes)
    nth = np.arange(owner.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return owner, (stops[owner] - 1 - nth if descending else starts[owner] + nth)


def has_repeats(values: npt.NDArray[Any]) -> bool:
    """Whether two elements are equal."""
    ordered = np.sort(values)
    return bool((ordered[1:] == ordered[:-1]).any())


def rank_among_equals(values: npt.NDArray[Any]) -> Ints:
    """For each element, how many equal elements stand before it: [7, 5, 7, 7] → [0, 0, 1, 2]."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    first = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    sizes = np.diff(np.append(first, values.size))
    rank = np.empty(values.size, np.int64)
    rank[order] = np.arange(values.size) - np.repeat(first, sizes)
    return rank
