"""Plays a scheduler's plans on a virtual clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pagefault.errors import NeverFits, PageFaultError
from pagefault.scheduling import Request, State, StepPlan, StepResult
from pagefault.sim.events import Event, EventQueue, Priority
from pagefault.sim.recorder import SimResult, StepLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from pagefault.scheduling import Scheduler, SequenceRecord
    from pagefault.sim.sources import Source

MAX_IDLE_STEPS = 100_000
"""Steps in a row without one token after which a run is given up: no configuration needs as many."""


class CostModel(Protocol):
    """How long a step takes."""

    def step_ns(self, plan: StepPlan) -> int:
        """Nanoseconds that the plan takes, at least 1."""
        ...


def simulate(
    scheduler: Scheduler,
    source: Source,
    cost: CostModel,
    *,
    progress: Callable[[int, int], None] | None = None,
    after_step: Callable[[StepPlan, int, Scheduler], None] | None = None,
) -> SimResult:
    """Run until every request has ended.

    Deterministic: the same arguments give the same result, to the nanosecond.

    Args:
        scheduler: Decides; a new one, over a new pager.
        source: Sends the requests.
        cost: Says how long each step takes.
        progress: Called after each step with (requests ended, simulated time in ns).
        after_step: Called once a step, when it has ended and before it is committed, with its plan, the time and
            the scheduler.

    Returns:
        What happened. An interrupt (Ctrl-C) ends the run early and gives what there is, marked incomplete.

    Raises:
        PageFaultError: No token was made for `MAX_IDLE_STEPS` steps although sequences run: the configuration
            livelocks (only restarts can).
    """
    run = _Run(scheduler, source, cost, after_step)
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


class _Run:
    """The state of one run. `advance` handles all events of one instant, then plans if the machine is free."""

    def __init__(
        self,
        scheduler: Scheduler,
        source: Source,
        cost: CostModel,
        after_step: Callable[[StepPlan, int, Scheduler], None] | None,
    ) -> None:
        self._scheduler = scheduler
        self._source = source
        self._cost = cost
        self._after_step = after_step
        self._events = EventQueue()
        self._idle_steps = 0
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
        if self._after_step is not None:
            self._after_step(plan, self.now_ns, self._scheduler)
        for sequence in self._scheduler.commit(StepResult(plan.step, self.now_ns)):
            assert sequence.state is State.FINISHED
            self.ended += 1
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
        self._idle_steps = 0 if plan.tokens else self._idle_steps + 1
        if self._idle_steps > MAX_IDLE_STEPS:
            raise PageFaultError(
                f"no token in {MAX_IDLE_STEPS} steps: sequences take each other's frames for ever; "
                "use a watermark, preempt by recompute, or a larger pool"
            )
        duration = max(1, self._cost.step_ns(plan))
        ends_ns = self.now_ns + duration
        self.steps.add(plan, self._scheduler, ends_ns, duration)
        self._plan = plan
        self._events.push(Event(ends_ns, Priority.STEP_END, plan))
