"""A run in the Chrome trace format, for ui.perfetto.dev and chrome://tracing.

A process a run, a track a sequence, counters for the pool. Source of the format: "Trace Event Format" of the
Chromium project. Times there are microseconds; three decimals keep every nanosecond.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pagefault.report.events import Line, RunLog

COUNTERS = ("free", "running", "waiting", "stalled")
"""Of a step's line, as counters."""


def write_chrome_trace(runs: Sequence[RunLog], write: Callable[[str], object]) -> None:
    """Writes all runs of a log as one JSON object.

    The slices of a sequence's track follow one another without a gap from the moment it is queued to its end:
    queued, prefill, decode, stalled (it wants a frame and gets none), idle (the step's tokens went to others),
    preempted and swapped. A preemption is an instant, with an arrow to the sequence it was for.

    Args:
        runs: From `read_events`.
        write: Takes text.
    """
    first = True

    def emit(event: dict[str, Any]) -> None:
        nonlocal first
        write(("" if first else ",\n") + json.dumps(event, separators=(",", ":")))
        first = False

    write('{"displayTimeUnit":"ms","traceEvents":[\n')
    for number, run in enumerate(runs, 1):
        _Tracks(number, run, emit).write()
    write("\n]}\n")


class _Tracks:
    """One run. `_open` is what each sequence does, and since when; a slice is written as that changes."""

    def __init__(self, pid: int, run: RunLog, emit: Callable[[dict[str, Any]], None]) -> None:
        self._pid, self._run, self._emit = pid, run, emit
        self._delivered = run.header.config.get("prefill") == "delivered"  # no prompt is computed
        self._open: dict[int, tuple[str, int]] = {}
        self._rows: dict[int, int] = {}
        self._row_of: dict[int, int] = {}
        self._lost_by: dict[int, str] = {}
        self._new: set[int] = set()  # rows given out since the last step
        self._decoding: set[int] = set()
        self._stalled: set[int] = set()
        self._prefilling: set[int] = set()
        self._begun: set[int] = set()  # who has its first token
        self._counters: dict[str, int] = {}
        self._arrows = 0

    def write(self) -> None:
        name = {"name": "process_name", "args": {"name": self._run.header.name}}
        self._emit({"ph": "M", "pid": self._pid, "tid": 0, **name})
        last_end = 0
        for line in self._run.lines:
            if line.e == "step":
                self._step(line, last_end)
                last_end = line.t
                continue
            if line.e == "queued" and not self._open:
                last_end = max(last_end, line.t)  # the machine was idle: the next step begins now
            getattr(self, "_" + line.e)(line)
        for sequence in list(self._open):  # of a run that was interrupted
            self._close(sequence, self._run.end_ns)

    # --- what happens to a sequence ------------------------------------------------------------------------

    def _queued(self, line: Line) -> None:
        track = {"pid": self._pid, "tid": line.id}
        self._emit({"ph": "M", **track, "name": "thread_name", "args": {"name": f"sequence {line.id}"}})
        self._emit({"ph": "M", **track, "name": "thread_sort_index", "args": {"sort_index": line.id}})
        self._open[line.id] = ("queued", line.t)

    def _admitted(self, line: Line) -> None:
        self._rows[line.row], self._row_of[line.id] = line.id, line.row
        self._new.add(line.row)
        known = line.id in self._begun and self._lost_by.get(line.id) == "swap"
        self._turn(line.id, "decode" if self._delivered or known else "prefill", line.t)

    _resumed = _admitted

    def _first_token(self, line: Line) -> None:
        self._begun.add(line.id)
        self._turn(line.id, "decode", line.t)

    def _preempted(self, line: Line) -> None:
        self._lost_by[line.id] = line.how
        if line.how == "restart":
            self._begun.discard(line.id)
        self._rows.pop(self._row_of.pop(line.id, -1), None)
        self._turn(line.id, "swapped" if line.how == "swap" else "preempted", line.t)
        at = {"pid": self._pid, "ts": line.t / 1000}
        told = {"for": line.beneficiary, "how": line.how, "frames": line.frames, "lost tokens": line.lost}
        self._emit(
            {"ph": "i", "s": "t", **at, "tid": line.id, "name": f"preempted by {line.how}", "args": told}
        )
        if line.beneficiary in self._open and line.beneficiary != line.id:
            self._arrows += 1
            arrow = {"cat": "preemption", "name": "frames for", "id": f"{self._pid}.{self._arrows}", **at}
            self._emit({"ph": "s", **arrow, "tid": line.id})
            self._emit({"ph": "f", "bp": "e", **arrow, "tid": line.beneficiary})

    def _finished(self, line: Line) -> None:
        self._rows.pop(self._row_of.pop(line.id, -1), None)
        self._close(line.id, line.t)

    _cancelled = _finished

    # --- what happens in a step ----------------------------------------------------------------------------

    def _step(self, line: Line, start: int) -> None:
        self._decoding = (self._decoding - set(line.off)) | set(line.on)
        self._stalled = (self._stalled - set(line.stalled_off)) | set(line.stalled_on)
        # A length that follows from nothing else is a chunk of a prompt, or that of a row that comes or goes.
        prefilling = {row for row, tokens in line.lengths if tokens}
        changed = self._new | self._prefilling | prefilling
        for row in changed.union(line.on, line.off, line.stalled_on, line.stalled_off):
            sequence = self._rows.get(row)
            if sequence is None:  # it has just been given back
                continue
            back = row in self._new and sequence in self._begun and self._lost_by.get(sequence) == "swap"
            doing = "prefill" if row in prefilling and not back else "idle"
            doing = "decode" if row in self._decoding else doing
            self._turn(sequence, "stalled" if row in self._stalled else doing, start)
        self._prefilling = prefilling
        self._new.clear()
        for name in COUNTERS:
            value = getattr(line, name)
            if self._counters.get(name) != value:
                self._counters[name] = value
                title = "free frames" if name == "free" else f"{name} sequences"
                counter = {"ph": "C", "pid": self._pid, "tid": 0, "name": title}
                self._emit({**counter, "ts": start / 1000, "args": {name: value}})

    def _turn(self, sequence: int, doing: str, time_ns: int) -> None:
        now, since = self._open[sequence]
        if now != doing:
            self._slice(sequence, now, since, time_ns)
            self._open[sequence] = (doing, max(time_ns, since))

    def _close(self, sequence: int, time_ns: int) -> None:
        now, since = self._open.pop(sequence)
        self._slice(sequence, now, since, time_ns)

    def _slice(self, sequence: int, name: str, since: int, until: int) -> None:
        if until > since:
            times = {"ts": since / 1000, "dur": (until - since) / 1000}
            self._emit({"ph": "X", "pid": self._pid, "tid": sequence, "name": name, **times})
