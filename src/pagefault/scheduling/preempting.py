"""How a victim loses its frames: restart, recompute, swap, or the cheaper of the last two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagefault.scheduling.sequence import Preemption, State

if TYPE_CHECKING:
    from pagefault.paging import FrameCopies, Pager
    from pagefault.scheduling.config import SchedulerConfig
    from pagefault.scheduling.scheduler import PreemptionCosts
    from pagefault.scheduling.sequence import SequenceRecord


class Preemptor:
    """Takes the frames of one sequence and says what that cost."""

    def __init__(self, config: SchedulerConfig, pager: Pager, costs: PreemptionCosts | None) -> None:
        self._config = config
        self._pager = pager
        self._costs = costs

    def preempt(
        self, sequence: SequenceRecord, beneficiary: SequenceRecord, now_ns: int
    ) -> tuple[Preemption, FrameCopies | None]:
        """Take a running sequence's frames. The caller removes it from the running set and requeues it.

        Returns:
            What happened, and for a swap the copies to the host, whose frames come free at the commit.
        """
        row = sequence.row
        tokens = int(self._pager.lengths[row])
        frames = int(self._pager.pages[row])
        recompute_ns = swap_ns = None
        if self._costs is not None:
            recompute_ns = self._costs.recompute_ns(tokens)
            swap_ns = self._costs.swap_ns(frames)
        how = self._how(row, recompute_ns, swap_ns)
        free = self._pager.free_frames
        decoding = sequence.generated > 0
        copies = None
        if how == "swap":
            copies = self._pager.swap_out(row)
            sequence.state = State.SWAPPED
            frames = len(copies)
        else:
            self._pager.release(row)
            sequence.row = -1
            sequence.state = State.PREEMPTED
            frames = self._pager.free_frames - free
            if how == "restart":
                sequence.forget_output()
        record = Preemption(
            time_ns=now_ns,
            request=sequence.request.id,
            beneficiary=beneficiary.request.id,
            how=how,
            frames=frames,
            lost_tokens=0 if how == "swap" else tokens,
            decoding=decoding,
            recompute_ns=recompute_ns,
            swap_ns=swap_ns,
        )
        sequence.preemptions.append(record)
        return record, copies

    def _how(self, row: int, recompute_ns: int | None, swap_ns: int | None) -> str:
        how: str = self._config.preempt
        if how == "cheaper":
            assert recompute_ns is not None
            assert swap_ns is not None
            how = "swap" if swap_ns < recompute_ns else "recompute"
        if how == "swap":
            wanted = int(self._pager.need_swap_out(row)[0])
            if not 0 < wanted <= self._pager.free_host_frames:
                how = "recompute"
        return how
