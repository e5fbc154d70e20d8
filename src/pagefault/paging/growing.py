"""Growth: faults, copies on write, reservations, and the slots that tokens end up in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pagefault.errors import BadHandle, InputError, OutOfFrames
from pagefault.paging.arrays import NO_FRAME, as_count, per_row, rank_among_equals, spans
from pagefault.paging.results import FrameCopies, Growth

if TYPE_CHECKING:
    from pagefault.paging.arrays import Frames, IntLike, Ints
    from pagefault.paging.state import PagerState

_NONE: Ints = np.empty(0, np.int64)
_NO_FRAMES: Frames = np.empty(0, np.int32)
_NO_COPIES = FrameCopies(_NO_FRAMES, _NO_FRAMES)


@dataclass(slots=True)
class _Plan:
    """What growing a batch would do; nothing has been done.

    Attributes:
        rows: The batch, int64 [n].
        lengths: Lengths after it, int64 [n].
        faulting: Which of the batch fault, int64 [f].
        faults: Pages each of those gets, int64 [f], all >= 1.
        copying: Which of the batch copy their last page, int64 [c].
        total: Frames it takes.
    """

    rows: Ints
    lengths: Ints
    faulting: Ints
    faults: Ints
    copying: Ints
    total: int


def need(state: PagerState, rows: IntLike, tokens: IntLike) -> Ints:
    """See `Pager.need`."""
    plan = _plan(state, rows, tokens)
    frames = np.zeros(plan.rows.size, np.int64)
    frames[plan.faulting] = plan.faults
    frames[plan.copying] += 1
    return frames


def grow(state: PagerState, rows: IntLike, tokens: IntLike) -> Growth:
    """See `Pager.grow`."""
    plan = _plan(state, rows, tokens)
    tables = state.tables
    if not plan.total:
        if tables.shared_tails:
            _clear_tails(state, plan)
        tables.lengths[plan.rows] = plan.lengths
        return Growth(_NONE, _NONE, _NO_FRAMES, _NO_COPIES)
    frames = state.take(plan.total)
    copies = _copy_tails(state, plan, frames[plan.total - plan.copying.size :])
    faulted, pages = _add_pages(
        state, plan.rows[plan.faulting], plan.faults, frames[: plan.total - plan.copying.size]
    )
    tables.lengths[plan.rows] = plan.lengths
    return Growth(faulted, pages, frames[: faulted.size], copies)


def reserve(state: PagerState, row: int, tokens: int, contiguous: bool) -> Frames:
    """See `Pager.reserve`."""
    row = state.tables.row(row)
    rows = np.array([row])
    ends = state.pages_for(np.array([as_count(tokens, "tokens")]))
    extra = np.maximum(ends - state.tables.ends[rows], 0)
    n = int(extra[0])
    if contiguous and state.tables.held[row]:
        raise BadHandle(
            f"row {row} holds {state.tables.held[row]} frames already: a contiguous reservation comes first"
        )
    if not n:
        return _NO_FRAMES
    state.require_fit(rows, ends, n)
    frames = _take_run(state, n) if contiguous else state.take(n)
    _add_pages(state, rows, extra, frames)
    return frames


def slots(state: PagerState, rows: IntLike, tokens: IntLike) -> Ints:
    """See `Pager.slots`."""
    tables = state.tables
    batch = tables.rows(rows)
    lengths = tables.lengths[batch]
    counts = per_row(tokens, batch.size, "tokens")
    if (counts > lengths).any():
        i = int(np.flatnonzero(counts > lengths)[0])
        raise InputError(
            f"row {batch[i]} has {lengths[i]} tokens: it has no slots for its last {_nth(counts, i)}"
        )
    if isinstance(counts, int) and counts == 1:
        return _slots(state, batch, lengths - 1)
    owner, positions = spans(lengths - counts, lengths)
    return _slots(state, batch[owner], positions)


def slots_at(state: PagerState, row: int, start: int, stop: int) -> Ints:
    """See `Pager.slots_at`."""
    row = state.tables.row(row)
    first, end, length = as_count(start, "start"), as_count(stop, "stop"), int(state.tables.lengths[row])
    if not first <= end <= length:
        raise InputError(
            f"row {row} has tokens 0 to {length} (exclusive): [{first}, {end}) is not a part of them"
        )
    return _slots(state, np.full(end - first, row), np.arange(first, end))


def _plan(state: PagerState, rows: IntLike, tokens: IntLike) -> _Plan:
    tables = state.tables
    batch = tables.rows(rows)
    counts = per_row(tokens, batch.size, "tokens")
    lengths = tables.lengths[batch] + counts
    missing = lengths - (tables.ends[batch] << state.shift)
    faulting = np.flatnonzero(missing > 0)
    faults = _NONE
    total = 0
    if faulting.size:
        faults = state.pages_for(missing[faulting])
        total = int(faults.sum())
    copying = _NONE
    if tables.shared_tails:
        copying = _shared_writers(state, batch, counts)
        total += copying.size
    if total:
        state.require_fit(batch[faulting], tables.ends[batch[faulting]] + faults, total)
    return _Plan(batch, lengths, faulting, faults, copying, total)


def _shared_writers(state: PagerState, batch: Ints, counts: Ints | int) -> Ints:
    """Which rows of the batch must copy their partly filled last page before they write to it.

    In the batch's order each one gives up its reference to the shared frame, so the k-th writer of a
    frame (k from 0) has `references - k` left to look at; the one that finds only its own keeps it.
    """
    tables = state.tables
    writers = np.flatnonzero(tables.shared_tail[batch] & (np.asarray(counts) > 0))
    if not writers.size:
        return _NONE
    rows = batch[writers]
    tails = tables.table[rows, tables.lengths[rows] >> state.shift]
    copying: Ints = writers[state.device.refs[tails] - rank_among_equals(tails) > 1]
    return copying


def _copy_tails(state: PagerState, plan: _Plan, targets: Frames) -> FrameCopies:
    """Gives the copying rows frames of their own, before lengths change."""
    tables = state.tables
    copies = _NO_COPIES
    if targets.size:
        rows = plan.rows[plan.copying]
        pages = tables.lengths[rows] >> state.shift
        sources = tables.table[rows, pages]
        state.device.drop(sources)  # never the last reference: see _shared_writers
        tables.map(rows, pages, targets)
        state.counters.copies += targets.size
        copies = FrameCopies(sources, targets)
    if tables.shared_tails:
        _clear_tails(state, plan)
    return copies


def _clear_tails(state: PagerState, plan: _Plan) -> None:
    """Who wrote to its last page has it for itself now."""
    grown = plan.lengths > state.tables.lengths[plan.rows]
    state.tables.mark_tails(plan.rows[grown], False)


def _add_pages(state: PagerState, rows: Ints, counts: Ints, frames: Frames) -> tuple[Ints, Ints]:
    """Maps new pages behind the rows' last ones; returns (row, page) of each frame."""
    tables = state.tables
    ends = tables.ends[rows]
    owner, pages = spans(ends, ends + counts)
    faulted = rows[owner]
    tables.map(faulted, pages, frames)
    tables.ends[rows] = ends + counts
    tables.held[rows] += counts
    state.counters.faults += frames.size
    return faulted, pages


def _take_run(state: PagerState, n: int) -> Frames:
    """Takes the first run of n consecutive frames that are free or cached."""
    pool = state.device
    state.require_frames(pool, n)
    start = pool.find_run(n)
    if start is None:
        longest = pool.longest_run()
        raise OutOfFrames(
            f"external fragmentation: {pool.free + pool.cached} frames are free, but the longest run of "
            f"consecutive ones is {longest} and {n} are needed",
            n - longest,
        )
    run = np.arange(start, start + n, dtype=np.int32)
    cached = run[state.index.published[run]]  # a run has no used frames, so what is published is cached
    state.index.remove(cached)
    state.evict(cached)
    return pool.take_run(start, n)


def _slots(state: PagerState, rows: Ints, positions: Ints) -> Ints:
    tables = state.tables
    frames = tables.table.ravel().take(rows * tables.max_pages + (positions >> state.shift))
    if frames.size and frames.min() == NO_FRAME:
        row = rows[frames == NO_FRAME][0]
        raise BadHandle(
            f"row {row} holds no frame for some of these tokens: their pages slid out of its window"
        )
    return (frames.astype(np.int64) << state.shift) | (positions & state.mask)


def _nth(counts: Ints | int, i: int) -> int:
    return counts if isinstance(counts, int) else int(counts[i])
