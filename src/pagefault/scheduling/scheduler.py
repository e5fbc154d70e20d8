"""The scheduler: a pure state machine over the pager. Time comes in as a number; what to do goes out as a plan.

A step is `plan(now)` then `commit(result)`. Within `plan`, the running sequences grow (in order of admission,
those that fault without a free frame stall or cost a victim its frames), swapped ones come back, and waiting
ones are admitted; which of the two goes first is configured.

**No livelock.** The head, the running sequence that was submitted first, is never another one's victim
(`victims.choose`), so it advances in every step that has a token left for it and keeps what it has.
With `requeue` ``front`` nobody new overtakes a preempted sequence, so the first unfinished one is either the head
or the next to be admitted, at the latest when the running ones have finished. n requests that take s₁ … sₙ
steps alone (chunks of the prompt and its output again, plus one token each) therefore end within n · Σ sᵢ
steps, whatever the victims; tests hold the scheduler to it. With ``self`` and ``recompute`` the bound holds
times `patience` + 1. ``restart`` and requeueing at the ``back`` (the write-up's rules) give no such promise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from pagefault.errors import InputError, NeverFits
from pagefault.scheduling.admission import AdmissionControl
from pagefault.scheduling.preempting import Preemptor
from pagefault.scheduling.running import RunningSet
from pagefault.scheduling.sequence import SequenceRecord, State
from pagefault.scheduling.step import StepBuilder
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
        self.waiting = WaitingQueue(config)
        self.swapped: list[SequenceRecord] = []
        self.running = RunningSet(pager.max_seqs)
        self.admission = AdmissionControl(config, pager)
        self._preemptor = Preemptor(config, pager, costs)
        self._listener = listener
        self._track_updates = track_updates
        self._sequences: dict[int, SequenceRecord] = {}
        self._outstanding: StepPlan | None = None
        self._cancelled: list[tuple[SequenceRecord, int]] = []
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
        self._refuse_what_never_fits(request)
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
        step = StepBuilder(self, self._preemptor, now_ns)
        if self.config.first == "waiting":
            step.admit()
            step.advance()
        else:
            step.advance()
            step.admit()
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
        for sequence, when in self._cancelled:
            if sequence.state not in (State.FINISHED, State.CANCELLED):
                self._drop(sequence, when)
        self._cancelled.clear()
        return finished

    def cancel(self, request_id: int, now_ns: int) -> None:
        """End a sequence wherever it is. Its frames come free now, or when the outstanding step is committed.

        Raises:
            InputError: No unfinished request has this id.
        """
        sequence = self.record(request_id)
        if self._outstanding is not None:
            self._cancelled.append((sequence, now_ns))
        else:
            self._drop(sequence, now_ns)

    def emit(self, time_ns: int, kind: str, sequence: SequenceRecord) -> None:
        """Tell the listener."""
        if self._listener is not None:
            self._listener(SequenceEvent(time_ns, kind, sequence))

    # --- within --------------------------------------------------------------------------------------

    def _refuse_what_never_fits(self, request: Request) -> None:
        config, total = self.config, request.prompt_tokens + request.max_tokens
        if total > config.max_model_len:
            raise NeverFits(
                f"request {request.id} needs {total} tokens (prompt {request.prompt_tokens} + output "
                f"{request.max_tokens}), more than max_model_len {config.max_model_len}; raise it or cut the request"
            )
        stored = self.admission.most_tokens(request.prompt_tokens, request.max_tokens)
        if config.admission == "naive":
            stored = config.max_model_len
        pages, pool = self.admission.pages(stored), self.pager.num_blocks
        if pages > min(pool, self.pager.max_pages):
            raise NeverFits(
                f"request {request.id} needs {pages} blocks for {stored} tokens, more than the whole pool of {pool}; "
                f"give the pool at least {pages} blocks"
            )
        if config.prefill == "whole" and total > config.max_num_batched_tokens:
            raise NeverFits(
                f"request {request.id} may have to prefill {total} tokens in one step, more than "
                f"max_num_batched_tokens {config.max_num_batched_tokens}; raise it, or use chunked prefill"
            )

    def _take_tokens(self, plan: StepPlan, sampled: Ints, result: StepResult) -> list[SequenceRecord]:
        running, pager, now = self.running, self.pager, result.time_ns
        if pager.prefix_caching:
            for chunks in (plan.decode, plan.prefill):
                pager.mark_computed(chunks.rows, chunks.starts + chunks.counts)
        running.known[sampled] += 1
        running.generated[sampled] += 1
        if result.token_ids is not None:
            self._store_ids(sampled, result.token_ids)
        for row in sampled[running.generated[sampled] == 1].tolist():
            sequence = running.sequence(row)
            if sequence.first_token_ns is None:
                sequence.first_token_ns = now
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
