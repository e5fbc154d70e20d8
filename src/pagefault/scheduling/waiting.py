"""The queues in front of admission."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pagefault.scheduling.config import SchedulerConfig
    from pagefault.scheduling.sequence import SequenceRecord

    Key = tuple[int, int, int]


class WaitingQueue:
    """Sequences that want to run, in the order in which they will be let in.

    ``fcfs``: those that were preempted (with `requeue` ``front``), oldest first, then the others in order of
    arrival. ``priority``: the same within each priority. Removal of any entry is O(1), done when it surfaces.

    Args:
        config: Says which order.
        tickets: Rising numbers, the places of arrivals. Queues with the same tickets and config have comparable keys.
    """

    def __init__(self, config: SchedulerConfig, tickets: Iterator[int]) -> None:
        self._by_priority = config.policy == "priority"
        self._front = config.requeue == "front"
        self._tickets = tickets
        self._heap: list[Key] = []  # also keys of sequences that have left
        self._entries: dict[Key, SequenceRecord] = {}
        self._keys: dict[int, Key] = {}  # by number

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[SequenceRecord]:
        """In line order. Costs a sort: not for every step."""
        return (self._entries[key] for key in sorted(self._entries))

    def push(self, sequence: SequenceRecord, preempted: bool = False) -> None:
        """Put a sequence in line; a preempted one at the front of its priority, if so configured."""
        priority = sequence.request.priority if self._by_priority else 0
        in_front = preempted and self._front
        key = (priority, 0, sequence.number) if in_front else (priority, 1, next(self._tickets))
        self._entries[key] = sequence
        self._keys[sequence.number] = key
        heapq.heappush(self._heap, key)

    def peek(self) -> SequenceRecord | None:
        """The first in line, or None."""
        while self._heap:
            sequence = self._entries.get(self._heap[0])
            if sequence is not None:
                return sequence
            heapq.heappop(self._heap)
        return None

    def key(self, sequence: SequenceRecord) -> Key:
        """Its place in line; smaller is earlier."""
        return self._keys[sequence.number]

    def remove(self, sequence: SequenceRecord) -> None:
        """Take a sequence out of line."""
        del self._entries[self._keys.pop(sequence.number)]
