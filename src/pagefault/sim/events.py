"""What happens when, in simulated time."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pagefault.scheduling import Request, StepPlan


class Priority(IntEnum):
    """Which of the events of one instant comes first."""

    STEP_END = 0
    ARRIVAL = 1


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happens. `payload` is the step that ends, or the request that arrives."""

    time_ns: int
    priority: Priority
    payload: StepPlan | Request


class EventQueue:
    """Events in the order (time, priority, order of insertion), so that a run is the same every time."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, Event]] = []
        self._number = 0

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, event: Event) -> None:
        """Let it happen at its time."""
        heapq.heappush(self._heap, (event.time_ns, event.priority, self._number, event))
        self._number += 1

    @property
    def next_ns(self) -> int | None:
        """When the next event happens, or None."""
        return self._heap[0][0] if self._heap else None

    def pop(self) -> Event:
        """The next event."""
        return heapq.heappop(self._heap)[3]
