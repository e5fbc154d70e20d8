"""`check()` finds each invariant broken when it is, names it, and shows both sides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pagefault.errors import InvariantBroken
from pagefault.paging import Pager, private_keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from pagefault.paging.state import PagerState


def busy() -> Pager:
    """Every kind of frame: used, shared, cached, in flight, on the host."""
    pager = Pager(32, 4, max_seqs=8, host_blocks=8)
    rows = [pager.open(private_keys(i, 0, 3)) for i in range(4)]
    pager.grow(rows, [14, 9, 9, 9])
    pager.commit()
    pager.mark_computed(rows, [14, 9, 9, 9])
    pager.fork(rows[0], 2)
    pager.release(rows[1])
    pager.swap_out(rows[2])
    pager.check()
    return pager


def _move(name: str, row: int, by: int) -> Callable[[PagerState], None]:
    def plant(state: PagerState) -> None:
        getattr(state.tables, name)[row] += by

    return plant


def _set(path: str, at: Any, value: Any) -> Callable[[PagerState], None]:
    def plant(state: PagerState) -> None:
        part, name = path.split(".")
        array = getattr(getattr(state, part), name)
        array[at] = value

    return plant


def _count(path: str) -> Callable[[PagerState], None]:
    def plant(state: PagerState) -> None:
        part, name = path.split(".")
        setattr(getattr(state, part), name, getattr(getattr(state, part), name) + 1)

    return plant


def _twin_on_stack(state: PagerState) -> None:
    state.device._stack[0] = state.device._stack[1]


def _lost_key(state: PagerState) -> None:
    state.index._frame_of.popitem()


def _swapped_keys(state: PagerState) -> None:
    published = np.flatnonzero(state.index.published)[:2]
    state.index._key_of[published] = state.index._key_of[published[::-1]]


def _key_on_a_free_frame(state: PagerState) -> None:
    frame = int(state.device.free_stack[0])
    state.index.publish([b"x" * 16], np.array([frame], np.int32))


def _lost_cached(state: PagerState) -> None:
    state.index.oldest(1)


def _lost_flight(state: PagerState) -> None:
    state.device._held.pop()


@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (_count("device.free"), r"1 \(pool\) of the pool is broken at 0: the counters .* = \d+, the frames"),
        (_count("host.used"), r"1 \(pool\) of the host pool"),
        (_twin_on_stack, r"2 \(free stack\) of the pool"),
        (_lost_flight, r"3 \(in flight\) of the pool"),
        (_set("device.refs", 0, 7), r"4 \(references\) .* at 0: the frames' reference counts = 7, .* = 3"),
        (_set("host.refs", 0, 2), r"4 \(references\) of the host pool"),
        (_lost_cached, r"6 \(cached\)"),
        (_lost_key, r"7 \(index\)"),
        (_swapped_keys, r"7 \(index\)"),
        (_key_on_a_free_frame, r"7 \(index\)"),
        (_set("tables.claimed", 7, 1), r"8 \(rows\)"),
        (_set("tables.lengths", 7, 1), r"8 \(rows\) .*tokens of closed rows = 1, expected = 0"),
        (_set("tables.usable", 2, 1), r"8 \(rows\)"),
        (_move("room", 0, 4), r"9 \(pages\)"),
        (_move("first", 0, 1), r"9 \(pages\)"),
        (_move("on_host", 2, 1), r"9 \(pages\)"),
        (_set("tables.lengths", 0, 99), r"9 \(pages\) .*: tokens with room = 16, tokens = 99"),
        (_set("tables.limits", 0, 1), r"9 \(pages\)"),
        (_set("tables.shared_tail", 0, False), r"10 \(tails\)"),
        (_count("tables.shared_tails"), r"10 \(tails\) .*: the number of marks = 4, marked rows = 3"),
    ],
)
def test_a_broken_invariant_is_named(plant: Callable[[PagerState], None], message: str) -> None:
    pager = busy()
    plant(pager._state)
    with pytest.raises(InvariantBroken, match=r"^invariant " + message):
        pager.check()
