"""Which instants of a run are drawn, and what a cell shows that stands for several frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pagefault.report.replay import Kind

if TYPE_CHECKING:
    import numpy.typing as npt

    from pagefault.report.replay import PoolState

    Ints = npt.NDArray[np.int64]


def instants(times: Ints, preferred: Ints, most: int) -> Ints:
    """Steps to draw.

    The first and the last are there; so are the preferred ones, as far as they take no more than half the places;
    the others are spread evenly over time, so that a pause in the run costs no places.

    Args:
        times: When each step ended, rising, int64 [steps].
        preferred: Steps to keep if there is room, rising, int64 [n].
        most: How many at most, at least 2.

    Returns:
        Indices of steps, rising, int64 [at most `most`].
    """
    steps = times.size
    if steps <= most:
        return np.arange(steps)
    chosen = np.union1d([0, steps - 1], evenly(preferred, most // 2 - 2))
    spread = np.linspace(times[0], times[-1], most)
    return _fill(chosen, np.unique(np.searchsorted(times, spread)), steps, most)


def _fill(chosen: Ints, wanted: Ints, steps: int, most: int) -> Ints:
    """The chosen ones, and of the wanted and then of all others as many as there are places, evenly."""
    for more in (wanted, np.arange(steps)):
        left = np.setdiff1d(more, chosen, assume_unique=True)
        chosen = np.union1d(chosen, evenly(left, most - chosen.size))
    return chosen


def evenly(values: Ints, most: int) -> Ints:
    """At most so many of them, evenly spaced."""
    if values.size <= most:
        return values
    return values[np.linspace(0, values.size - 1, max(most, 0)).round().astype(np.int64)]


class Cells:
    """A pool cut into cells of `per` consecutive frames each; the last may have fewer.

    Args:
        pool_blocks: Frames.
        most: Cells at most.
    """

    def __init__(self, pool_blocks: int, most: int) -> None:
        self.per = -(-pool_blocks // most)
        self.count = -(-pool_blocks // self.per)
        self._cell = np.arange(pool_blocks) // self.per

    def representatives(self, pool: PoolState) -> Ints:
        """For each cell the first of the frames that are what most of its frames are, int64 [count].

        Frames are alike if they are of one kind and, unless shared, in one row. Of two equally frequent sorts the one
        with the lowest frame is shown.
        """
        if self.per == 1:
            return self._cell
        owner = np.where(pool.kind == Kind.SHARED, 0, pool.row.astype(np.int64) + 1)
        sort = (self._cell * (owner.max() + 1) + owner) * len(Kind) + pool.kind
        order = np.argsort(sort, kind="stable")
        starts = np.flatnonzero(np.r_[True, np.diff(sort[order]) != 0])
        counts = np.diff(np.r_[starts, order.size])
        first_frames = order[starts]
        cells = self._cell[first_frames]
        ranked = np.lexsort((first_frames, -counts, cells))
        return first_frames[ranked[np.searchsorted(cells, np.arange(self.count))]]
