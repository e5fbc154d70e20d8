"""What the scheduler refuses, and what it promises to those who drive it: ids, stop rules, token ids, cancelling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pagefault.errors import InputError, NeverFits
from pagefault.paging import BlockHasher, Pager
from pagefault.scheduling import Request, Scheduler, SchedulerConfig, State, StepResult


def make(blocks: int = 16, **config: Any) -> Scheduler:
    made = SchedulerConfig(**{"max_num_seqs": 4, "max_model_len": 64, "watermark": 0.0, **config})
    return Scheduler(made, Pager(blocks, 4, max_seqs=made.max_num_seqs))


def run(scheduler: Scheduler, ids: list[int] | None = None) -> list[int]:
    """One step; returns the rows that made a token."""
    plan = scheduler.plan(plan_number(scheduler))
    tokens = None if ids is None else np.array(ids[: len(plan.sampled_rows)])
    scheduler.commit(StepResult(plan.step, plan_number(scheduler) + 1, tokens))
    sampled: list[int] = plan.sampled_rows.tolist()
    return sampled


def plan_number(scheduler: Scheduler) -> int:
    return scheduler._step


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"watermark": 1.0}, "watermark is 1.0; expected a share of the pool.*try 0.05"),
        ({"watermark": -0.1}, "watermark is -0.1"),
        ({"max_num_seqs": 0}, "max_num_seqs is 0; expected an integer of at least 1"),
        ({"max_num_batched_tokens": 0}, "max_num_batched_tokens is 0"),
        ({"max_model_len": 1.5}, "max_model_len is 1.5"),
        ({"patience": -1}, "patience is -1"),
        ({"victim": "random"}, "victim is 'random'; expected one of self, newest"),
        ({"admission": "greedy"}, "admission is 'greedy'; expected one of naive"),
        ({"preempt": "kill"}, "preempt is 'kill'; expected one of restart"),
    ],
)
def test_a_configuration_that_cannot_be(config: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SchedulerConfig(**config)


def test_a_pager_that_does_not_go_with_it() -> None:
    pager = Pager(8, 4, max_seqs=2)
    with pytest.raises(
        InputError, match="max_num_seqs is 256, but the pager has 2 rows; make it with max_seqs=256"
    ):
        Scheduler(SchedulerConfig(), pager)
    with pytest.raises(InputError, match="preempt='swap' needs host frames; give the pager host_blocks"):
        Scheduler(SchedulerConfig(max_num_seqs=2, preempt="swap"), pager)
    with pytest.raises(InputError, match="give the scheduler a cost object"):
        Scheduler(SchedulerConfig(max_num_seqs=2, preempt="cheaper"), Pager(8, 4, max_seqs=2, host_blocks=4))


@pytest.mark.parametrize(
    ("config", "prompt", "output", "message"),
    [
        ({}, 60, 5, "is longer than max_model_len 64; raise it or cut the request"),
        ({"max_model_len": 100}, 70, 5, "needs 19 blocks for 74 tokens.*give the pool at least 19 blocks"),
        (
            {"admission": "naive", "max_model_len": 100},
            1,
            1,
            r"needs 25 blocks for 100 tokens \(naive reserves",
        ),
        (
            {"prefill": "whole", "max_num_batched_tokens": 30},
            20,
            20,
            "39 tokens in one step.*use chunked prefill",
        ),
    ],
)
def test_what_could_never_run_is_refused_at_once(
    config: dict[str, Any], prompt: int, output: int, message: str
) -> None:
    scheduler = make(**config)
    with pytest.raises(NeverFits, match=message):
        scheduler.submit(Request(1, prompt, output), 0)
    assert scheduler.unfinished == 0
    assert scheduler.plan(0).empty


def test_a_request_that_asks_for_nothing() -> None:
    for prompt, output in ((0, 1), (1, 0)):
        with pytest.raises(InputError):
            Request(1, prompt, output)


def test_plans_and_results_alternate() -> None:
    scheduler = make()
    scheduler.submit(Request(1, 5, 3), 0)
    with pytest.raises(InputError, match="got the result of step 1, but none is outstanding"):
        scheduler.commit(StepResult(1, 0))
    plan = scheduler.plan(0)
    with pytest.raises(InputError, match="step 1 is outstanding; commit its result first"):
        scheduler.plan(0)
    with pytest.raises(InputError, match="got the result of step 2, but step 1 is outstanding"):
        scheduler.commit(StepResult(2, 1))
    with pytest.raises(
        InputError, match=r"step 1 samples 1 rows, but its result has token_ids of shape \(2,\)"
    ):
        scheduler.commit(StepResult(1, 1, np.array([4, 5])))
    assert scheduler.commit(StepResult(plan.step, 1, np.array([4]))) == []
    assert scheduler.record(1).token_ids == [4]


def test_ids_are_unique_among_the_unfinished() -> None:
    scheduler = make()
    scheduler.submit(Request(1, 5, 1), 0)
    with pytest.raises(InputError, match="request id 1 is taken"):
        scheduler.submit(Request(1, 5, 1), 0)
    run(scheduler)
    with pytest.raises(InputError, match="no unfinished request has the id 1"):
        scheduler.record(1)
    scheduler.submit(Request(1, 5, 1), 0)  # free again


def test_a_stop_id_ends_a_sequence_and_is_kept() -> None:
    scheduler = make()
    record = scheduler.submit(Request(1, 5, 10, stop_ids=frozenset({9})), 0)
    for token in (3, 4, 9):
        assert record.state is not State.FINISHED
        run(scheduler, [token])
    assert record.state is State.FINISHED
    assert record.token_ids == [3, 4, 9]
    assert record.generated == 3


def test_generated_blocks_are_found_by_the_next_request() -> None:
    """A conversation: its second turn begins with the first turn's prompt and answer."""
    scheduler = make()
    prompt, answer = [7, 7, 7, 7, 7, 7], [1, 2, 3, 4, 5, 6, 8]
    hasher = BlockHasher(4)
    keys = hasher.update(prompt)
    scheduler.submit(Request(1, len(prompt), len(answer), keys=keys, hasher=hasher), 0)
    for token in answer:
        run(scheduler, [token])
    both = [*prompt, *answer, 50, 51]
    hasher = BlockHasher(4)
    second = scheduler.submit(Request(2, len(both), 2, keys=hasher.update(both), hasher=hasher), 0)
    run(scheduler, [1])
    # The last token of the answer was never stored, so the block that it would fill is not there: 12 of 13.
    assert second.hit_tokens == 12
    assert second.repeated_hit_tokens == 0


def test_cancelling_wherever_a_sequence_is() -> None:
    scheduler = Scheduler(
        SchedulerConfig(
            max_num_seqs=2, max_num_batched_tokens=8, max_model_len=40, watermark=0.0, preempt="swap"
        ),
        Pager(10, 4, max_seqs=4, host_blocks=10),
    )
    records = [scheduler.submit(Request(i, 12, 20), 0) for i in range(4)]
    with pytest.raises(InputError, match="no unfinished request has the id 9"):
        scheduler.cancel(9, 0)
    scheduler.cancel(3, 5)  # in line
    assert (records[3].state, records[3].finished_ns) == (State.CANCELLED, 5)
    run(scheduler)
    assert records[0].state is State.RUNNING
    assert records[0].generated == 0
    while records[1].state is not State.SWAPPED:
        run(scheduler)
    scheduler.cancel(1, 6)  # swapped out
    plan = scheduler.plan(7)
    scheduler.cancel(0, 7)  # while a step runs: it ends with the step, and once
    scheduler.cancel(0, 7)
    assert records[0].state is State.RUNNING
    scheduler.commit(StepResult(plan.step, 8))
    assert str(records[0].state) == "cancelled"
    while scheduler.unfinished:
        run(scheduler)
    assert records[2].state is State.FINISHED
    stats = scheduler.pager.stats()
    assert (stats.used, stats.host_used, stats.in_flight, stats.sequences) == (0, 0, 0, 0)
    scheduler.pager.check()
