"""Thins what is drawn, so that no peak is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]


def extremes(times: Ints, columns: Sequence[npt.NDArray[np.generic]], bins: int) -> Ints:
    """Which samples to draw: in each of `bins` equal spans of time the first, the last, and each column's extremes.

    Short series are kept whole. A line through what is kept has every peak of every column, at its own time, and is
    right where it goes from one span to the next, however long nothing happens between.

    Args:
        times: Rising, int64 [n].
        columns: What is drawn over them, each [n].
        bins: Spans of time, at least 1.

    Returns:
        Indices of samples, rising, int64 [at most 2 · bins · (1 + columns)].
    """
    count = times.size
    if count <= 2 * bins * (1 + len(columns)):
        return np.arange(count)
    span = max(int(times[-1] - times[0]), 1)
    bin_of = np.minimum((times - times[0]) * bins // span, bins - 1)
    edges = np.flatnonzero(np.diff(bin_of))
    first, last = np.r_[0, edges + 1], np.r_[edges, count - 1]
    kept = [first, last]
    for column in columns:
        order = np.lexsort((column, bin_of))  # by bin, then by value
        kept += [order[first], order[last]]
    return np.unique(np.concatenate(kept))


def evenly(count: int, most: int) -> Ints:
    """Indices of at most `most` of `count` things (at least 2), evenly spread; the first and the last are there."""
    if count <= most:
        return np.arange(count)
    return np.linspace(0, count - 1, most).round().astype(np.int64)
