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
        """Take a sequence's frames: a running one's, or what a swapped-out one still has on the device.

        The caller takes it out of the running set (or the swapped ones) before and puts it in line after.

        Returns:
            What happened, and for a swap the copies to the host, whose frames come free at the commit.
        """
        row, decoding = sequence.row, sequence.generated > 0
        tokens, free = int(self._pager.lengths[row]), self._pager.free_frames
        recompute_ns = swap_ns = None
        copies = None
        how: str = "recompute"  # all that can be done with a swapped-out one
        if sequence.state is State.RUNNING:
            own = int(self._pager.need_swap_out(row)[0])  # shared frames stay where they are
            if self._costs is not None:
                recompute_ns, swap_ns = self._costs.recompute_ns(tokens), self._costs.swap_ns(own)
            how = self._how(own, recompute_ns, swap_ns)
        if how == "swap":
            copies = self._pager.swap_out(row)
            sequence.state = State.SWAPPED
        else:
            self._pager.release(row)
            sequence.row, sequence.state = -1, State.PREEMPTED
            if how == "restart":
                sequence.forget_output()
        record = Preemption(
            time_ns=now_ns,
            request=sequence.request.id,
            beneficiary=beneficiary.request.id,
            how=how,
            frames=self._pager.free_frames - free if copies is None else len(copies),
            lost_tokens=tokens if copies is None else 0,
            decoding=decoding,
            recompute_ns=recompute_ns,
            swap_ns=swap_ns,
        )
        sequence.preemptions.append(record)
        return record, copies

    def _how(self, own_frames: int, recompute_ns: int | None, swap_ns: int | None) -> str:
        how: str = self._config.preempt
        if how == "cheaper":
            assert recompute_ns is not None
            assert swap_ns is not None
            how = "swap" if swap_ns < recompute_ns else "recompute"
        if how == "swap" and not 0 < own_frames <= self._pager.free_host_frames:
            how = "recompute"
        return how
