"""The event log: one JSON object a line, for whoever draws or analyses a run. Described in docs/events.md."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from pagefault.scheduling import Scheduler, SchedulerConfig, SequenceEvent, StepPlan
    from pagefault.sim.recorder import SimResult

EVENTS_VERSION = 1
"""Raised when a line changes its meaning; new keys and kinds of lines may come without."""


class EventLog:
    """Turns a run into lines.

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
                "free": scheduler.pager.free_frames,
            }
        )

    def end(self, result: SimResult) -> None:
        """The run is over, or was interrupted."""
        self._line({"t": result.end_ns, "e": "end", "complete": result.complete, "steps": len(result.steps)})

    def _line(self, value: dict[str, Any]) -> None:
        self._write(json.dumps(value, separators=(",", ":")) + "\n")
