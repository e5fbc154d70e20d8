"""Plays a scheduler's plans on a virtual clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pagefault.errors import NeverFits, PageFaultError
from pagefault.scheduling import Request, State, StepPlan, StepResult
from pagefault.sim.events import Event, EventQueue, Priority
from pagefault.sim.recorder import SimResult, StepLog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pagefault.scheduling import Scheduler, SequenceEvent, SequenceRecord
    from pagefault.sim.sources import Source

GIVE_UP_AFTER = 20
"""A run in which nobody is spared (restarts of the faulting sequence) is given up when no request has ended for so
many times the steps that the longest one needs alone. Others always end: their head is never a victim."""


class CostModel(Protocol):
    """How long a step takes."""

    def step_ns(self, plan: StepPlan) -> int:
        """Nanoseconds that the plan takes, at least 1."""
        ...


class Observer(Protocol):
    """Somebody who watches a run: a log, a live view. It must not change anything."""

    def sequence(self, event: SequenceEvent) -> None:
        """Something happened to a sequence."""
        ...

    def step(self, plan: StepPlan, end_ns: int, scheduler: Scheduler) -> None:
        """A step has ended at `end_ns` and is not committed yet: its tokens are not counted, its frames are held."""
        ...


def simulate(
    scheduler: Scheduler,
    source: Source,
    cost: CostModel,
    *,
    progress: Callable[[int, int], None] | None = None,
    observers: Sequence[Observer] = (),
) -> SimResult:
    """Run until every request has ended.

    Deterministic: the same arguments give the same result, to the nanosecond.

    Args:
        scheduler: Decides; a new one, over a new pager.
        source: Sends the requests.
        cost: Says how long each step takes.
        progress: Called after each step with (requests ended, simulated time in ns).
        observers: Hear of each step, once, when it has ended. What happens to sequences they hear from the scheduler:
            make it with ``listener=tell(observers)``.

    Returns:
        What happened. An interrupt (Ctrl-C) ends the run early and gives what there is, marked incomplete.

    Raises:
        PageFaultError: Sequences take each other's frames for ever, see `GIVE_UP_AFTER`.
    """
    run = _Run(scheduler, source, cost, observers)
    complete = False
    try:
        while run.advance():
            if progress is not None:
                progress(run.ended, run.now_ns)
        complete = True
    except KeyboardInterrupt:
        scheduler.running.sync_all()
    return SimResult(
        scheduler.config, run.records, run.refused, run.steps, scheduler.pager.stats(), run.now_ns, complete
    )


def tell(observers: Sequence[Observer]) -> Callable[[SequenceEvent], None] | None:
    """A scheduler's listener that tells all of them; None if there is nobody to tell."""
    if not observers:
        return None

    def listener(event: SequenceEvent) -> None:
        for observer in observers:
            observer.sequence(event)

    return listener


class _Run:
    """The state of one run. `advance` handles all events of one instant, then plans if the machine is free."""

    def __init__(
        self,
        scheduler: Scheduler,
        source: Source,
        cost: CostModel,
        observers: Sequence[Observer],
    ) -> None:
        self._scheduler = scheduler
        self._source = source
        self._cost = cost
        self._observers = observers
        self._events = EventQueue()
        self._patience = GIVE_UP_AFTER * scheduler.config.max_model_len
        self._last_end = 0  # the step in which a request ended last
        self.now_ns = 0
        self.ended = 0
        self._plan: StepPlan | None = None  # of the step that runs
        self.records: list[SequenceRecord] = []
        self.refused: list[tuple[Request, str]] = []
        self.steps = StepLog()
        self._expect(source.start())

    def advance(self) -> bool:
        """One instant of simulated time; False when nothing is left to happen."""
        if self._events.next_ns is None:
            return False
        self.now_ns = self._events.next_ns
        while self._events.next_ns == self.now_ns:
            event = self._events.pop()
            if isinstance(event.payload, Request):
                self._arrive(event.payload)
            else:
                self._end_step(event.payload)
        if self._plan is None:
            self._start_step()
        return True

    def _expect(self, arrivals: list[tuple[int, Request]]) -> None:
        for time_ns, request in arrivals:
            self._events.push(Event(max(time_ns, self.now_ns), Priority.ARRIVAL, request))

    def _arrive(self, request: Request) -> None:
        try:
            self.records.append(self._scheduler.submit(request, self.now_ns))
        except NeverFits as error:
            self.refused.append((request, str(error)))
            self.ended += 1
            self._expect(self._source.after_end(request, self.now_ns))
        self._expect(self._source.after_arrival(request))

    def _end_step(self, plan: StepPlan) -> None:
        self._plan = None
        for observer in self._observers:
            observer.step(plan, self.now_ns, self._scheduler)
        for sequence in self._scheduler.commit(StepResult(plan.step, self.now_ns)):
            assert sequence.state is State.FINISHED
            self.ended += 1
            self._last_end = len(self.steps)
            self._expect(self._source.after_end(sequence.request, self.now_ns))

    def _start_step(self) -> None:
        plan = self._scheduler.plan(self.now_ns)
        if plan.empty and not (plan.stalled.size or plan.preempted):
            self._scheduler.commit(StepResult(plan.step, self.now_ns))  # idle until the next arrival
            if not len(self._events) and self._scheduler.unfinished:
                raise PageFaultError(
                    f"{self._scheduler.unfinished} sequences wait and nothing runs: a defect"
                )
            return
        if not self._scheduler.config.protects_head and len(self.steps) - self._last_end > self._patience:
            raise PageFaultError(
                f"no request has ended in the last {self._patience:,} steps, {self._scheduler.unfinished} wait or run: "
                "they take each other's frames and start over; give a larger watermark or pool, fewer sequences at "
                "once, or preempt by recompute"
            )
        duration = max(1, self._cost.step_ns(plan))
        ends_ns = self.now_ns + duration
        self.steps.add(plan, self._scheduler, ends_ns, duration)
        self._plan = plan
        self._events.push(Event(ends_ns, Priority.STEP_END, plan))
