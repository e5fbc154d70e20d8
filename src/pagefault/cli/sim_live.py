"""`pagefault sim --live`: the pool, throughput and stalls in the terminal while a simulation runs."""

from __future__ import annotations

import contextlib
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from pagefault.cli.console import WIDTH, console, progress
from pagefault.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from pagefault.scheduling import Scheduler, SequenceEvent, StepPlan

DRAWS_A_SECOND = 10
POOL_ROWS = 8
SHADES = "·░▒▓█"
"""A cell of the pool by how much of it is used; a dot is free, a `c` cached."""
BARS = "▁▂▃▄▅▆▇█"
REMEMBERED = 48
"""Draws that the sparklines show."""


class LiveView:
    """Draws a run; an `Observer`. What it costs is a look at the clock a step, and ten drawings a second.

    Args:
        draw: Takes what is to be seen.
        name: Of the run.
        total: Requests of the run.
        clock: Seconds, rising; wall time.
    """

    def __init__(
        self,
        draw: Callable[[Text], object],
        name: str,
        total: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._draw, self._name, self._total, self._clock = draw, name, total, clock
        self._next = 0.0
        self._finished = self._preempted = 0
        self._tokens = 0
        self._before = (0, 0)  # simulated time and tokens at the last draw
        self._running: deque[float] = deque(maxlen=REMEMBERED)
        self._used: deque[float] = deque(maxlen=REMEMBERED)

    def sequence(self, event: SequenceEvent) -> None:
        """Counts ends and preemptions."""
        self._finished += event.kind in ("finished", "cancelled")
        self._preempted += event.kind == "preempted"

    def step(self, plan: StepPlan, end_ns: int, scheduler: Scheduler) -> None:
        """Draws, if it is time."""
        self._tokens += len(plan.decode)
        now = self._clock()
        if now < self._next:
            return
        self._next = now + 1 / DRAWS_A_SECOND
        self._draw(self.picture(plan, end_ns, scheduler))

    def picture(self, plan: StepPlan, end_ns: int, scheduler: Scheduler) -> Text:
        """What is to be seen: lines of at most 80 columns, always as many."""
        from rich.text import Text

        pager = scheduler.pager
        used = 1 - pager.free_frames / pager.num_blocks
        before_ns, before = self._before
        rate = (self._tokens - before) / max(end_ns - before_ns, 1) * 1e9
        self._before = (end_ns, self._tokens)
        self._running.append(plan.running)
        self._used.append(used)
        ended = f"{self._finished:,} of {self._total:,}"
        lines = [
            (f"{self._name[:40]:<42}{ended} ended, {end_ns / 1e9:,.2f} s simulated", "bold"),
            *((line, "cyan") for line in pool_lines(scheduler)),
            (f"pool      {100 * used:5.1f}% used   {spark(self._used, 1.0)}", ""),
            (f"running   {plan.running:6,}        {spark(self._running)}", ""),
            (
                f"waiting   {len(scheduler.waiting):6,}   stalled {len(plan.stalled):5,}   preempted "
                f"{self._preempted:,}   decoding {rate:,.0f} tokens/s",
                "red" if len(plan.stalled) else "",
            ),
        ]
        text = Text()
        for line, style in lines:
            text.append(line[:WIDTH] + "\n", style)
        return text


def pool_lines(scheduler: Scheduler) -> list[str]:
    """The pool as `POOL_ROWS` lines; a cell stands for as many frames as it takes to fit."""
    pager = scheduler.pager
    state = np.zeros(pager.num_blocks)
    for row in scheduler.running.rows.tolist():
        frames = pager.block_table[row]
        state[frames[frames >= 0]] = 1
    cached = np.zeros(pager.num_blocks)
    cached[pager.cached_frames] = 1
    cells = min(POOL_ROWS * (WIDTH - 2), pager.num_blocks)
    edges = np.linspace(0, pager.num_blocks, cells + 1).astype(np.int64)
    sizes = np.diff(edges)
    used, kept = (np.add.reduceat(part, edges[:-1]) / sizes for part in (state, cached))
    shades = np.ceil(used * (len(SHADES) - 1)).astype(int)
    text = "".join(
        "c" if keep > use else SHADES[shade] for shade, use, keep in zip(shades, used, kept, strict=True)
    )
    width = -(-cells // POOL_ROWS)
    lines = [text[at : at + width] for at in range(0, cells, width)]
    return lines + [""] * (POOL_ROWS - len(lines))


def spark(values: deque[float], top: float | None = None) -> str:
    """Values as bars, the last ones on the right."""
    most = top or max(max(values), 1e-9)
    return "".join(BARS[min(int(value / most * len(BARS)), len(BARS) - 1)] for value in values)


@contextlib.contextmanager
def live_views(
    given: Mapping[str, Any], on: Console | None = None
) -> Iterator[Callable[[str, int], list[LiveView]]]:
    """Makes the view of each run: ``views(name, requests)``, a list of one, or of none without `--live`.

    Raises:
        InputError: Stdout is no terminal, or `--json` was given too.
    """
    if "live" not in given:
        yield lambda _name, _total: []
        return
    if "as_json" in given:
        raise InputError("--live draws on stdout and --json prints there; give one of them")
    if on is None and not sys.stdout.isatty():
        raise InputError("--live draws in a terminal, and stdout is none; leave it out, or do not redirect")
    live = _live(console() if on is None else on)
    with live:
        yield lambda name, total: [LiveView(lambda text: live.update(text, refresh=True), name, total)]


@contextlib.contextmanager
def progress_unless_live(
    given: Mapping[str, Any], description: str
) -> Iterator[Callable[[float, float, str], None]]:
    """The progress bar, which would fight with the view for the terminal."""
    if "live" in given:
        yield lambda _done, _total, _text: None
        return
    with progress(description) as update:
        yield update


def _live(on: Console) -> Live:
    from rich.live import Live

    return Live(console=on, auto_refresh=False, transient=True)
