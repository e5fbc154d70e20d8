"""Decode attention, several KV heads a program: 3-D dots, one KV head a warp, small tiles, deep pipelines.

A tile of 16 tokens of 4 heads is 16 KB of K and as much of V, read in pieces of `HEAD_DIM` values; many of
them in flight at once saturate the memory. Best for large batches.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from pagefault.kernels.schedule import extra_units, find_row, share_start, unit_span, work_ends
from pagefault.kernels.tiles import LOWEST, close_softmax, logit_unit, shape_logits, token_offsets


@triton.jit(do_not_specialize=["batch", "programs", "window"])
def decode_heads(
    q,
    k,
    v,
    block_table,
    lengths,
    out,
    lse,
    partials,
    partial_stats,
    slopes,
    sinks,
    scale,
    softcap,
    window,
    batch,
    programs,
    stride_table,
    stride_block,
    stride_token,
    stride_head,
    stride_q,
    stride_q_head,
    stride_out,
    stride_out_head,
    KV_HEADS: tl.constexpr,
    HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_P2: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    DIM_P2: tl.constexpr,
    PAGED: tl.constexpr,
    BLOCK: tl.constexpr,
    TILE: tl.constexpr,
    UNIT: tl.constexpr,
    SPLIT: tl.constexpr,
    EXTRA: tl.constexpr,
    BATCH_P2: tl.constexpr,
    STAGES: tl.constexpr,
    WAIT: tl.constexpr,
    TRIGGER: tl.constexpr,
):
    """See `pagefault.attention.decode` for the arguments; an item here is `HEADS` KV heads of a sequence."""
    ITEMS: tl.constexpr = KV_HEADS // HEADS
    program = tl.program_id(0)
    if WAIT:
        gdc_wait()  # before the first load: lengths, tables and K may be the previous kernel's work
    if TRIGGER:
        gdc_launch_dependents()
    ends = work_ends(lengths, batch, window, ITEMS, BATCH_P2, UNIT, EXTRA)
    total_work = tl.max(ends, 0)
    heads = tl.arange(0, HEADS)
    group = tl.arange(0, GROUP_P2)
    dims = tl.arange(0, DIM_P2)
    lanes = tl.arange(0, TILE)
    in_group = group < GROUP
    work = share_start(program, total_work, programs)
    work_end = share_start(program + 1, total_work, programs)
    row, row_start = find_row(ends, work)
    while work < work_end:
        tokens = tl.load(lengths + row)
        first, units = unit_span(tokens, window, UNIT)
        extra = extra_units(tokens, EXTRA)
        item = (work - row_start) // (units + extra)
        begin = work - row_start - item * (units + extra)
        end = begin + 1 if SPLIT else tl.minimum(units + extra, begin + work_end - work)
        lo = tl.maximum(begin - extra, 0)
        hi = tl.maximum(end - extra, 0)
        if hi > lo:
            kv_head = item * HEADS + heads
            head = kv_head[:, None] * GROUP + group[None, :]
            inside = in_group[None, :, None] & (dims < HEAD_DIM)[None, None, :]
            q_at = row.to(tl.int64) * stride_q + head[:, :, None] * stride_q_head + dims[None, None, :]
            queries = tl.load(q + q_at, mask=inside, other=0.0)
            slope = None
            if slopes is not None:
                slope = tl.load(slopes + head, mask=in_group[None, :], other=0.0)[:, :, None]
            unit = logit_unit(scale, softcap, slopes)
            highest = tl.full([HEADS, GROUP_P2], LOWEST, tl.float32)
            total = tl.zeros([HEADS, GROUP_P2], tl.float32)
            values = tl.zeros([HEADS, GROUP_P2, DIM_P2], tl.float32)
            table_row = None
            if PAGED:
                table_row = block_table + row.to(tl.int64) * stride_table
            base = item.to(tl.int64) * (HEADS * stride_head)
            if not PAGED:
                base += row.to(tl.int64) * stride_block
            k_row = k + base
            v_row = v + base
            start = (first + lo) * UNIT
            stop = (first + hi) * UNIT
            if SPLIT:
                if window is not None:  # the first split reaches back to where it would begin without one
                    start = tl.maximum(start, tl.maximum(tokens - window, 0) // TILE * TILE)
                stop = tl.maximum(tl.minimum(stop, tokens), start + 1)
            for position in tl.range(start, stop, TILE, num_stages=STAGES):
                token = position + lanes
                seen = token < tokens
                if window is not None:
                    seen = seen & (token >= tokens - window)
                at = token_offsets(
                    table_row, position, lanes, seen, stride_block, stride_token, PAGED, BLOCK, TILE
                )
                k_mask = seen[None, None, :]
                v_mask = seen[None, :, None]
                if HEAD_DIM < DIM_P2:
                    k_mask = k_mask & (dims < HEAD_DIM)[None, :, None]
                    v_mask = v_mask & (dims < HEAD_DIM)[None, None, :]
                keys = tl.load(
                    k_row + at[None, None, :] + heads[:, None, None] * stride_head + dims[None, :, None],
                    mask=k_mask,
                    other=0.0,
                )
                dots = tl.dot(queries, keys, input_precision="ieee")
                logits = shape_logits(
                    dots, scale, softcap, slope, (tokens - 1 - token)[None, None, :], seen[None, None, :]
                )
                higher = tl.maximum(highest, tl.max(logits, 2) * unit)
                shrink = tl.exp2(highest - higher)
                weights = tl.exp2(logits * unit - higher[:, :, None])
                total = total * shrink + tl.sum(weights, 2)
                vals = tl.load(
                    v_row + at[None, :, None] + heads[:, None, None] * stride_head + dims[None, None, :],
                    mask=v_mask,
                    other=0.0,
                )
                values = tl.dot(
                    weights.to(vals.dtype), vals, values * shrink[:, :, None], input_precision="ieee"
                )
                highest = higher
            if (lo == 0) & (hi == units):
                sink = None
                if sinks is not None:
                    sink = tl.load(sinks + head, mask=in_group[None, :], other=0.0)
                factor, row_lse = close_softmax(highest, total, sink)
                out_row = out + row.to(tl.int64) * stride_out
                out_at = head[:, :, None] * stride_out_head + dims[None, None, :]
                tl.store(
                    out_row + out_at, (values * factor[:, :, None]).to(out.dtype.element_ty), mask=inside
                )
                if lse is not None:
                    tl.store(lse + row * (KV_HEADS * GROUP) + head, row_lse, mask=in_group[None, :])
            else:
                slot = work if SPLIT else program * 2 + (lo == 0).to(tl.int32)
                rows = slot.to(tl.int64) * (HEADS * GROUP) + heads[:, None] * GROUP + group[None, :]
                tl.store(partials + rows[:, :, None] * HEAD_DIM + dims[None, None, :], values, mask=inside)
                tl.store(partial_stats + rows * 2, highest, mask=in_group[None, :])
                tl.store(partial_stats + rows * 2 + 1, total, mask=in_group[None, :])
        work += end - begin
        if (end == units + extra) & (item == ITEMS - 1):
            row_start += ITEMS * (units + extra)
            row += 1
