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
    frames = []
    for row, first, end in zip(
        batch.tolist(), tables.first[batch].tolist(), tables.ends(batch).tolist(), strict=True
    ):
        own = tables.table[row, first:end][::-1].copy()
        if row in state.on_host:
            _, host = state.on_host.pop(row)
            state.host.hold(state.host.drop(host))
            own = own[own != NO_FRAME]
        frames.append(own)
        tables.map_run(row, first, end, NO_FRAME)
    if frames:
        state.let_go(np.concatenate(frames), keep_cached)
    tables.close(batch)
    state.row_keys.clear(batch)


def release_before(state: PagerState, rows: IntLike, positions: IntLike) -> None:
    """See `Pager.release_before`."""
    tables = state.tables
    batch = tables.rows(rows)
    before = np.broadcast_to(per_row(positions, batch.size, "positions"), batch.shape)
    past = (before > tables.lengths[batch]).nonzero()[0]
    if past.size:
        i = int(past[0])
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
