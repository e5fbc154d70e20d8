"""The paged cache: one allocation, frames outermost, everything decided by the pager."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from pagefault.attention import PagedKV, append, copy_frames, validate
from pagefault.attention import backend as backends
from pagefault.cache.batch import SequenceBatch
from pagefault.cache.host import HostFrames
from pagefault.cache.shape import check_dtype
from pagefault.errors import InputError
from pagefault.paging import NO_FRAME, Pager

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from pagefault.cache.shape import KVShape
    from pagefault.paging import FrameCopies, TableUpdates
    from pagefault.paging.arrays import IntLike, Ints, Keys


class PagedKVCache:
    """K and V of all layers in equal frames, and a copy of the page tables beside them.

    `pager` decides every frame id; this class moves the bytes. Used alone, its methods are whole steps:
    `append`, `fork`, `swap_out`, `swap_in`, `release`. An engine whose scheduler drives the pager runs `apply`
    with a plan's copies and updates and then `write` for every layer; both ways leave the same tensors.

    The pool is ``[num_blocks, layers, 2, block_size, kv_heads, head_dim]``: K and V of a layer side by side, a
    frame of all layers one piece, so that swapping it or copying it on write is one copy. fp8 frames hold
    ``[kv_heads, block_size]`` instead, heads first, the order that fp8 is read fastest in; views hide it.

    Args:
        shape: What a token stores.
        num_blocks: Frames of the pool.
        block_size: Tokens a frame: a power of two, 1 to 256.
        dtype: fp32, fp16, bf16 or fp8 (``torch.float8_e4m3fn``).
        device: Where the pool lives.
        max_seqs: As in `Pager`.
        max_seq_len: As in `Pager`.
        host_blocks: Frames of the host pool, pinned where the device is a GPU.
        prefix_caching: As in `Pager`.
        k_scale: fp8 only: fp32 ``[layers, 1]`` or ``[layers, kv_heads]``, what stored keys are multiplied by; ones
            if not given.
        v_scale: The same for the values. Where one of the two is a head's, so becomes the other. Both are copied:
            what is stored was divided by them.

    Raises:
        InputError: A size, dtype, device or scale that cannot be.

    Attributes:
        shape: As given.
        pager: Who owns which frame. Give it to a scheduler, or leave it to this class.
        pool: The one allocation; it begins as zeros.
        block_table: int32 ``[max_seqs, max_pages]`` on the device, kept up to date by differences.
        host: The host pool, or None.
    """

    def __init__(
        self,
        shape: KVShape,
        num_blocks: int,
        block_size: int = 16,
        dtype: torch.dtype = torch.bfloat16,
        device: torch.device | str = "cuda",
        *,
        max_seqs: int = 256,
        max_seq_len: int | None = None,
        host_blocks: int = 0,
        prefix_caching: bool = True,
        k_scale: Tensor | None = None,
        v_scale: Tensor | None = None,
    ) -> None:
        check_dtype(shape, dtype)
        device = backends.usable(device)
        self.shape = shape
        self.pager = Pager(
            num_blocks,
            block_size,
            max_seqs=max_seqs,
            max_seq_len=max_seq_len,
            host_blocks=host_blocks,
            prefix_caching=prefix_caching,
        )
        self._heads_first = dtype == validate.FP8
        inner = (shape.kv_heads, block_size) if self._heads_first else (block_size, shape.kv_heads)
        self.pool = torch.zeros(
            num_blocks, shape.layers, 2, *inner, shape.head_dim, dtype=dtype, device=device
        )
        self._scales = [self._checked_scale(*each) for each in (("k_scale", k_scale), ("v_scale", v_scale))]
        widths = [scale.shape[1] for scale in self._scales if scale is not None]
        if len(set(widths)) > 1:  # kernels want both a tensor's or both a head's
            self._scales = [
                None if scale is None else scale.expand(-1, max(widths)).contiguous()
                for scale in self._scales
            ]
        self.block_table = torch.full(
            self.pager.block_table.shape, NO_FRAME, dtype=torch.int32, device=device
        )
        self.pager.drain_updates()  # starts the recording
        self.host = HostFrames(host_blocks, self.pool) if host_blocks else None

    @property
    def reserved_bytes(self) -> int:
        """Bytes of the frames that sequences reference now."""
        return self.pager.stats().used * self.pool[0].numel() * self.pool.element_size()

    # --- whole steps -------------------------------------------------------------------------------

    def open(self, keys: Keys | None = None) -> int:
        """A row for a new sequence; see `Pager.open`. `pager.attach` finds a prefix by its keys."""
        return self.pager.open(keys)

    def append(self, rows: IntLike, k: Tensor, v: Tensor, tokens: IntLike = 1) -> None:
        """Store new tokens of some rows: frames, copies on write, K and V of all layers.

        Args:
            rows: Open rows, [n].
            k: ``[layers, total, kv_heads, head_dim]``, row after row; fp32, fp16 or bf16 for an fp8 pool, else
                the pool's dtype.
            v: Like `k`.
            tokens: New tokens of each row: one number for all, or [n]; they add up to `total`.

        Raises:
            OutOfFrames: Too few free frames now. Nothing has changed.
            NeverFits: See `Pager.grow`.
            BadHandle: A row is not open, is swapped out, or stands twice.
            InputError: A shape, dtype or device is wrong.
        """
        self.pager.need(rows, tokens)  # says what is wrong with a row
        batch = np.atleast_1d(np.asarray(rows, np.int64))
        counts = np.broadcast_to(np.asarray(tokens), batch.shape)
        self.shape.check_new(k, v, int(counts.sum()), self.pool)
        growth = self.pager.grow(batch, counts)
        self.apply(copies=growth.copies)
        slots = self.upload(self.pager.slots(batch, counts))
        for layer in range(self.shape.layers):
            self.write(layer, slots, k[layer], v[layer])
        self.pager.mark_computed(batch, self.pager.lengths[batch])
        self.pager.commit()

    def fork(self, row: int, n: int = 1) -> Ints:
        """Open n more sequences over the same frames; who writes to a shared one first copies it. See `Pager.fork`."""
        rows = self.pager.fork(row, n)
        self.apply()
        return rows

    def swap_out(self, rows: IntLike) -> int:
        """Move rows to the host pool; returns how many frames came free. See `Pager.swap_out` for what it raises."""
        copies = self.pager.swap_out(rows)
        self.apply(swap_out=copies)
        self.pager.commit()
        return len(copies)

    def swap_in(self, rows: IntLike) -> int:
        """Bring rows back; returns how many frames that took. See `Pager.swap_in` for what it raises."""
        copies = self.pager.swap_in(rows)
        self.apply(swap_in=copies)
        self.pager.commit()
        return len(copies)

    def release(self, rows: IntLike) -> None:
        """The sequences are gone; see `Pager.release`."""
        self.pager.release(rows)
        self.pager.commit()
        self.apply()

    # --- parts of a step, for an engine ------------------------------------------------------------

    def apply(
        self,
        *,
        swap_out: FrameCopies | None = None,
        swap_in: FrameCopies | None = None,
        copies: FrameCopies | None = None,
        updates: TableUpdates | None = None,
    ) -> None:
        """Queue a step's copies, in this order, and bring the block table up to date.

        Args:
            swap_out: Device frames to host frames.
            swap_in: Host frames to device frames.
            copies: Copies on write, device to device.
            updates: The table's changes, where a scheduler has drained them; else those since the last call.
        """
        if swap_out is not None and len(swap_out):
            self._host().store(self.pool, swap_out.src, swap_out.dst)
        if swap_in is not None and len(swap_in):
            self._host().load(self.pool, swap_in.src, swap_in.dst)
        if copies is not None and len(copies):
            copy_frames(self.pool, self.upload(copies.src), self.upload(copies.dst))
        if updates is None:
            updates = self.pager.drain_updates()
        if len(updates):
            rows, pages, frames = self.upload(np.stack((updates.rows, updates.pages, updates.frames)))
            self.block_table.index_put_((rows.long(), pages.long()), frames)

    def write(self, layer: int, slots: Tensor, k: Tensor, v: Tensor) -> None:
        """Scatter new tokens of a layer into the pool; see `attention.append`.

        Args:
            layer: Which one.
            slots: int64 ``[tokens]`` on the device, from `Pager.slots`.
            k: ``[tokens, kv_heads, head_dim]``.
            v: Like `k`.

        Raises:
            InputError: A shape, dtype, device or stride is wrong.
        """
        # Of the view, append uses only where K and V are.
        append(k, v, slots, self.view(layer, self.block_table[:1], self.block_table[:1, 0]))

    def upload(self, array: Ints | np.ndarray[tuple[int, ...], np.dtype[np.int32]]) -> Tensor:
        """A host array on the pool's device."""
        return torch.from_numpy(array).to(self.pool.device)

    # --- reading -----------------------------------------------------------------------------------

    def batch(self, rows: IntLike, size: int | None = None) -> SequenceBatch:
        """Tables and lengths of some rows on the device, for `attention.paged_decode`.

        Args:
            rows: Open rows, [n].
            size: Room for so many sequences, for a batch that will change; n if not given.

        Raises:
            BadHandle: A row is not open, is swapped out, or stands twice.
            InputError: `size` is smaller than the number of rows.
        """
        made = SequenceBatch(self, np.size(np.asarray(rows)) if size is None else size)
        made.set(rows)
        return made

    def view(self, layer: int, block_table: Tensor, lengths: Tensor) -> PagedKV:
        """A layer's K and V with any tables: ``[num_blocks, block_size, kv_heads, head_dim]`` views of the pool.

        Raises:
            InputError: There is no such layer.
        """
        self.shape.check_layer(layer)
        k, v = self.pool[:, layer].unbind(1)
        if self._heads_first:
            k, v = k.transpose(1, 2), v.transpose(1, 2)
        k_scale, v_scale = (None if scale is None else scale[layer] for scale in self._scales)
        return PagedKV(k, v, block_table, lengths, k_scale, v_scale)

    def read(self, layer: int, row: int) -> tuple[Tensor, Tensor]:
        """What a row has stored, read back through its page table on the device.

        Returns:
            K and V, each ``[tokens, kv_heads, head_dim]``, as stored (fp8 not yet multiplied by its scale).

        Raises:
            BadHandle: The row is not open or is swapped out, or pages of it slid out of a window.
        """
        self.pager.need(row, 0)  # says what is wrong with a row
        tokens = int(self.pager.lengths[row])
        self.pager.slots_at(row, 0, tokens)  # says if pages are gone
        self.apply()
        view = self.view(layer, self.block_table, self.block_table[:, 0])
        pages = self.block_table[row, : -(-tokens // self.pager.block_size)].long()
        k, v = (part[pages].flatten(0, 1)[:tokens] for part in (view.k, view.v))
        return k, v

    def _host(self) -> HostFrames:
        if self.host is None:
            raise InputError("this cache has no host pool to swap to; make it with host_blocks")
        return self.host

    def _checked_scale(self, name: str, scale: Tensor | None) -> Tensor | None:
        if not self._heads_first:
            if scale is not None:
                raise InputError(f"{name}: only an fp8 cache has scales")
            return None
        layers, heads = self.shape.layers, self.shape.kv_heads
        if scale is None:
            return torch.ones(layers, 1, device=self.pool.device)
        allowed: Sequence[tuple[int, int]] = ((layers, 1), (layers, heads))
        if not isinstance(scale, torch.Tensor):
            raise InputError(
                f"{name}: expected a tensor, fp32 [{layers}, 1] or [{layers}, {heads}], given {scale!r}"
            )
        if tuple(scale.shape) not in allowed or scale.dtype != torch.float32:
            raise InputError(
                f"{name}: expected fp32 [{layers}, 1] or [{layers}, {heads}], "
                f"given {str(scale.dtype).removeprefix('torch.')} {list(scale.shape)}"
            )
        if not bool((scale.isfinite() & (scale > 0)).all()):
            raise InputError(f"{name}: expected finite scales above 0, given {scale.flatten().tolist()}")
        return scale.detach().to(self.pool.device, copy=True).contiguous()
