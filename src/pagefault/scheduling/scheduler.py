"""The scheduler: a pure state machine over the pager. Time comes in as a number; what to do goes out as a plan.

A step is `plan(now)` then `commit(result)`. Within `plan`, the running sequences grow (`advancing`: those that
fault without a free frame stall or cost a victim its frames), and those in line come in (`entering`), swapped-out
and waiting ones; which of the two goes first is configured.

**No livelock.** The *head* is the running sequence that was submitted first (where victims are chosen by priority,
the first of the most urgent). It is served first, and it is nobody's victim: it keeps what it has. When it faults,
others lose their frames until it has its own; alone it fits, or it would have been refused. It stays the head until
it ends or an older one comes in, and between two of its terms an older one must have ended. So the i-th oldest has
at most i terms, none longer than the sᵢ steps that it takes alone, at most ⌈(prompt + output) / max_num_batched_tokens⌉
+ output. Where nobody runs, the first in line comes in. Therefore n requests end within w · n · Σ sᵢ steps, for any
victims, preemption and order of the line, where w is how long the head may wait for one step of its own:

- w = 1 + `patience` for ``self`` (otherwise 0) + 1 if frames are swapped, as they come free a step later;
- with the ``waiting`` ones first, (w + 1)(n + 1): they may take a step's tokens, and who just came in is not a victim.

``self`` with ``restart``, the write-up's rule, knows no head and promises nothing. Tests hold the scheduler to this.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Protocol

import numpy as np

from pagefault.errors import InputError
from pagefault.scheduling.admission import AdmissionControl
from pagefault.scheduling.advancing import Advance
from pagefault.scheduling.entering import Entry
from pagefault.scheduling.preempting import Preemptor
from pagefault.scheduling.running import RunningSet
from pagefault.scheduling.sequence import SequenceRecord, State
from pagefault.scheduling.step import Step
from pagefault.scheduling.waiting import WaitingQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from pagefault.paging import Pager
    from pagefault.scheduling.config import SchedulerConfig
    from pagefault.scheduling.plan import StepPlan, StepResult
    from pagefault.scheduling.sequence import Request

    Ints = NDArray[np.int64]


class PreemptionCosts(Protocol):
    """What preempting a sequence would cost; handed in, because the scheduler knows no hardware."""

    def recompute_ns(self, tokens: int) -> int:
        """Nanoseconds to compute so many tokens again."""
        ...

    def swap_ns(self, frames: int) -> int:
        """Nanoseconds to copy so many frames to the host and back."""
        ...


@dataclass(frozen=True, slots=True)
class SequenceEvent:
    """Something happened to a sequence.

    Attributes:
        time_ns: When.
        kind: ``queued``, ``admitted``, ``first_token``, ``preempted``, ``resumed``, ``finished`` or ``cancelled``.
        sequence: To whom; its record as of now.
    """

    time_ns: int
    kind: str
    sequence: SequenceRecord


class Scheduler:
    """Decides admission, growth, victims. Not thread-safe: one thread drives it.

    Args:
        config: How to decide.
        pager: Whose frames they are. Its `max_seqs` must be at least `config.max_num_seqs` (more, to have rows for
            swapped-out sequences). The scheduler is the only one that grows and commits it.
        costs: What preemption costs; needed for ``cheaper``, shown in the records otherwise.
        listener: Called with every `SequenceEvent`, in order.
        track_updates: Put the block table's changes into each plan, for an executor with a copy of it.

    Raises:
        InputError: ``cheaper`` without costs, ``swap`` without host frames, or too few rows.
    """

    def __init__(
        self,
        config: SchedulerConfig,
        pager: Pager,
        costs: PreemptionCosts | None = None,
        listener: Callable[[SequenceEvent], None] | None = None,
        track_updates: bool = False,
    ) -> None:
        if config.preempt == "cheaper" and costs is None:
            raise InputError("preempt='cheaper' compares two costs; give the scheduler a cost object")
        if config.preempt in ("swap", "cheaper") and not pager.stats().host_blocks:
            raise InputError(
                f"preempt={config.preempt!r} needs host frames; give the pager host_blocks, or use 'recompute'"
            )
        if pager.max_seqs < config.max_num_seqs:
            raise InputError(
                f"max_num_seqs is {config.max_num_seqs}, but the pager has {pager.max_seqs} rows; "
                f"make it with max_seqs={config.max_num_seqs}"
            )
        self.config = config
        self.pager = pager
        tickets = count()
        self.waiting = WaitingQueue(config, tickets)
        self.swapped = WaitingQueue(config, tickets)
        self.running = RunningSet(pager.max_seqs)
        self.admission = AdmissionControl(config, pager)
        # KV that was delivered, or that lies in one run of frames, is shared with nobody.
        self.uses_prefixes = (
            pager.prefix_caching and config.prefill != "delivered" and config.admission != "naive"
        )
        self.head_waits = False  # the head got no frames in the last step
        self._preemptor = Preemptor(config, pager, costs)
        self._listener = listener
        self._track_updates = track_updates
        self._sequences: dict[int, SequenceRecord] = {}
        self._outstanding: StepPlan | None = None
        self._cancelled: list[SequenceRecord] = []
        self._submitted = 0
        self._step = 0

    @property
    def unfinished(self) -> int:
        """Sequences that were submitted and have not ended."""
        return len(self._sequences)

    def record(self, request_id: int) -> SequenceRecord:
        """The record of an unfinished sequence, up to date.

        Raises:
            InputError: No unfinished request has this id.
        """
        if request_id not in self._sequences:
            raise InputError(f"no unfinished request has the id {request_id}")
        sequence = self._sequences[request_id]
        if sequence.state is State.RUNNING:
            self.running.sync(sequence)
        return sequence

    def submit(self, request: Request, now_ns: int) -> SequenceRecord:
        """Put a request in line.

        Raises:
            NeverFits: At its longest it would not fit `max_model_len`, the pool, or, with ``whole`` prefill, its
                prompt the token budget. Nothing has changed.
            InputError: An unfinished request has the same id.
        """
        if request.id in self._sequences:
            raise InputError(f"request id {request.id} is taken by an unfinished request")
        self.admission.refuse(request)
        sequence = SequenceRecord(request, self._submitted, now_ns)
        sequence.forget_output()
        self._submitted += 1
        self._sequences[request.id] = sequence
        self.waiting.push(sequence)
        self.emit(now_ns, "queued", sequence)
        return sequence

    def plan(self, now_ns: int) -> StepPlan:
        """Decide the next step and take the frames it needs.

        Raises:
            InputError: The last plan has not been committed.
        """
        if self._outstanding is not None:
            raise InputError(f"step {self._outstanding.step} is outstanding; commit its result first")
        step = Step(self, self._preemptor, now_ns)
        parts = (
            (Entry(step), Advance(step)) if self.config.first == "waiting" else (Advance(step), Entry(step))
        )
        for part in parts:
            part()
        self._step += 1
        plan = step.build(self._step, self.pager.drain_updates() if self._track_updates else None)
        self._outstanding = plan
        return plan

    def commit(self, result: StepResult) -> list[SequenceRecord]:
        """The step has run: take its tokens, apply the stop rules, give back what finished.

        Returns:
            Sequences that finished, in order of admission.

        Raises:
            InputError: It is not the outstanding plan's result, or it has not one token a sampled row.
        """
        plan = self._outstanding
        if plan is None or plan.step != result.step:
            planned = "none is" if plan is None else f"step {plan.step} is"
            raise InputError(f"got the result of step {result.step}, but {planned} outstanding")
        sampled = plan.sampled_rows
        if result.token_ids is not None and result.token_ids.shape != sampled.shape:
            raise InputError(
                f"step {plan.step} samples {sampled.size} rows, but its result has token_ids of shape "
                f"{result.token_ids.shape}"
            )
        self._outstanding = None
        self.pager.commit()
        finished = self._take_tokens(plan, sampled, result)
        for sequence in self._cancelled:
            if sequence.state not in (State.FINISHED, State.CANCELLED):
                self._drop(sequence, result.time_ns)
        self._cancelled.clear()
        return finished

    def cancel(self, request_id: int, now_ns: int) -> None:
        """End a sequence wherever it is: now, or when the outstanding step is committed, unless that finishes it.

        Raises:
            InputError: No unfinished request has this id.
        """
        sequence = self.record(request_id)
        if self._outstanding is not None:
            self._cancelled.append(sequence)
        else:
            self._drop(sequence, now_ns)

    def next_in_line(self) -> SequenceRecord | None:
        """Who comes in next: the first of the waiting and the swapped-out ones, None if there is none."""
        line = [
            (queue.key(first), first)
            for queue in (self.waiting, self.swapped)
            if (first := queue.peek()) is not None
        ]
        return min(line)[1] if line else None

    def emit(self, time_ns: int, kind: str, sequence: SequenceRecord) -> None:
        """Tell the listener."""
        if self._listener is not None:
            self._listener(SequenceEvent(time_ns, kind, sequence))

    # --- within --------------------------------------------------------------------------------------

    def _take_tokens(self, plan: StepPlan, sampled: Ints, result: StepResult) -> list[SequenceRecord]:
        running, pager, now = self.running, self.pager, result.time_ns
        if self.uses_prefixes:
            rows = np.concatenate((plan.decode.rows, plan.prefill.rows))
            pager.mark_computed(rows, pager.lengths[rows])  # a step computes whatever a row grew by
        running.known[sampled] += 1
        running.generated[sampled] += 1
        if result.token_ids is not None:
            self._store_ids(sampled, result.token_ids)
        for row in sampled[running.generated[sampled] == 1].tolist():
            sequence = running.sequence(row)
            if sequence.first_token_ns is None:
                sequence.first_token_ns = now
                running.sync(sequence)
                self.emit(now, "first_token", sequence)
        done = sampled[running.generated[sampled] >= running.limit[sampled]]
        if not done.size:
            return []
        in_order = running.rows[np.isin(running.rows, done)]
        finished = [running.sequence(row) for row in in_order.tolist()]
        for sequence in finished:
            self.running.sync(sequence)
            self.admission.learn(sequence.generated)
            self._end(sequence, State.FINISHED, now)
        running.remove(in_order)
        pager.release(in_order)
        return finished

    def _store_ids(self, sampled: Ints, token_ids: Ints) -> None:
        """Keep the tokens, apply the stop ids, and make the keys of the blocks they filled."""
        for row, token in zip(sampled.tolist(), token_ids.tolist(), strict=True):
            sequence = self.running.sequence(row)
            sequence.token_ids.append(token)
            if token in sequence.request.stop_ids:
                self.running.limit[row] = self.running.generated[row]
            if sequence.hasher is not None:
                keys = sequence.hasher.update([token])
                if len(keys):
                    sequence.add_keys(keys)
                    self.pager.extend_keys(row, keys)

    def _drop(self, sequence: SequenceRecord, now_ns: int) -> None:
        if sequence.state is State.RUNNING:
            self.running.sync(sequence)
            self.running.remove(np.array([sequence.row]))
            self.pager.release(sequence.row)
        elif sequence.state is State.SWAPPED:
            self.swapped.remove(sequence)
            self.pager.release(sequence.row)
        else:
            self.waiting.remove(sequence)
        self._end(sequence, State.CANCELLED, now_ns)

    def _end(self, sequence: SequenceRecord, state: State, now_ns: int) -> None:
        sequence.state, sequence.finished_ns, sequence.row = state, now_ns, -1
        del self._sequences[sequence.request.id]
        self.emit(now_ns, str(state), sequence)
