"""Those in line come in while the first of them fits: swapped-out sequences and waiting ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pagefault.errors import OutOfFrames
from pagefault.paging import PrefixHit
from pagefault.scheduling.sequence import State

if TYPE_CHECKING:
    from pagefault.scheduling.sequence import SequenceRecord
    from pagefault.scheduling.step import Step

_NO_HIT = PrefixHit(0, 0, 0)


class Entry:
    """The part of a step in which those come in who do not run.

    Args:
        step: The step in the making.
    """

    def __init__(self, step: Step) -> None:
        self._step = step
        self._admission = step.scheduler.admission
        # Where KV is delivered and this part comes first, the other one serves them, among those who run.
        self._serves = step.config.prefill != "delivered" or step.config.first == "running"

    def __call__(self) -> None:
        """Let them in, in line order."""
        step = self._step
        if step.preempted:
            return  # who was just preempted would come straight back
        if step.scheduler.head_waits and len(step.running):
            return  # what comes free is for the head
        while (sequence := step.scheduler.next_in_line()) is not None:
            enter = self._resume if sequence.state is State.SWAPPED else self._admit
            if not enter(sequence) and (len(step.running) or not step.drop_swapped(sequence)):
                return

    def _has_place(self) -> bool:
        step = self._step
        return len(step.running) < step.config.max_num_seqs and step.budget > 0

    def _resume(self, sequence: SequenceRecord) -> bool:
        """Bring a swapped-out sequence back, if it fits together with what it computes next."""
        step, pages = self._step, self._admission.pages
        length = int(step.pager.lengths[sequence.row])
        ends = min(sequence.tokens + (step.config.prefill == "delivered"), length + step.budget)
        frames = int(step.pager.need_swap_in(sequence.row)[0]) + pages(ends) - pages(length)
        spare = self._admission.reserve_frames if len(step.running) else 0
        if not self._has_place() or frames > step.pager.free_frames - spare:
            return False
        step.swap_in(sequence)
        step.enter(sequence)
        self._first_chunk(sequence.row)
        return True

    def _admit(self, sequence: SequenceRecord) -> bool:
        """Let a waiting sequence start, if it fits."""
        step, config, pager = self._step, self._step.config, self._step.pager
        if not self._has_place() or not pager.free_rows:
            return False
        delivered = config.prefill == "delivered"
        before_last = sequence.tokens - 1  # the last token has to be computed: its logits make the next one
        keys = sequence.keys if step.scheduler.uses_prefixes else None
        hit = _NO_HIT if keys is None else pager.match(keys, max_tokens=before_last)
        chunk = sequence.tokens - hit.tokens
        if config.prefill == "whole" and chunk > step.budget:
            return False
        at_once = config.prefill == "chunked" and not config.reserve_full_prompt
        fits = hit.tokens + min(chunk, step.budget) if at_once else sequence.tokens
        if delivered and self._serves:
            fits += 1  # stored in this very step
        offer = self._admission.offer(sequence, fits, hit)
        if not self._admission.admits(sequence, offer, step.running):
            return False
        row = pager.open(keys)
        if keys is not None:
            again = bool(sequence.preemptions)
            sequence.count_hit(pager.attach(row, max_tokens=before_last, repeat=again), again)
        if offer.reserve_tokens:
            try:
                pager.reserve(row, offer.reserve_tokens, contiguous=offer.contiguous)
            except OutOfFrames:  # enough frames, but no run of them
                pager.release(row)
                return False
        if delivered:
            pager.grow(row, sequence.tokens)
        sequence.row = row
        if sequence.admitted_ns is None:
            sequence.admitted_ns = step.now_ns
        step.scheduler.waiting.remove(sequence)
        step.enter(sequence)
        if self._serves:
            self._first_chunk(row)
        return True

    def _first_chunk(self, row: int) -> None:
        step, rows = self._step, np.array([row])
        step.scheduled.add(row)
        step.grow(rows, np.minimum(step.running.known[rows] - step.pager.lengths[rows], step.budget))
