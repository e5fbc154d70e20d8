"""What a simulation remembers: one number a step and quantity, and every sequence's record."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pagefault.paging import PagerStats
    from pagefault.scheduling import Request, SchedulerConfig, SequenceRecord, StepPlan
    from pagefault.scheduling.scheduler import Scheduler

    Ints = NDArray[np.int64]

COLUMNS = (
    "end_ns",
    "duration_ns",
    "prefill_tokens",
    "prefills",
    "decodes",
    "stalled",
    "running",
    "waiting",
    "swapped",
    "used_frames",
    "tokens",
    "preemptions",
)


class StepLog:
    """One row a step, kept as flat arrays: a hundred thousand steps cost megabytes, not objects."""

    def __init__(self) -> None:
        self._columns: dict[str, array[int]] = {name: array("q") for name in COLUMNS}
        self._appends = [self._columns[name].append for name in COLUMNS]

    def __len__(self) -> int:
        return len(self._columns["end_ns"])

    def add(self, plan: StepPlan, scheduler: Scheduler, end_ns: int, duration_ns: int) -> None:
        """A step was planned and will end then. Called before its commit, so it shows the step, not its end."""
        pager = scheduler.pager
        row = (
            end_ns,
            duration_ns,
            plan.prefill.tokens,
            len(plan.prefill),
            len(plan.decode),
            len(plan.stalled),
            plan.running,
            len(scheduler.waiting),
            len(scheduler.swapped),
            pager.num_blocks - pager.free_frames,
            int(pager.lengths[scheduler.running.rows].sum()),
            len(plan.preempted),
        )
        for append, value in zip(self._appends, row, strict=True):
            append(value)

    def column(self, name: str) -> Ints:
        """A quantity over all steps, int64 [steps]; names as in `COLUMNS`."""
        return np.array(self._columns[name], np.int64)


@dataclass(frozen=True)
class SimResult:
    """A finished (or interrupted) run.

    Attributes:
        config: How the scheduler was told to decide.
        records: Every sequence that was submitted, in order of submission.
        refused: Requests that could never fit, with the reason.
        steps: What happened in each step.
        pager: The pager's figures at the end.
        end_ns: When the last step ended.
        complete: False if the run was interrupted before everything ended.
    """

    config: SchedulerConfig
    records: list[SequenceRecord]
    refused: list[tuple[Request, str]]
    steps: StepLog
    pager: PagerStats
    end_ns: int
    complete: bool
