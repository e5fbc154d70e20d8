"""Sharing: prefix hits, publication of computed blocks, forks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pagefault.errors import BadHandle, InputError
from pagefault.paging.arrays import as_count, has_repeats, per_row
from pagefault.paging.block_keys import as_keys, key_bytes
from pagefault.paging.events import AllBlocksCleared, BlockStored, keys_from_bytes
from pagefault.paging.results import PrefixHit
from pagefault.paging.row_keys import NEVER

if TYPE_CHECKING:
    from pagefault.paging.arrays import Frames, IntLike, Ints, Keys, Mask
    from pagefault.paging.state import PagerState

_NO_PARENT = bytes(16)


def open_row(state: PagerState, keys: Keys | None, max_tokens: int | None) -> int:
    """See `Pager.open`."""
    limit = None if max_tokens is None else -(-as_count(max_tokens, "max_tokens") // state.block_size)
    checked = None if keys is None else as_keys(keys)
    row = int(state.tables.open(1, limit)[0])
    if checked is not None:
        state.row_keys.extend(row, key_bytes(checked))
    return row


def extend_keys(state: PagerState, row: int, keys: Keys) -> None:
    """See `Pager.extend_keys`."""
    row = state.tables.row(row)
    state.row_keys.extend(row, key_bytes(as_keys(keys)))
    publish(state, np.array([row]))


def match(state: PagerState, keys: Keys, max_tokens: int | None) -> PrefixHit:
    """See `Pager.match`."""
    frames = _find(state, key_bytes(as_keys(keys)), max_tokens)
    cached = int(np.count_nonzero(state.device.refs[frames] == 0))
    return PrefixHit(frames.size, frames.size << state.shift, cached)


def attach(state: PagerState, row: int, max_tokens: int | None, repeat: bool) -> int:
    """See `Pager.attach`."""
    tables, row_keys = state.tables, state.row_keys
    row = tables.row(row)
    if tables.room[row]:
        raise BadHandle(
            f"row {row} has {tables.lengths[row]} tokens and room for {tables.room[row]}: "
            "only a new row can take a prefix"
        )
    keys = row_keys.keys[row]
    frames = _find(state, keys, max_tokens)
    tokens = frames.size << state.shift
    if frames.size:
        if has_repeats(frames):
            raise InputError(
                f"row {row} has the same key for two blocks: a block's key must stand for its whole prefix"
            )
        state.require_fit(np.array([row]), np.array([frames.size]), 0)
        state.index.remove(state.device.share(frames))
        tables.map_run(row, 0, frames.size, frames)
        tables.lengths[row] = tables.room[row] = tokens
        row_keys.computed[row] = row_keys.published[row] = frames.size
    if repeat:
        state.counters.repeated_hit_tokens += tokens
    elif state.prefix_caching:
        state.counters.queried_tokens += len(keys) << state.shift
        state.counters.hit_tokens += tokens
    return tokens


def mark_computed(state: PagerState, rows: IntLike, lengths: IntLike) -> None:
    """See `Pager.mark_computed`."""
    batch = state.tables.rows(rows)
    blocks = per_row(lengths, batch.size, "lengths") >> state.shift
    due = (blocks > state.row_keys.computed[batch]).nonzero()[0]
    if not due.size:
        return
    batch = batch[due]
    blocks = blocks if isinstance(blocks, int) else blocks[due]
    past = (blocks > state.tables.lengths[batch] >> state.shift).nonzero()[0]
    if past.size:
        i = int(past[0])
        raise InputError(
            f"row {batch[i]} has {state.tables.lengths[batch[i]]} tokens: it cannot have computed "
            f"{np.broadcast_to(blocks, batch.shape)[i]} blocks of {state.block_size}"
        )
    state.row_keys.computed[batch] = blocks
    publish(state, batch)


def publish(state: PagerState, rows: Ints) -> None:
    """Tells the index of the rows' computed blocks that have keys and that it does not know of."""
    if not state.prefix_caching:
        return
    row_keys, tables = state.row_keys, state.tables
    rows = rows[row_keys.known[rows] > row_keys.published[rows]]
    keys: list[bytes] = []
    blocks: list[tuple[int, int, int]] = []  # row, first and end of the pages to publish
    for row, told, first, computed, known in zip(
        rows.tolist(),
        row_keys.published[rows].tolist(),
        tables.first[rows].tolist(),
        row_keys.computed[rows].tolist(),
        row_keys.known[rows].tolist(),
        strict=True,
    ):
        start, stop = max(told, first), min(computed, known)
        if start < stop:
            keys += row_keys.keys[row][start:stop]
            blocks.append((row, start, stop))
            row_keys.published[row] = stop
    if not keys:
        return
    frames = np.concatenate([tables.table[row, start:stop] for row, start, stop in blocks])
    new = state.index.publish(keys, frames)
    if state.events.listening and np.count_nonzero(new):
        _tell_stored(state, blocks, new, frames)


def fork(state: PagerState, row: int, n: int) -> Ints:
    """See `Pager.fork`."""
    tables, row_keys = state.tables, state.row_keys
    row = tables.row(row)
    children = tables.open(as_count(n, "n", least=1), int(tables.limits[row]))
    length = int(tables.lengths[row])
    first, end = int(tables.first[row]), -(-length // state.block_size)
    frames = tables.table[row, first:end]
    state.device.share(np.tile(frames, n))
    tables.lengths[children] = length
    tables.first[children] = first
    tables.room[children] = end << state.shift
    if length & state.mask:
        tables.mark_tails(np.append(children, row), True)
    for child in children.tolist():
        tables.map_run(child, first, end, frames)
        row_keys.extend(child, row_keys.keys[row][: length >> state.shift])
    row_keys.computed[children] = row_keys.computed[row]
    row_keys.published[children] = row_keys.published[row]
    return children


def clear_cache(state: PagerState) -> int:
    """See `Pager.clear_cache`."""
    cached = state.index.evictable()
    state.index.reset()
    state.device.reclaim(cached)
    state.row_keys.published[state.tables.lengths > 0] = NEVER
    if state.events.listening:
        state.events.add(AllBlocksCleared())
    return int(cached.size)


def _find(state: PagerState, keys: list[bytes], max_tokens: int | None) -> Frames:
    """Frames of the leading blocks that can be hit, of at most `max_tokens` tokens."""
    if max_tokens is not None:
        keys = keys[: as_count(max_tokens, "max_tokens") >> state.shift]
    return state.index.lookup(keys)


def _tell_stored(state: PagerState, blocks: list[tuple[int, int, int]], new: Mask, frames: Frames) -> None:
    keys: list[bytes] = []
    parents: list[bytes] = []
    for row, start, stop in blocks:
        known = state.row_keys.keys[row]
        keys += known[start:stop]
        parents += known[start - 1 : stop - 1] if start else [_NO_PARENT, *known[: stop - 1]]
    stored, before = keys_from_bytes(keys)[new], keys_from_bytes(parents)[new]
    state.events.add(BlockStored(stored, before, frames[new], state.block_size))
