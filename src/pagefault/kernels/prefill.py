"""Prefill attention: a chunk of queries a sequence over its paged context, causal, the mask aligned to the end.

A tile of queries is TILE_Q consecutive tokens with all query heads of one KV head, so that K and V are loaded
once for the whole group. Its keys come in two stretches: those that every query of the tile sees, without a mask,
then those around the diagonal.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
import triton
import triton.language as tl

from pagefault.kernels.tiles import LOWEST, close_softmax, logit_unit, shape_logits, token_offsets


@triton.jit
def find_tile(query_offsets, batch, index, TILE_Q: tl.constexpr, BATCH_P2: tl.constexpr):
    """The sequence and the tile of its queries that a program works on, and whether there is one.

    Tiles are counted from the end of the batch: under a causal mask a sequence's last queries have the most to
    do, and what begins late should be short.
    """
    rows = tl.arange(0, BATCH_P2)
    inside = rows < batch
    begins = tl.load(query_offsets + rows, mask=inside, other=0)
    stops = tl.load(query_offsets + rows + 1, mask=inside, other=0)
    tiles = tl.where(inside, (stops - begins + TILE_Q - 1) // TILE_Q, 0)
    ends = tl.cumsum(tiles, 0)
    number = tl.max(ends, 0) - 1 - index
    row = tl.sum((ends <= number).to(tl.int32), 0)
    first = tl.sum(tl.where(rows < row, tiles, 0), 0)
    return row, number - first, number >= 0


@triton.jit
def attend(
    queries,
    highest,
    total,
    values,
    k_row,
    v_row,
    table_row,
    start,
    stop,
    oldest,
    tokens,
    positions,
    slope,
    factor,
    unit,
    softcap,
    window,
    stride_block,
    stride_token,
    HEAD_DIM: tl.constexpr,
    DIM_P2: tl.constexpr,
    BLOCK: tl.constexpr,
    TILE: tl.constexpr,
    STAGES: tl.constexpr,
    MASKED: tl.constexpr,
):
    """The keys of one stretch, tile by tile, into the running softmax; `MASKED`: not every query sees every key."""
    dims = tl.arange(0, DIM_P2)
    lanes = tl.arange(0, TILE)
    for position in tl.range(start, stop, TILE, num_stages=STAGES):
        token = position + lanes
        there = token < tokens
        if window is not None:
            there = there & (token >= oldest)  # pages before that may have been given back
        at = token_offsets(table_row, position, lanes, there, stride_block, stride_token, True, BLOCK, TILE)
        k_mask = None
        v_mask = None
        if MASKED:
            k_mask = there[None, :]
            v_mask = there[:, None]
        if HEAD_DIM < DIM_P2:
            k_dims = (dims < HEAD_DIM)[:, None] & (lanes >= 0)[None, :]
            v_dims = (dims < HEAD_DIM)[None, :] & (lanes >= 0)[:, None]
            k_mask = k_mask & k_dims if MASKED else k_dims
            v_mask = v_mask & v_dims if MASKED else v_dims
        k_at = k_row + at[None, :] + dims[:, None]
        keys = tl.load(k_at) if k_mask is None else tl.load(k_at, mask=k_mask, other=0.0)
        dots = tl.dot(queries, keys.to(queries.dtype), input_precision="ieee")
        distance = positions[:, None] - token[None, :]
        seen = None
        if MASKED:
            seen = distance >= 0
            if window is not None:
                seen = seen & (distance < window)
        logits = shape_logits(dots, factor, softcap, slope, distance, seen)
        higher = tl.maximum(highest, tl.max(logits, 1) * unit)
        shrink = tl.exp2(highest - higher)
        weights = tl.exp2(logits * unit - higher[:, None])
        total = total * shrink + tl.sum(weights, 1)
        v_at = v_row + at[:, None] + dims[None, :]
        vals = (tl.load(v_at) if v_mask is None else tl.load(v_at, mask=v_mask, other=0.0)).to(queries.dtype)
        values = tl.dot(weights.to(queries.dtype), vals, values * shrink[:, None], input_precision="ieee")
        highest = higher
    return highest, total, values


@triton.jit(do_not_specialize=["batch", "window"])
def prefill(
    q,
    k,
    v,
    block_table,
    lengths,
    query_offsets,
    out,
    lse,
    k_scale,
    v_scale,
    slopes,
    sinks,
    scale,
    softcap,
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
    stride_scale,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_P2: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    DIM_P2: tl.constexpr,
    BLOCK: tl.constexpr,
    FP8: tl.constexpr,
    TILE_Q: tl.constexpr,
    TILE: tl.constexpr,
    BATCH_P2: tl.constexpr,
    STAGES: tl.constexpr,
):
    """See `pagefault.attention.prefill` for the arguments. Program (tile of queries, KV head)."""
    row, tile, some = find_tile(query_offsets, batch, tl.program_id(0), TILE_Q, BATCH_P2)
    if some:
        kv_head = tl.program_id(1)
        begin = tl.load(query_offsets + row)
        count = tl.load(query_offsets + row + 1) - begin
        tokens = tl.load(lengths + row)
        lanes = tl.arange(0, TILE_Q * GROUP_P2)
        dims = tl.arange(0, DIM_P2)
        query = tile * TILE_Q + lanes // GROUP_P2
        member = lanes % GROUP_P2
        real = (query < count) & (member < GROUP)
        positions = tokens - count + query
        head = kv_head * GROUP + member
        inside = real[:, None] & (dims < HEAD_DIM)[None, :]
        at = (begin + query).to(tl.int64)
        queries = tl.load(
            q + at[:, None] * stride_q + head[:, None] * stride_q_head + dims[None, :], mask=inside, other=0.0
        )
        factor = scale
        if FP8:
            queries = queries.to(tl.float16)  # e4m3 is exact in fp16
            factor *= tl.load(k_scale + kv_head * stride_scale)
        slope = None
        if slopes is not None:
            slope = tl.load(slopes + head, mask=real, other=0.0)[:, None]
        unit = logit_unit(factor, softcap, slopes)
        highest = tl.full([TILE_Q * GROUP_P2], LOWEST, tl.float32)
        total = tl.zeros([TILE_Q * GROUP_P2], tl.float32)
        values = tl.zeros([TILE_Q * GROUP_P2, DIM_P2], tl.float32)
        table_row = block_table + row.to(tl.int64) * stride_table
        base = kv_head.to(tl.int64) * stride_head
        k_row = k + base
        v_row = v + base
        # Keys below `common` are seen by the tile's first query, hence by all of them.
        first = tokens - count + tile * TILE_Q
        stop = tl.minimum(first + TILE_Q, tokens)
        oldest = 0
        if window is not None:
            oldest = tl.maximum(first - window + 1, 0)
            common = oldest // TILE * TILE
        else:
            common = tl.maximum(first + 1, 0) // TILE * TILE
            highest, total, values = attend(
                queries, highest, total, values, k_row, v_row, table_row, 0, common, oldest, tokens, positions, slope,
                factor, unit, softcap, window, stride_block, stride_token,
                HEAD_DIM, DIM_P2, BLOCK, TILE, STAGES, False,
            )  # fmt: skip
        highest, total, values = attend(
            queries, highest, total, values, k_row, v_row, table_row, common, stop, oldest, tokens, positions, slope,
            factor, unit, softcap, window, stride_block, stride_token,
            HEAD_DIM, DIM_P2, BLOCK, TILE, STAGES, True,
        )  # fmt: skip
        if FP8:
            values *= tl.load(v_scale + kv_head * stride_scale)
        sink = None
        if sinks is not None:
            sink = tl.load(sinks + head, mask=real, other=0.0)
        closing, row_lse = close_softmax(highest, total, sink)
        out_at = at[:, None] * stride_out + head[:, None] * stride_out_head + dims[None, :]
        tl.store(out + out_at, (values * closing[:, None]).to(out.dtype.element_ty), mask=inside)
        if lse is not None:
            tl.store(lse + at * (KV_HEADS * GROUP) + head, row_lse, mask=real)
