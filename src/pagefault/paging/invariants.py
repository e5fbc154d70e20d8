"""The invariants of a pager, each with a number, a name and both sides of its equation.

1. pool: every frame is free, used, cached or in flight, and the four counts add up (both pools).
2. free stack: it holds exactly the free frames, each once (both pools).
3. in flight: what waits for the commit is exactly the frames in that state, each once (both pools).
4. references: a frame's count is the number of page-table entries, or of swapped-out pages, that name it.
5. used: the used frames are those with a count of at least one (both pools).
6. cached: the frames in the eviction order are exactly the cached ones, each once, all with a key.
7. index: key → frame and frame → key say the same, and a frame with a key is used or cached.
8. rows: a row is open or can be opened, and a closed one holds nothing.
9. pages: an open row has a frame behind exactly its pages from the first it still holds to its last,
   less those on the host; its tokens fit in them, and its last page with tokens is one of them.
10. tails: a partly filled page that several rows reference is marked in each of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pagefault.errors import InvariantBroken
from pagefault.paging.arrays import NO_FRAME
from pagefault.paging.frame_pool import CACHED, FREE, IN_FLIGHT, USED

if TYPE_CHECKING:
    from pagefault.paging.frame_pool import FramePool
    from pagefault.paging.state import PagerState


def check(state: PagerState) -> None:
    """Proves all of them, in order.

    Raises:
        InvariantBroken: The first that does not hold.
    """
    for pool in (state.device, state.host):
        _check_pool(pool)
    _check_references(state)
    _check_index(state)
    _check_rows(state)
    _check_pages(state)
    _check_tails(state)


def _equal(name: str, left: str, a: Any, right: str, b: Any) -> None:
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        raise InvariantBroken(
            f"invariant {name} is broken: {left} has {a.size} entries, {right} has {b.size}"
        )
    wrong = np.flatnonzero(a != b)
    if wrong.size:
        i = wrong[0]
        where = f" at {i}" if a.ndim else ""
        raise InvariantBroken(
            f"invariant {name} is broken{where}: {left} = {a.ravel()[i]}, {right} = {b.ravel()[i]}"
        )


def _check_pool(pool: FramePool) -> None:
    counts = np.bincount(pool.state, minlength=4)
    _equal(
        f"1 (pool) of {pool.name}",
        "the counters (free, used, cached, in flight)",
        [pool.free, pool.used, pool.cached, pool.in_flight],
        "the frames in each state",
        [counts[FREE], counts[USED], counts[CACHED], counts[IN_FLIGHT]],
    )
    _equal(
        f"2 (free stack) of {pool.name}",
        "the sorted stack",
        np.sort(pool.free_stack),
        "the free frames",
        np.flatnonzero(pool.state == FREE),
    )
    _equal(
        f"3 (in flight) of {pool.name}",
        "the sorted frames that wait",
        np.sort(pool.held),
        "the frames in flight",
        np.flatnonzero(pool.state == IN_FLIGHT),
    )


def _check_references(state: PagerState) -> None:
    table = state.tables.table
    on_host = np.concatenate([np.empty(0, np.int32), *(host for _, host in state.on_host.values())])
    for pool, named in ((state.device, table[table != NO_FRAME]), (state.host, on_host)):
        _equal(
            f"4 (references) of {pool.name}",
            "the frames' reference counts",
            pool.refs,
            "the entries that name them",
            np.bincount(named, minlength=pool.capacity)[: max(pool.capacity, 1)] if pool.capacity else [],
        )
        _equal(f"5 (used) of {pool.name}", "is used", pool.state == USED, "has references", pool.refs > 0)


def _check_index(state: PagerState) -> None:
    index, pool = state.index, state.device
    evictable = index.evictable()
    _equal(
        "6 (cached)",
        "the sorted eviction order",
        np.sort(evictable),
        "the cached frames",
        np.flatnonzero(pool.state == CACHED),
    )
    _equal(
        "6 (cached)",
        "a cached frame has a key",
        index.published[evictable],
        "expected",
        np.ones_like(evictable),
    )
    known = index.known()
    _equal(
        "7 (index)",
        "the frames that keys name",
        np.sort(np.fromiter(known.values(), np.int64, len(known))),
        "the frames with a key",
        np.flatnonzero(index.published),
    )
    states = pool.state[index.published]
    _equal(
        "7 (index)",
        "a frame with a key is used or cached",
        (states == USED) | (states == CACHED),
        "expected",
        np.ones_like(states),
    )


def _check_rows(state: PagerState) -> None:
    tables = state.tables
    _equal(
        "8 (rows)",
        "open rows + rows that can be opened",
        tables.claimed.sum() + tables.free_rows,
        "rows",
        tables.max_seqs,
    )
    closed = tables.claimed == 0
    for name, vector in (
        ("tokens", tables.lengths),
        ("room", tables.room),
        ("slid-out pages", tables.first),
        ("pages on the host", tables.on_host),
        ("keys", state.row_keys.known),
    ):
        _equal(
            "8 (rows)", f"{name} of closed rows", vector[closed], "expected", np.zeros(closed.sum(), np.int64)
        )
    swapped = np.flatnonzero((tables.claimed == 1) & (tables.usable == 0))
    _equal(
        "8 (rows)", "rows that are open but not usable", swapped, "rows on the host", sorted(state.on_host)
    )


def _check_pages(state: PagerState) -> None:
    tables = state.tables
    page = np.arange(tables.max_pages)
    ends = tables.room >> state.shift
    expected = (page >= tables.first[:, None]) & (page < ends[:, None])
    on_host = np.zeros(tables.max_seqs, np.int64)
    for row, (pages, _) in state.on_host.items():
        expected[row, pages] = False
        on_host[row] = pages.size
    mapped = tables.table != NO_FRAME
    _equal("9 (pages)", "(row, page) has a frame", mapped, "it is one of the row's pages", expected)
    _equal("9 (pages)", "the rows' pages on the host", tables.on_host, "their host frames", on_host)
    _equal("9 (pages)", "frames the rows hold", tables.held(), "their entries", mapped.sum(axis=1))
    _equal("9 (pages)", "tokens with room", np.minimum(tables.lengths, tables.room), "tokens", tables.lengths)
    _equal(
        "9 (pages)", "pages within the limit", np.minimum(ends, tables.limits), "pages", ends * tables.claimed
    )
    _equal("9 (pages)", "room in whole pages", ends << state.shift, "room", tables.room)


def _check_tails(state: PagerState) -> None:
    tables = state.tables
    partial = np.flatnonzero((tables.lengths & state.mask) > 0)
    tails = tables.frames_at(partial, tables.lengths[partial] >> state.shift)
    on_device = tails != NO_FRAME
    shared = partial[on_device][state.device.refs[tails[on_device]] > 1]
    marked = tables.shared_tail[shared]
    _equal(
        "10 (tails)", "rows with a shared last page that are marked", marked, "expected", np.ones_like(marked)
    )
    _equal("10 (tails)", "the number of marks", tables.shared_tails, "marked rows", tables.shared_tail.sum())
