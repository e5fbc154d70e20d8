"""Runs of event logs as arrays, and what their charts share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from pagefault.report.charts import (
    COLOURS,
    DASHES,
    figure,
    legend,
    once,
    scale_of,
    time_unit,
)
from pagefault.report.extremes import evenly

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from pagefault.report.charts import Spec
    from pagefault.report.events import RunLog

    Ints = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

MOST_RUNS = len(COLOURS)
"""More lines than that cannot be told apart."""

STATES = ("computing", "stalled", "swapped out", "in the queue")


def drawn_runs(runs: Sequence[RunLog]) -> list[RunLog]:
    """The runs that are drawn: all with a step, or an even choice of `MOST_RUNS`, the first and the last among them."""
    stepped = [run for run in runs if any(True for _ in run.steps())]
    return [stepped[index] for index in evenly(len(stepped), MOST_RUNS)]


class DrawnRun:
    """A run as arrays.

    Attributes:
        name: See `Header`.
        log: The run.
        steps: See `RunLog.columns`; where nobody was in the system, a sample at the pause's begin and one at its end
            say so.
        preempted: When sequences lost their frames, int64 ns, rising.
        lost: Tokens that must be computed again because of each of these, int64.
        ttft: From queued to the first token of each finished request, float64 s.
        tpot: Mean time a token after the first, of each that has more than one, float64 s.
    """

    def __init__(self, log: RunLog) -> None:
        self.log, self.name, self.steps = log, log.header.name, _with_pauses(log)
        preemptions = [line for line in log.lines if line.e == "preempted"]
        self.preempted = np.array([line.t for line in preemptions], np.int64)
        self.lost = np.array([line.lost for line in preemptions], np.int64)
        queued: dict[int, int] = {}
        first: dict[int, int] = {}
        ttft, tpot = [], []
        for line in log.sequence_events():
            if line.e == "queued":
                queued.setdefault(line.id, line.t)
            elif line.e == "first_token":
                first.setdefault(line.id, line.t)
            elif line.e == "finished" and line.id in first and line.id in queued:
                ttft.append((first[line.id] - queued[line.id]) / 1e9)
                if line.tokens > 1:
                    tpot.append((line.t - first[line.id]) / (line.tokens - 1) / 1e9)
        self.ttft, self.tpot = np.array(ttft, np.float64), np.array(tpot, np.float64)

    @cached_property
    def states(self) -> dict[str, Ints]:
        """Sequences in each of `STATES` at each step."""
        steps = self.steps
        counts = (steps["running"] - steps["stalled"], steps["stalled"], steps["swapped"], steps["waiting"])
        return dict(zip(STATES, counts, strict=True))

    @cached_property
    def used(self) -> Floats:
        """Share of the pool that is not free at each step, in %."""
        blocks = self.log.header.pool_blocks
        return 100 * (blocks - self.steps["free"]) / blocks


def _with_pauses(log: RunLog) -> dict[str, Ints]:
    """The steps as columns, and between them samples of the times in which no request was there.

    A log has no lines for these: a line from the last step before a pause to the first after it would draw work that
    was not done.
    """
    steps = log.columns()
    changes = [(line.t, 1) for line in log.lines if line.e == "queued"]
    changes += [(line.t, -1) for line in log.lines if line.e in ("finished", "cancelled")]
    if not changes:
        return steps
    times, by = np.array(sorted(changes), np.int64).T
    alone = np.flatnonzero((np.cumsum(by) == 0)[:-1] & (np.diff(times) > 0))
    ends = np.stack((times[alone], times[alone + 1]), 1).ravel()
    at = np.searchsorted(steps["t"], ends, side="right")
    found = {name: np.insert(values, at, 0) for name, values in steps.items()}
    found["t"] = np.insert(steps["t"], at, ends)
    found["free"] = np.insert(steps["free"], at, log.header.pool_blocks)
    return found


@dataclass(frozen=True)
class Clock:
    """The time axis that runs share."""

    unit: str
    size: float
    end: float

    @classmethod
    def of(cls, runs: Sequence[DrawnRun]) -> Clock:
        """Up to the end of the longest run."""
        end = max(run.log.end_ns for run in runs)
        unit, size = time_unit(end)
        return cls(unit, size, figure(end / size))

    def at(self, time_ns: int) -> float:
        """A time on it."""
        return figure(time_ns / self.size)

    def axis(self, **parts: object) -> Spec:
        """Its encoding, of the field `t`."""
        return {
            "field": "t",
            "type": "quantitative",
            "title": f"simulated time, {self.unit}",
            "scale": {"domain": [0, self.end], "nice": False},
            "axis": {"grid": False, "tickCount": 6},
            **parts,
        }


def commands_of(runs: Sequence[DrawnRun]) -> tuple[str, ...]:
    """What made them."""
    return once(run.log.header.command for run in runs)


def cut_short(runs: Sequence[DrawnRun]) -> str:
    """A caveat that names the runs that did not come to their end."""
    names = [run.name for run in runs if not run.log.complete]
    return f"The log ends before its run did: {', '.join(names)}." if names else ""


def said_thinned(left_out: str, kept: int, steps: int) -> str:
    """What was left out for drawing: runs, then steps."""
    if kept == steps:
        return left_out.strip()
    return (
        f"{left_out}{kept:,} of {steps:,} points in time are drawn: in each of many equal spans of time the first, "
        "the last, and those with the least and the most, so that every peak is there."
    )


def mean_over_time(run: DrawnRun, values: Ints | Floats) -> float:
    """The mean over time, each step counted for the time since the one before it."""
    weights = np.diff(run.steps["t"], prepend=0).astype(np.float64)
    whole = float(weights.sum())
    return float(values @ weights) / whole if whole else float(values[0])


def line_encoding(names: Sequence[str], clock: Clock) -> Spec:
    """Time, and a colour and a dash for each run."""
    only = len(names) == 1
    return {
        "x": clock.axis(),
        "color": {
            "field": "run",
            "scale": scale_of(names, COLOURS),
            "legend": None if only else legend(symbolType="stroke", symbolStrokeWidth=2.5, symbolSize=300),
        },
        "strokeDash": {
            "field": "run",
            "scale": scale_of(names, DASHES),
            "legend": None if only else legend(),
        },
    }
