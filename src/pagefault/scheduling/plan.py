"""What the scheduler tells an executor, and what it is told back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pagefault.paging import FrameCopies

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pagefault.paging import TableUpdates
    from pagefault.scheduling.sequence import Preemption

    Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Chunks:
    """Consecutive tokens to compute, one chunk a row. Their slots are in the pager already.

    Attributes:
        rows: Rows of the pager's block table, int64 [n].
        starts: Tokens of the row computed before, so the first position of the chunk, int64 [n].
        counts: Tokens of the chunk, all at least 1, int64 [n].
        samples: Whether the chunk ends with the last known token, so that it makes the next one, bool [n].
    """

    rows: Ints
    starts: Ints
    counts: Ints
    samples: NDArray[np.bool_]

    def __len__(self) -> int:
        return int(self.rows.size)

    @property
    def tokens(self) -> int:
        """Tokens to compute."""
        return int(self.counts.sum())

    def where(self, which: NDArray[np.bool_]) -> Chunks:
        """Some of them, in the same order; `which` is bool [n]."""
        chosen = np.count_nonzero(which)
        if chosen == len(self):
            return self
        if not chosen:
            return _NO_CHUNKS
        return Chunks(self.rows[which], self.starts[which], self.counts[which], self.samples[which])


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One step of the machine. An executor does it in this order: swap out, swap in, copies, writes, attention.

    Attributes:
        step: Its number.
        prefill: Chunks of prompts (also of what a preempted sequence has to compute again).
        decode: Rows that compute their newest token; every count is 1 and every row samples.
        stalled: Rows that wanted to compute and got no frame, int64 [n].
        preempted: Who lost its frames, in order.
        swap_out: Device frames (`src`) to copy to host frames (`dst`).
        swap_in: Host frames (`src`) to copy to device frames (`dst`).
        copies: Copies on write, device to device.
        updates: What changed in the block table, or None where the scheduler was not asked to track it.
        running: Sequences that hold frames on the device in this step.
    """

    step: int
    prefill: Chunks
    decode: Chunks
    stalled: Ints
    preempted: tuple[Preemption, ...]
    swap_out: FrameCopies
    swap_in: FrameCopies
    copies: FrameCopies
    updates: TableUpdates | None
    running: int

    @property
    def empty(self) -> bool:
        """Nothing to execute: no token, no copy."""
        chunks, copies = (self.prefill, self.decode), (self.swap_out, self.swap_in, self.copies)
        return not any(len(part) for part in (*chunks, *copies))

    @property
    def tokens(self) -> int:
        """Tokens to compute."""
        return self.prefill.tokens + len(self.decode)

    @property
    def sampled_rows(self) -> Ints:
        """Rows that make a token, int64 [n]: the decoding ones, then prompts that are complete."""
        return np.concatenate((self.decode.rows, self.prefill.rows[self.prefill.samples]))


@dataclass(frozen=True, slots=True)
class StepResult:
    """What an executor reports: tokens, not verdicts.

    Attributes:
        step: The plan's number.
        time_ns: When the step ended.
        token_ids: The new token of each of the plan's `sampled_rows`, int64 [n]; None in a simulation, where
            each of them made one token that nobody knows.
    """

    step: int
    time_ns: int
    token_ids: Ints | None = None


_NO_COPIES = FrameCopies(np.empty(0, np.int32), np.empty(0, np.int32))
_NO_CHUNKS = Chunks(
    np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_)
)


def join_chunks(parts: list[Chunks]) -> Chunks:
    """One after the other."""
    if len(parts) < 2:
        return parts[0] if parts else _NO_CHUNKS
    return Chunks(
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.starts for part in parts]),
        np.concatenate([part.counts for part in parts]),
        np.concatenate([part.samples for part in parts]),
    )


def join_copies(parts: list[FrameCopies]) -> FrameCopies:
    """One after the other."""
    if len(parts) < 2:
        return parts[0] if parts else _NO_COPIES
    return FrameCopies(
        np.concatenate([part.src for part in parts]), np.concatenate([part.dst for part in parts])
    )
