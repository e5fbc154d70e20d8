"""The demo's attention where there is no PyTorch: the oracle, contiguous against ordered and scattered frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pagefault.cli.console import say, table
from pagefault.errors import CheckFailed
from pagefault.paging import Pager
from pagefault.reference import attention, paged_attention
from pagefault.workload import seeded_lengths

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEQS, SEED, HEAD_DIM, BLOCK_SIZE = 32, 42, 64, 16


def show() -> None:
    """Compare and print.

    Raises:
        CheckFailed: Paged attention differs from contiguous attention.
    """
    lengths, random = seeded_lengths(SEQS, SEED), np.random.default_rng(SEED)
    total = int(lengths.sum())
    q = random.standard_normal((SEQS, 1, HEAD_DIM))
    k, v = random.standard_normal((2, total, 1, HEAD_DIM))
    ends = np.cumsum(lengths)
    contiguous = np.concatenate(
        [
            attention(q[i : i + 1], k[end - n : end], v[end - n : end])[0]
            for i, (end, n) in enumerate(zip(ends.tolist(), lengths.tolist(), strict=True))
        ]
    )
    rows = []
    for name, pager in (("ordered", _ordered(lengths)), ("scattered", _scattered(lengths, random))):
        order = np.arange(SEQS)
        slots = pager.slots(order, lengths)
        pools = np.full((2, pager.num_blocks * BLOCK_SIZE, 1, HEAD_DIM), np.nan)
        pools[0, slots], pools[1, slots] = k, v
        k_pool, v_pool = pools.reshape(2, pager.num_blocks, BLOCK_SIZE, 1, HEAD_DIM)
        paged, _ = paged_attention(q, k_pool, v_pool, pager.block_table[:SEQS], lengths)
        if not np.array_equal(paged, contiguous):
            raise CheckFailed(
                f"paged attention over {name} frames differs from contiguous attention by up to "
                f"{np.abs(paged - contiguous).max():.1e}"
            )
        frames = pager.block_table[int(np.argmax(lengths)), :4]
        rows.append(
            [name, f"{len(set(slots.tolist())):,} of {total:,}", ", ".join(map(str, frames)), "equal"]
        )
    say(f"{SEQS} sequences (seed {SEED}), {total:,} tokens, one head of {HEAD_DIM}, float64")
    say()
    table(None, ["frames", "slots in use", "first frames of the longest", "paged = contiguous"], rows)


def _ordered(lengths: NDArray[np.int64]) -> Pager:
    """Sequence after sequence."""
    pager = Pager(4096, BLOCK_SIZE, max_seqs=SEQS)
    for tokens in lengths.tolist():
        pager.grow(pager.open(), tokens)
    return pager


def _scattered(lengths: NDArray[np.int64], random: np.random.Generator) -> Pager:
    """Block by block, whoever comes: neighbouring pages of a sequence lie far apart."""
    pager = Pager(4096, BLOCK_SIZE, max_seqs=SEQS)
    rows = np.array([pager.open() for _ in range(SEQS)])
    while (missing := lengths - pager.lengths[rows]).any():
        turn = random.permutation(rows[missing > 0])
        pager.grow(turn, np.minimum(missing[turn], BLOCK_SIZE))
    return pager
