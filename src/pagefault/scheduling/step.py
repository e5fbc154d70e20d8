"""One step in the making: what has been decided so far, and the plan that comes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pagefault.scheduling.plan import Chunks, StepPlan, join_chunks, join_copies
from pagefault.scheduling.sequence import State

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pagefault.paging import FrameCopies, TableUpdates
    from pagefault.scheduling.preempting import Preemptor
    from pagefault.scheduling.scheduler import Scheduler
    from pagefault.scheduling.sequence import Preemption, SequenceRecord

    Ints = NDArray[np.int64]


class Step:
    """Frames are taken as decisions fall; nothing runs yet.

    Attributes:
        scheduler: Whose step it is; `config`, `pager` and `running` are its own.
        now_ns: When it is planned.
        budget: Tokens that may still be scheduled.
        fresh: Rows that came in during this step. They are nobody's victims in it: they grew already.
        scheduled: Those of them that have their chunk.
        stalled: Rows that want to compute and get no frame.
        preempted: Who lost its frames, in order.
    """

    def __init__(self, scheduler: Scheduler, preemptor: Preemptor, now_ns: int) -> None:
        self.scheduler = scheduler
        self.config = scheduler.config
        self.pager = scheduler.pager
        self.running = scheduler.running
        self.now_ns = now_ns
        self.budget = scheduler.config.max_num_batched_tokens
        self.fresh: set[int] = set()
        self.scheduled: set[int] = set()
        self.stalled: list[int] = []
        self.preempted: list[Preemption] = []
        self._preemptor = preemptor
        self._chunks: list[Chunks] = []
        self._copies: list[FrameCopies] = []
        self._swap_out: list[FrameCopies] = []
        self._swap_in: list[FrameCopies] = []

    def grow(self, rows: Ints, take: Ints) -> None:
        """These rows compute so many tokens each; the frames for them are there."""
        starts = self.pager.lengths[rows]
        growth = self.pager.grow(rows, take)
        if len(growth.copies):
            self._copies.append(growth.copies)
        samples = starts + take == self.running.known[rows]
        self._chunks.append(Chunks(rows, starts, take, samples))
        self.budget -= int(take.sum())

    def enter(self, sequence: SequenceRecord) -> None:
        """A sequence that has its row now runs. Where KV is delivered, it stores one token more than it knows."""
        again = bool(sequence.preemptions)
        sequence.state = State.RUNNING
        self.running.add(sequence, sequence.tokens + (self.config.prefill == "delivered"))
        self.fresh.add(sequence.row)
        self.scheduler.emit(self.now_ns, "resumed" if again else "admitted", sequence)

    def swap_in(self, sequence: SequenceRecord) -> None:
        """Frames of a swapped-out sequence come back to the device."""
        self._swap_in.append(self.pager.swap_in(sequence.row))
        self.scheduler.swapped.remove(sequence)

    def preempt(self, victim: int, faulting: int) -> int:
        """Take a running row's frames; returns how many of them come free only with the commit."""
        sequence, beneficiary = self.running.sequence(victim), self.running.sequence(faulting)
        self.running.sync(sequence)
        self.running.remove(np.array([victim]))
        if victim in self.stalled:
            self.stalled.remove(victim)
        return self._take_frames(sequence, beneficiary)

    def drop_swapped(self, beneficiary: SequenceRecord) -> bool:
        """Make room at the cost of a swapped-out sequence, when there is nobody left to preempt.

        Swapped-out sequences keep the frames that they share on the device, and their rows. The last in line of
        those in the way is to be computed again; False if there is none.
        """
        wants_row = beneficiary.row < 0 and not self.pager.free_rows
        pages = self.pager.pages
        in_the_way = [
            sequence
            for sequence in self.scheduler.swapped
            if sequence is not beneficiary and (wants_row or pages[sequence.row])
        ]
        if in_the_way:
            self.scheduler.swapped.remove(in_the_way[-1])
            self._take_frames(in_the_way[-1], beneficiary)
        return bool(in_the_way)

    def _take_frames(self, sequence: SequenceRecord, beneficiary: SequenceRecord) -> int:
        record, copies = self._preemptor.preempt(sequence, beneficiary, self.now_ns)
        self.preempted.append(record)
        if copies is None:
            self.scheduler.waiting.push(sequence, preempted=True)
        else:
            self.scheduler.swapped.push(sequence, preempted=True)
            self._swap_out.append(copies)
        self.scheduler.emit(self.now_ns, "preempted", sequence)
        return 0 if copies is None else len(copies)

    def build(self, number: int, updates: TableUpdates | None) -> StepPlan:
        """The finished plan."""
        chunks = join_chunks(self._chunks)
        self.running.computed[chunks.rows] += chunks.counts
        decoding = chunks.samples & (chunks.counts == 1)
        if self.config.prefill != "delivered":
            decoding &= self.running.generated[chunks.rows] > 0
        return StepPlan(
            step=number,
            prefill=chunks.where(~decoding),
            decode=chunks.where(decoding),
            stalled=np.array(self.stalled, np.int64),
            preempted=tuple(self.preempted),
            swap_out=join_copies(self._swap_out),
            swap_in=join_copies(self._swap_in),
            copies=join_copies(self._copies),
            updates=updates,
            running=len(self.running),
        )
