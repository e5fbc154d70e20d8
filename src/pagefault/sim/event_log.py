"""The event log: one JSON object a line, for whoever draws or analyses a run. Described in docs/events.md."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from pagefault.paging import Pager, TableUpdates
    from pagefault.scheduling import Scheduler, SchedulerConfig, SequenceEvent, StepPlan
    from pagefault.sim.recorder import SimResult

EVENTS_VERSION = 1
"""Raised when a line changes its meaning; new keys and kinds of lines may come without."""


class EventLog:
    """Turns a run into lines; an `Observer`.

    Page tables and lengths are written as what a reader cannot foresee: entries that changed, rows that begin or
    cease to decode, lengths other than one more a decoded token. So a step in which nothing faults adds nothing,
    and the log has every frame of every sequence at every step.

    Args:
        write: Takes one line of text, its line end included.
        about: What ran, for the first line: command, model, GPU and the like.
        config: How the scheduler decided.
        pool_blocks: Frames.
        block_size: Tokens a frame.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        about: dict[str, Any],
        config: SchedulerConfig,
        pool_blocks: int,
        block_size: int,
    ) -> None:
        self._write = write
        self._tables = _TableChanges()
        self._line(
            {
                "format": "pagefault-events",
                "version": EVENTS_VERSION,
                "about": about,
                "pool_blocks": pool_blocks,
                "block_size": block_size,
                "config": asdict(config),
            }
        )

    def sequence(self, event: SequenceEvent) -> None:
        """Something happened to a sequence."""
        record = event.sequence
        line: dict[str, Any] = {"t": event.time_ns, "e": event.kind, "id": record.request.id}
        if event.kind == "queued":
            line |= {"prompt": record.request.prompt_tokens, "output": record.request.max_tokens}
        elif event.kind in ("admitted", "resumed"):
            line |= {"row": record.row, "hit": record.hit_tokens + record.repeated_hit_tokens}
        elif event.kind == "preempted":
            last = record.preemptions[-1]
            line |= {
                "for": last.beneficiary,
                "how": last.how,
                "frames": last.frames,
                "lost": last.lost_tokens,
            }
        elif event.kind in ("finished", "cancelled"):
            line |= {"tokens": record.generated, "preemptions": len(record.preemptions)}
        self._line(line)

    def step(self, plan: StepPlan, end_ns: int, scheduler: Scheduler) -> None:
        """A step has ended; its tokens are not counted yet."""
        self._line(
            {
                "t": end_ns,
                "e": "step",
                "n": plan.step,
                "prefill": plan.prefill.tokens,
                "decode": len(plan.decode),
                "stalled": len(plan.stalled),
                "running": plan.running,
                "waiting": len(scheduler.waiting),
                "swapped": len(scheduler.swapped),
                "free": scheduler.pager.free_frames,
                **self._tables.since_last_step(plan, scheduler.pager),
            }
        )

    def end(self, result: SimResult) -> None:
        """The run is over, or was interrupted."""
        self._line({"t": result.end_ns, "e": "end", "complete": result.complete, "steps": len(result.steps)})

    def _line(self, value: dict[str, Any]) -> None:
        self._write(json.dumps(value, separators=(",", ":")) + "\n")


class _TableChanges:
    """What changed in page tables, lengths and the cache from one step to the next."""

    def __init__(self) -> None:
        self._lengths = np.zeros(0, np.int64)
        self._decoding = np.zeros(0, np.bool_)
        self._stalled = np.zeros(0, np.bool_)
        self._cached = np.zeros(0, np.int32)

    def since_last_step(self, plan: StepPlan, pager: Pager) -> dict[str, Any]:
        """The keys of a step's line that say it; without those that would be empty."""
        if not self._lengths.size:
            self._lengths = np.zeros_like(pager.lengths)
            self._decoding = np.zeros(pager.max_seqs, np.bool_)
            self._stalled = np.zeros(pager.max_seqs, np.bool_)
        decoding, stalled = np.zeros_like(self._decoding), np.zeros_like(self._stalled)
        decoding[plan.decode.rows] = True
        stalled[plan.stalled] = True
        foreseen = self._lengths + decoding
        changed = np.flatnonzero(pager.lengths != foreseen)
        cached = pager.cached_frames
        found = {
            "tables": _runs(pager.drain_updates()),
            "on": np.flatnonzero(decoding & ~self._decoding).tolist(),
            "off": np.flatnonzero(self._decoding & ~decoding).tolist(),
            "stalled_on": np.flatnonzero(stalled & ~self._stalled).tolist(),
            "stalled_off": np.flatnonzero(self._stalled & ~stalled).tolist(),
            "lengths": np.stack((changed, pager.lengths[changed]), 1).tolist(),
            "cached": np.setdiff1d(cached, self._cached, assume_unique=True).tolist(),
        }
        self._lengths, self._decoding, self._stalled, self._cached = (
            pager.lengths.copy(),
            decoding,
            stalled,
            cached,
        )
        return {key: value for key, value in found.items() if value}


def _runs(updates: TableUpdates) -> list[list[int]]:
    """Changed entries as ``[row, first page, frame, frame, …]``, one list a run of consecutive pages of a row."""
    if not len(updates):
        return []
    rows, pages = updates.rows, updates.pages  # sorted by row, then page
    breaks = np.flatnonzero((np.diff(rows) != 0) | (np.diff(pages) != 1)) + 1
    starts, stops = [0, *breaks.tolist()], [*breaks.tolist(), len(updates)]
    frames = updates.frames.tolist()
    return [
        [int(rows[start]), int(pages[start]), *frames[start:stop]]
        for start, stop in zip(starts, stops, strict=True)
    ]
