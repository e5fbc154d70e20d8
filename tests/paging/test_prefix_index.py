from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pagefault.paging import PrefixIndex


def frames(*ids: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(ids, np.int32)


def test_lookup_stops_at_the_first_gap() -> None:
    index = PrefixIndex(8)
    index.publish([b"a", b"b", b"d"], frames(5, 2, 7))
    assert index.lookup([b"a", b"b", b"c", b"d"]).tolist() == [5, 2]
    assert index.lookup([b"c", b"a"]).tolist() == []


def test_the_first_frame_of_a_key_and_the_first_key_of_a_frame_stay() -> None:
    index = PrefixIndex(8)
    assert index.publish([b"a", b"b"], frames(0, 1)).tolist() == [True, True]
    assert index.publish([b"a", b"c", b"x"], frames(2, 3, 1)).tolist() == [False, True, False]
    assert index.publish([b"y", b"z"], frames(4, 4)).tolist() == [True, False]
    assert index.publish([b"q", b"q"], frames(5, 6)).tolist() == [True, False]
    assert index.known() == {b"a": 0, b"b": 1, b"c": 3, b"y": 4, b"q": 5}
    assert index.published.tolist() == [True, True, False, True, True, True, False, False]
    assert index.forget(frames(2, 3)) == [b"c"]
    assert index.publish([b"c"], frames(2)).tolist() == [True]


@settings(deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.sampled_from(["append", "remove", "oldest"]), st.integers(0, 9)), max_size=80))
def test_the_log_is_a_queue_one_can_leave(steps: list[tuple[str, int]]) -> None:
    """Against a plain list; ten frames, so that the log is squeezed many times."""
    index, queue = PrefixIndex(10), list[int]()
    for step, n in steps:
        if step == "append":
            new = [frame for frame in (n, (n + 3) % 10) if frame not in queue]
            index.append(frames(*new))
            queue += new
        elif step == "remove":
            if n in queue:
                index.remove(frames(n))
                queue.remove(n)
        else:
            n = min(n, len(queue))
            assert index.oldest(n).tolist() == queue[:n]
            del queue[:n]
        assert index.evictable().tolist() == queue
