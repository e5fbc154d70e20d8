"""Any requests, cancelled at any point, under any configuration: the plans keep their promises."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pagefault.errors import NeverFits
from pagefault.paging import Pager
from pagefault.scheduling import Scheduler, SchedulerConfig, StepResult
from scheduling.executor import Executor, request


class Costs:
    """Swapping is cheaper for long sequences, recomputing for short ones."""

    def recompute_ns(self, tokens: int) -> int:
        return tokens * tokens

    def swap_ns(self, frames: int) -> int:
        return 100 * frames


class SchedulerMachine(RuleBasedStateMachine):
    @initialize(
        options=st.fixed_dictionaries(
            {
                "admission": st.sampled_from(["watermark", "estimate", "max_output", "naive"]),
                "prefill": st.sampled_from(["chunked", "whole", "delivered"]),
                "policy": st.sampled_from(["fcfs", "priority"]),
                "first": st.sampled_from(["running", "waiting"]),
                "victim": st.sampled_from(
                    ["newest", "self", "oldest", "lowest_priority", "most_frames", "fewest_tokens"]
                ),
                "preempt": st.sampled_from(["recompute", "swap", "cheaper", "restart"]),
                "requeue": st.sampled_from(["front", "back"]),
                "reserve_full_prompt": st.booleans(),
                "watermark": st.sampled_from([0.0, 0.1, 0.5]),
                "max_num_seqs": st.integers(1, 5),
                "max_num_batched_tokens": st.sampled_from([7, 64]),
                "patience": st.integers(0, 3),
            }
        ),
        blocks=st.integers(6, 14),
        block_size=st.sampled_from([1, 2, 4]),
        host_blocks=st.sampled_from([3, 30]),
        spare_rows=st.integers(0, 4),
        caching=st.booleans(),
    )
    def start(
        self,
        options: dict[str, Any],
        blocks: int,
        block_size: int,
        host_blocks: int,
        spare_rows: int,
        caching: bool,
    ) -> None:
        longest = blocks * block_size
        config = SchedulerConfig(
            max_model_len=longest // (2 if options["admission"] == "naive" else 1), **options
        )
        pager = Pager(
            blocks,
            block_size,
            max_seqs=config.max_num_seqs + spare_rows,
            host_blocks=host_blocks,
            prefix_caching=caching,
        )
        self.groups: dict[int, int] = {}
        self.executor = Executor(Scheduler(config, pager, Costs()), self.groups)
        self.number = 0
        self.alive: dict[int, int] = {}  # id -> output tokens asked for

    @rule(
        prompt=st.integers(1, 30),
        output=st.integers(1, 12),
        group=st.integers(-1, 1),
        priority=st.integers(0, 2),
    )
    def submit(self, prompt: int, output: int, group: int, priority: int) -> None:
        executor, number = self.executor, self.number
        self.groups[number] = group
        made = request(number, prompt, output, executor.pager.block_size, group, priority=priority)
        before = executor.scheduler.unfinished
        try:
            executor.scheduler.submit(made, executor.now)
            self.alive[number] = output
        except NeverFits:
            assert executor.scheduler.unfinished == before
        self.number += 1

    @rule(times=st.integers(1, 6), ids=st.booleans())
    def steps(self, times: int, ids: bool) -> None:
        for _ in range(times):
            self.executor.step(ids)
        self.settle()

    @precondition(lambda self: self.alive)
    @rule(pick=st.integers(0, 100), during=st.booleans())
    def cancel(self, pick: int, during: bool) -> None:
        executor = self.executor
        number = sorted(self.alive)[pick % len(self.alive)]
        if during:  # while a plan is outstanding: it takes effect at the commit
            plan = executor.scheduler.plan(executor.now)
            executor.check_plan(plan)
            executor.execute(plan)
            executor.scheduler.cancel(number, executor.now)
            executor.scheduler.cancel(number, executor.now)
            executor.now += 1
            executor.finished += executor.scheduler.commit(StepResult(plan.step, executor.now))
        else:
            executor.scheduler.cancel(number, executor.now)
        executor.check()
        self.alive.pop(number, None)
        self.settle()

    def settle(self) -> None:
        """Who finished has all its tokens, and is forgotten."""
        for record in self.executor.finished:
            asked = self.alive.pop(record.request.id, None)
            if asked is not None:
                assert record.generated == asked
        self.executor.finished.clear()

    def teardown(self) -> None:
        if not hasattr(self, "executor"):
            return
        config = self.executor.scheduler.config
        if config.preempt == "restart" or config.requeue == "back":
            return  # no promise that these end
        self.executor.drain(4000)
        self.settle()
        assert not self.alive


def test_any_order_under_any_configuration() -> None:
    run_state_machine_as_test(
        SchedulerMachine,
        settings=settings(
            max_examples=500,
            stateful_step_count=25,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
