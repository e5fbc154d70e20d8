"""One choice of kernel and configuration by shape, from a small table with reasons; no search at run time.

The searches behind the table are in docs/results.md ("What was tried"). What counts is the most K and V that the
call can have to read, since lengths are known on the device alone: the table's width bounds them.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from pagefault.errors import InputError

MEGA = 10**6
LARGE = 1000 * MEGA
# From here on pieces are few an item, and their merge is spread over many small programs.
MANY_SEQUENCES = 8
# What the prefill kernel for Hopper is written for.
HOPPER_HEAD_DIMS = (64, 128)


@dataclass(frozen=True, slots=True)
class Choice:
    """A kernel and how it is launched.

    Attributes:
        kernel: `heads` (several KV heads a program) or `head` (one).
        heads: KV heads a program works on at once; they and a sequence make an item.
        tile: Tokens a step of the inner loop.
        depth: Tiles of K and V in flight. The software pipeline has as many stages, and as many again
            (less one) for the table entries that a paged tile's addresses wait for.
        warps: Warps a program.
        programs: Programs of the grid, whatever the lengths.
        unit: Tokens at whose multiples an item may be cut: a tile, or a fixed split.
        extra: Units that beginning an item is charged when work is cut evenly.
        split: Cut at every unit, whatever else is in the batch, instead of evenly.
        slots: Pieces that the workspace must hold.
        item_rows: Query heads of an item.
        combine_rows: Query heads a program of the combine merges.
        combine_chunk: Pieces it loads at once.
        combine_warps: Warps a program of the combine.
        follow_early: Launch the decode kernel itself as a dependent of what ran before it.
        reason: Why this one.
    """

    kernel: Literal["heads", "head"]
    heads: int
    tile: int
    depth: int
    warps: int
    programs: int
    unit: int
    extra: int
    split: bool
    slots: int
    item_rows: int
    combine_rows: int
    combine_chunk: int
    combine_warps: int
    follow_early: bool
    reason: str

    @property
    def partial_rows(self) -> int:
        """Rows of the workspace: a piece is one row a query head of its item."""
        return self.slots * self.item_rows

    def merges_by_item(self, items: int) -> bool:
        """Whether the combine has a program an item, instead of one a boundary between two programs' shares."""
        return self.split or items < self.programs

    def check(self, *, kv_heads: int, kv_bytes: int) -> None:
        """That a choice made by hand suits the cache.

        Raises:
            InputError: It would leave heads out, or the kernel does not take such K and V.
        """
        if kv_heads % self.heads or (self.kernel == "head" and self.heads != 1):
            raise InputError(
                f"choice: expected heads at once that divide the {kv_heads} KV heads (one for the kernel 'head'), "
                f"given {self.heads}"
            )
        if self.kernel == "heads" and kv_bytes == 1:
            raise InputError("choice: expected the kernel 'head' for fp8 K and V, given 'heads'")
        if not self.split and self.slots < 2 * self.programs:
            raise InputError(
                f"choice: expected two slots for each of {self.programs} programs, given {self.slots}"
            )


@lru_cache(maxsize=1024)
def choose_decode(
    *,
    batch: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    max_tokens: int,
    kv_bytes: int,
    multiprocessors: int,
    split_tokens: int | None = None,
    block_size: int = 16,
) -> Choice:
    """The kernel and configuration for a decode step.

    Args:
        batch: Sequences.
        heads: Query heads.
        kv_heads: KV heads.
        head_dim: Values a head.
        max_tokens: The most tokens a sequence can hold: the table's width times the block size.
        kv_bytes: Bytes of a stored K or V value: 4, 2 or 1.
        multiprocessors: Of the device.
        split_tokens: Tokens a fixed split, or None for balanced work.
        block_size: Tokens a block.

    Returns:
        The choice, the same for the same arguments.

    Raises:
        InputError: `split_tokens` is not a multiple of the tile, the heads do not divide, or a size that cannot be.
    """
    if kv_heads < 1 or heads < 1 or heads % kv_heads:
        raise InputError(f"heads: expected a multiple of the KV heads, given {heads} and {kv_heads}")
    least = {"batch": batch, "head_dim": head_dim, "max_tokens": max_tokens, "block_size": block_size}
    for name, value in (least | {"multiprocessors": multiprocessors}).items():
        if value < 1:
            raise InputError(f"{name}: expected at least 1, given {value}")
    if kv_bytes not in (1, 2, 4):
        raise InputError(f"kv_bytes: expected 1, 2 or 4, given {kv_bytes}")
    dim_p2 = padded(head_dim)
    group = heads // kv_heads
    most_bytes = 2 * batch * max_tokens * kv_heads * head_dim * kv_bytes
    sequences = batch
    many = kv_bytes == 2 and group <= 16 and dim_p2 <= 256 and kv_heads % 2 == 0
    if split_tokens is not None:
        # A result must not depend on the batch, so neither may the kernel.
        most_bytes = LARGE
        sequences = MANY_SEQUENCES
    if many and most_bytes >= 200 * MEGA and sequences >= MANY_SEQUENCES:
        choice = _many_heads(kv_heads, dim_p2, group, multiprocessors)
    else:
        choice = _one_head(dim_p2, group, kv_bytes, multiprocessors)
    if choice.kernel == "heads" and block_size < choice.tile:
        # A tile waits for several table entries: more of them under way.
        choice = replace(
            choice, depth=choice.depth + 1, reason=choice.reason + "; one tile more for small blocks"
        )
    if sequences < MANY_SEQUENCES:
        # Many pieces of few items: as many at once as there can be, and warps to load them.
        choice = replace(choice, combine_chunk=32, combine_warps=4)
    if batch > 2048 and split_tokens is None:
        # A prefix sum over so many lengths does not fit the registers of one warp.
        choice = replace(choice, combine_warps=max(4, choice.combine_warps))
    if split_tokens is None:
        return choice
    if not isinstance(split_tokens, numbers.Integral) or split_tokens % choice.tile or split_tokens <= 0:
        raise InputError(
            f"split_tokens: expected a multiple of {choice.tile} (the tile), given {split_tokens}"
        )
    items = kv_heads // choice.heads
    return replace(
        choice,
        unit=split_tokens,
        extra=0,
        split=True,
        slots=batch * items * -(-max_tokens // split_tokens),
        reason=choice.reason + "; fixed splits",
    )


def _many_heads(kv_heads: int, dim_p2: int, group: int, multiprocessors: int) -> Choice:
    at_once = heads_at_once(kv_heads, dim_p2, 512)
    return Choice(
        kernel="heads",
        heads=at_once,
        tile=16,
        depth=4,
        warps=at_once,
        programs=multiprocessors,
        unit=16,
        extra=6,
        split=False,
        slots=2 * multiprocessors,
        item_rows=at_once * group,
        combine_rows=1,
        combine_chunk=4,
        combine_warps=1,
        follow_early=True,
        reason="much work of many sequences: 4 heads of 128 keep 112 KB in flight on a multiprocessor",
    )


def _one_head(dim_p2: int, group: int, kv_bytes: int, multiprocessors: int) -> Choice:
    # 32 KB of K and as much of V a tile; wide groups and fp32 need the registers for something else.
    tile = min(128, 32768 // (dim_p2 * kv_bytes))
    if group > 16 or kv_bytes == 4:
        tile = min(tile, 64)
    programs = multiprocessors * (2 if kv_bytes == 1 else 1)
    return Choice(
        kernel="head",
        heads=1,
        tile=tile,
        depth=3,
        warps=4 if group <= 64 else 8,
        programs=programs,
        unit=tile,
        extra=2,
        split=False,
        slots=2 * programs,
        item_rows=group,
        combine_rows=1,
        combine_chunk=4,
        combine_warps=1,
        follow_early=True,
        reason="few sequences or little work, an odd number of KV heads, fp32, wide groups, 8-bit K and V: "
        "wide tiles of one head keep 160 KB in flight",
    )


@dataclass(frozen=True, slots=True)
class PrefillChoice:
    """A prefill kernel and how it is launched.

    Attributes:
        kernel: `portable`, or `hopper` (wgmma by hand).
        tile_q: Query tokens a program works on, with all query heads of a KV head.
        tile: Keys a step of the inner loop.
        depth: Tiles of K and V in flight; see `Choice`.
        warps: Warps a program; of `hopper`, those of one of its groups.
        reason: Why.
    """

    kernel: Literal["portable", "hopper"]
    tile_q: int
    tile: int
    depth: int
    warps: int
    reason: str


@lru_cache(maxsize=1024)
def choose_prefill(
    *, group: int, head_dim: int, q_bytes: int, kv_bytes: int, hopper: bool = False
) -> PrefillChoice:
    """The kernel and configuration for a chunk of queries.

    Args:
        group: Query heads a KV head.
        head_dim: Values a head.
        q_bytes: Bytes of a query value: 4 or 2.
        kv_bytes: Bytes of a stored K or V value: 4, 2 or 1.
        hopper: Whether the device has wgmma, the pool suits its copies, and the call is without variants.

    Returns:
        The choice, the same for the same arguments.

    Raises:
        InputError: A size that cannot be.
    """
    if min(group, head_dim) < 1 or kv_bytes not in (1, 2, 4) or q_bytes not in (2, 4):
        raise InputError(
            "expected a group and a head dim of at least 1, queries of 2 or 4 bytes and K and V of 1, 2 or 4, given "
            f"{group}, {head_dim}, {q_bytes} and {kv_bytes}"
        )
    dim_p2 = padded(head_dim)
    group_p2 = next_power_of_2(group)
    if hopper and kv_bytes == 2 and head_dim in HOPPER_HEAD_DIMS and group_p2 <= 64:
        reason = "two warp groups of 64 rows, one product always under way behind the softmax"
        return PrefillChoice("hopper", 128 // group_p2, 128, 2, 4, reason)
    if q_bytes == 4:
        rows, tile, depth = (64, 32, 1) if dim_p2 <= 64 else (32, 32, 1) if dim_p2 == 128 else (16, 16, 1)
        reason = "fp32: exact products take registers; larger tiles spill them"
    elif dim_p2 > 128:
        rows, tile, depth = 16384 // dim_p2, 32, 1
        reason = "wide heads: accumulators of 64 KB, larger ones spill"
    else:
        rows, tile, depth = 128, 64, 2 if kv_bytes == 1 else 3
        reason = "two warp groups of 64 rows; three tiles of 64 keys in flight; nothing spills"
    rows = max(rows, group_p2)
    return PrefillChoice("portable", rows // group_p2, tile, depth, 8, reason)


def most_partial_rows(*, heads: int, kv_heads: int, head_dim: int, multiprocessors: int) -> int:
    """Rows of workspace that suffice for every balanced choice with these heads, whatever the batch.

    Every program holds two pieces at most, and the table's programs on a multiprocessor together hold no more
    heads than this.
    """
    dim_p2 = padded(head_dim)
    at_once = max(2, heads_at_once(kv_heads, dim_p2, 1024))
    return 2 * multiprocessors * at_once * (heads // kv_heads)


def heads_at_once(kv_heads: int, dim_p2: int, values: int) -> int:
    """KV heads a program can take: a power of two that divides them, at most `values` values a token."""
    return min(kv_heads & -kv_heads, max(1, values // dim_p2))


def next_power_of_2(value: int) -> int:
    """The smallest power of two that is not below `value`."""
    return 1 << max(0, value - 1).bit_length()


def padded(size: int) -> int:
    """A size as the kernels know it: a power of two, at least a matrix unit's smallest side."""
    return max(16, next_power_of_2(size))
