"""Prefill attention for Hopper: as `prefill`, with the order of matrix products and loads set by hand.

Triton waits for a product before it goes on. Here the logits of the next tile and the values of this one are on
the tensor cores at once, and while the second still runs, the softmax of the first is computed. K and V of a tile
come by asynchronous copies through the page table, one to two tiles ahead; the table entries one tile before that.

For 16-bit K and V, head dims of 64 and 128, no variants.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    warpgroup_mma,
    warpgroup_mma_wait,
)

LOG2E = gl.constexpr(1.4426950408889634)
LN2 = gl.constexpr(0.6931471805599453)
LOWEST = gl.constexpr(-1.0e30)  # see `tiles`


@gluon.jit
def add(a, b):
    """For the prefix sum."""
    return a + b


@gluon.jit
def find_tile(query_offsets, batch, index, TILE_Q: gl.constexpr, BATCH_P2: gl.constexpr):
    """See `prefill.find_tile`."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    rows = gl.arange(0, BATCH_P2, layout=layout)
    inside = rows < batch
    begins = gl.load(query_offsets + rows, mask=inside, other=0)
    stops = gl.load(query_offsets + rows + 1, mask=inside, other=0)
    tiles = gl.where(inside, (stops - begins + TILE_Q - 1) // TILE_Q, 0)
    ends = gl.associative_scan(tiles, 0, add)
    number = gl.max(ends, 0) - 1 - index
    row = gl.sum((ends <= number).to(gl.int32), 0)
    first = gl.sum(gl.where(rows < row, tiles, 0), 0)
    return row, number - first, number >= 0


@gluon.jit
def tile_frames(table_row, position, lane, tokens, BLOCK: gl.constexpr):
    """Frames of the tokens ``position + lane``, int32; 0 past the end."""
    token = position + lane
    return gl.load(table_row + token // BLOCK, mask=token < tokens, other=0)


@gluon.jit
def copy_tile(
    k_to,
    v_to,
    k_from,
    v_from,
    frames,
    position,
    lane,
    dim,
    tokens,
    stride_block,
    stride_token,
    BLOCK: gl.constexpr,
):
    """Begins to copy K and V of a tile; tokens past the end become zeros."""
    token = position + lane
    at = frames.to(gl.int64) * stride_block + token % BLOCK * stride_token
    there = gl.expand_dims(token < tokens, 1) & gl.expand_dims(dim >= 0, 0)
    offsets = gl.expand_dims(at, 1) + gl.expand_dims(dim, 0)
    async_copy.async_copy_global_to_shared(k_to, k_from + offsets, mask=there)
    async_copy.async_copy_global_to_shared(v_to, v_from + offsets, mask=there)
    async_copy.commit_group()


@gluon.jit
def mask_tile(dots, positions, token, window):
    """Takes off what a query does not see: what comes after it, and what has left its window."""
    distance = gl.expand_dims(positions, 1) - gl.expand_dims(token, 0)
    seen = distance >= 0
    if window is not None:
        seen = seen & (distance < window)
    return gl.where(seen, dots, float("-inf"))


@gluon.jit(do_not_specialize=["batch", "window"])
def prefill_hopper(
    q,
    k,
    v,
    block_table,
    lengths,
    query_offsets,
    out,
    lse,
    scale,
    window,
    batch,
    stride_table,
    stride_block,
    stride_token,
    stride_head,
    stride_q,
    stride_q_head,
    stride_out,
    stride_out_head,
    KV_HEADS: gl.constexpr,
    GROUP: gl.constexpr,
    GROUP_P2: gl.constexpr,
    HEAD_DIM: gl.constexpr,
    BLOCK: gl.constexpr,
    TILE_Q: gl.constexpr,
    TILE: gl.constexpr,
    BATCH_P2: gl.constexpr,
    AHEAD: gl.constexpr,
):
    """See `pagefault.attention.prefill` for the arguments. Program (tile of queries, KV head)."""
    ROWS: gl.constexpr = TILE_Q * GROUP_P2
    WARPS: gl.constexpr = gl.num_warps()
    K_BUFFERS: gl.constexpr = AHEAD + 1
    V_BUFFERS: gl.constexpr = AHEAD + 2
    dtype: gl.constexpr = k.dtype.element_ty
    dot_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [WARPS, 1], [16, TILE, 16])
    out_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [WARPS, 1], [16, HEAD_DIM, 16])
    weight_layout: gl.constexpr = gl.DotOperandLayout(0, out_layout, 2)
    wide: gl.constexpr = HEAD_DIM // 8  # threads across a row, 16 bytes each
    copy_layout: gl.constexpr = gl.BlockedLayout([1, 8], [32 // wide, wide], [WARPS, 1], [1, 0])
    row, tile, some = find_tile(query_offsets, batch, gl.program_id(0), TILE_Q, BATCH_P2)
    if some:
        kv_head = gl.program_id(1)
        begin = gl.load(query_offsets + row)
        count = gl.load(query_offsets + row + 1) - begin
        tokens = gl.load(lengths + row)
        lane = gl.arange(0, TILE, layout=gl.SliceLayout(1, copy_layout))
        dim = gl.arange(0, HEAD_DIM, layout=gl.SliceLayout(0, copy_layout))
        table_row = block_table + row.to(gl.int64) * stride_table
        k_head = k + kv_head.to(gl.int64) * stride_head
        v_head = v + kv_head.to(gl.int64) * stride_head

        # Keys that some of the tile's queries see: from `start` to `stop`.
        first = tokens - count + tile * TILE_Q
        stop = gl.minimum(first + TILE_Q, tokens)
        start = first * 0
        if window is not None:
            start = gl.maximum(first - window + 1, 0) // TILE * TILE
        turns = gl.maximum(stop - start + TILE - 1, 0) // TILE

        k_tiles = gl.allocate_shared_memory(
            dtype, [K_BUFFERS, TILE, HEAD_DIM], gl.NVMMASharedLayout.get_default_for([TILE, HEAD_DIM], dtype)
        )
        v_tiles = gl.allocate_shared_memory(
            dtype, [V_BUFFERS, TILE, HEAD_DIM], gl.NVMMASharedLayout.get_default_for([TILE, HEAD_DIM], dtype)
        )
        for turn in gl.static_range(AHEAD + 1):
            position = start + turn * TILE
            frames = tile_frames(table_row, position, lane, stop, BLOCK)
            copy_tile(
                k_tiles.index(turn % K_BUFFERS), v_tiles.index(turn % V_BUFFERS), k_head, v_head, frames, position,
                lane, dim, stop, stride_block, stride_token, BLOCK,
            )  # fmt: skip
        frames = tile_frames(table_row, start + (AHEAD + 1) * TILE, lane, stop, BLOCK)

        q_lane = gl.arange(0, ROWS, layout=gl.SliceLayout(1, copy_layout))
        q_query = tile * TILE_Q + q_lane // GROUP_P2
        q_member = q_lane % GROUP_P2
        q_real = (q_query < count) & (q_member < GROUP)
        q_at = (begin + q_query).to(gl.int64) * stride_q + (kv_head * GROUP + q_member) * stride_q_head
        q_mask = gl.expand_dims(q_real, 1) & gl.expand_dims(dim >= 0, 0)
        queries = gl.load(q + (gl.expand_dims(q_at, 1) + gl.expand_dims(dim, 0)), mask=q_mask, other=0.0)
        q_tile = gl.allocate_shared_memory(
            dtype, [ROWS, HEAD_DIM], gl.NVMMASharedLayout.get_default_for([ROWS, HEAD_DIM], dtype), queries
        )

        lanes = gl.arange(0, ROWS, layout=gl.SliceLayout(1, dot_layout))
        query = tile * TILE_Q + lanes // GROUP_P2
        positions = tokens - count + query
        keys = gl.arange(0, TILE, layout=gl.SliceLayout(0, dot_layout))
        unit = scale * LOG2E
        nothing = gl.zeros([ROWS, TILE], gl.float32, dot_layout)
        highest = gl.full([ROWS], LOWEST, gl.float32, gl.SliceLayout(1, dot_layout))
        total = gl.zeros([ROWS], gl.float32, gl.SliceLayout(1, dot_layout))
        values = gl.zeros([ROWS, HEAD_DIM], gl.float32, out_layout)

        async_copy.wait_group(AHEAD)
        fence_async_shared()
        dots = warpgroup_mma(q_tile, k_tiles.index(0).permute((1, 0)), nothing, use_acc=False, is_async=True)
        dots = mask_tile(warpgroup_mma_wait(0, deps=[dots]), positions, start + keys, window)
        highest = gl.maximum(highest, gl.max(dots, 1) * unit)
        weights = gl.exp2(dots * unit - gl.expand_dims(highest, 1))
        total = gl.sum(weights, 1)
        operand = gl.convert_layout(weights.to(dtype), weight_layout)

        for turn in range(1, turns):
            # Whoever gets here has read the tiles of two turns ago, and the next ones have arrived.
            async_copy.wait_group(AHEAD - 1)
            fence_async_shared()
            next_dots = warpgroup_mma(
                q_tile, k_tiles.index(turn % K_BUFFERS).permute((1, 0)), nothing, use_acc=False, is_async=True
            )
            next_values = warpgroup_mma(operand, v_tiles.index((turn - 1) % V_BUFFERS), values, is_async=True)
            position = start + (turn + AHEAD) * TILE
            copy_tile(
                k_tiles.index((turn + AHEAD) % K_BUFFERS), v_tiles.index((turn + AHEAD) % V_BUFFERS), k_head, v_head,
                frames, position, lane, dim, stop, stride_block, stride_token, BLOCK,
            )  # fmt: skip
            frames = tile_frames(table_row, position + TILE, lane, stop, BLOCK)
            dots = warpgroup_mma_wait(1, deps=[next_dots])
            position = start + turn * TILE
            masked = position + TILE > first + 1
            if window is not None:
                masked = masked | (position < stop - window)
            if masked:
                dots = mask_tile(dots, positions, position + keys, window)
            higher = gl.maximum(highest, gl.max(dots, 1) * unit)
            shrink = gl.exp2(highest - higher)
            weights = gl.exp2(dots * unit - gl.expand_dims(higher, 1))
            total = total * shrink + gl.sum(weights, 1)
            highest = higher
            values = warpgroup_mma_wait(0, deps=[next_values])
            values *= gl.expand_dims(gl.convert_layout(shrink, gl.SliceLayout(1, out_layout)), 1)
            operand = gl.convert_layout(weights.to(dtype), weight_layout)

        if turns > 0:
            async_copy.wait_group(0)
            fence_async_shared()
            last = warpgroup_mma(operand, v_tiles.index((turns - 1) % V_BUFFERS), values, is_async=True)
            values = warpgroup_mma_wait(0, deps=[last])
        some_seen = (total > 0.0) & (turns > 0)
        safe = gl.where(some_seen, total, 1.0)
        closing = gl.where(some_seen, 1.0 / safe, 0.0)
        o_lane = gl.arange(0, ROWS, layout=gl.SliceLayout(1, out_layout))
        o_dim = gl.arange(0, HEAD_DIM, layout=gl.SliceLayout(0, out_layout))
        o_query = tile * TILE_Q + o_lane // GROUP_P2
        o_member = o_lane % GROUP_P2
        o_real = (o_query < count) & (o_member < GROUP)
        o_at = (begin + o_query).to(gl.int64) * stride_out + (kv_head * GROUP + o_member) * stride_out_head
        result = values * gl.expand_dims(gl.convert_layout(closing, gl.SliceLayout(1, out_layout)), 1)
        gl.store(
            out + (gl.expand_dims(o_at, 1) + gl.expand_dims(o_dim, 0)),
            result.to(dtype),
            mask=gl.expand_dims(o_real, 1) & gl.expand_dims(o_dim >= 0, 0),
        )
        if lse is not None:
            member = lanes % GROUP_P2
            at = (begin + query).to(gl.int64) * (KV_HEADS * GROUP) + kv_head * GROUP + member
            row_lse = gl.where(some_seen, (highest + gl.log2(safe)) * LN2, float("-inf"))
            gl.store(lse + at, row_lse, mask=(query < count) & (member < GROUP))
