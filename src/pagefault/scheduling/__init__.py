"""Who runs next: a state machine over the pager, without a clock and without tensors."""

from __future__ import annotations

from pagefault.scheduling.config import SchedulerConfig
from pagefault.scheduling.plan import Chunks, StepPlan, StepResult
from pagefault.scheduling.scheduler import PreemptionCosts, Scheduler, SequenceEvent
from pagefault.scheduling.sequence import Preemption, Request, SequenceRecord, State

__all__ = [
    "Chunks",
    "Preemption",
    "PreemptionCosts",
    "Request",
    "Scheduler",
    "SchedulerConfig",
    "SequenceEvent",
    "SequenceRecord",
    "State",
    "StepPlan",
    "StepResult",
]
