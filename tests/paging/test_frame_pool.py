from __future__ import annotations

import numpy as np
import pytest

from pagefault.errors import BadHandle, InputError, OutOfFrames
from pagefault.paging import FramePool
from pagefault.paging.frame_pool import CACHED, FREE, IN_FLIGHT, USED


def frames(*ids: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(ids, np.int32)


def test_hands_out_lowest_first_then_what_came_back_last() -> None:
    pool = FramePool(6)
    assert pool.take(4).tolist() == [0, 1, 2, 3]
    pool.release([1])
    pool.release([2])
    assert pool.take(3).tolist() == [2, 1, 4]
    assert (pool.free, pool.used, pool.peak_used) == (1, 5, 5)


def test_all_or_nothing() -> None:
    pool = FramePool(4)
    pool.take(1)
    with pytest.raises(OutOfFrames, match="2 frames short: 5 asked, 3 free") as caught:
        pool.take(5)
    assert caught.value.short == 2
    assert pool.take(3).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([0, 1, 1], "frame 1 of the pool cannot be given back"),
        ([3], "frame 3 of the pool cannot be given back: it is free"),
        ([0, -1], "frame -1 is not one of the pool's: ids are 0 to 3"),
        ([4], "frame 4 is not one of the pool's"),
    ],
)
def test_what_is_not_held_cannot_be_given_back(given: list[int], message: str) -> None:
    pool = FramePool(4)
    pool.take(2)
    with pytest.raises(BadHandle, match=message):
        pool.release(given)
    assert pool.refs.tolist() == [1, 1, 0, 0]
    assert pool.free == 2
    pool.release([0, 1])
    with pytest.raises(BadHandle):
        pool.release([0])
    assert pool.free == 4


def test_a_shared_frame_comes_free_with_its_last_reference() -> None:
    pool = FramePool(4)
    held = pool.take(2)
    pool.share(frames(0, 0, 1))
    assert pool.refs.tolist() == [3, 2, 0, 0]
    assert pool.drop(frames(0, 1, 0)).size == 0
    idle = pool.drop(frames(1, 0))
    assert idle.tolist() == [1, 0]
    pool.give_back(idle)
    assert pool.free == 4
    with pytest.raises(BadHandle, match="it is free"):
        pool.share(held)


def test_idle_frames_come_once_in_the_order_of_their_last_mention() -> None:
    pool = FramePool(4)
    pool.take(3)
    pool.share(frames(0, 1))
    assert pool.drop(frames(0, 1, 2, 1, 0)).tolist() == [2, 1, 0]


def test_states() -> None:
    pool = FramePool(5)
    pool.take(4)
    pool.park(pool.drop(frames(0, 1)))
    pool.hold(pool.drop(frames(2)))
    assert pool.state.tolist() == [CACHED, CACHED, IN_FLIGHT, USED, FREE]
    assert (pool.free, pool.used, pool.cached, pool.in_flight) == (1, 1, 2, 1)
    assert pool.share(frames(1, 3)).tolist() == [1]
    pool.reclaim(frames(0))
    pool.land()
    assert pool.state.tolist() == [FREE, USED, FREE, USED, FREE]
    with pytest.raises(BadHandle, match="it is used with 2 references"):
        pool.reclaim(frames(3))
    with pytest.raises(BadHandle, match="cannot be made free: it is used with 1 references"):
        pool.give_back(frames(1))
    pool.take(3)
    pool.release([0])
    assert pool.peak_used == 5


def test_runs() -> None:
    pool = FramePool(8)
    pool.take(8)
    pool.release([1, 2, 5, 6, 7])
    assert pool.find_run(2) == 1
    assert pool.find_run(3) == 5
    assert pool.find_run(4) is None
    assert pool.longest_run() == 3
    assert pool.take_run(5, 3).tolist() == [5, 6, 7]
    assert sorted(pool.take(2).tolist()) == [1, 2]
    with pytest.raises(BadHandle, match="taken as a run"):
        pool.take_run(0, 1)


def test_capacity_is_a_count() -> None:
    with pytest.raises(InputError, match="capacity must be at least 0; got -1"):
        FramePool(-1)
    assert FramePool(0).free == 0
