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
        over: Which of the batch fault, int64 [f].
        starts: First page that each of those lacks, int64 [f].
        stops: One past the last page it needs, int64 [f], all > starts.
        copying: Which of the batch copy their last page, int64 [c].
        faults: Pages that get a frame: the sum of `stops - starts`.
    """

    rows: Ints
    lengths: Ints
    over: Ints
    starts: Ints
    stops: Ints
    copying: Ints
    faults: int


def need(state: PagerState, rows: IntLike, tokens: IntLike) -> Ints:
    """See `Pager.need`."""
    plan = _plan(state, rows, tokens)
    frames = np.zeros(plan.rows.size, np.int64)
    frames[plan.over] = plan.stops - plan.starts
    frames[plan.copying] += 1
    return frames


def grow(state: PagerState, rows: IntLike, tokens: IntLike) -> Growth:
    """See `Pager.grow`."""
    plan = _plan(state, rows, tokens)
    copies, frames = _NO_COPIES, _NO_FRAMES
    if plan.faults or plan.copying.size:
        frames = state.take(plan.faults + plan.copying.size)
    if state.tables.shared_tails:
        copies = _copy_tails(state, plan, frames[plan.faults :])
        frames = frames[: plan.faults]
    faulted, pages = _NONE, _NONE
    if plan.faults:
        faulted, pages = _add_pages(state, plan.rows[plan.over], plan.starts, plan.stops, frames)
    state.tables.lengths[plan.rows] = plan.lengths
    return Growth(faulted, pages, frames, copies)


def reserve(state: PagerState, row: int, tokens: int, contiguous: bool) -> Frames:
    """See `Pager.reserve`."""
    row = state.tables.row(row)
    rows = np.array([row])
    starts = state.tables.ends(rows)
    if contiguous and starts[0]:
        raise BadHandle(f"row {row} has {starts[0]} pages already: a contiguous reservation comes first")
    stops = np.maximum(state.pages_for(np.array([as_count(tokens, "tokens")])), starts)
    n = int(stops[0] - starts[0])
    if not n:
        return _NO_FRAMES
    state.require_fit(rows, stops, n)
    frames = _take_run(state, n) if contiguous else state.take(n)
    _add_pages(state, rows, starts, stops, frames)
    return frames


def slots(state: PagerState, rows: IntLike, tokens: IntLike) -> Ints:
    """See `Pager.slots`."""
    tables = state.tables
    batch = tables.rows(rows)
    lengths = tables.lengths[batch]
    counts = per_row(tokens, batch.size, "tokens")
    beyond = (counts > lengths).nonzero()[0]
    if beyond.size:
        i = int(beyond[0])
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
    over = (lengths > tables.room[batch]).nonzero()[0]
    starts = stops = copying = _NONE
    faults = 0
    if over.size:
        faulting = batch[over]
        starts = tables.ends(faulting)
        if isinstance(counts, int) and counts == 1:
            stops, faults = starts + 1, over.size
        else:
            stops = state.pages_for(lengths[over])
            faults = int((stops - starts).sum())
        state.require_fit(faulting, stops, faults)
    if tables.shared_tails:
        copying = _shared_writers(state, batch, counts)
        if copying.size:
            state.require_fit(_NONE, _NONE, faults + copying.size)
    return _Plan(batch, lengths, over, starts, stops, copying, faults)


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
        state.mark_copying(sources)
        state.mark_copying(targets)
        state.counters.copies += targets.size
        copies = FrameCopies(sources, targets)
    if tables.shared_tails:
        _clear_tails(state, plan)
    return copies


def _clear_tails(state: PagerState, plan: _Plan) -> None:
    """Who wrote to its last page has it for itself now."""
    grown = plan.lengths > state.tables.lengths[plan.rows]
    state.tables.mark_tails(plan.rows[grown], False)


def _add_pages(state: PagerState, rows: Ints, starts: Ints, stops: Ints, frames: Frames) -> tuple[Ints, Ints]:
    """Maps pages [starts, stops) of the rows, their new last ones; returns (row, page) of each frame."""
    if rows.size == 1:
        start, stop = int(starts[0]), int(stops[0])
        state.tables.map_run(int(rows[0]), start, stop, frames)
        faulted, pages = np.full(frames.size, rows[0]), np.arange(start, stop)
    elif frames.size == rows.size:  # none of the ranges is empty, so each has one page
        faulted, pages = rows, starts
        state.tables.map(faulted, pages, frames)
    else:
        owner, pages = spans(starts, stops)
        faulted = rows[owner]
        state.tables.map(faulted, pages, frames)
    state.tables.set_ends(rows, stops)
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
    frames = tables.frames_at(rows, positions >> state.shift)
    gone = (frames == NO_FRAME).nonzero()[0]
    if gone.size:
        row = rows[gone[0]]
        raise BadHandle(
            f"row {row} holds no frame for some of these tokens: their pages slid out of its window"
        )
    return (frames.astype(np.int64) << state.shift) | (positions & state.mask)


def _nth(counts: Ints | int, i: int) -> int:
    return counts if isinstance(counts, int) else int(counts[i])
