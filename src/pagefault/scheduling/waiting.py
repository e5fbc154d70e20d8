"""The queue in front of admission."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pagefault.scheduling.config import SchedulerConfig
    from pagefault.scheduling.sequence import SequenceRecord


class WaitingQueue:
    """Sequences without frames, in the order in which they will be admitted.

    ``fcfs``: those that were preempted (with `requeue` ``front``), oldest first, then the others in order of
    arrival. ``priority``: the same within each priority. Removal of any entry is O(1), done when it surfaces.
    """

    def __init__(self, config: SchedulerConfig) -> None:
        self._by_priority = config.policy == "priority"
        self._front = config.requeue == "front"
        self._heap: list[tuple[tuple[int, int, int], SequenceRecord]] = []
        self._entries: dict[int, tuple[int, int, int]] = {}  # number -> the key that counts
        self._ticket = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[SequenceRecord]:
        """In order of admission. Costs a sort: for people and tests."""
        return (sequence for key, sequence in sorted(self._heap) if self._entries.get(sequence.number) == key)

    def push(self, sequence: SequenceRecord, preempted: bool = False) -> None:
        """Put a sequence in line; a preempted one at the front of its priority, if so configured."""
        priority = sequence.request.priority if self._by_priority else 0
        if preempted and self._front:
            key = (priority, 0, sequence.number)
        else:
            key = (priority, 1, self._ticket)
            self._ticket += 1
        self._entries[sequence.number] = key
        heapq.heappush(self._heap, (key, sequence))

    def peek(self) -> SequenceRecord | None:
        """The next one to be admitted, or None."""
        while self._heap:
            key, sequence = self._heap[0]
            if self._entries.get(sequence.number) == key:
                return sequence
            heapq.heappop(self._heap)
        return None

    def remove(self, sequence: SequenceRecord) -> None:
        """Take a sequence out of line."""
        key = self._entries.pop(sequence.number)
        if self._heap and self._heap[0][0] == key:
            heapq.heappop(self._heap)
