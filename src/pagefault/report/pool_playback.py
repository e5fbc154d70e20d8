"""The pool over time, thinned to what can be drawn and packed for the page's player.

What the player reads is JSON: for each run some figures and `data`, its columns one after the other as little-endian
int32 numbers, deflated, in base64. Along time every column holds differences (a row minus the row before), so what
does not change is zeros and costs nothing. The columns, in this order, with `instants`, `cells` and `rows` as given:

| column | shape | is |
|---|---|---|
| `owner` | [instants, cells] | a sequence, or a `Nobody`, or for a shared frame `FIRST_GROUP - group` |
| `page` | [instants, cells] | which page of the owner it is |
| `sequence` | [instants, rows] | who has the row and runs, -1 if nobody |
| `tokens` | [instants, rows] | its length, the tokens of this step included |
| `pages` | [instants, rows] | frames in its page table |
| `doing` | [instants, rows] | a `Doing` |

Whether a page is reserved follows from its owner's tokens; `swapped` sequences that still share frames have rows, too.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from pagefault.report.colours import PALETTE, choose_colours, columns_of
from pagefault.report.replay import Kind, Replay
from pagefault.report.thinning import Cells, evenly, instants

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from pagefault.report.events import Line, RunLog
    from pagefault.report.replay import Kinds, PoolState

    Ints = npt.NDArray[np.int64]
    Column = npt.NDArray[np.int32]

MOST_INSTANTS = 600
MOST_CELLS = 4096
MOST_PREEMPTIONS = 2000
BINS = 300
"""Of the time line's area."""

NAMED_SHARERS = 8
"""How many of the sequences that share a frame are named; the others are counted."""


class Nobody(IntEnum):
    """Owners that are no sequence."""

    FREE = -1
    CACHED = -2
    LEAVING = -3


FIRST_GROUP = -4
"""The owner of a frame that group 0 shares; group 1 is one less, and so on."""


@dataclass(frozen=True)
class Track:
    """One run, thinned.

    Attributes:
        run: Of which run.
        steps: Steps in all.
        per_cell: Frames a cell stands for; the last may have fewer.
        shown: The steps drawn, by index, int64 [instants].
        times: When each of them ended, ns, int64 [instants].
        numbers: Their numbers in the log, int64 [instants].
        waiting: Sequences in the queue, int64 [instants].
        swapped: Sequences swapped out, int64 [instants].
        free: Frames that growth can have, free and cached ones, int64 [instants].
        stored: Tokens in the frames that sequences have, those in a shared frame once, int64 [instants].
        columns: See this module.
        groups: Of each group of sequences that share a frame: how many, and the first of them.
        kinds: Kinds of frames that are drawn anywhere.
        given: Pages that got a frame in each of `BINS` equal spans of the run's time, int64 [BINS].
        preemptions: The lines of those that are marked.
        preempted: How many there were.
    """

    run: RunLog
    steps: int
    per_cell: int
    shown: Ints
    times: Ints
    numbers: Ints
    waiting: Ints
    swapped: Ints
    free: Ints
    stored: Ints
    columns: dict[str, Column]
    groups: list[list[int]]
    kinds: list[Kind]
    given: Ints
    preemptions: list[Line]
    preempted: int

    @property
    def thinned(self) -> list[str]:
        """What was left out, in words."""
        said = []
        if self.shown.size < self.steps:
            said.append(f"{self.shown.size:,} of {self.steps:,} steps")
        if self.per_cell > 1:
            said.append(f"cells of {self.per_cell:,} frames that show what most of them are")
        if len(self.preemptions) < self.preempted:
            said.append(f"{len(self.preemptions):,} of {self.preempted:,} preemptions")
        return said

    def as_json(self) -> dict[str, Any]:
        """What the player reads of it."""
        header = self.run.header
        cells, rows = self.columns["owner"].shape[1], self.columns["sequence"].shape[1]
        return {
            "name": header.name,
            "blocks": header.pool_blocks,
            "blockSize": header.block_size,
            "perCell": self.per_cell,
            "steps": self.steps,
            "complete": self.run.complete,
            "instants": int(self.shown.size),
            "cells": cells,
            "across": columns_of(cells),
            "rows": rows,
            "times": self.times.tolist(),
            "numbers": self.numbers.tolist(),
            "waiting": self.waiting.tolist(),
            "swapped": self.swapped.tolist(),
            "free": self.free.tolist(),
            "stored": self.stored.tolist(),
            "kinds": [kind.name.lower() for kind in self.kinds],
            "groups": self.groups,
            "given": self.given.tolist(),
            "preemptions": [
                [line.t, line.id, line.beneficiary, line.how, line.frames, line.lost]
                for line in self.preemptions
            ],
            "columns": list(self.columns),
            "data": _pack(self.columns),
        }


@dataclass(frozen=True)
class Playback:
    """The runs of one page, in the order of the log."""

    tracks: list[Track]

    @property
    def thinned(self) -> str:
        """What was left out, in one sentence; empty if nothing was."""
        several = len(self.tracks) > 1
        parts = [
            (f"{track.run.header.name}, " if several else "") + ", ".join(track.thinned)
            for track in self.tracks
            if track.thinned
        ]
        return f"Thinned for drawing: {'; '.join(parts)}." if parts else ""

    def as_json(self) -> dict[str, Any]:
        """What the player reads."""
        colours = choose_colours(track.columns["owner"] for track in self.tracks)
        return {
            "palette": PALETTE,
            "sequences": list(colours),
            "colours": list(colours.values()),
            "runs": [track.as_json() for track in self.tracks],
        }


def playback(
    runs: Sequence[RunLog], most_instants: int = MOST_INSTANTS, most_cells: int = MOST_CELLS
) -> Playback:
    """The pool over time, thinned to what can be drawn.

    Args:
        runs: Those with at least a step are in it.
        most_instants: Steps drawn a run, at most; at least 2. The first and the last are, and those in which
            somebody was preempted where there is room.
        most_cells: Cells a pool, at most; at least 1.

    Raises:
        InputError: A log is broken.
    """
    return Playback([_track(run, most_instants, most_cells) for run in runs if any(run.steps())])


def _track(run: RunLog, most_instants: int, most_cells: int) -> Track:
    lines = list(run.steps())
    times = np.array([line.t for line in lines], np.int64)
    preemptions = [line for line in run.lines if line.e == "preempted"]
    # A preemption is decided when its step starts: the step that shows it is the first that ends later.
    when = np.array([line.t for line in preemptions], np.int64)
    showing = np.unique(np.minimum(np.searchsorted(times, when, "right"), times.size - 1))
    shown = instants(times, showing, most_instants)
    cells = Cells(run.header.pool_blocks, most_cells)
    replay = Replay(run)
    columns = _columns(shown.size, cells.count, replay.rows)
    groups = _Groups()
    given = np.zeros(times.size, np.int64)
    stored = np.zeros(shown.size, np.int64)
    kinds = np.zeros(len(Kind), np.bool_)
    at = {int(step): index for index, step in enumerate(shown)}
    for step in range(times.size):
        replay.advance()
        given[step] = replay.given
        if step in at:
            pool = replay.pool()
            stored[at[step]] = pool.stored(replay.lengths, replay.block_size)
            kinds[
                _draw(
                    replay, pool, cells, groups, {name: column[at[step]] for name, column in columns.items()}
                )
            ] = True
    span = max(int(times[-1]), 1)
    bins = np.minimum(times * BINS // span, BINS - 1)
    return Track(
        run=run,
        steps=times.size,
        per_cell=cells.per,
        shown=shown,
        times=times[shown],
        numbers=np.array([lines[step].n for step in shown], np.int64),
        waiting=np.array([lines[step].waiting for step in shown], np.int64),
        swapped=np.array([lines[step].swapped for step in shown], np.int64),
        free=np.array([lines[step].free for step in shown], np.int64),
        stored=stored,
        columns=columns,
        groups=groups.known,
        kinds=[kind for kind in Kind if kinds[kind]],
        given=np.bincount(bins, given, BINS).astype(np.int64),
        preemptions=[preemptions[i] for i in evenly(np.arange(len(preemptions)), MOST_PREEMPTIONS)],
        preempted=len(preemptions),
    )


def _columns(instants: int, cells: int, rows: int) -> dict[str, Column]:
    widths = {"owner": cells, "page": cells, "sequence": rows, "tokens": rows, "pages": rows, "doing": rows}
    return {name: np.zeros((instants, width), np.int32) for name, width in widths.items()}


def _draw(replay: Replay, pool: PoolState, cells: Cells, groups: _Groups, into: dict[str, Column]) -> Kinds:
    """One instant: what each cell and each row shows. Returns the kind of each cell."""
    frames = cells.representatives(pool)
    kind, row = pool.kind[frames], pool.row[frames]
    owner = into["owner"]
    owner[:] = Nobody.FREE
    owner[kind == Kind.CACHED] = Nobody.CACHED
    owner[kind == Kind.LEAVING] = Nobody.LEAVING
    alone = (kind == Kind.HELD) | (kind == Kind.RESERVED)
    owner[alone] = replay.sequences[row[alone]]
    shared = np.flatnonzero(kind == Kind.SHARED)
    if shared.size:
        owner[shared] = FIRST_GROUP - groups.of(replay, pool, frames[shared])
    into["page"][:] = pool.page[frames]
    into["sequence"][:] = replay.sequences
    into["tokens"][:] = np.where(replay.sequences >= 0, replay.lengths, 0)
    into["pages"][:] = np.bincount(pool.entries.rows, minlength=replay.rows)
    into["doing"][:] = replay.doing()
    return kind


class _Groups:
    """The sets of sequences that share frames, each once."""

    def __init__(self) -> None:
        self.known: list[list[int]] = []
        self._number: dict[tuple[int, ...], int] = {}

    def of(self, replay: Replay, pool: PoolState, frames: Ints) -> Ints:
        """The number of the group that shares each of these frames, int64 [n]."""
        entries = pool.entries
        order = np.argsort(entries.frames, kind="stable")
        sharers, sorted_frames = replay.sequences[entries.rows[order]], entries.frames[order]
        starts, stops = (np.searchsorted(sorted_frames, frames, side) for side in ("left", "right"))
        return np.array([self._find(sharers[a:b]) for a, b in zip(starts, stops, strict=True)], np.int64)

    def _find(self, sharers: Ints) -> int:
        members = np.sort(sharers)
        group = (members.size, *members[:NAMED_SHARERS].tolist())
        if group not in self._number:
            self._number[group] = len(self.known)
            self.known.append(list(group))
        return self._number[group]


def _pack(columns: dict[str, Column]) -> str:
    """The columns as text; see this module."""
    packer = zlib.compressobj(6)
    parts = []
    for column in columns.values():
        changes = np.diff(column, axis=0, prepend=np.zeros((1, column.shape[1]), np.int32))
        parts.append(packer.compress(changes.astype("<i4").tobytes()))
    parts.append(packer.flush())
    return base64.b64encode(b"".join(parts)).decode("ascii")
