from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pagefault.paging import PrefixIndex


def frames(*ids: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(ids, np.int32)


def keys(letters: str) -> list[bytes]:
    return [letter.encode() * 16 for letter in letters]


def test_lookup_stops_at_the_first_gap() -> None:
    index = PrefixIndex(8)
    index.publish(keys("abd"), frames(5, 2, 7))
    assert index.lookup(keys("abcd")).tolist() == [5, 2]
    assert index.lookup(keys("ca")).tolist() == []
    assert index.lookup([]).tolist() == []


def test_the_first_frame_of_a_key_and_the_first_key_of_a_frame_stay() -> None:
    index = PrefixIndex(8)
    assert index.publish(keys("ab"), frames(0, 1)).tolist() == [True, True]
    assert index.publish(keys("acx"), frames(2, 3, 1)).tolist() == [False, True, False]
    assert index.publish(keys("yz"), frames(4, 4)).tolist() == [True, False]
    assert index.publish(keys("qq"), frames(5, 6)).tolist() == [True, False]
    assert index.known() == dict(zip(keys("abcyq"), (0, 1, 3, 4, 5), strict=True))
    assert len(index) == 5
    assert index.published.tolist() == [True, True, False, True, True, True, False, False]
    assert index.forget(frames(2, 3)).tolist() == keys("c")
    assert index.publish(keys("c"), frames(2)).tolist() == [True]


def test_a_forgotten_key_is_not_found_and_can_come_again_anywhere() -> None:
    index = PrefixIndex(8)
    index.publish(keys("abc"), frames(0, 1, 2))
    index.forget(frames(1))
    assert index.lookup(keys("abc")).tolist() == [0]
    index.publish(keys("x"), frames(1))  # the frame has another key now; the old entry is stale
    assert index.lookup(keys("abc")).tolist() == [0]
    assert index.publish(keys("bb"), frames(4, 5)).tolist() == [True, False]
    assert index.lookup(keys("abc")).tolist() == [0, 4, 2]
    assert index.known() == dict(zip(keys("abcx"), (0, 4, 2, 1), strict=True))
    index.forget(frames(4))
    assert index.publish(keys("b"), frames(4)).tolist() == [True]  # where it was before
    index.forget(frames(4))
    assert index.publish(keys("bb"), frames(6, 4)).tolist() == [True, False]  # the first of two gets it
    index.forget(frames(6))
    index.publish(keys("b"), frames(4))
    assert index.lookup(keys("ab")).tolist() == [0, 4]


_PAIRS = st.lists(
    st.tuples(st.integers(0, 11), st.integers(0, 4)), max_size=5, unique_by=lambda pair: pair[1]
)


@settings(deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(st.booleans(), _PAIRS),
        max_size=60,
    )
)
def test_keys_and_frames_against_a_dictionary(steps: list[tuple[bool, list[tuple[int, int]]]]) -> None:
    """Five frames and twelve keys, so that stale entries abound and are purged."""
    index, model = PrefixIndex(5), dict[bytes, int]()
    letters = keys("abcdefghijkl")
    for publish, pairs in steps:
        if publish:
            new = []
            for number, frame in pairs:
                new.append(letters[number] not in model and frame not in model.values())
                if new[-1]:
                    model[letters[number]] = frame
            found = index.publish(
                [letters[number] for number, _ in pairs], frames(*(frame for _, frame in pairs))
            )
            assert found.tolist() == new
        else:
            gone = list(dict.fromkeys(frame for _, frame in pairs))
            index.forget(frames(*gone))
            model = {key: frame for key, frame in model.items() if frame not in gone}
        assert index.known() == model
        assert len(index) == len(model)
        for key in letters:
            assert index.lookup([key]).tolist() == ([model[key]] if key in model else [])


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
