"""How a victim loses its frames and comes back. Blocks hold 4 tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pagefault.scheduling import Preemption, State
from scheduling.executor import request
from scheduling.situations import BLOCK, executor, finished, running, submit, waiting

if TYPE_CHECKING:
    from scheduling.executor import Executor


@dataclass
class Costs:
    """So much a token and a frame."""

    token_ns: int
    frame_ns: int

    def recompute_ns(self, tokens: int) -> int:
        return tokens * self.token_ns

    def swap_ns(self, frames: int) -> int:
        return frames * self.frame_ns


def pair(**options: Any) -> Executor:
    """Two sequences in 3 blocks. In the second step, at time 1, 0 faults and 1 loses its 2 frames with 6 tokens."""
    machine = executor(3, **options)
    submit(machine, (4, 5), (6, 3))
    assert not machine.step().preempted
    return machine


def preemption(how: str, lost_tokens: int, **costs: int) -> Preemption:
    return Preemption(
        time_ns=1,
        request=1,
        beneficiary=0,
        how=how,
        frames=2,
        lost_tokens=lost_tokens,
        decoding=True,
        **costs,
    )


def test_restart_throws_away_what_was_generated() -> None:
    machine = pair(preempt="restart")
    record = machine.scheduler.record(1)
    assert record.generated == 1
    plan = machine.step()
    assert plan.preempted == (preemption("restart", 6),)
    assert (record.state, record.generated, record.discarded_tokens) == (State.PREEMPTED, 0, 1)
    machine.drain(20)
    assert finished(machine) == [0, 1]
    assert (record.generated, record.discarded_tokens) == (3, 1)
    assert record.computed_tokens == 6 + (6 + 2)
    assert record.first_token_ns == 1  # it was there, if for nothing


def test_recompute_keeps_them_and_prefills_them_again() -> None:
    machine = pair(preempt="recompute")
    record = machine.scheduler.record(1)
    plan = machine.step()
    assert plan.preempted == (preemption("recompute", 6),)
    assert (record.state, record.generated, record.discarded_tokens) == (State.PREEMPTED, 1, 0)
    while running(machine) == [0] or not machine.finished:
        plan = machine.step()
    assert running(machine) == []
    plan = machine.step()
    assert plan.prefill.counts.tolist() == [7]  # the prompt and its first token, in one chunk
    assert plan.prefill.samples.tolist() == [True]
    machine.drain(20)
    assert record.computed_tokens == 6 + (7 + 1)


def test_swap_moves_the_frames_and_computes_nothing_twice() -> None:
    machine = pair(preempt="swap", host_blocks=2)
    record = machine.scheduler.record(1)
    plan = machine.step()
    assert plan.preempted == (preemption("swap", 0),)
    assert (len(plan.swap_out), plan.stalled.tolist()) == (2, [0])  # the frames come free with the commit
    assert record.state is State.SWAPPED
    plan = machine.step()
    assert plan.decode.rows.tolist() == [0]
    back = []
    while machine.scheduler.unfinished:
        plan = machine.step()
        back.append(len(plan.swap_in))
        if len(plan.swap_in):
            assert plan.decode.rows.tolist() == [1]  # it decodes in the step that brings it back
    assert [count for count in back if count] == [2]
    assert record.computed_tokens == 6 + 2
    assert finished(machine) == [0, 1]
    assert machine.pager.stats().host_used == 0


def test_a_swap_that_does_not_fit_the_host_pool_is_a_recompute() -> None:
    machine = pair(preempt="swap", host_blocks=1)
    assert machine.step().preempted == (preemption("recompute", 6),)


@pytest.mark.parametrize(
    ("token_ns", "how", "lost_tokens"),
    [
        (10, "recompute", 6),
        (50, "recompute", 6),
        (51, "swap", 0),
    ],  # 6 tokens against 2 frames; a tie recomputes
)
def test_cheaper_shows_both_costs(token_ns: int, how: str, lost_tokens: int) -> None:
    machine = pair(preempt="cheaper", host_blocks=2, costs=Costs(token_ns, 150))
    expected = preemption(how, lost_tokens, recompute_ns=6 * token_ns, swap_ns=300)
    assert machine.step().preempted == (expected,)


def test_a_cheaper_swap_that_does_not_fit_is_a_recompute_and_shows_both() -> None:
    machine = pair(preempt="cheaper", host_blocks=1, costs=Costs(100, 1))
    expected = preemption("recompute", 6, recompute_ns=600, swap_ns=2)
    assert machine.step().preempted == (expected,)


@pytest.mark.parametrize("how", ["restart", "recompute"])
def test_costs_are_shown_where_they_decide_nothing(how: str) -> None:
    machine = pair(preempt=how, costs=Costs(10, 100))
    assert machine.step().preempted == (preemption(how, 6, recompute_ns=60, swap_ns=200),)


def test_the_cost_of_a_swap_is_that_of_the_frames_that_move() -> None:
    machine = executor(4, preempt="cheaper", caching=True, host_blocks=4, costs=Costs(1000, 10))
    machine.groups.update({0: 0, 1: 0})
    machine.scheduler.submit(request(0, 6, 6, BLOCK, group=0), 0)
    machine.step()
    machine.scheduler.submit(request(1, 7, 2, BLOCK, group=0), 1)
    machine.step()  # 1 shares the first block with 0: 3 of 4 frames are used
    assert machine.scheduler.record(1).hit_tokens == 4
    plan = machine.step()
    assert not plan.preempted
    machine.scheduler.submit(request(2, 1, 1, BLOCK), 3)
    machine.drain(20)


@pytest.mark.parametrize(("requeue", "order"), [("front", [2, 3]), ("back", [3, 2])])
def test_a_preempted_one_waits_at_the_front_or_at_the_back(requeue: str, order: list[int]) -> None:
    machine = executor(4, requeue=requeue, max_num_seqs=3)
    submit(machine, (4, 3), (1, 9), (6, 3), (1, 1))
    machine.step()
    assert waiting(machine) == [3]
    machine.step()
    assert running(machine) == [0, 1]
    assert waiting(machine) == order


def test_at_the_front_the_oldest_comes_first_whenever_it_was_preempted() -> None:
    machine = executor(8, victim="most_frames")
    submit(machine, (4, 6), (4, 12), (8, 6), (15, 6))
    machine.step()
    plan = machine.step()
    assert [record.request for record in plan.preempted] == [3]
    submit(machine, (1, 1))
    while len(machine.scheduler.waiting) < 3:
        plan = machine.step()
    assert waiting(machine)[-1] == 4
    assert waiting(machine)[:-1] == sorted(waiting(machine)[:-1])


def test_by_priority_a_preempted_one_stands_in_front_of_its_priority_only() -> None:
    machine = executor(3, policy="priority", victim="newest", max_num_seqs=2)
    submit(machine, (4, 5), (6, 3), (1, 1), (1, 1), priorities=(1, 1, 1, 2))
    machine.step()
    submit(machine, (2, 1), priorities=(0,))
    machine.step()
    assert waiting(machine) == [4, 1, 2, 3]


def test_swapped_and_waiting_ones_stand_in_one_line() -> None:
    machine = pair(preempt="swap", host_blocks=2, requeue="back")
    submit(machine, (8, 1), (1, 1))
    machine.step()  # 1 is swapped out, behind 2 and 3
    assert waiting(machine) == [2, 3]
    machine.drain(20)
    assert finished(machine) == [0, 2, 3, 1]
