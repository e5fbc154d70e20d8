"""The sequences that hold frames, as arrays over the pager's rows, so that a step costs no loop over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pagefault.scheduling.sequence import SequenceRecord

    Ints = NDArray[np.int64]


class RunningSet:
    """Who runs, in order of admission, and what a step must know of each.

    Attributes:
        rows: Rows of the running sequences in order of admission, int64 [n].
        known: By row: tokens whose content is known, so that their KV can be computed, int64 [max_seqs].
        generated: By row: output tokens.
        computed: By row: tokens computed for it so far, counted again when computed again.
        limit: By row: output tokens at which it is finished.
        number: By row: rank by order of submission.
        priority: By row: smaller is more urgent.
        stalls: By row: stalled steps in a row.
    """

    def __init__(self, max_seqs: int) -> None:
        self.rows: Ints = np.empty(0, np.int64)
        self.known: Ints = np.zeros(max_seqs, np.int64)
        self.generated: Ints = np.zeros(max_seqs, np.int64)
        self.computed: Ints = np.zeros(max_seqs, np.int64)
        self.limit: Ints = np.zeros(max_seqs, np.int64)
        self.number: Ints = np.zeros(max_seqs, np.int64)
        self.priority: Ints = np.zeros(max_seqs, np.int64)
        self.stalls: Ints = np.zeros(max_seqs, np.int64)
        self._sequences: list[SequenceRecord | None] = [None] * max_seqs

    def __len__(self) -> int:
        return int(self.rows.size)

    def add(self, sequence: SequenceRecord, known: int) -> None:
        """A sequence starts (or comes back) on its row, behind all others."""
        row = sequence.row
        self.rows = np.append(self.rows, row)
        self.known[row] = known
        self.generated[row] = sequence.generated
        self.computed[row] = sequence.computed_tokens
        self.limit[row] = sequence.request.max_tokens
        self.number[row] = sequence.number
        self.priority[row] = sequence.request.priority
        self.stalls[row] = 0
        self._sequences[row] = sequence

    def remove(self, rows: Ints) -> None:
        """These rows no longer run."""
        self.rows = self.rows[~np.isin(self.rows, rows)]
        for row in rows.tolist():
            self._sequences[row] = None

    def sync(self, sequence: SequenceRecord) -> None:
        """Bring the record of a running sequence up to date with the arrays."""
        sequence.generated = int(self.generated[sequence.row])
        sequence.computed_tokens = int(self.computed[sequence.row])

    def sync_all(self) -> None:
        """The same for every one of them."""
        for row in self.rows.tolist():
            self.sync(self.sequence(row))

    def sequence(self, row: int) -> SequenceRecord:
        """Who runs on this row."""
        found = self._sequences[row]
        assert found is not None, f"no sequence runs on row {row}"
        return found
