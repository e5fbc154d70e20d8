"""Block events for whoever listens: a router that keeps a map of which worker has which prefix.

The names are those of vLLM's KV events; here one event carries arrays for the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from pagefault.paging.arrays import Frames, Keys


@dataclass(frozen=True, slots=True)
class BlockStored:
    """Blocks that can be hit from now on.

    Attributes:
        keys: uint64 [n, 2].
        parents: Key of the block before each one, uint64 [n, 2]; zeros for a sequence's first block.
        frames: Where they are, int32 [n].
        block_size: Tokens a block holds.
    """

    keys: Keys
    parents: Keys
    frames: Frames
    block_size: int


@dataclass(frozen=True, slots=True)
class BlockRemoved:
    """Blocks that cannot be hit any more: evicted, released without caching, or swapped out.

    Attributes:
        keys: uint64 [n, 2].
    """

    keys: Keys


@dataclass(frozen=True, slots=True)
class AllBlocksCleared:
    """No block that was stored before can be hit any more."""


BlockEvent = BlockStored | BlockRemoved | AllBlocksCleared
"""What a listener of `Pager.subscribe` is told."""
Listener = Callable[[BlockEvent], None]


def keys_from_bytes(keys: list[bytes]) -> Keys:
    """Keys as the index holds them (16 bytes each) back to uint64 [n, 2]."""
    return np.frombuffer(b"".join(keys), np.uint64).reshape(-1, 2)


class EventHub:
    """Collects a call's events and hands them to the listeners when the call is done.

    Events are not delivered in the middle of a call, so a listener that raises cannot leave the pager
    half changed.
    """

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._pending: list[BlockEvent] = []

    @property
    def listening(self) -> bool:
        """Whether anyone would hear an event; nothing is built when not."""
        return bool(self._listeners)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Adds a listener; returns a function that removes it (once; later calls do nothing)."""
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    def add(self, event: BlockEvent) -> None:
        """Queues an event until `flush`."""
        self._pending.append(event)

    def removed(self, keys: npt.NDArray[np.void]) -> None:
        """Queues `BlockRemoved` for these keys (16 bytes each, [n]), where anyone listens."""
        if self._listeners and keys.size:
            self._pending.append(BlockRemoved(keys.view(np.uint64).reshape(-1, 2)))

    def flush(self) -> None:
        """Delivers what is queued, in order, to every listener."""
        while self._pending:
            event = self._pending.pop(0)
            for listener in tuple(self._listeners):
                listener(event)
