"""Swap: rows to the host pool and back. The pager decides frame ids; an executor does the copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pagefault.errors import NeverFits
from pagefault.paging.arrays import NO_FRAME, spans
from pagefault.paging.results import FrameCopies
from pagefault.paging.row_keys import NEVER
from pagefault.paging.sharing import publish

if TYPE_CHECKING:
    from pagefault.paging.arrays import Frames, IntLike, Ints
    from pagefault.paging.state import PagerState


def need_out(state: PagerState, rows: IntLike) -> Ints:
    """See `Pager.need_swap_out`."""
    batch = state.tables.rows(rows)
    owner, _, _ = _exclusive(state, batch)
    return np.bincount(owner, minlength=batch.size)


def need_in(state: PagerState, rows: IntLike) -> Ints:
    """See `Pager.need_swap_in`."""
    batch = state.tables.swapped_rows(rows)
    return np.array([state.on_host[row][1].size for row in batch.tolist()], np.int64)


def swap_out(state: PagerState, rows: IntLike) -> FrameCopies:
    """See `Pager.swap_out`."""
    tables = state.tables
    batch = tables.rows(rows)
    owner, pages, frames = _exclusive(state, batch)
    if frames.size > state.host.capacity:
        raise NeverFits(
            f"swapping out rows {batch.tolist()} takes {frames.size} host frames, but the host pool has "
            f"{state.host.capacity}: make the pager with more host_blocks, or preempt by recompute"
        )
    state.require_frames(state.host, frames.size)
    host = state.host.take(frames.size)
    _drop_reserved(state, batch)
    state.events.removed(state.index.forget(frames))
    state.device.hold(state.device.drop(frames))
    tables.map(batch[owner], pages, NO_FRAME)
    counts = np.bincount(owner, minlength=batch.size)
    tables.on_host[batch] = counts
    tables.set_usable(batch, False)
    stops = np.cumsum(counts).tolist()
    for row, count, stop in zip(batch.tolist(), counts.tolist(), stops, strict=True):
        state.on_host[row] = (pages[stop - count : stop], host[stop - count : stop])
    state.counters.swapped_out += frames.size
    return FrameCopies(frames, host)


def swap_in(state: PagerState, rows: IntLike) -> FrameCopies:
    """See `Pager.swap_in`."""
    tables = state.tables
    batch = tables.swapped_rows(rows)
    counts = need_in(state, batch)
    total = int(counts.sum())
    state.require_fit(batch, tables.ends(batch), total)
    frames = state.take(total)
    saved = [state.on_host.pop(row) for row in batch.tolist()]
    pages = np.concatenate([np.empty(0, np.int64), *(pages for pages, _ in saved)])
    host: Frames = np.concatenate([np.empty(0, np.int32), *(frames for _, frames in saved)])
    state.host.hold(state.host.drop(host))
    tables.map(np.repeat(batch, counts), pages, frames)
    tables.on_host[batch] = 0
    state.mark_copying(frames)
    tables.set_usable(batch, True)
    state.counters.swapped_in += frames.size
    published = state.row_keys.published
    published[batch[published[batch] != NEVER]] = 0
    publish(state, batch)
    return FrameCopies(host, frames)


def _exclusive(state: PagerState, batch: Ints) -> tuple[Ints, Ints, Frames]:
    """Pages with tokens whose frame only their row references: (index in the batch, page, frame)."""
    tables = state.tables
    owner, pages = spans(tables.first[batch], state.pages_for(tables.lengths[batch]))
    frames = tables.table[batch[owner], pages]
    alone = state.device.refs[frames] == 1
    return owner[alone], pages[alone], frames[alone]


def _drop_reserved(state: PagerState, batch: Ints) -> None:
    """Pages past the lengths hold nothing: their frames are free at once."""
    tables = state.tables
    ends = state.pages_for(tables.lengths[batch])
    owner, pages = spans(ends, tables.ends(batch))
    if pages.size:
        rows = batch[owner]
        state.let_go(tables.table[rows, pages], keep_cached=False)
        tables.map(rows, pages, NO_FRAME)
        tables.set_ends(batch, ends)
