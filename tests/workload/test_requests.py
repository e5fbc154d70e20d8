from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagefault.errors import InputError
from pagefault.workload import MAX_TOKENS, Workload
from pagefault.workload.conversations import conversation_of, numbered
from pagefault.workload.requests import gather_rows


def hashed() -> Workload:
    return Workload(
        arrival_ns=np.array([0, 10, 30]),
        prompt_tokens=np.array([16, 17, 1]),
        output_tokens=np.array([1, 2, 3]),
        hash_offsets=np.array([0, 1, 3, 4]),
        hash_ids=np.array([7, 7, 8, 9]),
        hash_tokens=16,
        session=np.array([0, 0, -1]),
    )


def test_columns_are_int64_and_read_only() -> None:
    given: Any = np.array([5, 6], dtype=np.int32)
    made = Workload(np.array([0, 1]), given, given)
    assert made.prompt_tokens.dtype == np.int64
    for column in (made.arrival_ns, made.prompt_tokens):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1
    given[0] = 7  # the caller's own array stays his


def test_length_duration_and_totals() -> None:
    made = hashed()
    assert len(made) == 3
    assert made.duration_ns == 30
    assert made.total_tokens.tolist() == [17, 19, 4]
    assert made.head(1).duration_ns == made.head(0).duration_ns == 0


def test_head_cuts_every_column() -> None:
    cut = hashed().head(2)
    assert cut.prompt_tokens.tolist() == [16, 17]
    assert cut.hash_offsets is not None
    assert cut.hash_ids is not None
    assert cut.session is not None
    assert cut.hash_offsets.tolist() == [0, 1, 3]
    assert cut.hash_ids.tolist() == [7, 7, 8]
    assert cut.session.tolist() == [0, 0]
    assert len(hashed().head(99)) == 3


def test_scaled_divides_arrival_times() -> None:
    assert hashed().scaled(2).arrival_ns.tolist() == [0, 5, 15]
    assert hashed().scaled(0.5).arrival_ns.tolist() == [0, 20, 60]


@pytest.mark.parametrize("factor", [0, -1, float("nan"), float("inf"), 1e-18])
def test_scaled_refuses(factor: float) -> None:
    with pytest.raises(InputError, match="arrival rate factor"):
        hashed().scaled(factor)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arrival_ns": [3, 2, 1]}, "descends"),
        ({"arrival_ns": [-1, 2, 3]}, r"arrival_ns\[0\] is -1"),
        ({"prompt_tokens": [1, 0, 1]}, r"prompt_tokens\[1\] is 0"),
        ({"output_tokens": [1, 1, MAX_TOKENS + 1]}, r"output_tokens\[2\] is 100000001"),
        ({"prompt_tokens": [1, 2]}, "2 entries, expected 3"),
        ({"priority": [1]}, "priority has 1 entries"),
        ({"output_tokens": [1.5, 1.0, 1.0]}, "float64"),
        ({"output_tokens": [[1, 1, 1]]}, r"shape \(1, 3\)"),
        ({"hash_ids": None}, "go together"),
        ({"hash_tokens": 0}, "hash_tokens is 0"),
        ({"hash_offsets": [0, 1, 4]}, "4 numbers"),
        ({"hash_offsets": [0, 1, 3, 5]}, "ends at 5"),
        ({"hash_offsets": [0, 2, 3, 4]}, "request 0 has 2 hash ids, expected 1"),
    ],
)
def test_refuses(change: dict[str, Any], message: str) -> None:
    values = {name: getattr(hashed(), name) for name in hashed().__dataclass_fields__}
    values |= {name: value if np.ndim(value) == 0 else np.array(value) for name, value in change.items()}
    with pytest.raises(InputError, match=message):
        Workload(**values)


@settings(deadline=None, derandomize=True)
@given(st.data())
def test_gathered_rows_are_the_rows(data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=8))
    order = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=10))
    offsets = np.cumsum([0, *map(len, rows)])
    values = np.array([value for row in rows for value in row], dtype=np.int64)
    moved, taken = gather_rows(offsets, values, np.array(order, dtype=np.int64))
    found = [taken[start:end].tolist() for start, end in pairwise(moved)]
    assert found == [rows[index] for index in order]


@settings(deadline=None, derandomize=True)
@given(st.lists(st.integers(-1, 30), min_size=1, max_size=30))
def test_conversations_follow_links_to_the_first_turn(parents: list[int]) -> None:
    # Turn i continues an earlier turn, none (-1), or, from 30 on, one that is not in the trace.
    links = [parent if parent < index else 100 + parent for index, parent in enumerate(parents)]
    expected: list[int] = []
    for index, parent in enumerate(links):
        expected.append(index if parent == -1 else parent if parent >= 100 else expected[parent])
    shuffled = np.random.default_rng(0).permutation(len(links))
    turns = np.arange(len(links))[shuffled]
    found = conversation_of(turns, np.array(links)[shuffled])
    assert found.tolist() == [expected[turn] for turn in turns]


def test_a_conversation_that_continues_itself_ends() -> None:
    assert len(conversation_of(np.array([1, 2]), np.array([2, 1]))) == 2


def test_numbered_counts_first_appearances() -> None:
    assert numbered(np.array([-1, 50, -1, 3, 50])).tolist() == [-1, 0, -1, 1, 0]
    assert numbered(np.array([9, 9, 2])).tolist() == [0, 0, 1]
