"""Decode attention for Hopper: all KV heads a program, and a warp that does nothing but fetch.

One warp finds the program's work, walks the page tables and copies K and V into a ring of tiles (TMA): all heads of
a page are one piece of memory, so a copy is as large as it can be. It never stops between sequences, so the memory
does not either. Four warps compute: a tile's rows are its tokens' heads, its columns all query heads; what belongs to
another KV head is masked, which the tensor cores have time for.

A copy costs the same whether its tokens share a page or not, so small blocks lose little here. For 16-bit K and V
with heads of 64 and 128, at most 8 KV heads and 64 query heads, no variants.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from pagefault.kernels.decode_fetch import FIELDS, NOTES, fetch, hear
from pagefault.kernels.hopper_tiles import HALF, LN2, LOG2E, LOWEST, clean, uniform


@gluon.jit
def logits(k_tiles, q_tiles, buffer, nothing, HALVES: gl.constexpr):
    """Begins keys × queries."""
    dots = warpgroup_mma(
        k_tiles.index(buffer * HALVES),
        q_tiles.index(0).permute((1, 0)),
        nothing,
        use_acc=False,
        is_async=True,
    )
    if HALVES == 2:
        dots = warpgroup_mma(
            k_tiles.index(buffer * HALVES + 1), q_tiles.index(1).permute((1, 0)), dots, is_async=True
        )
    return dots


@gluon.jit
def attend(
    q,
    out,
    lse,
    partials,
    partial_stats,
    lengths,
    q_tiles,
    weight_tiles,
    k_tiles,
    v_tiles,
    notes,
    k_ready,
    v_ready,
    k_free,
    v_free,
    note_ready,
    note_free,
    unit,
    stride_q,
    stride_q_head,
    stride_out,
    stride_out_head,
    KV_HEADS: gl.constexpr,
    HEADS: gl.constexpr,
    HEADS_P2: gl.constexpr,
    HEAD_DIM: gl.constexpr,
    TILE: gl.constexpr,
    BUFFERS: gl.constexpr,
):
    """The four warps that compute."""
    HALVES: gl.constexpr = HEAD_DIM // HALF
    ROWS: gl.constexpr = TILE * KV_HEADS
    WARPS: gl.constexpr = gl.num_warps()
    dtype: gl.constexpr = q_tiles.dtype
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [WARPS, 1], [16, HEADS_P2, 16])
    copy_layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [WARPS, 1], [1, 0])
    key = gl.arange(0, ROWS, layout=gl.SliceLayout(1, layout))
    head = gl.arange(0, HEADS_P2, layout=gl.SliceLayout(0, layout))
    dim = gl.arange(0, HALF, layout=gl.SliceLayout(1, layout))
    own = gl.expand_dims(key % KV_HEADS, 1) == gl.expand_dims(head // (HEADS // KV_HEADS), 0)
    q_head = gl.expand_dims(gl.arange(0, HEADS_P2, layout=gl.SliceLayout(1, copy_layout)), 1)
    q_dim = gl.expand_dims(gl.arange(0, HALF, layout=gl.SliceLayout(0, copy_layout)), 0)
    nothing = gl.zeros([ROWS, HEADS_P2], gl.float32, layout)
    weights = weight_tiles.index(0).permute((1, 0))

    heard = gl.to_tensor(0)
    number = heard  # of the tile, over all items: its place in the ring
    row, lo, hi, slot = hear(notes, note_ready, note_free, heard)
    while row >= 0:
        heard += 1
        tokens = uniform(gl.load(lengths + row))
        highest = gl.full([HEADS_P2], LOWEST, gl.float32, gl.SliceLayout(0, layout))
        totals = gl.zeros([ROWS, HEADS_P2], gl.float32, layout)
        values_0 = gl.zeros([HALF, HEADS_P2], gl.float32, layout)
        values_1 = gl.zeros([HALF, HEADS_P2], gl.float32, layout)
        if hi > lo:
            at = row.to(gl.int64) * stride_q + q_head * stride_q_head + q_dim
            real = (q_head < HEADS) & (q_dim >= 0)
            for half in gl.static_range(HALVES):
                q_tiles.index(half).store(gl.load(q + (at + half * HALF), mask=real, other=0.0))
            fence_async_shared()
            buffer = number % BUFFERS
            mbarrier.wait(k_ready.index(buffer), (number // BUFFERS) & 1)
            dots = warpgroup_mma_wait(0, deps=[logits(k_tiles, q_tiles, buffer, nothing, HALVES)])
            mbarrier.arrive(k_free.index(buffer), count=1)
            left = (tokens - lo * TILE) * KV_HEADS
            dots = gl.where(own & gl.expand_dims(key < left, 1), dots, float("-inf"))
            highest = gl.maximum(gl.max(dots, 0) * unit, LOWEST)
            totals = gl.exp2(dots * unit - gl.expand_dims(highest, 0))
            weights.store(totals.to(dtype))
            fence_async_shared()
            for tile in range(lo + 1, hi):
                before, buffer = number % BUFFERS, (number + 1) % BUFFERS
                mbarrier.wait(k_ready.index(buffer), ((number + 1) // BUFFERS) & 1)
                next_dots = logits(k_tiles, q_tiles, buffer, nothing, HALVES)
                mbarrier.wait(v_ready.index(before), (number // BUFFERS) & 1)
                next_0 = warpgroup_mma(
                    v_tiles.index(before * HALVES).permute((1, 0)), weights, values_0, is_async=True
                )
                next_1 = values_1
                if HALVES == 2:
                    next_1 = warpgroup_mma(
                        v_tiles.index(before * HALVES + 1).permute((1, 0)), weights, values_1, is_async=True
                    )
                dots = gl.where(own, warpgroup_mma_wait(HALVES, deps=[next_dots]), float("-inf"))
                mbarrier.arrive(k_free.index(buffer), count=1)
                left = (tokens - tile * TILE) * KV_HEADS
                if left < ROWS:
                    dots = gl.where(gl.expand_dims(key < left, 1), dots, float("-inf"))
                higher = gl.maximum(highest, gl.max(dots, 0) * unit)
                shrink = gl.expand_dims(gl.exp2(highest - higher), 0)
                new_weights = gl.exp2(dots * unit - gl.expand_dims(higher, 0))
                totals = totals * shrink + new_weights
                highest = higher
                if HALVES == 2:
                    values_0, values_1 = warpgroup_mma_wait(0, deps=[next_0, next_1])
                    values_1 *= shrink
                else:
                    values_0 = warpgroup_mma_wait(0, deps=[next_0])
                values_0 *= shrink
                mbarrier.arrive(v_free.index(before), count=1)
                weights.store(new_weights.to(dtype))
                fence_async_shared()
                number += 1
            buffer = number % BUFFERS
            mbarrier.wait(v_ready.index(buffer), (number // BUFFERS) & 1)
            if left < ROWS:
                clean(v_tiles, buffer, left, HALVES, ROWS)
            next_0 = warpgroup_mma(
                v_tiles.index(buffer * HALVES).permute((1, 0)), weights, values_0, is_async=True
            )
            if HALVES == 2:
                next_1 = warpgroup_mma(
                    v_tiles.index(buffer * HALVES + 1).permute((1, 0)), weights, values_1, is_async=True
                )
                values_0, values_1 = warpgroup_mma_wait(0, deps=[next_0, next_1])
            else:
                values_0 = warpgroup_mma_wait(0, deps=[next_0])
            mbarrier.arrive(v_free.index(buffer), count=1)
            number += 1
        total = gl.sum(totals, 0)
        in_heads = head < HEADS
        place = gl.expand_dims(dim, 1)
        wanted = gl.expand_dims(in_heads, 0) & (place >= 0)
        if slot < 0:
            some = total > 0.0
            safe = gl.where(some, total, 1.0)
            factor = gl.expand_dims(gl.where(some, 1.0 / safe, 0.0), 0)
            at = row.to(gl.int64) * stride_out + gl.expand_dims(head * stride_out_head, 0) + place
            gl.store(out + at, (values_0 * factor).to(dtype), mask=wanted)
            if HALVES == 2:
                gl.store(out + (at + HALF), (values_1 * factor).to(dtype), mask=wanted)
            if lse is not None:
                row_lse = gl.where(some, (highest + gl.log2(safe)) * LN2, float("-inf"))
                gl.store(lse + row * HEADS + head, row_lse, mask=in_heads)
        else:
            rows = slot.to(gl.int64) * HEADS + head
            at = gl.expand_dims(rows * HEAD_DIM, 0) + place
            gl.store(partials + at, values_0, mask=wanted)
            if HALVES == 2:
                gl.store(partials + (at + HALF), values_1, mask=wanted)
            gl.store(partial_stats + rows * 2, highest, mask=in_heads)
            gl.store(partial_stats + rows * 2 + 1, total, mask=in_heads)
        row, lo, hi, slot = hear(notes, note_ready, note_free, heard)


@gluon.jit(do_not_specialize=["batch", "programs"])
def decode_hopper(
    q,
    k_boxes,
    v_boxes,
    block_table,
    lengths,
    out,
    lse,
    partials,
    partial_stats,
    scale,
    batch,
    programs,
    stride_table,
    frame_rows,
    stride_q,
    stride_q_head,
    stride_out,
    stride_out_head,
    KV_HEADS: gl.constexpr,
    HEADS: gl.constexpr,
    HEADS_P2: gl.constexpr,
    HEAD_DIM: gl.constexpr,
    BLOCK: gl.constexpr,
    BOX: gl.constexpr,
    TILE: gl.constexpr,
    EXTRA: gl.constexpr,
    BATCH_P2: gl.constexpr,
    BUFFERS: gl.constexpr,
    WAIT: gl.constexpr,
    TRIGGER: gl.constexpr,
):
    """See `pagefault.attention.decode` for the arguments; an item here is a sequence.

    The pool is a matrix to the copies, a row for each head of each token, `frame_rows` rows a frame.
    """
    HALVES: gl.constexpr = HEAD_DIM // HALF
    ROWS: gl.constexpr = TILE * KV_HEADS
    dtype: gl.constexpr = q.dtype.element_ty
    tile_layout: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    note_layout: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    q_tiles = gl.allocate_shared_memory(dtype, [HALVES, HEADS_P2, HALF], tile_layout)
    weight_tiles = gl.allocate_shared_memory(dtype, [1, HEADS_P2, ROWS], tile_layout)
    k_tiles = gl.allocate_shared_memory(dtype, [BUFFERS * HALVES, ROWS, HALF], tile_layout)
    v_tiles = gl.allocate_shared_memory(dtype, [BUFFERS * HALVES, ROWS, HALF], tile_layout)
    notes = gl.allocate_shared_memory(gl.int32, [NOTES * FIELDS, 1], note_layout)
    k_ready = gl.allocate_shared_memory(gl.int64, [BUFFERS, 1], mbarrier.MBarrierLayout())
    v_ready = gl.allocate_shared_memory(gl.int64, [BUFFERS, 1], mbarrier.MBarrierLayout())
    k_free = gl.allocate_shared_memory(gl.int64, [BUFFERS, 1], mbarrier.MBarrierLayout())
    v_free = gl.allocate_shared_memory(gl.int64, [BUFFERS, 1], mbarrier.MBarrierLayout())
    note_ready = gl.allocate_shared_memory(gl.int64, [NOTES, 1], mbarrier.MBarrierLayout())
    note_free = gl.allocate_shared_memory(gl.int64, [NOTES, 1], mbarrier.MBarrierLayout())
    for buffer in gl.static_range(BUFFERS):
        mbarrier.init(k_ready.index(buffer), count=1)
        mbarrier.init(v_ready.index(buffer), count=1)
        mbarrier.init(k_free.index(buffer), count=1)
        mbarrier.init(v_free.index(buffer), count=1)
    for place in gl.static_range(NOTES):
        mbarrier.init(note_ready.index(place), count=1)
        mbarrier.init(note_free.index(place), count=1)
    fence_async_shared()
    if WAIT:
        gdc_wait()  # before the first load: lengths, tables and K may be the previous kernel's work
    if TRIGGER:
        gdc_launch_dependents()
    gl.warp_specialize(
        [
            (attend, (
                q, out, lse, partials, partial_stats, lengths, q_tiles, weight_tiles, k_tiles, v_tiles, notes, k_ready,
                v_ready, k_free, v_free, note_ready, note_free, scale * LOG2E, stride_q, stride_q_head, stride_out,
                stride_out_head, KV_HEADS, HEADS, HEADS_P2, HEAD_DIM, TILE, BUFFERS,
            )),
            (fetch, (
                k_boxes, v_boxes, block_table, lengths, k_tiles, v_tiles, notes, k_ready, v_ready, k_free,
                v_free, note_ready, note_free, batch, programs, stride_table, frame_rows, KV_HEADS, HALVES, BLOCK, BOX,
                TILE, EXTRA, BATCH_P2, BUFFERS,
            )),
        ],
        [1],
        [56],
    )  # fmt: skip
