"""Release: sequences that ended, and pages that slid out of a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pagefault.errors import InputError
from pagefault.paging.arrays import NO_FRAME, per_row, spans

if TYPE_CHECKING:
    from pagefault.paging.arrays import IntLike
    from pagefault.paging.state import PagerState


def release(state: PagerState, rows: IntLike, keep_cached: bool) -> None:
    """See `Pager.release`."""
    tables = state.tables
    batch = tables.claimed_rows(rows)
    owner, pages = spans(tables.first[batch], tables.ends(batch), descending=True)
    owners = batch[owner]
    frames = tables.table[owners, pages]
    if state.on_host:
        for row in batch.tolist():
            if row in state.on_host:
                host = state.on_host.pop(row)[1]
                state.host.hold(state.host.drop(host))
        here = frames != NO_FRAME
        owners, pages, frames = owners[here], pages[here], frames[here]
    state.let_go(frames, keep_cached)
    tables.map(owners, pages, NO_FRAME)
    tables.close(batch)
    state.row_keys.clear(batch)


def release_before(state: PagerState, rows: IntLike, positions: IntLike) -> None:
    """See `Pager.release_before`."""
    tables = state.tables
    batch = tables.rows(rows)
    before = np.broadcast_to(per_row(positions, batch.size, "positions"), batch.shape)
    past = before > tables.lengths[batch]
    if past.any():
        i = int(np.flatnonzero(past)[0])
        raise InputError(
            f"row {batch[i]} has {tables.lengths[batch[i]]} tokens: it has no position {before[i]}"
        )
    first = np.maximum(tables.first[batch], before >> state.shift)
    owner, pages = spans(tables.first[batch], first, descending=True)
    if not pages.size:
        return
    owners = batch[owner]
    state.let_go(tables.table[owners, pages], keep_cached=True)
    tables.map(owners, pages, NO_FRAME)
    tables.first[batch] = first
