"""What each row's blocks are known by, and how far they are computed and published."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pagefault.paging.arrays import Ints

NEVER = 2**62
"""In `RowKeys.published`: no block of this row is to be published any more."""


class RowKeys:
    """Keys of each row's blocks.

    Args:
        max_seqs: Rows.

    Attributes:
        keys: Keys of the row's leading blocks, 16 bytes each; may be more than it has pages.
        known: `len(keys[row])`, int64 [max_seqs].
        computed: Leading full blocks that are computed, int64 [max_seqs].
        published: Leading blocks that the index has been told of, int64 [max_seqs]; or NEVER.
    """

    def __init__(self, max_seqs: int) -> None:
        self.keys: list[list[bytes]] = [[] for _ in range(max_seqs)]
        self.known: Ints = np.zeros(max_seqs, np.int64)
        self.computed: Ints = np.zeros(max_seqs, np.int64)
        self.published: Ints = np.zeros(max_seqs, np.int64)

    def extend(self, row: int, keys: list[bytes]) -> None:
        """Appends keys of the row's next blocks."""
        self.keys[row] += keys
        self.known[row] = len(self.keys[row])

    def clear(self, rows: Ints) -> None:
        """The rows are closed."""
        for row in rows.tolist():
            self.keys[row] = []
        for vector in (self.known, self.computed, self.published):
            vector[rows] = 0
