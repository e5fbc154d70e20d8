"""Prefill attention for Hopper: as `prefill`, with warps that each have one job.

A program stays: it takes tiles of queries in turns with the others, until there are none left. One warp walks the
page tables and copies K and V, a box a page, into a ring of tiles (TMA). Two groups of four warps take half of the
queries each and run on their own: the logits of the next tile and the values of this one are on the tensor cores at
once, and while the second still runs, the softmax of the first is computed; and while one group is busy with its
softmax, the other's products run.

For 16-bit K and V, head dims of 64 and 128, blocks of at least 8 tokens, no variants but a window.
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

from pagefault.kernels.prefill_fetch import HALF, fetch
from pagefault.kernels.prefill_schedule import find_item, key_span, tile_ends, uniform

LOG2E = gl.constexpr(1.4426950408889634)
LN2 = gl.constexpr(0.6931471805599453)
LOWEST = gl.constexpr(-1.0e30)  # see `tiles`
GROUPS = gl.constexpr(2)  # of warps that compute


@gluon.jit
def logits(q_tiles, k_tiles, buffer, nothing, PART: gl.constexpr, HALVES: gl.constexpr):
    """Begins queries × keys."""
    dots = warpgroup_mma(
        q_tiles.index(PART * HALVES), k_tiles.index(buffer * HALVES).permute((1, 0)), nothing, use_acc=False,
        is_async=True,
    )  # fmt: skip
    if HALVES == 2:
        dots = warpgroup_mma(
            q_tiles.index(PART * HALVES + 1),
            k_tiles.index(buffer * HALVES + 1).permute((1, 0)),
            dots,
            is_async=True,
        )
    return dots


@gluon.jit
def mask_tile(dots, positions, token, window):
    """Takes off what a query does not see: what comes after it, and what has left its window."""
    distance = gl.expand_dims(positions, 1) - gl.expand_dims(token, 0)
    seen = distance >= 0
    if window is not None:
        seen = seen & (distance < window)
    return gl.where(seen, dots, float("-inf"))


@gluon.jit
def clean(tiles, buffer, tokens_left, HALVES: gl.constexpr, TILE: gl.constexpr):
    """Zeroes the rows of V past the end: memory that was never written, where a weight of 0 does not help.

    Both groups do it, with the same result.
    """
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [gl.num_warps(), 1], [1, 0])
    row = gl.arange(0, TILE, layout=gl.SliceLayout(1, layout))
    for half in gl.static_range(HALVES):
        tile = tiles.index(buffer * HALVES + half)
        held = tile.load(layout)
        tile.store(gl.where(gl.expand_dims(row < tokens_left, 1), held, gl.zeros_like(held)))
    fence_async_shared()


@gluon.jit
def attend(
    q,
    out,
    lse,
    lengths,
    query_offsets,
    q_tiles,
    k_tiles,
    v_tiles,
    k_ready,
    v_ready,
    k_free,
    v_free,
    unit,
    window,
    batch,
    stride_q,
    stride_q_head,
    stride_out,
    stride_out_head,
    PART: gl.constexpr,
    KV_HEADS: gl.constexpr,
    GROUP: gl.constexpr,
    GROUP_P2: gl.constexpr,
    HALVES: gl.constexpr,
    BOX: gl.constexpr,
    TILE_Q: gl.constexpr,
    TILE: gl.constexpr,
    BATCH_P2: gl.constexpr,
    BUFFERS: gl.constexpr,
):
    """A group of four warps: 64 rows of queries of each of the program's items."""
    ROWS: gl.constexpr = 64
    WARPS: gl.constexpr = gl.num_warps()
    dtype: gl.constexpr = q_tiles.dtype
    dot_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [WARPS, 1], [16, TILE, 16])
    out_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [WARPS, 1], [16, HALF, 16])
    weight_layout: gl.constexpr = gl.DotOperandLayout(0, out_layout, 2)
    copy_layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [WARPS, 1], [1, 0])
    ends = tile_ends(query_offsets, batch, TILE_Q, BATCH_P2)
    items = uniform(gl.max(ends, 0)) * KV_HEADS
    number = items * 0  # of the tile of keys, over all items: its place in the ring
    for item in range(gl.program_id(0), items, gl.num_programs(0)):
        _, tile, kv_head, begin, count, tokens = find_item(
            item, ends, query_offsets, lengths, KV_HEADS, BATCH_P2
        )
        start, _, turns = key_span(tile, count, tokens, window, TILE_Q, TILE, BOX)
        first_query = tile * TILE_Q + PART * (ROWS // GROUP_P2)

        q_lane = gl.arange(0, ROWS, layout=gl.SliceLayout(1, copy_layout))
        dim = gl.arange(0, HALF, layout=gl.SliceLayout(0, copy_layout))
        query, member = first_query + q_lane // GROUP_P2, q_lane % GROUP_P2
        real = gl.expand_dims((query < count) & (member < GROUP), 1) & gl.expand_dims(dim >= 0, 0)
        at = (begin + query).to(gl.int64) * stride_q + (kv_head * GROUP + member) * stride_q_head
        at = gl.expand_dims(at, 1) + gl.expand_dims(dim, 0)
        for half in gl.static_range(HALVES):
            q_tiles.index(PART * HALVES + half).store(gl.load(q + (at + half * HALF), mask=real, other=0.0))
        fence_async_shared()

        lane = gl.arange(0, ROWS, layout=gl.SliceLayout(1, dot_layout))
        keys = gl.arange(0, TILE, layout=gl.SliceLayout(0, dot_layout))
        first = tokens - count + first_query
        last = first + ROWS // GROUP_P2 - 1
        positions = first + lane // GROUP_P2
        nothing = gl.zeros([ROWS, TILE], gl.float32, dot_layout)
        values_0 = gl.zeros([ROWS, HALF], gl.float32, out_layout)
        values_1 = gl.zeros([ROWS, HALF], gl.float32, out_layout)

        buffer = number % BUFFERS
        mbarrier.wait(k_ready.index(buffer), (number // BUFFERS) & 1)
        dots = warpgroup_mma_wait(0, deps=[logits(q_tiles, k_tiles, buffer, nothing, PART, HALVES)])
        mbarrier.arrive(k_free.index(buffer), count=1)
        dots = mask_tile(dots, positions, start + keys, window)
        highest = gl.maximum(gl.max(dots, 1) * unit, LOWEST)
        weights = gl.exp2(dots * unit - gl.expand_dims(highest, 1))
        total = gl.sum(weights, 1)
        operand = gl.convert_layout(weights.to(dtype), weight_layout)

        for turn in range(1, turns):
            before, buffer = (number + turn - 1) % BUFFERS, (number + turn) % BUFFERS
            mbarrier.wait(k_ready.index(buffer), ((number + turn) // BUFFERS) & 1)
            next_dots = logits(q_tiles, k_tiles, buffer, nothing, PART, HALVES)
            mbarrier.wait(v_ready.index(before), ((number + turn - 1) // BUFFERS) & 1)
            next_0 = warpgroup_mma(operand, v_tiles.index(before * HALVES), values_0, is_async=True)
            next_1 = values_1
            if HALVES == 2:
                next_1 = warpgroup_mma(operand, v_tiles.index(before * HALVES + 1), values_1, is_async=True)
            dots = warpgroup_mma_wait(HALVES, deps=[next_dots])
            mbarrier.arrive(k_free.index(buffer), count=1)
            position = start + turn * TILE
            masked = position + TILE > first + 1
            if window is not None:
                masked = masked | (position <= last - window)
            if masked:
                dots = mask_tile(dots, positions, position + keys, window)
            higher = gl.maximum(highest, gl.max(dots, 1) * unit)
            shrink = gl.exp2(highest - higher)
            weights = gl.exp2(dots * unit - gl.expand_dims(higher, 1))
            total = total * shrink + gl.sum(weights, 1)
            highest = higher
            if HALVES == 2:
                values_0, values_1 = warpgroup_mma_wait(0, deps=[next_0, next_1])
            else:
                values_0 = warpgroup_mma_wait(0, deps=[next_0])
            mbarrier.arrive(v_free.index(before), count=1)
            factor = gl.expand_dims(gl.convert_layout(shrink, gl.SliceLayout(1, out_layout)), 1)
            values_0 *= factor
            if HALVES == 2:
                values_1 *= factor
            operand = gl.convert_layout(weights.to(dtype), weight_layout)

        number += turns
        buffer = (number - 1) % BUFFERS
        mbarrier.wait(v_ready.index(buffer), ((number - 1) // BUFFERS) & 1)
        if start + turns * TILE > tokens:
            clean(v_tiles, buffer, tokens - start - (turns - 1) * TILE, HALVES, TILE)
        next_0 = warpgroup_mma(operand, v_tiles.index(buffer * HALVES), values_0, is_async=True)
        if HALVES == 2:
            next_1 = warpgroup_mma(operand, v_tiles.index(buffer * HALVES + 1), values_1, is_async=True)
            values_0, values_1 = warpgroup_mma_wait(0, deps=[next_0, next_1])
        else:
            values_0 = warpgroup_mma_wait(0, deps=[next_0])
        mbarrier.arrive(v_free.index(buffer), count=1)

        some = total > 0.0
        safe = gl.where(some, total, 1.0)
        closing = gl.convert_layout(gl.where(some, 1.0 / safe, 0.0), gl.SliceLayout(1, out_layout))
        o_lane = gl.arange(0, ROWS, layout=gl.SliceLayout(1, out_layout))
        o_dim = gl.arange(0, HALF, layout=gl.SliceLayout(0, out_layout))
        query, member = first_query + o_lane // GROUP_P2, o_lane % GROUP_P2
        real = gl.expand_dims((query < count) & (member < GROUP), 1) & gl.expand_dims(o_dim >= 0, 0)
        at = (begin + query).to(gl.int64) * stride_out + (kv_head * GROUP + member) * stride_out_head
        at = gl.expand_dims(at, 1) + gl.expand_dims(o_dim, 0)
        gl.store(out + at, (values_0 * gl.expand_dims(closing, 1)).to(dtype), mask=real)
        if HALVES == 2:
            gl.store(out + (at + HALF), (values_1 * gl.expand_dims(closing, 1)).to(dtype), mask=real)
        if lse is not None:
            query, member = first_query + lane // GROUP_P2, lane % GROUP_P2
            row_lse = gl.where(some, (highest + gl.log2(safe)) * LN2, float("-inf"))
            lse_at = (begin + query).to(gl.int64) * (KV_HEADS * GROUP) + kv_head * GROUP + member
            gl.store(lse + lse_at, row_lse, mask=(query < count) & (member < GROUP))


@gluon.jit(do_not_specialize=["batch", "window"])
def prefill_hopper(
    q,
    k_boxes,
    v_boxes,
    block_table,
    lengths,
    query_offsets,
    out,
    lse,
    scale,
    window,
    batch,
    stride_table,
    frame_rows,
    head_rows,
    head_columns,
    stride_q,
    stride_q_head,
    stride_out,
    stride_out_head,
    KV_HEADS: gl.constexpr,
    GROUP: gl.constexpr,
    GROUP_P2: gl.constexpr,
    HEAD_DIM: gl.constexpr,
    BLOCK: gl.constexpr,
    BOX: gl.constexpr,
    TILE_Q: gl.constexpr,
    TILE: gl.constexpr,
    BATCH_P2: gl.constexpr,
    BUFFERS: gl.constexpr,
):
    """See `pagefault.attention.prefill` for the arguments. A program takes items in turns with the others.

    The pool is a matrix to the copies, a row a token: `frame_rows` rows a frame, and a KV head is `head_rows` rows
    or `head_columns` columns further.
    """
    HALVES: gl.constexpr = HEAD_DIM // HALF
    dtype: gl.constexpr = q.dtype.element_ty
    tile_layout: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    q_tiles = gl.allocate_shared_memory(dtype, [GROUPS * HALVES, 64, HALF], tile_layout)
    k_tiles = gl.allocate_shared_memory(dtype, [BUFFERS * HALVES, TILE, HALF], tile_layout)
    v_tiles = gl.allocate_shared_memory(dtype, [BUFFERS * HALVES, TILE, HALF], tile_layout)
    k_ready = gl.allocate_shared_memory(gl.int64, [BUFFERS, 1], mbarrier.MBarrierLayout())
    v_ready = gl.allocate_shared_memory(gl.int64, [BUFFERS, 1], mbarrier.MBarrierLayout())
    k_free = gl.allocate_shared_memory(gl.int64, [BUFFERS, 1], mbarrier.MBarrierLayout())
    v_free = gl.allocate_shared_memory(gl.int64, [BUFFERS, 1], mbarrier.MBarrierLayout())
    for buffer in gl.static_range(BUFFERS):
        mbarrier.init(k_ready.index(buffer), count=1)
        mbarrier.init(v_ready.index(buffer), count=1)
        mbarrier.init(k_free.index(buffer), count=GROUPS)
        mbarrier.init(v_free.index(buffer), count=GROUPS)
    fence_async_shared()
    unit = scale * LOG2E
    gl.warp_specialize(
        [
            (attend, (
                q, out, lse, lengths, query_offsets, q_tiles, k_tiles, v_tiles, k_ready, v_ready, k_free, v_free, unit,
                window, batch, stride_q, stride_q_head, stride_out, stride_out_head, 0, KV_HEADS, GROUP, GROUP_P2,
                HALVES, BOX, TILE_Q, TILE, BATCH_P2, BUFFERS,
            )),
            (attend, (
                q, out, lse, lengths, query_offsets, q_tiles, k_tiles, v_tiles, k_ready, v_ready, k_free, v_free, unit,
                window, batch, stride_q, stride_q_head, stride_out, stride_out_head, 1, KV_HEADS, GROUP, GROUP_P2,
                HALVES, BOX, TILE_Q, TILE, BATCH_P2, BUFFERS,
            )),
            (fetch, (
                k_boxes, v_boxes, block_table, lengths, query_offsets, k_tiles, v_tiles, k_ready, v_ready, k_free,
                v_free, window, batch, stride_table, frame_rows, head_rows, head_columns, KV_HEADS, HALVES, BLOCK, BOX,
                TILE_Q, TILE, BATCH_P2, BUFFERS,
            )),
        ],
        [4, 1],
        [240, 24],
    )  # fmt: skip
