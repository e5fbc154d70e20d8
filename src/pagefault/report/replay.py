"""Plays a log: page tables, lengths and the owner of every frame, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from pagefault.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from pagefault.report.events import Line, RunLog

    Ints = npt.NDArray[np.int64]
    Frames = npt.NDArray[np.int32]
    Kinds = npt.NDArray[np.uint8]
    Mask = npt.NDArray[np.bool_]

NOBODY = -1
NO_FRAME = -1


class Kind(IntEnum):
    """What a frame is."""

    FREE = 0
    CACHED = 1
    """Nobody references it; its content is kept for a later hit."""
    RESERVED = 2
    """One page table has it, for a page with no token yet."""
    HELD = 3
    SHARED = 4
    """In several page tables."""
    LEAVING = 5
    """Being copied to the host in this step; free after it."""


class Doing(IntEnum):
    """What a sequence does in a step."""

    NOTHING = 0
    """It is not there, or it is swapped out."""
    PREFILL = 1
    DECODE = 2
    STALLED = 3
    """It wants a frame and gets none; or, in a step without stalls, the step's tokens went to others."""


@dataclass(frozen=True)
class Mentions:
    """Every entry of the page tables that names a frame, row after row, each int64 [n]."""

    frames: Ints
    rows: Ints
    pages: Ints


@dataclass(frozen=True)
class PoolState:
    """All frames in one step.

    Attributes:
        kind: A `Kind` each, uint8 [pool_blocks].
        row: The (lowest) row that has the frame, `NOBODY` if none, int32 [pool_blocks].
        page: Which page of that row it is, 0 where there is none, int32 [pool_blocks].
        tables: In how many page tables it is, int32 [pool_blocks].
        entries: The page tables' entries that say so.
    """

    kind: Kinds
    row: Frames
    page: Frames
    tables: Frames
    entries: Mentions

    def stored(self, lengths: Ints, block_size: int) -> int:
        """Tokens in frames that sequences have; those in a shared frame count once. `lengths` is by row."""
        held = np.flatnonzero(self.tables)
        tokens = lengths[self.row[held]] - self.page[held].astype(np.int64) * block_size
        return int(tokens.clip(0, block_size).sum())


class Replay:
    """A run, step by step: `advance` goes on to the next one, the rest says how things are while it runs.

    Args:
        run: What to play.

    Attributes:
        step: The line of this step, None before the first.
        sequences: Who has each row, swapped-out sequences included, `NOBODY` if none, int64 [rows].
        lengths: Tokens of each row, those that this step computes included, int64 [rows].
        cached: Frames that nobody references and that may still be hit, bool [pool_blocks].
        given: Pages that got a frame in this step: faults, reservations, pages that come back from the host. Those
            that the prefix cache had are not among them.
    """

    def __init__(self, run: RunLog) -> None:
        header = run.header
        self.pool_blocks, self.block_size = header.pool_blocks, header.block_size
        self._name = header.name
        self._delivered = header.config.get("prefill") == "delivered"  # prompts that nobody computes
        self._lines = iter(run.lines)
        rows = 1 + max((line.row for line in run.lines), default=-1)
        self.step: Line | None = None
        self.sequences: Ints = np.full(rows, NOBODY, np.int64)
        self.lengths: Ints = np.zeros(rows, np.int64)
        self.cached: Mask = np.zeros(self.pool_blocks, np.bool_)
        self.given = 0
        self._tables: list[Frames] = [np.empty(0, np.int32)] * rows
        self._decoding: Mask = np.zeros(rows, np.bool_)
        self._swapped: Mask = np.zeros(rows, np.bool_)
        self._row_of: dict[int, int] = {}
        self._hits: dict[int, int] = {}
        self._new_hits = 0
        self._swapping: set[int] = set()
        self._leaving: Frames = np.empty(0, np.int32)

    @property
    def rows(self) -> int:
        """Rows that the run ever used."""
        return int(self.sequences.size)

    @property
    def running(self) -> Ints:
        """Rows whose sequences hold frames and take part in steps, rising, int64 [n]."""
        return np.flatnonzero((self.sequences != NOBODY) & ~self._swapped)

    def advance(self) -> bool:
        """Go on to the next step; False if there is none.

        Raises:
            InputError: A line speaks of a sequence, row or frame that cannot be.
        """
        for line in self._lines:
            try:
                if line.e == "step":
                    self._take_step(line)
                    return True
                self._take_event(line)
            except (IndexError, KeyError, ValueError) as error:
                raise InputError(
                    f"a {line.e!r} line at t = {line.t} of run {self._name!r} names a sequence, row or frame that is "
                    f"not there ({error}): the log is broken or parts of it are missing"
                ) from error
        return False

    def table(self, row: int) -> Frames:
        """The row's frames by page, `NO_FRAME` where there is none, int32 [pages up to the last it ever had]."""
        return self._tables[row]

    def mentions(self) -> Mentions:
        """All entries of all page tables."""
        sizes = np.array([table.size for table in self._tables], np.int64)
        frames = np.concatenate([np.empty(0, np.int32), *self._tables]).astype(np.int64)
        rows = np.repeat(np.arange(self.rows), sizes)
        pages = np.arange(frames.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        there = np.flatnonzero(frames != NO_FRAME)
        return Mentions(frames[there], rows[there], pages[there])

    def pool(self) -> PoolState:
        """What every frame is in this step."""
        entries = self.mentions()
        row = np.full(self.pool_blocks, NOBODY, np.int32)
        page = np.zeros(self.pool_blocks, np.int32)
        # Backwards, so that of several entries the lowest row's stays.
        row[entries.frames[::-1]] = entries.rows[::-1]
        page[entries.frames[::-1]] = entries.pages[::-1]
        tables = np.bincount(entries.frames, minlength=self.pool_blocks).astype(np.int32)
        kind = np.full(self.pool_blocks, Kind.FREE, np.uint8)
        kind[self.cached] = Kind.CACHED
        kind[self._leaving] = Kind.LEAVING
        has_token = page * self.block_size < self.lengths[row] if self.rows else self.cached
        kind[tables == 1] = Kind.RESERVED
        kind[(tables == 1) & has_token] = Kind.HELD
        kind[tables > 1] = Kind.SHARED
        return PoolState(kind, row, page, tables, entries)

    def doing(self) -> Kinds:
        """What the sequence of each row does in this step, a `Doing`, uint8 [rows]."""
        doing = np.full(self.rows, Doing.NOTHING, np.uint8)
        doing[self.running] = Doing.STALLED
        if self.step is not None and not self._delivered:
            computed = np.array([row for row, _ in self.step.lengths], np.int64)
            doing[computed[doing[computed] != Doing.NOTHING]] = Doing.PREFILL
        doing[self._decoding & (doing != Doing.NOTHING)] = Doing.DECODE
        return doing

    # --- within --------------------------------------------------------------------------------------

    def _take_event(self, line: Line) -> None:
        """Who has which row."""
        if line.e in ("admitted", "resumed"):
            _require([line.row], self.rows, "row")
            self._row_of[line.id] = line.row
            self.sequences[line.row] = line.id
            self._swapped[line.row] = False
            self._new_hits += (line.hit - self._hits.get(line.id, 0)) // self.block_size
            self._hits[line.id] = line.hit
        elif line.e == "preempted" and line.how == "swap":
            row = self._row_of[line.id]
            self._swapped[row] = True
            self._swapping.add(row)
        elif line.e in ("preempted", "finished", "cancelled") and line.id in self._row_of:
            row = self._row_of.pop(line.id)
            self.sequences[row] = NOBODY
            self._swapped[row] = False
        if line.e in ("finished", "cancelled"):
            self._hits.pop(line.id, None)

    def _take_step(self, line: Line) -> None:
        self.step = line
        before = self.lengths.copy()
        self._take_lengths(line)
        self._take_tables(line, before)

    def _take_lengths(self, line: Line) -> None:
        for rows in (line.on, line.off, [row for row, _ in line.lengths]):
            _require(rows, self.rows, "row")
        self._decoding[line.on] = True
        self._decoding[line.off] = False
        self.lengths += self._decoding
        for row, tokens in line.lengths:
            self.lengths[row] = tokens

    def _take_tables(self, line: Line, before: Ints) -> None:
        """Page tables and cache; `before` is how long the rows were when they lost their pages."""
        given = 0
        leaving = [np.empty(0, np.int32)]
        for row, page, *changed in line.tables:
            frames = np.array(changed, np.int32)
            _require([row], self.rows, "row")
            _require([page], self.pool_blocks, "page")
            _require(changed, self.pool_blocks, "frame", least=NO_FRAME)
            table = self._room(row, page + frames.size)
            if row in self._swapping:
                stored = -(-int(before[row]) // self.block_size)
                gone = table[page : min(page + frames.size, stored)]
                leaving.append(gone[gone != NO_FRAME].copy())
            table[page : page + frames.size] = frames
            there = frames[frames != NO_FRAME]
            self.cached[there] = False
            given += there.size
        _require(line.cached, self.pool_blocks, "frame")
        self.cached[line.cached] = True
        self._leaving = np.concatenate(leaving)
        self.given = given - self._new_hits
        self._new_hits = 0
        self._swapping.clear()

    def _room(self, row: int, pages: int) -> Frames:
        table = self._tables[row]
        if table.size < pages:
            larger = np.full(max(pages, 2 * table.size), NO_FRAME, np.int32)
            larger[: table.size] = table
            self._tables[row] = table = larger
        return table


def _require(numbers: Sequence[int], below: int, what: str, least: int = 0) -> None:
    """Raises ValueError where a number is not in [least, below)."""
    if numbers and not least <= min(numbers) <= max(numbers) < below:
        wrong = next(number for number in numbers if not least <= number < below)
        raise ValueError(f"{what} {wrong}, expected {least} to {below - 1}")
