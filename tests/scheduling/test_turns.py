"""Whose turn it is and how much of it: prefill, budgets, order of the line, who is served first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pagefault.scheduling import StepResult
from scheduling.situations import executor, finished, parts, running, submit, waiting

if TYPE_CHECKING:
    from scheduling.executor import Executor

Chunk = tuple[int, int]


def play(machine: Executor) -> tuple[dict[int, Chunk], dict[int, Chunk]]:
    """One checked step: id -> (start, tokens) of those that prefill and of those that decode."""
    plan = machine.scheduler.plan(machine.now)
    machine.check_plan(plan)
    machine.execute(plan)
    found = parts(machine, plan.prefill), parts(machine, plan.decode)
    machine.now += 1
    machine.finished += machine.scheduler.commit(StepResult(plan.step, machine.now))
    machine.check()
    return found


def test_chunked_prefill_takes_what_the_budget_leaves() -> None:
    machine = executor(32, max_num_batched_tokens=8)
    submit(machine, (20, 3))
    assert [play(machine) for _ in range(5)] == [
        ({0: (0, 8)}, {}),
        ({0: (8, 8)}, {}),
        ({0: (16, 4)}, {}),  # complete: it makes the first token
        ({}, {0: (20, 1)}),
        ({}, {0: (21, 1)}),
    ]
    assert finished(machine) == [0]


def test_decodes_come_before_the_chunk_of_who_came_later() -> None:
    machine = executor(32, max_num_batched_tokens=8)
    submit(machine, (3, 9), (4, 9))
    play(machine)
    submit(machine, (13, 2))
    assert play(machine) == ({2: (0, 6)}, {0: (3, 1), 1: (4, 1)})
    assert play(machine) == ({2: (6, 6)}, {0: (4, 1), 1: (5, 1)})
    assert play(machine) == ({2: (12, 1)}, {0: (5, 1), 1: (6, 1)})
    assert play(machine) == ({}, {0: (6, 1), 1: (7, 1), 2: (13, 1)})


def test_whole_prefill_waits_for_a_step_that_holds_the_prompt() -> None:
    machine = executor(32, prefill="whole", preempt="restart", max_num_batched_tokens=8)
    submit(machine, (8, 3), (8, 1), (1, 1))
    assert play(machine) == ({0: (0, 8)}, {})
    assert play(machine) == ({}, {0: (8, 1)})  # 7 tokens are left, 1 needs 8, and 2 stays behind it
    assert waiting(machine) == [1, 2]
    assert play(machine) == ({}, {0: (9, 1)})
    assert play(machine) == ({1: (0, 8)}, {})
    assert play(machine) == ({2: (0, 1)}, {})


def test_whole_prefill_beside_a_decode() -> None:
    machine = executor(32, prefill="whole", preempt="restart", max_num_batched_tokens=8)
    submit(machine, (8, 3))
    play(machine)
    submit(machine, (7, 1))
    assert play(machine) == ({1: (0, 7)}, {0: (8, 1)})


def test_a_delivered_prompt_decodes_from_its_first_step_on() -> None:
    machine = executor(32, prefill="delivered", max_num_batched_tokens=2)
    submit(machine, (30, 2), (5, 2))
    assert play(machine) == ({}, {0: (30, 1), 1: (5, 1)})
    assert machine.scheduler.record(0).first_token_ns == 1
    assert machine.pager.lengths[:2].tolist() == [31, 6]  # each token is stored in the step that makes it
    assert play(machine) == ({}, {0: (31, 1), 1: (6, 1)})
    assert [(record.computed_tokens, record.generated) for record in machine.finished] == [(2, 2), (2, 2)]


@pytest.mark.parametrize(("whole_must_fit", "chunk"), [(True, {}), (False, {1: (0, 7)})])
def test_reserve_full_prompt(whole_must_fit: bool, chunk: dict[int, Chunk]) -> None:
    machine = executor(8, reserve_full_prompt=whole_must_fit, max_num_batched_tokens=8)
    submit(machine, (8, 8))
    play(machine)
    submit(machine, (24, 2))  # 6 blocks; 0 holds 2 and takes its third: 5 are free
    assert play(machine) == (chunk, {0: (8, 1)})
    assert running(machine) == ([0] if whole_must_fit else [0, 1])


def test_a_prompt_that_was_checked_is_not_reserved() -> None:
    machine = executor(8, max_num_batched_tokens=8)
    submit(machine, (16, 2), (16, 2))
    play(machine)
    assert machine.pager.stats().used == 2
    assert running(machine) == [0]  # no budget is left for the second


def test_no_more_than_max_num_seqs_run() -> None:
    machine = executor(32, max_num_seqs=2)
    submit(machine, (4, 3), (4, 2), (4, 1), (4, 1))
    play(machine)
    assert (running(machine), waiting(machine)) == ([0, 1], [2, 3])
    play(machine)
    assert finished(machine) == [1]
    play(machine)
    assert finished(machine) == [1, 0, 2]
    play(machine)
    assert finished(machine) == [1, 0, 2, 3]


def test_no_more_than_max_num_batched_tokens_are_computed() -> None:
    machine = executor(32, max_num_batched_tokens=2)
    submit(machine, (1, 4), (1, 4), (1, 4))
    assert play(machine) == ({0: (0, 1), 1: (0, 1)}, {})
    for _ in range(3):
        plan = play(machine)[1]
        assert list(plan) == [0, 1]
    assert finished(machine) == [0, 1]
    assert play(machine) == ({2: (0, 1)}, {})


def test_first_come_first_served_even_where_a_later_one_would_fit() -> None:
    machine = executor(8)
    submit(machine, (12, 2), (24, 1), (1, 1), priorities=(1, 5, 0))
    play(machine)
    assert (running(machine), waiting(machine)) == ([0], [1, 2])
    machine.drain(5)
    assert finished(machine) == [0, 1, 2]


def test_by_priority_the_most_urgent_comes_first_and_ties_by_submission() -> None:
    machine = executor(32, policy="priority", max_num_seqs=1)
    submit(machine, (1, 1), (1, 1), (1, 1), (1, 1), priorities=(2, 1, 1, 0))
    machine.drain(5)
    assert finished(machine) == [3, 1, 2, 0]


@pytest.mark.parametrize(
    ("first", "expected"),
    [("running", ({1: (0, 7)}, {0: (4, 1)})), ("waiting", ({1: (0, 8)}, {}))],
)
def test_who_is_served_first_has_the_budget(
    first: str, expected: tuple[dict[int, Chunk], dict[int, Chunk]]
) -> None:
    machine = executor(32, first=first, max_num_batched_tokens=8)
    submit(machine, (4, 5))
    play(machine)
    submit(machine, (20, 1))
    assert play(machine) == expected


@pytest.mark.parametrize(("first", "runs"), [("running", [0]), ("waiting", [0, 1])])
def test_who_is_served_first_has_the_last_frame(first: str, runs: list[int]) -> None:
    machine = executor(2, first=first)
    submit(machine, (4, 3))
    play(machine)
    submit(machine, (1, 2))
    plan = machine.step()  # 0 needs its second page; 1 its first
    assert running(machine) == runs
    assert plan.stalled.tolist() == ([] if first == "running" else [0])


def test_who_came_in_last_is_no_victim_in_the_same_step_but_in_the_next() -> None:
    machine = executor(2, first="waiting")
    submit(machine, (4, 3))
    play(machine)
    submit(machine, (1, 2))
    assert not machine.step().preempted
    lost = machine.step().preempted
    assert [(record.request, record.beneficiary) for record in lost] == [(1, 0)]


def test_preempted_ones_do_not_come_straight_back() -> None:
    machine = executor(3)
    submit(machine, (4, 5), (5, 3))
    play(machine)
    machine.step()
    assert (running(machine), waiting(machine)) == ([0], [1])  # 1 gave two frames, 0 took one of them
    assert machine.pager.free_frames == 1
