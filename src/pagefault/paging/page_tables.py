"""The page tables: one int32 matrix page → frame, and a few vectors with an entry a row.

It says which rows exist and what they map; it knows no reference counts and takes no frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from pagefault.errors import BadHandle, PagingError
from pagefault.paging.arrays import NO_FRAME, Frames, IntLike, Ints, Mask, as_count, as_ints
from pagefault.paging.results import TableUpdates

if TYPE_CHECKING:
    import numpy.typing as npt

T = TypeVar("T", bound=np.generic)


class PageTables:
    """Rows of page tables, reused.

    Args:
        max_seqs: Rows.
        max_pages: Pages a row can have.
        block_size: Tokens a page holds, a power of two.

    Attributes:
        table: Frame of each page, int32 [max_seqs, max_pages]; NO_FRAME where there is none.
        lengths: Tokens of each row, int64 [max_seqs].
        first: Pages at the row's front that slid out of a window, int64 [max_seqs].
        room: Tokens the row's pages have room for, reserved ones too, int64 [max_seqs]: it faults past
            this. Always a multiple of the block size.
        on_host: Pages of the row that are on the host, int64 [max_seqs].
        limits: Pages the row may ever have, int64 [max_seqs].
        shared_tail: The row's last page is partly filled and may be shared, bool [max_seqs].
        shared_tails: How many rows have that mark.
        usable: 1 where the row is open and on the device, int64 [max_seqs].
        claimed: 1 where the row is open, on the device or swapped out, int64 [max_seqs].
    """

    def __init__(self, max_seqs: int, max_pages: int, block_size: int) -> None:
        self.shift = block_size.bit_length() - 1
        self.max_seqs = as_count(max_seqs, "max_seqs", least=1)
        self.max_pages = as_count(max_pages, "max_pages", least=1)
        self.table: Frames = np.full((self.max_seqs, self.max_pages), NO_FRAME, np.int32)
        self.lengths: Ints = np.zeros(self.max_seqs, np.int64)
        self.first: Ints = np.zeros(self.max_seqs, np.int64)
        self.room: Ints = np.zeros(self.max_seqs, np.int64)
        self.on_host: Ints = np.zeros(self.max_seqs, np.int64)
        self.limits: Ints = np.zeros(self.max_seqs, np.int64)
        self.shared_tail: Mask = np.zeros(self.max_seqs, np.bool_)
        self.shared_tails = 0
        self.usable: Ints = np.zeros(self.max_seqs, np.int64)
        self.claimed: Ints = np.zeros(self.max_seqs, np.int64)
        self._free_rows = list(range(self.max_seqs - 1, -1, -1))
        self._valid = b""  # the last batch found valid, until the set of usable rows changes
        self._touched: list[Ints] | None = None  # flat indices of entries; None: nobody drains updates
        self._flat = self.table.reshape(-1)  # the same memory
        self.table_view: Frames = _read_only(self.table)
        self.lengths_view: Ints = _read_only(self.lengths)

    def reset(self) -> None:
        """Closes every row; they are given out from 0 again."""
        rows, pages = np.nonzero(self.table != NO_FRAME)
        self.map(rows, pages, NO_FRAME)
        self.close(np.flatnonzero(self.claimed))
        self._free_rows = list(range(self.max_seqs - 1, -1, -1))

    @property
    def free_rows(self) -> int:
        """Rows that can still be opened."""
        return len(self._free_rows)

    def open(self, n: int, limit: int | None) -> Ints:
        """Claims n rows of at most `limit` pages (None: the table's width), int64 [n].

        Raises:
            PagingError: Fewer than n are left.
        """
        if n > len(self._free_rows):
            raise PagingError(
                f"all {self.max_seqs} rows but {len(self._free_rows)} are open and {n} are needed: release "
                "sequences, or make the pager with a larger max_seqs"
            )
        rows = np.array([self._free_rows.pop() for _ in range(n)], np.int64)
        self.limits[rows] = self.max_pages if limit is None else min(limit, self.max_pages)
        self.claimed[rows] = 1
        self.set_usable(rows, True)
        return rows

    def close(self, rows: Ints) -> None:
        """Gives rows back. Their entries must have been unmapped."""
        for vector in (self.lengths, self.first, self.room, self.on_host, self.claimed):
            vector[rows] = 0
        self.mark_tails(rows, False)
        self.set_usable(rows, False)
        self._free_rows.extend(rows[::-1].tolist())

    def set_usable(self, rows: Ints, usable: bool) -> None:
        """Marks rows as on the device, or as closed or swapped out."""
        self.usable[rows] = usable
        self._valid = b""

    def mark_tails(self, rows: Ints, shared: bool) -> None:
        """Sets or clears the mark of rows whose partly filled last page may be shared."""
        if shared or self.shared_tails:
            self.shared_tail[rows] = shared
            self.shared_tails = int(np.count_nonzero(self.shared_tail))

    def rows(self, rows: IntLike) -> Ints:
        """`rows` as int64 [n], all of them open, on the device, and different.

        A scheduler passes the same rows to several calls of a step, so the last valid batch is
        remembered: comparing is cheaper than counting.

        Raises:
            BadHandle: One is not.
        """
        array = as_ints(rows, "rows")
        content = array.tobytes()
        if content != self._valid:
            self._require(array, self.usable)
            self._valid = content
        return array

    def row(self, row: int) -> int:
        """One open row on the device.

        Raises:
            BadHandle: It is not.
        """
        row = as_count(row, "row", least=-(2**62))
        if not (0 <= row < self.max_seqs and self.usable[row]):
            self._require(np.array([row]), self.usable)
        return row

    def claimed_rows(self, rows: IntLike) -> Ints:
        """`rows` as int64 [n], all of them open, on the device or swapped out, and different.

        Raises:
            BadHandle: One is not.
        """
        array = as_ints(rows, "rows")
        self._require(array, self.claimed)
        return array

    def swapped_rows(self, rows: IntLike) -> Ints:
        """`rows` as int64 [n], all of them swapped out, and different.

        Raises:
            BadHandle: One is not.
        """
        array = self.claimed_rows(rows)
        if np.count_nonzero(self.usable[array]):
            raise BadHandle(f"row {array[self.usable[array] == 1][0]} is not swapped out")
        return array

    def ends(self, rows: Ints) -> Ints:
        """One past each row's last page, reserved ones too, int64 [n]."""
        ends: Ints = self.room[rows] >> self.shift
        return ends

    def set_ends(self, rows: Ints, ends: Ints) -> None:
        """Sets one past each row's last page."""
        self.room[rows] = ends << self.shift

    def held(self) -> Ints:
        """Device frames each row references, int64 [max_seqs]; a new array."""
        return (self.room >> self.shift) - self.first - self.on_host

    def frames_at(self, rows: Ints, pages: Ints) -> Frames:
        """The table's entries, int32 [n]."""
        return self._flat.take(rows * self.max_pages + pages)

    def map(self, rows: Ints, pages: Ints, frames: Frames | int) -> None:
        """Writes entries; `frames` is NO_FRAME to unmap."""
        self.table[rows, pages] = frames
        if self._touched is not None:
            self._touched.append(rows * self.max_pages + pages)

    def map_run(self, row: int, start: int, stop: int, frames: Frames | int) -> None:
        """Writes the entries of a row's pages [start, stop)."""
        self.table[row, start:stop] = frames
        if self._touched is not None:
            self._touched.append(np.arange(row * self.max_pages + start, row * self.max_pages + stop))

    def drain_updates(self) -> TableUpdates:
        """Entries changed since the last call; the first call returns all that have a frame."""
        if self._touched is None:
            rows, pages = np.nonzero(self.table != NO_FRAME)
        elif self._touched:
            rows, pages = np.divmod(np.unique(np.concatenate(self._touched)), self.max_pages)
        else:
            rows = pages = np.empty(0, np.int64)
        self._touched = []
        return TableUpdates(rows.astype(np.int32), pages.astype(np.int32), self.table[rows, pages])

    def _require(self, rows: Ints, allowed: Ints) -> None:
        """Rows in range, marked in `allowed`, and different: one count of each says all three."""
        if rows.size == 0:
            return
        if rows.size == 1 and 0 <= (row := int(rows[0])) < self.max_seqs and allowed[row]:
            return
        if rows.min() < 0 or rows.max() >= self.max_seqs:
            bad = rows[(rows < 0) | (rows >= self.max_seqs)][0]
            raise BadHandle(f"row {bad} does not exist: rows are 0 to {self.max_seqs - 1}")
        wrong = np.bincount(rows, minlength=self.max_seqs) > allowed
        if np.count_nonzero(wrong):
            bad = int(np.flatnonzero(wrong)[0])
            if not self.claimed[bad]:
                raise BadHandle(f"row {bad} is not open: it was released or never given out")
            if not allowed[bad]:
                raise BadHandle(
                    f"row {bad} is swapped out: call swap_in first; until then it can only be released"
                )
            raise BadHandle(
                f"row {bad} stands {np.count_nonzero(rows == bad)} times in one batch; give each row once"
            )


def _read_only(array: npt.NDArray[T]) -> npt.NDArray[T]:
    view = array.view()
    view.flags.writeable = False
    return view
