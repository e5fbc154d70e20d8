"""The frame pool: counts frames and hands them out.

It knows nothing of sequences or of what a frame holds. Every frame is in exactly one state:

    FREE       on the stack of free frames, reference count 0
    USED       referenced, count >= 1
    CACHED     count 0, content kept for a later hit (which frames, the prefix index decides)
    IN_FLIGHT  count 0, being copied elsewhere; free when the step is committed

The path of a frame: `take` (FREE → USED), `share` (USED or CACHED → USED), `drop` (one reference less).
A frame that `drop` reports as idle is settled by its caller with one of `give_back` (→ FREE), `park`
(→ CACHED) or `hold` (→ IN_FLIGHT, then `land` → FREE); `reclaim` is CACHED → FREE.
"""

from __future__ import annotations

import numpy as np

from pagefault.errors import BadHandle, OutOfFrames
from pagefault.paging.arrays import Frames, IntLike, Ints, as_count, as_ints

FREE, IN_FLIGHT, USED, CACHED = range(4)
_ONE = np.int32(1)  # ufunc.at is 20 times faster with an int64 index and an operand of the array's dtype
STATE_NAMES = ("free", "in flight", "used", "cached")


class FramePool:
    """A stack of free frames in one int32 array, reference counts in another.

    All-or-nothing: a call that raises has changed nothing. Lowest ids are handed out first from a new
    pool, then those given back last.

    Args:
        capacity: Number of frames; ids are 0 to capacity - 1.
        name: What messages call the pool.

    Attributes:
        refs: References to each frame, int32 [capacity].
        state: FREE, USED, CACHED or IN_FLIGHT, uint8 [capacity].
        free: Frames on the stack.
        used: Frames with at least one reference.
        cached: Frames kept without a reference.
        in_flight: Frames that become free with `land`.
        peak_used: The largest `used` so far.
    """

    def __init__(self, capacity: int, name: str = "the pool") -> None:
        self.capacity = as_count(capacity, "capacity")
        self.name = name
        self.reset()

    def reset(self) -> None:
        """Back to a new pool."""
        self.refs = np.zeros(self.capacity, np.int32)
        self.state = np.full(self.capacity, FREE, np.uint8)
        self._stack: Frames = np.arange(self.capacity - 1, -1, -1, dtype=np.int32)
        self._held: list[Frames] = []
        self._scratch = np.zeros(self.capacity, np.int64)
        self.free = self.capacity
        self.used = self.cached = self.in_flight = self.peak_used = 0

    @property
    def free_stack(self) -> Frames:
        """The free frames, bottom of the stack first, int32 [free]; a copy."""
        return self._stack[: self.free].copy()

    @property
    def held(self) -> Frames:
        """The frames in flight, int32 [in_flight]; a copy."""
        return np.concatenate([np.empty(0, np.int32), *self._held])

    def take(self, n: int) -> Frames:
        """Takes n free frames, each with one reference.

        Returns:
            int32 [n].

        Raises:
            OutOfFrames: Fewer than n are free.
        """
        if n > self.free:
            raise OutOfFrames(
                f"{self.name} is {n - self.free} frames short: {n} asked, {self.free} free", n - self.free
            )
        frames = self._stack[self.free - n : self.free][::-1].copy()
        self.free -= n
        self._use(frames)
        return frames

    def longest_run(self) -> int:
        """Length of the longest run of consecutive frames that are free or cached."""
        starts, stops = self._runs()
        return int((stops - starts).max(initial=0))

    def find_run(self, n: int) -> int | None:
        """Start of the first run of n consecutive frames that are free or cached; None if there is none."""
        starts, stops = self._runs()
        fitting = np.flatnonzero(stops - starts >= n)
        return int(starts[fitting[0]]) if fitting.size else None

    def take_run(self, start: int, n: int) -> Frames:
        """Takes frames start to start + n - 1, which must all be free, with one reference each.

        Raises:
            BadHandle: One of them is not free.
        """
        frames = np.arange(start, start + n, dtype=np.int32)
        self._expect(frames, FREE, "taken as a run")
        stack = self._stack[: self.free]
        left = stack[(stack < start) | (stack >= start + n)]
        self._stack[: left.size] = left
        self.free = left.size
        self._use(frames)
        return frames

    def share(self, frames: Frames) -> Frames:
        """Adds one reference to each frame, used or cached; a frame may stand there several times.

        Returns:
            Those that were cached and are used now, int32, each once.

        Raises:
            BadHandle: An id is out of range, or the frame is neither used nor cached.
        """
        self._in_range(frames)
        states = self.state[frames]
        wrong = states < USED
        if np.count_nonzero(wrong):
            self._refuse(frames[wrong][0], "shared")
        woken = self._once(frames[states == CACHED])
        np.add.at(self.refs, frames.astype(np.int64), _ONE)
        self.state[woken] = USED
        self.cached -= woken.size
        self.used += woken.size
        self.peak_used = max(self.peak_used, self.used)
        return woken

    def drop(self, frames: Frames) -> Frames:
        """Takes away one reference of each frame; a frame may stand there several times.

        Returns:
            The idle frames: those with no reference left, int32, each once, in the order of their last
            mention. The caller settles them.

        Raises:
            BadHandle: An id is out of range, or has fewer references than are taken away (double free).
        """
        self._in_range(frames)
        index = frames.astype(np.int64)
        np.subtract.at(self.refs, index, _ONE)
        left = self.refs[frames]
        if np.count_nonzero(left < 0):
            np.add.at(self.refs, index, _ONE)
            self._refuse(frames[left < 0][0], "given back")
        return self._once(frames[left == 0])

    def give_back(self, idle: Frames) -> None:
        """Idle frames become free."""
        self._settle(idle, FREE)
        self._push(idle)

    def park(self, idle: Frames) -> None:
        """Idle frames become cached."""
        self._settle(idle, CACHED)
        self.cached += idle.size

    def hold(self, idle: Frames) -> None:
        """Idle frames are in flight until `land`."""
        self._settle(idle, IN_FLIGHT)
        if idle.size:
            self._held.append(idle)
            self.in_flight += idle.size

    def land(self) -> None:
        """What was in flight is free."""
        for frames in self._held:
            self.state[frames] = FREE
            self._push(frames)
        self._held.clear()
        self.in_flight = 0

    def reclaim(self, frames: Frames) -> None:
        """Cached frames become free.

        Raises:
            BadHandle: One of them is not cached.
        """
        self._expect(frames, CACHED, "reclaimed")
        self.state[frames] = FREE
        self.cached -= frames.size
        self._push(frames)

    def release(self, frames: IntLike) -> None:
        """Drops one reference of each frame and frees those that have none left.

        Raises:
            BadHandle: As `drop`.
        """
        self.give_back(self.drop(as_ints(frames, "frames").astype(np.int32)))

    def _use(self, frames: Frames) -> None:
        self.refs[frames] = 1
        self.state[frames] = USED
        self.used += frames.size
        self.peak_used = max(self.peak_used, self.used)

    def _push(self, frames: Frames) -> None:
        self._stack[self.free : self.free + frames.size] = frames
        self.free += frames.size

    def _settle(self, idle: Frames, state: int) -> None:
        if idle.size:
            wrong = (self.state[idle] != USED) | (self.refs[idle] != 0)
            if np.count_nonzero(wrong):
                self._refuse(idle[wrong][0], f"made {STATE_NAMES[state]}")
            self.state[idle] = state
            self.used -= idle.size

    def _once(self, frames: Frames) -> Frames:
        """Each frame once, where it is mentioned last: NumPy assigns the last of repeated indices."""
        if frames.size < 2:
            return frames
        order = np.arange(frames.size)
        self._scratch[frames] = order
        last: Frames = frames[self._scratch[frames] == order]
        return last

    def _runs(self) -> tuple[Ints, Ints]:
        """Starts and ends (exclusive) of the runs of frames that are free or cached."""
        usable = (self.state == FREE) | (self.state == CACHED)
        edges = np.flatnonzero(np.diff(np.concatenate(([False], usable, [False])).astype(np.int8)))
        return edges[::2], edges[1::2]

    def _expect(self, frames: Frames, state: int, done: str) -> None:
        wrong = self.state[frames] != state
        if np.count_nonzero(wrong):
            self._refuse(frames[wrong][0], done)

    def _in_range(self, frames: Frames) -> None:
        wrong = frames.view(np.uint32) >= self.capacity  # negative ids are large ones here
        if np.count_nonzero(wrong):
            raise BadHandle(
                f"frame {frames[wrong][0]} is not one of {self.name}'s: ids are 0 to {self.capacity - 1}"
            )

    def _refuse(self, frame: int, done: str) -> None:
        raise BadHandle(
            f"frame {frame} of {self.name} cannot be {done}: it is {STATE_NAMES[self.state[frame]]} "
            f"with {self.refs[frame]} references"
        )
