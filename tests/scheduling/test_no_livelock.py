"""Every run ends, within the bound that the scheduler's own text states; long prompts do not starve decode."""

from __future__ import annotations

from itertools import product
from typing import Any, get_args

import numpy as np
import pytest

from pagefault.paging import Pager
from pagefault.scheduling import Request, Scheduler, SchedulerConfig, StepResult
from pagefault.scheduling.config import Preempt, Victim
from scheduling.executor import Executor, request

BUDGET, BLOCKS, BLOCK_SIZE, PATIENCE = 16, 12, 4, 2


class Costs:
    """Sometimes one is cheaper, sometimes the other."""

    def recompute_ns(self, tokens: int) -> int:
        return 10 * tokens

    def swap_ns(self, frames: int) -> int:
        return 60 * frames - 100


def bound(config: SchedulerConfig, requests: list[Request]) -> int:
    """w · n · Σ sᵢ, or with the waiting ones first (w + 1)(n + 1) · n · Σ sᵢ: the text of `scheduler`."""
    n = len(requests)
    alone = sum(-(-(r.prompt_tokens + r.max_tokens) // BUDGET) + r.max_tokens for r in requests)
    swaps = config.preempt in ("swap", "cheaper")
    waits = 1 + (config.patience if config.victim == "self" else 0) + swaps
    return (waits if config.first == "running" else (waits + 1) * (n + 1)) * n * alone


@pytest.mark.parametrize(
    ("victim", "preempt", "requeue", "first"),
    [
        combination
        for combination in product(
            get_args(Victim), get_args(Preempt), ("front", "back"), ("running", "waiting")
        )
        if combination[:2] != ("self", "restart")  # the write-up's rule promises nothing
    ],
)
def test_a_tight_pool_ends_within_the_bound(victim: Any, preempt: Any, requeue: Any, first: Any) -> None:
    config = SchedulerConfig(
        max_num_seqs=6, max_num_batched_tokens=BUDGET, max_model_len=BLOCKS * BLOCK_SIZE, watermark=0.0,
        victim=victim, preempt=preempt, requeue=requeue, first=first, patience=PATIENCE,
    )  # fmt: skip
    pager = Pager(BLOCKS, BLOCK_SIZE, max_seqs=10, host_blocks=8)
    executor = Executor(Scheduler(config, pager, Costs()), groups={})
    random = np.random.default_rng(7)
    requests = [
        request(
            number, int(random.integers(1, 20)), int(random.integers(8, 28)), BLOCK_SIZE, priority=number % 3
        )
        for number in range(9)
    ]
    for each in requests:
        executor.scheduler.submit(each, 0)
    executor.drain(bound(config, requests))  # fails if it takes longer; and nothing is held at its end
    preemptions = sum(len(record.preemptions) for record in executor.finished)
    assert preemptions > 0, "the pool was not tight"
    assert [record.generated for record in sorted(executor.finished, key=lambda r: r.request.id)] == [
        each.max_tokens for each in requests
    ]


@pytest.mark.parametrize("reserve_full_prompt", [True, False])
def test_four_prompts_of_100k_tokens_do_not_starve_decode(reserve_full_prompt: bool) -> None:
    """One of them fits the pool at a time. Whoever decodes when they come gets a token in every step."""
    long, short, blocks = 100_000, 200, 7_500
    config = SchedulerConfig(
        max_model_len=blocks * 16, watermark=0.01, reserve_full_prompt=reserve_full_prompt
    )
    pager = Pager(blocks, 16, max_seqs=256, max_seq_len=blocks * 16, prefix_caching=False)
    scheduler = Scheduler(config, pager)
    early = [scheduler.submit(Request(i, short, 300), 0) for i in range(20)]
    longs = [scheduler.submit(Request(100 + i, long, 20), 0) for i in range(4)]
    late = [scheduler.submit(Request(200 + i, short, 50), 0) for i in range(20)]
    made_nothing = longest_gap = steps = 0
    while scheduler.unfinished:
        plan = scheduler.plan(steps)
        steps += 1
        assert steps < 5_000, "it does not end"
        made_nothing = made_nothing + 1 if not len(plan.sampled_rows) else 0
        longest_gap = max(longest_gap, made_nothing)
        scheduler.commit(StepResult(plan.step, steps))
    for record in early:  # a token a step, from the first to the last
        assert record.first_token_ns is not None
        assert record.finished_ns is not None
        assert not record.preemptions
        assert record.finished_ns - record.first_token_ns == 299
    # Without anybody decoding, a long prompt is computed in chunks of the whole budget.
    assert longest_gap <= -(-long // config.max_num_batched_tokens)
    assert all(record.generated == record.request.max_tokens for record in (*early, *longs, *late))
    assert pager.stats().used == 0
