"""What sequences of given lengths hold in a paged pool, and what a contiguous cache reserves for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pagefault.capacity.layout import CacheLayout, check_block_size, plain_layout
from pagefault.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

SWEEP_BLOCK_SIZES = tuple(2**power for power in range(9))
"""1 to 256 tokens."""

DEMO_BYTES_PER_TOKEN = 512
"""One layer, one head of 64, K and V in float32: the write-up's shape."""

DEMO_LAYOUT = plain_layout(DEMO_BYTES_PER_TOKEN, "2 (K, V) × 1 layer × 1 head × 64 × 4 B (float32)")
"""The write-up's cache: `DEMO_BYTES_PER_TOKEN` a token, nothing else."""


@dataclass(frozen=True)
class Reserved:
    """One way of holding the sequences.

    Attributes:
        reserved_bytes: Memory set aside.
        utilization: Bytes of stored tokens (and fixed state) over bytes reserved.
    """

    reserved_bytes: int
    utilization: float


@dataclass(frozen=True)
class PoolReport:
    """Sequences in a paged pool beside the same sequences in a contiguous cache.

    Attributes:
        block_size: Tokens a block.
        num_seqs: Sequences.
        tokens: Tokens of all of them.
        longest: Tokens of the longest.
        max_len: Tokens that a contiguous cache reserves for each.
        layout: What a token and a sequence occupy.
        stored_bytes: Bytes of the tokens (and fixed state) that are really there.
        blocks_used: Blocks that the sequences hold (with windows: those of the layers that hold most).
        pool_blocks: Blocks there are, or None where no pool was given.
        paged: Whole blocks of each sequence.
        naive: `max_len` tokens for each.
        fragmentation_tokens: Tokens reserved in whole blocks but not stored, over all sequences.
        naive_capacity: Sequences of `max_len` that a contiguous cache fits in the pool's memory (without windows
            ``pool_blocks · block_size // max_len``); None without a pool.
    """

    block_size: int
    num_seqs: int
    tokens: int
    longest: int
    max_len: int
    layout: CacheLayout
    stored_bytes: int
    blocks_used: int
    pool_blocks: int | None
    paged: Reserved
    naive: Reserved
    fragmentation_tokens: int
    naive_capacity: int | None

    @property
    def savings(self) -> float:
        """Bytes that naive reserves for each byte that paging does."""
        return self.naive.reserved_bytes / self.paged.reserved_bytes

    @property
    def bytes_per_token(self) -> int:
        """Bytes a token while all layers grow, on one GPU."""
        return self.layout.bytes_per_token

    @property
    def paged_capacity(self) -> int | None:
        """Sequences like these, in the mean, that the pool holds; None without a pool or without blocks."""
        if self.pool_blocks is None or not self.blocks_used:
            return None
        return self.pool_blocks * self.num_seqs // self.blocks_used

    @property
    def mean_len(self) -> float:
        """Tokens a sequence."""
        return self.tokens / self.num_seqs

    @property
    def fragmentation_tokens_per_seq(self) -> float:
        """Tokens reserved but not stored, a sequence."""
        return self.fragmentation_tokens / self.num_seqs

    @property
    def expected_fragmentation_per_seq(self) -> float:
        """``(block_size − 1) / 2``: the mean for lengths that end anywhere in a block."""
        return (self.block_size - 1) / 2

    @property
    def blocks_short(self) -> int:
        """Blocks that the sequences need beyond the pool; 0 where they fit or no pool was given."""
        return 0 if self.pool_blocks is None else max(self.blocks_used - self.pool_blocks, 0)


@dataclass(frozen=True)
class SweepRow:
    """The same sequences at one block size.

    Attributes:
        block_size: Tokens a block.
        reserved_bytes: What paging reserves.
        fragmentation_bytes: The part of it that holds no token.
        utilization: The part of it that does, as a share.
        table_entries: Entries of a page table that can hold a sequence of `max_len`.
    """

    block_size: int
    reserved_bytes: int
    fragmentation_bytes: int
    utilization: float
    table_entries: int


def measure(
    lengths: ArrayLike,
    block_size: int,
    *,
    pool_blocks: int | None,
    max_len: int,
    bytes_per_token: int = DEMO_BYTES_PER_TOKEN,
    layout: CacheLayout | None = None,
) -> PoolReport:
    """Count what sequences hold in a paged pool and what a contiguous cache would reserve for them.

    Paged: each sequence holds ``ceil(length / block_size)`` blocks. Naive: each reserves `max_len` tokens.

    Args:
        lengths: Integers ``[n]``: tokens a sequence, 1 or more.
        block_size: Tokens a block, a power of two from 1 to 256.
        pool_blocks: Blocks of the pool, or None where only the reservations matter. The sequences may need
            more: `PoolReport.blocks_short` says how many.
        max_len: Tokens that a contiguous cache reserves for a sequence; none may be longer.
        bytes_per_token: Bytes a token, where nothing more is known of the model.
        layout: What a token and a sequence occupy, in place of `bytes_per_token`: windows, fixed state.

    Raises:
        InputError: An argument is out of range, or a sequence is longer than `max_len`.
    """
    checked = _check_lengths(lengths, max_len)
    check_block_size(block_size)
    if pool_blocks is not None and pool_blocks < 1:
        raise InputError(f"pool is {pool_blocks} blocks, expected 1 or more")
    layout = layout or plain_layout(bytes_per_token)
    if pool_blocks is not None and not layout.uniform:
        raise InputError(
            "a pool in blocks needs layers that all hold the same number of blocks; this model has windows in "
            "some layers or a fixed state: give a budget in bytes"
        )
    stored, paged = int(layout.stored(checked).sum()), int(layout.paged(checked, block_size).sum())
    one_naive = layout.contiguous_bytes(max_len)
    naive = len(checked) * one_naive
    blocks = layout.blocks(checked, block_size)
    block_bytes = block_size * layout.bytes_per_token
    return PoolReport(
        block_size=block_size,
        num_seqs=len(checked),
        tokens=int(checked.sum()),
        longest=int(checked.max()),
        max_len=max_len,
        layout=layout,
        stored_bytes=stored,
        blocks_used=int(blocks.sum()),
        pool_blocks=pool_blocks,
        paged=Reserved(paged, stored / paged),
        naive=Reserved(naive, stored / naive),
        fragmentation_tokens=_fragmentation(checked, block_size),
        naive_capacity=None if pool_blocks is None else pool_blocks * block_bytes // one_naive,
    )


def sweep(
    lengths: ArrayLike,
    *,
    max_len: int,
    bytes_per_token: int = DEMO_BYTES_PER_TOKEN,
    layout: CacheLayout | None = None,
    block_sizes: tuple[int, ...] = SWEEP_BLOCK_SIZES,
) -> list[SweepRow]:
    """The same sequences at several block sizes; arguments and errors as `measure` has them."""
    checked = _check_lengths(lengths, max_len)
    layout = layout or plain_layout(bytes_per_token)
    stored = int(layout.stored(checked).sum())
    rows = []
    for block_size in block_sizes:
        check_block_size(block_size)
        reserved = int(layout.paged(checked, block_size).sum())
        rows.append(
            SweepRow(block_size, reserved, reserved - stored, stored / reserved, -(-max_len // block_size))
        )
    return rows


def _fragmentation(lengths: NDArray[np.int64], block_size: int) -> int:
    """Tokens by which the sequences' last blocks are not filled."""
    return int((-lengths % block_size).sum())


def _check_lengths(lengths: ArrayLike, max_len: int) -> NDArray[np.int64]:
    checked = np.asarray(lengths)
    if checked.ndim != 1 or not np.issubdtype(checked.dtype, np.integer) or checked.size == 0:
        raise InputError(
            f"lengths are {checked.dtype} of shape {checked.shape}, expected whole numbers [n], n ≥ 1"
        )
    if max_len < 1:
        raise InputError(f"maximum length is {max_len} tokens, expected 1 or more")
    if checked.min() < 1:
        raise InputError(f"a sequence of {checked.min()} tokens; expected 1 or more")
    over = int((checked > max_len).sum())
    if over:
        raise InputError(
            f"{over:,} of {checked.size:,} sequences are longer than the maximum of {max_len:,} tokens, "
            f"the longest {checked.max():,}; give --max-len {checked.max()} or more"
        )
    return checked.astype(np.int64)
