"""The prefix index: block key → frame, and the order in which cached frames are evicted.

A key is 16 bytes and stands for a block *and everything before it* (keys are chained), so equal keys
mean equal content. A frame has at most one key and a key at most one frame. The index is not closed
under prefixes: a block can be there while the one before it is not (its frame was a duplicate, or slid
out of a window), so a lookup walks from the front and stops at the first gap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pagefault.paging.arrays import rank_among_equals

if TYPE_CHECKING:
    import numpy.typing as npt

    from pagefault.paging.arrays import Frames, Ints, Mask

    RawKeys = npt.NDArray[np.void]


_KEY = np.dtype("V16")


def _raw(keys: list[bytes]) -> RawKeys:
    return np.frombuffer(b"".join(keys), _KEY)


class PrefixIndex:
    """Key → frame as a dictionary; the cached frames as a log in eviction order.

    A frame's own key is the truth. Forgetting clears that alone, in one array operation; the dictionary's entry goes
    stale, is overwritten when the key comes again, and goes away when there are more stale entries than frames:
    amortized O(1) a key.

    The log is append-only: `append` writes frames at its end and notes each one's place; `remove` only
    forgets the place. An entry counts when its frame's place says so; the others are skipped, and
    squeezed out when the log is full. It has room for twice the frames there are, so that happens at
    most once in as many appended frames as the pool has: amortized O(1) a frame.

    Args:
        capacity: Frames of the pool.

    Attributes:
        published: Whether each frame has a key, bool [capacity].
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self.reset()

    def reset(self) -> None:
        """Forgets everything."""
        self.published: Mask = np.zeros(self._capacity, np.bool_)
        self._frame_of: dict[bytes, int] = {}  # with stale entries: `lookup` and `publish` ask the frame
        self._live_keys = 0
        # As raw bytes: to touch thousands of Python objects scattered over the heap costs more than all the rest.
        self._key_of = np.zeros(self._capacity, _KEY)
        self._log = np.zeros(2 * self._capacity, np.int32)
        self._place: Ints = np.full(self._capacity, -1, np.int64)
        self._head = self._tail = 0

    def __len__(self) -> int:
        return self._live_keys

    def lookup(self, keys: list[bytes]) -> Frames:
        """Frames of the leading keys that are known, int32, up to the first that is not."""
        # iter(f, None) calls f until it returns None: here, dict.get on key after key, all in C.
        frames = np.fromiter(iter(map(self._frame_of.get, keys).__next__, None), np.int32)
        if frames.size:
            stale = (~self.published[frames] | (self._key_of[frames] != _raw(keys[: frames.size]))).nonzero()[
                0
            ]
            if stale.size:
                return frames[: stale[0]]
        return frames

    def publish(self, keys: list[bytes], frames: Frames) -> Mask:
        """Makes frames known by keys.

        A frame that has a key keeps it, and a key that has a frame keeps that.

        Args:
            keys: One for each frame.
            frames: int32 [n].

        Returns:
            Which of them are new, bool [n].
        """
        new = ~self.published[frames]
        numbers: list[int] = frames.tolist()
        if len(set(numbers)) < len(numbers):
            new &= rank_among_equals(frames) == 0
        at = new.nonzero()[0]
        if at.size < frames.size:
            keys, frames = [keys[i] for i in at.tolist()], frames[at]
            numbers = frames.tolist()
        raw = _raw(keys)
        owners = list(map(self._frame_of.setdefault, keys, numbers))
        if owners == numbers:
            self._key_of[frames] = raw
            self.published[frames] = True
            self._live_keys += frames.size
            return new
        # Some entry is stale, or another frame has the key. In order, so that the first of two frames gets it.
        for i, (key, frame) in enumerate(zip(keys, numbers, strict=True)):
            if self._has(self._frame_of[key], raw[i]):
                new[at[i]] = False
                continue
            self._frame_of[key] = frame
            self._key_of[frame] = raw[i]
            self.published[frame] = True
            self._live_keys += 1
        return new

    def forget(self, frames: Frames) -> RawKeys:
        """Forgets the keys of those frames that have one; returns these keys, 16 bytes each, [n]."""
        frames = frames[self.published[frames]]
        self.published[frames] = False
        self._live_keys -= frames.size
        if len(self._frame_of) > self._live_keys + self._capacity:
            live = self.published.nonzero()[0]
            self._frame_of = dict(zip(self._key_of[live].tolist(), live.tolist(), strict=True))
        return self._key_of[frames]

    def append(self, frames: Frames) -> None:
        """Frames nobody references any more: the first of them is evicted first, all after those before."""
        if self._tail + frames.size > self._log.size:
            kept = self.evictable()
            self._log[: kept.size] = kept
            self._place[kept] = np.arange(kept.size)
            self._head, self._tail = 0, kept.size
        end = self._tail + frames.size
        self._log[self._tail : end] = frames
        self._place[frames] = np.arange(self._tail, end)
        self._tail = end

    def remove(self, frames: Frames) -> None:
        """Frames that are not to be evicted: they are referenced again."""
        self._place[frames] = -1

    def oldest(self, n: int) -> Frames:
        """Takes the n frames to evict next out of the log, int32 [n]; there must be as many."""
        taken: list[Frames] = []
        missing = n
        while missing:
            stop = min(self._tail, self._head + max(missing, 256))
            live = self._live(self._head, stop).nonzero()[0][:missing]
            taken.append(self._log[self._head + live])
            missing -= live.size
            self._head = stop if missing else self._head + int(live[-1]) + 1
        frames = np.concatenate(taken) if taken else np.empty(0, np.int32)
        self._place[frames] = -1
        return frames

    def evictable(self) -> Frames:
        """The cached frames in the order of their eviction, int32; a copy."""
        return self._log[self._head : self._tail][self._live(self._head, self._tail)]

    def known(self) -> dict[bytes, int]:
        """Key → frame, without stale entries; a copy."""
        frames = np.fromiter(self._frame_of.values(), np.int64, len(self._frame_of))
        live = self.published[frames] & (self._key_of[frames] == _raw(list(self._frame_of)))
        return {
            key: frame for (key, frame), so in zip(self._frame_of.items(), live.tolist(), strict=True) if so
        }

    def _has(self, frame: int, key: np.void) -> bool:
        return bool(self.published[frame]) and bool(self._key_of[frame] == key)

    def _live(self, start: int, stop: int) -> Mask:
        live: Mask = self._place[self._log[start:stop]] == np.arange(start, stop)
        return live
