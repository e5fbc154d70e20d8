"""The pager by hand: addresses, errors and what each call promises."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pagefault.errors import BadHandle, InputError, NeverFits, OutOfFrames, PagingError
from pagefault.paging import (
    NO_FRAME,
    AllBlocksCleared,
    BlockEvent,
    BlockHasher,
    BlockRemoved,
    BlockStored,
    Pager,
    private_keys,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def test_addresses_by_hand() -> None:
    """Row 0 gets frames 0 and 2, row 1 frame 1: token 17 of row 0 is in frame 2 at offset 1, slot 33."""
    pager = Pager(8, 16)
    a, b = pager.open(), pager.open()
    assert pager.grow([a, b], [16, 3]).frames.tolist() == [0, 1]
    growth = pager.grow([a, b], [2, 1])
    assert (growth.rows.tolist(), growth.pages.tolist(), growth.frames.tolist()) == ([a], [1], [2])
    assert pager.slots([a, b], [2, 4]).tolist() == [32, 33, 16, 17, 18, 19]
    assert pager.slots(b, 1).dtype == np.int64
    assert pager.slots_at(a, 15, 18).tolist() == [15, 32, 33]
    assert pager.block_table[a, :3].tolist() == [0, 2, NO_FRAME]
    assert pager.block_table.dtype == np.int32
    assert (pager.lengths[a], pager.pages[a]) == (18, 2)


def test_only_rows_whose_last_page_is_full_fault() -> None:
    pager = Pager(64, 16)
    rows = np.array([pager.open() for _ in range(4)])
    pager.grow(rows, [15, 16, 17, 32])
    assert pager.need(rows, 1).tolist() == [0, 1, 0, 1]
    assert pager.grow(rows, 1).rows.tolist() == [rows[1], rows[3]]


def test_a_batch_that_does_not_fit_changes_nothing() -> None:
    pager = Pager(4, 16)
    a, b = pager.open(), pager.open()
    pager.grow([a, b], [16, 16])
    with pytest.raises(OutOfFrames, match="1 frames short: 3 are needed, 2 are free and 0 cached") as caught:
        pager.grow([a, b], [17, 16])
    assert caught.value.short == 1
    assert pager.lengths[[a, b]].tolist() == [16, 16]
    assert pager.free_frames == 2
    pager.release(b)
    pager.grow(a, 17)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [(65, "row 0 would need 5 pages of 16 tokens, but may have at most 4"), (10**12, "may have at most 4")],
)
def test_what_never_fits_is_told_apart(tokens: int, message: str) -> None:
    pager = Pager(4, 16)
    row = pager.open()
    for call in (pager.grow, pager.need, pager.reserve):
        with pytest.raises(NeverFits, match=message):
            call(row, tokens)
    assert pager.stats().used == 0


def test_never_fits_by_row_by_pool_and_by_batch() -> None:
    pager = Pager(4, 16, max_seq_len=160)
    short, long, other = pager.open(max_tokens=20), pager.open(), pager.open()
    pager.grow(short, 32)  # 20 tokens are two blocks
    with pytest.raises(NeverFits, match="may have at most 2: raise max_tokens"):
        pager.grow(short, 1)
    with pytest.raises(NeverFits, match="5 frames are needed at once, but the whole pool has 4"):
        pager.grow(long, 65)
    with pytest.raises(NeverFits, match="5 frames are needed at once"):
        pager.grow([long, other], [40, 32])
    with pytest.raises(OutOfFrames):
        pager.grow(long, 64)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (1, "row 1 is not open: it was released or never given out"),
        ([0, 0], "row 0 stands 2 times in one batch; give each row once"),
        (-1, "row -1 does not exist: rows are 0 to 3"),
        (4, "row 4 does not exist"),
        (2, "row 2 is swapped out: call swap_in first; until then it can only be released"),
    ],
)
def test_bad_rows(rows: Any, message: str) -> None:
    pager = Pager(8, 16, max_seqs=4, host_blocks=4)
    for _ in range(3):
        pager.open()
    pager.grow(2, 5)
    pager.swap_out(2)
    pager.release(1)
    with pytest.raises(BadHandle, match=message):
        pager.grow(rows, 1)


def test_rows_are_given_back_once() -> None:
    pager = Pager(8, 16, max_seqs=2)
    a, b = pager.open(), pager.open()
    with pytest.raises(PagingError, match="all 2 rows but 0 are open and 1 are needed"):
        pager.open()
    pager.release([a, b])
    with pytest.raises(BadHandle, match=f"row {b} is not open"):
        pager.release(b)
    assert pager.open() == a


def test_a_prefix_is_hit_once_it_is_computed() -> None:
    pager = Pager(16, 4)
    prompt = np.arange(10)
    keys = BlockHasher(4).update(prompt)
    a = pager.open(keys)
    pager.grow(a, 10)
    assert pager.match(keys).blocks == 0, "planned is not computed"
    pager.mark_computed(a, 7)
    assert (pager.match(keys).blocks, pager.match(keys).tokens, pager.match(keys).cached) == (1, 4, 0)
    pager.mark_computed(a, 10)
    assert pager.match(keys, max_tokens=7).blocks == 1
    b = pager.open(keys)
    assert pager.attach(b, max_tokens=9) == 8
    assert pager.block_table[b, :2].tolist() == pager.block_table[a, :2].tolist()
    assert pager.grow(b, 2).faults == 1, "the partly filled tail is not shared"
    pager.release([a, b])
    assert (pager.match(keys).cached, pager.free_frames, pager.stats().cached) == (2, 16, 2)


def test_fresh_hits_are_told_from_repeated_ones() -> None:
    pager = Pager(16, 4)
    keys = private_keys(0, 0, 3)
    a = pager.open(keys)
    assert pager.attach(a) == 0
    pager.grow(a, 12)
    pager.mark_computed(a, 12)
    b = pager.open(keys)
    pager.attach(b, max_tokens=11)
    pager.release(a)
    c = pager.open(keys)
    pager.attach(c, repeat=True)
    stats = pager.stats()
    assert (stats.queried_tokens, stats.hit_tokens, stats.repeated_hit_tokens) == (24, 8, 12)
    assert stats.hit_rate == 8 / 24
    pager.reset_counters()
    assert pager.stats().queried_tokens == 0
    assert pager.stats().hit_rate == 0.0


def test_eviction_is_least_recently_used_and_tail_first() -> None:
    pager = Pager(6, 4)
    old, new = private_keys(0, 0, 3), private_keys(1, 0, 3)
    for keys in (old, new):
        row = pager.open(keys)
        pager.grow(row, 12)
        pager.mark_computed(row, 12)
        pager.release(row)
    assert pager.stats().cached == 6
    row = pager.open()
    pager.grow(row, 8)
    assert (pager.match(old).blocks, pager.match(new).blocks) == (1, 3), "the head of the older stays longest"
    touched = pager.open(old)
    pager.attach(touched)
    pager.release(touched)
    pager.grow(row, 8)
    assert (pager.match(old).blocks, pager.match(new).blocks) == (1, 1), "what was hit is the youngest"
    assert pager.stats().evictions == 4


def test_a_duplicate_serves_its_own_row_and_is_freed_with_it() -> None:
    pager = Pager(8, 4)
    keys = private_keys(0, 0, 1)
    a, b = pager.open(keys), pager.open(keys)
    pager.grow([a, b], 4)
    pager.mark_computed([a, b], 4)
    pager.release(b)
    assert (pager.stats().free, pager.stats().cached) == (7, 0)
    assert pager.match(keys).blocks == 1
    pager.release(a)
    assert pager.stats().cached == 1


def test_caching_can_be_off() -> None:
    pager = Pager(8, 4, prefix_caching=False)
    keys = private_keys(0, 0, 2)
    a = pager.open(keys)
    pager.grow(a, 8)
    pager.mark_computed(a, 8)
    b = pager.open(keys)
    assert (pager.match(keys).blocks, pager.attach(b)) == (0, 0)
    pager.release([a, b])
    assert (pager.stats().free, pager.stats().queried_tokens) == (8, 0)


def test_keys_of_blocks_that_decode_filled() -> None:
    pager = Pager(8, 4)
    hasher = BlockHasher(4)
    a = pager.open(hasher.update([1, 2, 3]))
    pager.grow(a, 3)
    pager.grow(a, 6)
    pager.mark_computed(a, 9)
    keys = hasher.update([4, 5, 6, 7, 8, 9])
    pager.extend_keys(a, keys)
    assert pager.match(BlockHasher(4).update(range(1, 10))).blocks == 2


def test_attach_wants_a_new_row_and_different_keys() -> None:
    pager = Pager(8, 4)
    a = pager.open(private_keys(0, 0, 1))
    pager.grow(a, 4)
    pager.mark_computed(a, 4)
    with pytest.raises(BadHandle, match="only a new row can take a prefix"):
        pager.attach(a)
    twice = pager.open(np.repeat(private_keys(0, 0, 1), 2, axis=0))
    with pytest.raises(InputError, match="the same key for two blocks"):
        pager.attach(twice)
    small = pager.open(private_keys(0, 0, 1), max_tokens=0)
    with pytest.raises(NeverFits):
        pager.attach(small)


def test_copy_on_write_the_last_one_keeps_the_original() -> None:
    pager = Pager(16, 4)
    a = pager.open()
    pager.grow(a, 6)
    b, c = pager.fork(a, 2)
    assert pager.block_table[b, :2].tolist() == [0, 1]
    assert pager.free_frames == 14, "a fork takes no frame"
    assert pager.need([c, a, b], 1).tolist() == [1, 1, 0]
    assert pager.need([c, a], 1).tolist() == [1, 1], "the third still needs the original"
    growth = pager.grow([c, a, b], 1)
    assert (growth.copies.src.tolist(), growth.copies.dst.tolist(), growth.faults) == ([1, 1], [2, 3], 0)
    assert pager.block_table[[c, a, b], 1].tolist() == [2, 3, 1]
    assert len(pager.grow([a, b, c], 1).copies) == 0
    assert pager.stats().copies == 2


def test_a_fork_of_full_pages_copies_nothing() -> None:
    pager = Pager(16, 4)
    a = pager.open()
    pager.grow(a, 8)
    (b,) = pager.fork(a)
    assert pager.need([a, b], 1).tolist() == [1, 1]
    assert len(pager.grow([a, b], 1).copies) == 0
    assert pager.stats().used == 4


def test_copy_on_write_is_all_or_nothing() -> None:
    pager = Pager(3, 4)
    a = pager.open()
    pager.grow(a, 6)
    rows = [a, *pager.fork(a, 2).tolist()]
    with pytest.raises(OutOfFrames) as caught:
        pager.grow(rows, 1)
    assert caught.value.short == 1
    assert pager.block_table[rows, 1].tolist() == [1, 1, 1]
    pager.grow(rows[:2], [1, 0])


def test_frames_of_a_copy_do_not_come_free_before_commit() -> None:
    """Else one step could hold the copies (1 → 2) and (… → 1), and an executor does them in any order."""
    pager = Pager(3, 4)
    a = pager.open()
    pager.grow(a, 6)
    (b,) = pager.fork(a)
    assert pager.grow(b, 1).copies.src.tolist() == [1]
    pager.release(a)
    assert (pager.stats().free, pager.stats().in_flight) == (0, 1)
    pager.commit()
    assert (pager.stats().free, pager.stats().in_flight) == (1, 0)


def test_swap_moves_what_is_the_rows_own() -> None:
    pager = Pager(8, 4, host_blocks=4)
    a = pager.open(private_keys(0, 0, 3))
    pager.grow(a, 8)
    (b,) = pager.fork(a)
    pager.grow(b, 5)
    assert pager.need_swap_out([b]).tolist() == [2]
    copies = pager.swap_out(b)
    assert (copies.src.tolist(), copies.dst.tolist()) == ([2, 3], [0, 1])
    assert pager.block_table[b, :4].tolist() == [0, 1, NO_FRAME, NO_FRAME]
    assert (pager.stats().in_flight, pager.free_frames, pager.pages[b], pager.lengths[b]) == (2, 4, 2, 13)
    pager.commit()
    assert pager.free_frames == 6
    with pytest.raises(BadHandle, match="swapped out"):
        pager.grow(b, 1)
    with pytest.raises(BadHandle, match=f"row {a} is not swapped out"):
        pager.swap_in(a)
    assert pager.need_swap_in(b).tolist() == [2]
    back = pager.swap_in(b)
    assert back.src.tolist() == [0, 1]
    assert (pager.free_host_frames, pager.stats().host_in_flight) == (2, 2)
    pager.commit()
    assert pager.free_host_frames == 4
    assert pager.grow(b, 3).faults == 0


def test_a_swap_that_does_not_fit_fails_whole() -> None:
    pager = Pager(8, 4, host_blocks=3)
    a, b = pager.open(), pager.open()
    pager.grow([a, b], 8)
    with pytest.raises(NeverFits, match="takes 4 host frames, but the host pool has 3"):
        pager.swap_out([a, b])
    pager.swap_out(a)
    with pytest.raises(OutOfFrames, match="the host pool is 1 frames short") as caught:
        pager.swap_out(b)
    assert caught.value.short == 1
    pager.commit()
    pager.grow(b, 20)
    with pytest.raises(OutOfFrames) as caught:
        pager.swap_in(a)
    assert caught.value.short == 1
    pager.release(a)
    assert (pager.stats().host_in_flight, pager.free_host_frames) == (2, 1), "its copy may be under way"
    pager.commit()
    assert pager.free_host_frames == 3
    pager.check()


def test_blocks_on_the_host_cannot_be_hit_and_can_when_they_are_back() -> None:
    pager = Pager(8, 4, host_blocks=4)
    keys = private_keys(0, 0, 2)
    a = pager.open(keys)
    pager.grow(a, 8)
    pager.mark_computed(a, 8)
    pager.swap_out(a)
    assert pager.match(keys).blocks == 0
    pager.swap_in(a)
    assert pager.match(keys).blocks == 2


def test_reserved_frames_and_swap() -> None:
    pager = Pager(8, 4, host_blocks=8)
    a = pager.open()
    pager.grow(a, 5)
    assert pager.reserve(a, 20).tolist() == [2, 3, 4]
    assert pager.pages[a] == 5
    assert len(pager.swap_out(a)) == 2, "what was reserved holds nothing"
    pager.commit()
    assert pager.free_frames == 8
    pager.swap_in(a)
    assert pager.pages[a] == 2


def test_the_naive_layout_is_one_run() -> None:
    pager = Pager(12, 4)
    rows = [pager.open() for _ in range(4)]
    for row in rows[:3]:
        assert np.ptp(pager.reserve(row, 16, contiguous=True)) == 3
    pager.release(rows[1])
    with pytest.raises(BadHandle, match="row 0 has 4 pages already"):
        pager.reserve(rows[0], 48, contiguous=True)
    assert pager.reserve(rows[3], 16, contiguous=True).tolist() == [4, 5, 6, 7]
    assert pager.grow(rows[3], 16).faults == 0
    assert pager.reserve(rows[3], 7).size == 0
    assert pager.stats().faults == 16


def test_external_fragmentation_is_said() -> None:
    pager = Pager(6, 4)
    rows = [pager.open() for _ in range(6)]
    pager.grow(rows, 4)
    pager.release([rows[i] for i in (0, 1, 3, 5)])
    row = pager.open()
    message = "external fragmentation: 4 frames are free, but the longest run of consecutive ones is 2 and 3"
    with pytest.raises(OutOfFrames, match=message) as caught:
        pager.reserve(row, 12, contiguous=True)
    assert caught.value.short == 1
    assert pager.reserve(row, 8, contiguous=True).tolist() == [0, 1]


def test_a_contiguous_run_evicts_what_is_cached_in_it() -> None:
    pager = Pager(4, 4)
    keys = private_keys(0, 0, 2)
    a = pager.open(keys)
    pager.grow(a, 8)
    pager.mark_computed(a, 8)
    pager.release(a)
    assert pager.reserve(pager.open(), 16, contiguous=True).tolist() == [0, 1, 2, 3]
    assert (pager.match(keys).blocks, pager.stats().evictions) == (0, 2)
    pager.check()


def test_what_slid_out_of_a_window_is_free() -> None:
    pager = Pager(8, 4, max_seq_len=400)
    row = pager.open()
    for _ in range(100):
        pager.grow(row, 1)
        pager.release_before(row, max(int(pager.lengths[row]) - 8, 0))
    assert (pager.lengths[row], pager.pages[row]) == (100, 2)
    assert pager.block_table[row, :23].tolist() == [NO_FRAME] * 23
    assert pager.slots_at(row, 92, 100).size == 8
    with pytest.raises(BadHandle, match="slid out of its window"):
        pager.slots_at(row, 91, 100)
    with pytest.raises(InputError, match="has 100 tokens: it has no position 101"):
        pager.release_before(row, 101)
    stats = pager.stats()
    assert (stats.tokens, stats.used, stats.peak_used) == (8, 2, 3)


def test_statistics_by_hand() -> None:
    """Lengths 1, 16, 17 and 100 in blocks of 16: 11 blocks, 134 tokens, 42 tokens of fragmentation."""
    pager = Pager(64, 16)
    rows = [pager.open() for _ in range(4)]
    pager.grow(rows, [1, 16, 17, 100])
    stats = pager.stats()
    assert (stats.used, stats.tokens, stats.reserved_tokens, stats.internal_fragmentation) == (
        11,
        134,
        176,
        42,
    )
    assert stats.utilization == 134 / 176
    assert stats.cache_usage == 11 / 64
    pager.fork(rows[3], 5)
    assert pager.stats() == _with_sequences(stats, 9), "shared frames count once"
    pager.release(rows)
    assert (pager.stats().used, pager.stats().tokens, pager.stats().peak_used) == (7, 100, 11)
    pager.reset_counters()
    assert pager.stats().peak_used == 7


def _with_sequences(stats: Any, n: int) -> Any:
    return replace(stats, sequences=n)


def test_events() -> None:
    pager = Pager(4, 4)
    events: list[BlockEvent] = []
    stop = pager.subscribe(events.append)
    keys = private_keys(0, 0, 3)
    a = pager.open(keys)
    pager.grow(a, 12)
    pager.mark_computed(a, 8)
    pager.mark_computed(a, 12)
    stored = [event for event in events if isinstance(event, BlockStored)]
    assert [event.keys.tolist() for event in stored] == [keys[:2].tolist(), keys[2:].tolist()]
    assert stored[0].parents.tolist() == [[0, 0], keys[0].tolist()]
    assert stored[1].parents.tolist() == [keys[1].tolist()]
    assert (stored[0].frames.tolist(), stored[0].block_size) == ([0, 1], 4)
    pager.release(a)
    b = pager.open()
    pager.grow(b, 8)
    assert isinstance(events[-1], BlockRemoved)
    assert events[-1].keys.tolist() == [keys[2].tolist()]
    pager.clear_cache()
    assert isinstance(events[-1], AllBlocksCleared)
    count = len(events)
    stop()
    stop()
    pager.reset()
    assert len(events) == count


def test_a_listener_that_raises_finds_the_change_done() -> None:
    pager = Pager(4, 4)

    def listener(event: BlockEvent) -> None:
        raise RuntimeError("listener")

    pager.subscribe(listener)
    a = pager.open(private_keys(0, 0, 1))
    pager.grow(a, 4)
    with pytest.raises(RuntimeError, match="listener"):
        pager.mark_computed(a, 4)
    pager.check()
    assert pager.match(private_keys(0, 0, 1)).blocks == 1


def test_cleared_blocks_do_not_come_back() -> None:
    pager = Pager(8, 4)
    keys = private_keys(0, 0, 3)
    a, empty = pager.open(keys), pager.open(private_keys(1, 0, 1))
    pager.grow(a, 8)
    pager.mark_computed(a, 8)
    b = pager.open(private_keys(2, 0, 1))
    pager.grow(b, 4)
    pager.mark_computed(b, 4)
    pager.release(b)
    assert pager.clear_cache() == 1
    pager.grow(a, 4)
    pager.mark_computed(a, 12)
    (c,) = pager.fork(a)
    pager.grow(empty, 4)
    pager.mark_computed(empty, 4)
    assert pager.match(keys).blocks == 0
    assert pager.match(private_keys(1, 0, 1)).blocks == 1, "what was computed after it may be hit"
    pager.release([a, c])
    assert pager.stats().cached == 0


def test_updates_begin_with_everything() -> None:
    pager = Pager(16, 4, max_seqs=4)
    a, b = pager.open(), pager.open()
    pager.grow([a, b], [6, 3])
    copy = np.full((4, 16), NO_FRAME, np.int32)
    for change in (
        lambda: None,
        lambda: pager.grow(a, 9),
        lambda: pager.release(b),
        lambda: None,
        pager.reset,
    ):
        change()
        updates = pager.drain_updates()
        assert updates.rows.dtype == updates.pages.dtype == updates.frames.dtype == np.int32
        copy[updates.rows, updates.pages] = updates.frames
        assert np.array_equal(copy, pager.block_table)
    assert len(pager.drain_updates()) == 0


def test_reset_is_a_new_pager() -> None:
    pager = Pager(8, 4, max_seqs=4, host_blocks=4)
    a, b = pager.open(private_keys(0, 0, 1)), pager.open()
    pager.grow([a, b], 6)
    pager.mark_computed(a, 6)
    pager.fork(b)
    pager.swap_out(a)
    pager.reset()
    pager.check()
    assert pager.stats() == Pager(8, 4, max_seqs=4, host_blocks=4).stats()
    row = pager.open()
    assert (row, pager.grow(row, 5).frames.tolist()) == (0, [0, 1])


def test_views_are_read_only() -> None:
    pager = Pager(4)
    for view in (pager.lengths, pager.block_table):
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_blocks": 0}, "num_blocks must be at least 1; got 0"),
        ({"num_blocks": 1.5}, "num_blocks must be an integer; got 1.5"),
        ({"num_blocks": True}, "num_blocks must be an integer; got True"),
        ({"block_size": 24}, "block_size must be a power of two from 1 to 256; got 24"),
        ({"block_size": 512}, "block_size must be a power of two from 1 to 256; got 512"),
        ({"max_seqs": 0}, "max_seqs must be at least 1"),
        ({"max_seq_len": 0}, "max_seq_len must be at least 1"),
        ({"host_blocks": -1}, "host_blocks must be at least 0"),
    ],
)
def test_bad_sizes(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Pager(**{"num_blocks": 8, **arguments})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.grow([0, 1], [1]), r"tokens must be one number or one a row \(2\); got 1"),
        (lambda p: p.grow(0, -1), "tokens must be at least 0; got -1"),
        (lambda p: p.grow([0, 1], [1, -2]), "tokens must not be negative; got -2"),
        (lambda p: p.grow(0, 1.5), "tokens must be integers; got float64"),
        (lambda p: p.grow([0.0], 1), "rows must be integers; got float64"),
        (lambda p: p.grow([[0]], 1), r"rows must be one integer or a 1-D array of them; got shape \(1, 1\)"),
        (lambda p: p.slots(0, 6), "row 0 has 5 tokens: it has no slots for its last 6"),
        (lambda p: p.slots_at(0, 3, 6), r"row 0 has tokens 0 to 5 \(exclusive\): \[3, 6\) is not a part"),
        (lambda p: p.mark_computed(0, 8), "row 0 has 5 tokens: it cannot have computed 2 blocks of 4"),
        (
            lambda p: p.open(np.zeros((2, 2))),
            r"block keys must be uint64 \[blocks, 2\]; got float64 of shape",
        ),
        (
            lambda p: p.open(np.zeros(4, np.uint64)),
            "make them with BlockHasher, keys_from_ids or private_keys",
        ),
    ],
)
def test_bad_input(call: Callable[[Pager], object], message: str) -> None:
    pager = Pager(8, 4)
    pager.open()
    pager.open()
    pager.grow(0, 5)
    with pytest.raises(InputError, match=message):
        call(pager)
    pager.check()


def test_empty_batches_do_nothing() -> None:
    pager = Pager(8, 4, host_blocks=1)
    assert pager.grow([], 1).faults == 0
    assert pager.need([], []).size == pager.slots([], 1).size == 0
    assert len(pager.swap_out([])) == len(pager.swap_in([])) == 0
    pager.mark_computed([], [])
    pager.release_before([], 0)
    pager.release([])
    pager.check()


def test_every_public_method_holds_the_lock() -> None:
    methods = {
        name: method for name, method in inspect.getmembers(Pager, inspect.isfunction) if name[0] != "_"
    }
    assert len(methods) >= 25
    assert [name for name, method in methods.items() if not hasattr(method, "__wrapped__")] == []
    assert all(method.__doc__ for method in methods.values())
