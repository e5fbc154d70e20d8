"""Who gives up its frames. Blocks hold 4 tokens; every situation is full to the last frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scheduling.situations import executor, finished, running, submit

if TYPE_CHECKING:
    from pagefault.scheduling import StepPlan
    from scheduling.executor import Executor

VICTIMS = ["self", "newest", "oldest", "lowest_priority", "most_frames", "fewest_tokens"]


def lost(plan: StepPlan) -> list[tuple[int, int]]:
    """(victim, for whom) of each preemption of a step."""
    return [(record.request, record.beneficiary) for record in plan.preempted]


def crowd(victim: str) -> Executor:
    """Six sequences in 12 blocks. In the second step only 0, the head, needs a frame, for its fifth token."""
    machine = executor(12, victim=victim, patience=0)
    submit(
        machine,
        (4, 20),
        (6, 20),  # 1: the oldest that is not the head
        (6, 20),  # 2: of the lowest priority
        (13, 20),  # 3: 4 frames
        (1, 20),  # 4: the least to compute again
        (6, 20),  # 5: the newest
        priorities=(0, 1, 9, 1, 1, 1),
    )
    assert not machine.step().preempted
    assert running(machine) == [0, 1, 2, 3, 4, 5]
    assert machine.pager.free_frames == 0
    return machine


@pytest.mark.parametrize(
    ("victim", "expected"),
    [
        ("self", 5),  # the head cannot give way: the newest does
        ("newest", 5),
        ("oldest", 1),
        ("lowest_priority", 2),
        ("most_frames", 3),
        ("fewest_tokens", 4),
    ],
)
def test_each_policy_picks_its_own(victim: str, expected: int) -> None:
    machine = crowd(victim)
    plan = machine.step()
    assert lost(plan) == [(expected, 0)]
    assert not plan.stalled.size
    assert running(machine) == [number for number in range(6) if number != expected]


@pytest.mark.parametrize("victim", ["lowest_priority", "most_frames", "fewest_tokens"])
def test_among_equals_the_one_admitted_last(victim: str) -> None:
    machine = executor(7, victim=victim)
    submit(machine, (4, 9), (6, 9), (6, 9), (6, 9))
    machine.step()
    assert lost(machine.step()) == [(3, 0)]


@pytest.mark.parametrize(
    ("victim", "expected"),
    [
        ("self", [(1, 1)]),
        ("newest", [(2, 1)]),
        ("oldest", [(1, 1)]),  # after the head it is the oldest itself
        ("lowest_priority", [(2, 1)]),
        ("most_frames", [(1, 1)]),  # 0 has as many, but is the head
        ("fewest_tokens", [(2, 1)]),
    ],
)
def test_where_another_than_the_head_faults(victim: str, expected: list[tuple[int, int]]) -> None:
    machine = executor(5, victim=victim, patience=0)
    submit(machine, (6, 9), (8, 9), (2, 9), priorities=(0, 1, 2))
    machine.step()
    assert lost(machine.step()) == expected


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("prompt", [12, 1])  # the most frames, the fewest tokens; the oldest in any case
def test_the_head_is_never_a_victim_and_served_in_every_step(victim: str, prompt: int) -> None:
    machine = executor(9, victim=victim, patience=0)
    submit(machine, (prompt, 16), *[(4, 20)] * 5)
    preemptions = 0
    for step in range(16):
        plan = machine.step()
        assert 0 not in [record.request for record in plan.preempted]
        preemptions += len(plan.preempted)
        if step < 15:
            assert machine.scheduler.record(0).generated == step + 1
    assert finished(machine) == [0]
    assert preemptions > 2


def test_by_lowest_priority_the_head_is_the_first_of_the_most_urgent() -> None:
    machine = executor(5, victim="lowest_priority")
    submit(machine, (8, 8), (4, 8), (5, 8), priorities=(2, 1, 1))
    machine.step()
    assert lost(machine.step()) == [(0, 1)]  # 0 is older and faults, too
    assert running(machine) == [1, 2]


def test_as_many_victims_as_it_takes() -> None:
    machine = executor(7, victim="lowest_priority", max_num_batched_tokens=16, reserve_full_prompt=False)
    submit(machine, (1, 9), (1, 9), (1, 9), priorities=(5, 5, 5))
    machine.step()
    submit(machine, (24, 2), priorities=(0,))
    machine.step()  # its first 13 tokens take the last 4 frames
    assert machine.pager.free_frames == 0
    plan = machine.step()  # it is the head; its other 11 tokens need 2 frames
    assert lost(plan) == [(2, 3), (1, 3)]
    assert running(machine) == [0, 3]
    assert plan.tokens == 11 + 1


def test_frames_promised_to_a_victim_go_to_those_that_still_need_them() -> None:
    machine = executor(6, victim="most_frames")
    submit(machine, (4, 9), (8, 9), (4, 9), (4, 9))
    machine.step()
    assert machine.pager.free_frames == 1
    # 0 takes the free frame; 1, with 2 the most, is its own victim; 2 and 3 take one each of what it gave.
    plan = machine.step()
    assert lost(plan) == [(1, 1)]
    assert running(machine) == [0, 2, 3]
    assert len(plan.decode) == 3


def test_patience_is_stalled_steps_in_a_row() -> None:
    machine = executor(2, victim="self", patience=2)
    submit(machine, (1, 7), (4, 4))
    machine.step()
    for step in range(2):
        plan = machine.step()
        assert plan.stalled.tolist() == [1]
        assert machine.scheduler.running.stalls[1] == step + 1
    plan = machine.step()  # the third in a row
    assert lost(plan) == [(1, 1)]
    assert not plan.stalled.size


def test_patience_starts_anew_with_each_frame() -> None:
    machine = executor(4, victim="self", patience=3)
    submit(machine, (2, 3), (4, 12), (4, 12))
    machine.step()  # all have their prompts: 3 frames
    machine.step()  # 1 takes the last frame, 2 stalls
    assert machine.scheduler.running.stalls[:3].tolist() == [0, 0, 1]
    machine.step()  # 0 ends with its third token
    assert finished(machine) == [0]
    machine.step()  # 2 has its frame
    assert machine.scheduler.running.stalls[:3].tolist() == [0, 0, 0]
    machine.step()
    machine.step()  # 1 is the head and faults in its ninth token: it has patience, too; nobody is preempted
    assert machine.step().stalled.size
    assert not machine.scheduler.record(2).preemptions


def test_self_with_restart_spares_nobody() -> None:
    machine = executor(2, victim="self", preempt="restart", patience=1)
    submit(machine, (4, 4), (4, 4))
    machine.step()
    assert machine.step().stalled.tolist() == [0, 1]
    plan = machine.step()
    assert lost(plan) == [(0, 0)]  # which lets 1 grow
    assert running(machine) == [1]
