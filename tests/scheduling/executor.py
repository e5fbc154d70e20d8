"""A small executor for tests: does what a plan says to a pool of tokens, and checks the plan while it does.

The content of a slot is the token that was written there: ``request id * 10**6 + position``, or for the part of a
prompt that several requests share, its group's number in place of the id. What a sequence stored is read back through
its page table after every step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pagefault.paging import Pager, keys_from_ids, private_keys
from pagefault.scheduling import Request, Scheduler, State, StepPlan, StepResult

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pagefault.scheduling import SequenceRecord

GROUP = 10**9  # content of shared prompts starts here


def request(
    number: int, prompt: int, output: int, block_size: int, group: int = -1, priority: int = 0
) -> Request:
    """A request whose prompt is that of its group, as far as whole blocks go, or its own."""
    blocks = (prompt + output) // block_size
    keys = private_keys(number, 0, blocks)
    if group >= 0:
        shared = keys_from_ids(np.full(prompt // block_size, group), block_size, block_size)
        keys = np.concatenate((shared, keys[len(shared) :]))
    return Request(number, prompt, output, keys=keys, priority=priority)


class Executor:
    """Plays plans on arrays of tokens, device and host, and holds the scheduler to its word."""

    def __init__(self, scheduler: Scheduler, groups: dict[int, int]) -> None:
        self.scheduler = scheduler
        self.pager: Pager = scheduler.pager
        size = self.pager.block_size
        stats = self.pager.stats()
        self.device = np.full((stats.num_blocks, size), -1, np.int64)
        self.host = np.full((max(stats.host_blocks, 1), size), -1, np.int64)
        self.groups = groups
        self.now = 0
        self.steps = 0
        self.finished: list[SequenceRecord] = []

    def content(self, sequence: SequenceRecord, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """What a sequence's tokens at these positions are."""
        own = sequence.request.id * 10**6 + positions
        group = self.groups.get(sequence.request.id, -1)
        shared = sequence.request.prompt_tokens // self.pager.block_size * self.pager.block_size
        return np.where((group >= 0) & (positions < shared), GROUP + group * 10**6 + positions, own)

    def step(self, ids: bool = False) -> StepPlan:
        """One step: plan, check, execute, commit, check."""
        plan = self.scheduler.plan(self.now)
        self.check_plan(plan)
        self.execute(plan)
        self.now += 1
        self.steps += 1
        tokens = np.arange(len(plan.sampled_rows)) if ids else None
        self.finished += self.scheduler.commit(StepResult(plan.step, self.now, tokens))
        self.check()
        return plan

    def check_plan(self, plan: StepPlan) -> None:
        """What every plan promises."""
        config, running = self.scheduler.config, self.scheduler.running
        rows = np.concatenate((plan.prefill.rows, plan.decode.rows))
        assert len(set(rows.tolist())) == len(rows), "a row computes twice"
        assert not set(rows.tolist()) & set(plan.stalled.tolist()), "a row computes and stalls"
        assert set(rows.tolist()) <= set(running.rows.tolist()), "a row computes and does not run"
        assert plan.tokens <= config.max_num_batched_tokens
        assert plan.running == len(running) <= config.max_num_seqs
        for chunks in (plan.prefill, plan.decode):
            assert (chunks.counts > 0).all()
            assert (chunks.starts + chunks.counts == self.pager.lengths[chunks.rows]).all()
            assert (chunks.samples == (self.pager.lengths[chunks.rows] == running.known[chunks.rows])).all()
        assert plan.decode.samples.all()
        assert (plan.decode.counts == 1).all()
        assert (self.pager.lengths[running.rows] <= running.known[running.rows]).all()

    def execute(self, plan: StepPlan) -> None:
        """Swap out, swap in, copies, writes, in this order; then read everything back."""
        self.host[plan.swap_out.dst] = self.device[plan.swap_out.src]
        self.device[plan.swap_in.dst] = self.host[plan.swap_in.src]
        self.device[plan.copies.dst] = self.device[plan.copies.src]
        running = self.scheduler.running
        slots = self.device.reshape(-1)
        if self.scheduler.config.prefill == "delivered":
            for row in running.rows.tolist():  # what was delivered at admission
                sequence = running.sequence(row)
                length = int(self.pager.lengths[row])
                slots[self.pager.slots_at(row, 0, length)] = self.content(sequence, np.arange(length))
        for chunks in (plan.prefill, plan.decode):
            for row, start, count in zip(
                chunks.rows.tolist(), chunks.starts.tolist(), chunks.counts.tolist(), strict=True
            ):
                positions = np.arange(start, start + count)
                slots[self.pager.slots(row, count)] = self.content(running.sequence(row), positions)
        for row in running.rows.tolist():
            length = int(self.pager.lengths[row])
            stored = slots[self.pager.slots_at(row, 0, length)]
            expected = self.content(running.sequence(row), np.arange(length))
            assert (stored == expected).all(), f"row {row} reads back something else than it wrote"

    def check(self) -> None:
        """The pager's invariants, and that every unfinished sequence is in exactly one place."""
        self.pager.check()
        scheduler = self.scheduler
        running = [scheduler.running.sequence(row) for row in scheduler.running.rows.tolist()]
        waiting, swapped = list(scheduler.waiting), scheduler.swapped
        places = [sequence.number for sequence in (*running, *waiting, *swapped)]
        assert len(places) == len(set(places)) == scheduler.unfinished
        assert all(sequence.state is State.RUNNING for sequence in running)
        assert all(sequence.state in (State.QUEUED, State.PREEMPTED) for sequence in waiting)
        assert all(sequence.state is State.SWAPPED for sequence in swapped)

    def drain(self, most: int) -> None:
        """Run until everything has ended, in at most so many steps; then nothing is held."""
        for _ in range(most):
            if not self.scheduler.unfinished:
                break
            self.step()
        assert self.scheduler.unfinished == 0, f"not done after {most} steps"
        stats = self.pager.stats()
        assert (stats.used, stats.in_flight, stats.host_used, stats.sequences) == (0, 0, 0, 0)
