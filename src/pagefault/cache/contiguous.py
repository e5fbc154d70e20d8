"""The baseline without paging: every sequence has room for the longest, reserved at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from pagefault.attention import ContiguousKV, PagedKV, append, validate
from pagefault.attention import backend as backends
from pagefault.cache.shape import check_dtype
from pagefault.errors import InputError, NeverFits
from pagefault.paging.arrays import as_count, as_ints, per_row

if TYPE_CHECKING:
    from torch import Tensor

    from pagefault.cache.shape import KVShape
    from pagefault.paging.arrays import IntLike, Ints


class ContiguousKVCache:
    """K and V as ``[layers, 2, max_seqs, max_seq_len, kv_heads, head_dim]``: sequence *i* is row *i*.

    Args:
        shape: What a token stores.
        max_seqs: Rows.
        max_seq_len: MAX_SEQ_LEN: tokens that each row reserves.
        dtype: As in `PagedKVCache`; fp8 is stored with scales of 1.
        device: Where it lives.

    Raises:
        InputError: A size, dtype or device that cannot be.

    Attributes:
        shape: As given.
        memory: The one allocation; it begins as zeros.
        lengths: Tokens of each row, int64 [max_seqs], on the host.
    """

    def __init__(
        self,
        shape: KVShape,
        max_seqs: int,
        max_seq_len: int,
        dtype: torch.dtype = torch.bfloat16,
        device: torch.device | str = "cuda",
    ) -> None:
        check_dtype(shape, dtype)
        device = backends.usable(device)
        as_count(max_seqs, "max_seqs", 1)
        as_count(max_seq_len, "max_seq_len", 1)
        self.shape = shape
        self.memory = torch.zeros(
            shape.layers, 2, max_seqs, max_seq_len, shape.kv_heads, shape.head_dim, dtype=dtype, device=device
        )
        self.lengths: Ints = np.zeros(max_seqs, np.int64)
        self._lengths = torch.zeros(max_seqs, dtype=torch.int32, device=device)
        fp8 = dtype == validate.FP8
        self._scale = torch.ones(1, device=device) if fp8 else None

    @property
    def reserved_bytes(self) -> int:
        """All of it, whoever is there."""
        return self.memory.numel() * self.memory.element_size()

    def append(self, rows: IntLike, k: Tensor, v: Tensor, tokens: IntLike = 1) -> None:
        """Store new tokens of some rows; arguments as in `PagedKVCache.append`.

        Raises:
            NeverFits: A row would be longer than `max_seq_len`. Nothing has changed.
            InputError: A row that is not there or stands twice; a shape, dtype or device is wrong.
        """
        batch = as_ints(rows, "rows")
        counts = np.broadcast_to(per_row(tokens, batch.size, "tokens"), batch.shape)
        self.shape.check_new(k, v, int(counts.sum()), self.memory)
        max_seqs, max_seq_len = self.memory.shape[2:4]
        if batch.size != np.unique(batch).size or not ((batch >= 0) & (batch < max_seqs)).all():
            raise InputError(f"rows: expected distinct rows below {max_seqs}, given {batch.tolist()}")
        if not batch.size:
            return
        ends = self.lengths[batch] + counts
        if (ends > max_seq_len).any():
            row = int(batch[np.argmax(ends)])
            raise NeverFits(
                f"row {row} would have {ends.max()} tokens, more than the {max_seq_len} reserved for each; "
                f"make the cache with max_seq_len={ends.max()}"
            )
        starts = batch * max_seq_len + self.lengths[batch]
        offsets = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        slots = torch.from_numpy(np.repeat(starts, counts) + offsets).to(self.memory.device)
        for layer in range(self.shape.layers):
            append(k[layer], v[layer], slots, self._as_pool(layer))
        self.lengths[batch] = ends
        self._lengths.copy_(torch.from_numpy(self.lengths))

    def view(self, layer: int) -> ContiguousKV:
        """What `attention.contiguous_decode` of a layer reads: every row, also empty ones.

        Raises:
            InputError: There is no such layer.
        """
        k, v = self._layer(layer)
        return ContiguousKV(k, v, self._lengths, self._scale, self._scale)

    def read(self, layer: int, row: int) -> tuple[Tensor, Tensor]:
        """K and V that a row has stored, each ``[tokens, kv_heads, head_dim]``.

        Raises:
            InputError: There is no such layer or row.
        """
        if not 0 <= as_count(row, "row") < len(self.lengths):
            raise InputError(f"row: expected one of {len(self.lengths)}, counted from 0, given {row}")
        k, v = (part[row, : int(self.lengths[row])] for part in self._layer(layer))
        return k, v

    def _layer(self, layer: int) -> tuple[Tensor, Tensor]:
        self.shape.check_layer(layer)
        k, v = self.memory[layer].unbind(0)
        return k, v

    def _as_pool(self, layer: int) -> PagedKV:
        """The same memory as blocks of one token, so that both caches store through one kernel."""
        k, v = (part.flatten(0, 1).unsqueeze(1) for part in self._layer(layer))
        table = torch.zeros(1, 1, dtype=torch.int32, device=k.device)
        return PagedKV(k, v, table, self._lengths[:1], self._scale, self._scale)
