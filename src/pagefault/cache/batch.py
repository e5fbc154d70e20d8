"""The tables and lengths of a batch on the device, changed in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from pagefault.errors import InputError
from pagefault.paging.arrays import as_count

if TYPE_CHECKING:
    from pagefault.attention import PagedKV
    from pagefault.cache.paged import PagedKVCache
    from pagefault.paging.arrays import IntLike


class SequenceBatch:
    """Which rows a step works on. `set` changes its tensors in place, so that a captured graph follows.

    A batch made for more rows than it is given is padded with sequences of length 0, for which attention
    gives zeros.

    Args:
        cache: Whose rows.
        size: Sequences it has room for.

    Raises:
        InputError: Not at least one.

    Attributes:
        block_table: int32 ``[size, max_pages]``.
        lengths: int32 ``[size]``.
    """

    def __init__(self, cache: PagedKVCache, size: int) -> None:
        as_count(size, "size", 1)
        device = cache.pool.device
        self._cache = cache
        self._index = torch.zeros(2, size, dtype=torch.int32, device=device)  # rows, lengths
        self.block_table = torch.zeros(size, cache.pager.max_pages, dtype=torch.int32, device=device)
        self.lengths = self._index[1]

    def set(self, rows: IntLike) -> None:
        """Take these rows, with the tables and lengths of now. One small copy to the device, one gather there.

        Args:
            rows: Open rows that are on the device, [n] with n at most the batch's size.

        Raises:
            BadHandle: A row is not open, is swapped out, or stands twice.
            InputError: More rows than the batch has room for.
        """
        pager = self._cache.pager
        pager.need(rows, 0)  # says what is wrong with a row
        given = np.atleast_1d(np.asarray(rows, np.int64))
        size = self.lengths.shape[0]
        if given.size > size:
            raise InputError(f"rows: expected at most {size}, the batch's size, given {given.size}")
        self._cache.apply()
        index = np.zeros((2, size), np.int32)
        index[0, : given.size] = given
        index[1, : given.size] = pager.lengths[given]
        self._index.copy_(torch.from_numpy(index))
        torch.index_select(self._cache.block_table, 0, self._index[0], out=self.block_table)

    def layer(self, index: int) -> PagedKV:
        """What attention of a layer reads: K, V, these tables and lengths."""
        return self._cache.view(index, self.block_table, self.lengths)
