"""Small schedulers for situations that can be worked out by hand: blocks of 4 tokens, no watermark, no prefix cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pagefault.paging import Pager
from pagefault.scheduling import Request, Scheduler, SchedulerConfig
from scheduling.executor import Executor

if TYPE_CHECKING:
    from collections.abc import Callable

    from pagefault.scheduling import Chunks, PreemptionCosts, SequenceEvent

BLOCK = 4


def executor(
    blocks: int,
    *,
    host_blocks: int = 0,
    caching: bool = False,
    costs: PreemptionCosts | None = None,
    listener: Callable[[SequenceEvent], None] | None = None,
    **config: Any,
) -> Executor:
    """A scheduler over so many blocks, and an executor that checks every plan of it."""
    options = {"max_num_seqs": 8, "max_model_len": blocks * BLOCK, "watermark": 0.0, **config}
    made = SchedulerConfig(**options)
    rows = made.max_num_seqs * (2 if host_blocks else 1)
    pager = Pager(blocks, BLOCK, max_seqs=rows, host_blocks=host_blocks, prefix_caching=caching)
    return Executor(Scheduler(made, pager, costs, listener), {})


def submit(machine: Executor, *lengths: tuple[int, int], priorities: tuple[int, ...] = ()) -> None:
    """Requests of (prompt, output) tokens, numbered from where the last ones ended."""
    start = machine.scheduler._submitted
    for offset, (prompt, output) in enumerate(lengths):
        priority = priorities[offset] if priorities else 0
        machine.scheduler.submit(Request(start + offset, prompt, output, priority=priority), machine.now)


def running(machine: Executor) -> list[int]:
    """Ids of those that run, in order of admission."""
    found = machine.scheduler.running
    return [found.sequence(row).request.id for row in found.rows.tolist()]


def waiting(machine: Executor) -> list[int]:
    """Ids of those that wait, first in line first."""
    return [sequence.request.id for sequence in machine.scheduler.waiting]


def finished(machine: Executor) -> list[int]:
    """Ids of those that finished, in that order."""
    return [record.request.id for record in machine.finished]


def parts(machine: Executor, chunks: Chunks) -> dict[int, tuple[int, int]]:
    """Of a plan that is outstanding: id -> (first position, tokens) of its chunk."""
    found = machine.scheduler.running
    return {
        found.sequence(row).request.id: (start, count)
        for row, start, count in zip(
            chunks.rows.tolist(), chunks.starts.tolist(), chunks.counts.tolist(), strict=True
        )
    }


def frames_are_a_run(machine: Executor, row: int, pages: int) -> bool:
    """Whether the first pages of a row lie in consecutive frames."""
    frames = machine.pager.block_table[row, :pages]
    return bool((np.diff(frames) == 1).all()) and int(frames.min()) >= 0
