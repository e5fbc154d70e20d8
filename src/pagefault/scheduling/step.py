"""Puts one step together: who grows, who stalls, who loses its frames, who comes in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pagefault.errors import OutOfFrames
from pagefault.paging import FrameCopies
from pagefault.scheduling import victims
from pagefault.scheduling.plan import NO_CHUNKS, NO_COPIES, Chunks, StepPlan
from pagefault.scheduling.sequence import State

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pagefault.paging import TableUpdates
    from pagefault.scheduling.preempting import Preemptor
    from pagefault.scheduling.scheduler import Scheduler
    from pagefault.scheduling.sequence import Preemption, SequenceRecord

    Ints = NDArray[np.int64]


class StepBuilder:
    """One step in the making. Frames are taken as decisions fall; nothing runs yet."""

    def __init__(self, scheduler: Scheduler, preemptor: Preemptor, now_ns: int) -> None:
        self._scheduler = scheduler
        self._config = scheduler.config
        self._pager = scheduler.pager
        self._running = scheduler.running
        self._preemptor = preemptor
        self._now = now_ns
        self._budget = scheduler.config.max_num_batched_tokens
        self._chunks: list[Chunks] = []
        self._copies: list[FrameCopies] = []
        self._swap_out: list[FrameCopies] = []
        self._swap_in: list[FrameCopies] = []
        self._stalled: list[int] = []
        self._preempted: list[Preemption] = []
        self._fresh: set[int] = set()  # rows that came in during this step
        self._scheduled: set[int] = set()  # those of them that have their chunk already

    # --- the running ones ----------------------------------------------------------------------------

    def advance(self) -> None:
        """Every running sequence takes its next tokens, in order of admission, while the budget lasts."""
        rows = self._running.rows
        if self._scheduled:
            rows = rows[~np.isin(rows, list(self._scheduled))]
        wanted = self._running.known[rows] - self._pager.lengths[rows]
        take = np.clip(self._budget - (np.cumsum(wanted) - wanted), 0, wanted)
        if self._config.prefill == "whole":
            take[take < wanted] = 0
        rows, take = rows[take > 0], take[take > 0]
        if not rows.size:
            return
        most = (
            int(take.sum()) // self._pager.block_size + 2 * rows.size
        )  # a page begun and a copy on write each
        if most > self._pager.free_frames:
            need = self._pager.need(rows, take)
            if int(need.sum()) > self._pager.free_frames:
                granted = self._make_room(rows, need)
                rows, take = rows[granted], take[granted]
        if rows.size:
            self._running.stalls[rows] = 0
            self._grow(rows, take)

    def _make_room(self, rows: Ints, need: Ints) -> NDArray[np.bool_]:
        """Who of the batch gets its frames, when there are not enough for all.

        `promised` counts frames granted here; they are taken in one call at the end, so a victim that was
        granted some before simply hands its promise back.
        """
        granted = np.ones(rows.size, np.bool_)
        promised = coming = 0
        index_of = {row: i for i, row in enumerate(rows.tolist())}
        for i in np.flatnonzero(need).tolist():
            row, wanted = int(rows[i]), int(need[i])
            while granted[i] and wanted > self._pager.free_frames - promised:
                # Frames on their way to the host serve this row in the next step: no further victim for them.
                short = wanted > self._pager.free_frames - promised + coming
                victim = self._victim(row) if short else None
                if victim is None:
                    self._stalled.append(row)
                    self._running.stalls[row] += 1
                    granted[i] = False
                    break
                coming += self._preempt(victim, row)
                at = index_of.get(victim)
                if at is not None:
                    if at < i and granted[at]:
                        promised -= int(need[at])
                    granted[at] = False
            if granted[i]:
                promised += wanted
        return granted

    def _victim(self, row: int) -> int | None:
        if self._config.victim == "self":
            return row if self._running.stalls[row] >= self._config.patience else None
        rows = self._running.rows
        if self._fresh:
            rows = rows[~np.isin(rows, list(self._fresh))]
        return victims.choose(self._config.victim, self._pager, self._running, rows, row)

    def _preempt(self, victim: int, faulting: int) -> int:
        """Takes the victim's frames; returns how many of them come free only with the commit."""
        scheduler = self._scheduler
        sequence = self._running.sequence(victim)
        beneficiary = self._running.sequence(faulting)
        self._running.sync(sequence)
        self._running.remove(np.array([victim]))
        record, copies = self._preemptor.preempt(sequence, beneficiary, self._now)
        self._preempted.append(record)
        scheduler.emit(self._now, "preempted", sequence)
        if copies is None:
            scheduler.waiting.push(sequence, preempted=True)
            return 0
        scheduler.swapped.append(sequence)
        self._swap_out.append(copies)
        return len(copies)

    def _grow(self, rows: Ints, take: Ints) -> None:
        starts = self._pager.lengths[rows]
        growth = self._pager.grow(rows, take)
        if len(growth.copies):
            self._copies.append(growth.copies)
        samples = starts + take == self._running.known[rows]
        self._chunks.append(Chunks(rows, starts, take, samples))
        self._budget -= int(take.sum())

    # --- those who come in ---------------------------------------------------------------------------

    def admit(self) -> None:
        """Swapped sequences come back, then waiting ones come in, each while the first in line fits."""
        if self._preempted:
            return  # who was just preempted would come straight back
        while self._scheduler.swapped and self._resume(min(self._scheduler.swapped, key=_by_number)):
            pass
        if self._scheduler.swapped:
            return
        while (sequence := self._scheduler.waiting.peek()) is not None and self._admit(sequence):
            pass

    def _has_place(self) -> bool:
        return len(self._running) < self._config.max_num_seqs and self._budget > 0

    def _resume(self, sequence: SequenceRecord) -> bool:
        row = sequence.row
        frames = int(self._pager.need_swap_in(row)[0])
        spare = self._scheduler.admission.reserve_frames if len(self._running) else 0
        # One frame more, so that it does not fault again at once.
        room = min(frames + 1, self._pager.num_blocks)
        if not self._has_place() or room > self._pager.free_frames - spare:
            return False
        self._swap_in.append(self._pager.swap_in(row))
        self._scheduler.swapped.remove(sequence)
        self._enter(sequence, "resumed")
        self._first_chunk(row)
        return True

    def _admit(self, sequence: SequenceRecord) -> bool:
        """Let the next one in line start, if it fits."""
        if not self._has_place() or not self._pager.free_rows:
            return False
        config, pager, request = self._config, self._pager, sequence.request
        delivered = config.prefill == "delivered"
        stored = sequence.tokens if delivered else sequence.tokens - 1
        keys = sequence.keys if pager.prefix_caching and not delivered else None
        hit_tokens = hit_blocks = cached = 0
        if keys is not None:
            hit = pager.match(keys, max_tokens=stored)
            hit_tokens, hit_blocks, cached = hit.tokens, hit.blocks, hit.cached
        chunk = sequence.tokens - hit_tokens
        if config.prefill == "whole" and chunk > self._budget:
            return False
        if config.reserve_full_prompt or delivered or config.prefill == "whole":
            fits = sequence.tokens
        else:
            fits = hit_tokens + min(chunk, self._budget)
        offer = self._scheduler.admission.offer(sequence, fits, hit_blocks, cached)
        if not self._scheduler.admission.admits(sequence, offer, self._running):
            return False
        row = pager.open(keys)
        sequence.row = row
        again = bool(sequence.preemptions)
        if keys is not None:
            found = pager.attach(row, max_tokens=stored, repeat=again)
            if again:
                sequence.repeated_hit_tokens += found
            else:
                sequence.hit_tokens += found
        if offer.reserve_tokens:
            try:
                pager.reserve(row, offer.reserve_tokens, contiguous=offer.contiguous)
            except OutOfFrames:  # enough frames, but no run of them
                pager.release(row)
                sequence.row = -1
                return False
        if delivered:
            pager.grow(row, request.prompt_tokens + sequence.generated)
        self._scheduler.waiting.remove(sequence)
        if sequence.admitted_ns is None:
            sequence.admitted_ns = self._now
        self._enter(sequence, "resumed" if again else "admitted")
        if not delivered:
            self._first_chunk(row)
        return True

    def _enter(self, sequence: SequenceRecord, kind: str) -> None:
        # Where KV is delivered, a token is stored in the step that makes it: one more is due than is known.
        ahead = self._config.prefill == "delivered"
        sequence.state = State.RUNNING
        self._running.add(sequence, sequence.tokens + ahead)
        self._fresh.add(sequence.row)
        self._scheduler.emit(self._now, kind, sequence)

    def _first_chunk(self, row: int) -> None:
        rows = np.array([row])
        take = np.minimum(self._running.known[rows] - self._pager.lengths[rows], self._budget)
        self._scheduled.add(row)
        self._grow(rows, take)

    # --- the plan ------------------------------------------------------------------------------------

    def build(self, number: int, updates: TableUpdates | None) -> StepPlan:
        """The finished plan."""
        chunks = _join(self._chunks)
        decoding = chunks.samples & (chunks.counts == 1) & (self._running.generated[chunks.rows] > 0)
        if self._config.prefill == "delivered":
            decoding = chunks.samples
        self._running.computed[chunks.rows] += chunks.counts
        return StepPlan(
            step=number,
            prefill=_pick(chunks, ~decoding),
            decode=_pick(chunks, decoding),
            stalled=np.array(self._stalled, np.int64),
            preempted=tuple(self._preempted),
            swap_out=_join_copies(self._swap_out),
            swap_in=_join_copies(self._swap_in),
            copies=_join_copies(self._copies),
            updates=updates,
            running=len(self._running),
        )


def _by_number(sequence: SequenceRecord) -> int:
    return sequence.number


def _join(chunks: list[Chunks]) -> Chunks:
    if not chunks:
        return NO_CHUNKS
    if len(chunks) == 1:
        return chunks[0]
    return Chunks(
        np.concatenate([part.rows for part in chunks]),
        np.concatenate([part.starts for part in chunks]),
        np.concatenate([part.counts for part in chunks]),
        np.concatenate([part.samples for part in chunks]),
    )


def _pick(chunks: Chunks, which: NDArray[np.bool_]) -> Chunks:
    if which.all():
        return chunks
    if not which.any():
        return NO_CHUNKS
    return Chunks(chunks.rows[which], chunks.starts[which], chunks.counts[which], chunks.samples[which])


def _join_copies(copies: list[FrameCopies]) -> FrameCopies:
    if not copies:
        return NO_COPIES
    return FrameCopies(
        np.concatenate([part.src for part in copies]), np.concatenate([part.dst for part in copies])
    )
