"""Decode attention, one KV head a program: wide tiles, all warps on one head.

The kernel for everything that `decode_heads` is not best for: little work, one or few KV heads, fp32, wide
groups, and 8-bit K and V.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from pagefault.kernels.schedule import extra_units, find_row, share_start, unit_span, work_ends
from pagefault.kernels.tiles import LOWEST, close_softmax, fp8_pair, logit_unit, shape_logits, token_offsets


@triton.jit(do_not_specialize=["batch", "programs", "window"])
def decode_head(
    q,
    k,
    v,
    block_table,
    lengths,
    out,
    lse,
    partials,
    partial_stats,
    k_scale,
    v_scale,
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
    stride_scale,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_P2: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    DIM_P2: tl.constexpr,
    PAGED: tl.constexpr,
    BLOCK: tl.constexpr,
    FP8: tl.constexpr,
    TILE: tl.constexpr,
    UNIT: tl.constexpr,
    SPLIT: tl.constexpr,
    EXTRA: tl.constexpr,
    BATCH_P2: tl.constexpr,
    STAGES: tl.constexpr,
    WAIT: tl.constexpr,
    TRIGGER: tl.constexpr,
):
    """See `pagefault.attention.decode` for the arguments; an item here is one KV head of a sequence.

    8-bit V is loaded as pairs of values and unpacked into the even and the odd dims, which are two dots;
    so `values` and `values_odd` hold the output's even and odd dims then, and `dims` the even ones.
    """
    STEP: tl.constexpr = 2 if FP8 else 1
    OUT_P2: tl.constexpr = DIM_P2 // STEP
    program = tl.program_id(0)
    if WAIT:
        gdc_wait()  # before the first load: lengths, tables and K may be the previous kernel's work
    if TRIGGER:
        gdc_launch_dependents()
    ends = work_ends(lengths, batch, window, KV_HEADS, BATCH_P2, UNIT, EXTRA)
    total_work = tl.max(ends, 0)
    group = tl.arange(0, GROUP_P2)
    dims = tl.arange(0, DIM_P2)
    out_dims = tl.arange(0, OUT_P2) * STEP
    lanes = tl.arange(0, TILE)
    in_group = group < GROUP
    work = share_start(program, total_work, programs)
    work_end = share_start(program + 1, total_work, programs)
    row, row_start = find_row(ends, work)
    while work < work_end:
        tokens = tl.load(lengths + row)
        first, units = unit_span(tokens, window, UNIT)
        extra = extra_units(tokens, EXTRA)
        kv_head = (work - row_start) // (units + extra)
        begin = work - row_start - kv_head * (units + extra)
        end = begin + 1 if SPLIT else tl.minimum(units + extra, begin + work_end - work)
        lo = tl.maximum(begin - extra, 0)
        hi = tl.maximum(end - extra, 0)
        if hi > lo:
            head = kv_head * GROUP + group
            inside = in_group[:, None] & (dims < HEAD_DIM)[None, :]
            q_at = row.to(tl.int64) * stride_q + head[:, None] * stride_q_head + dims[None, :]
            queries = tl.load(q + q_at, mask=inside, other=0.0)
            k_factor = scale
            if FP8:
                queries = queries.to(tl.float16)  # e4m3 is exact in fp16
                k_factor *= tl.load(k_scale + kv_head * stride_scale)
            slope = None
            if slopes is not None:
                slope = tl.load(slopes + head, mask=in_group, other=0.0)[:, None]
            unit = logit_unit(k_factor, softcap, slopes)
            highest = tl.full([GROUP_P2], LOWEST, tl.float32)
            total = tl.zeros([GROUP_P2], tl.float32)
            values = tl.zeros([GROUP_P2, OUT_P2], tl.float32)
            if FP8:
                values_odd = tl.zeros([GROUP_P2, OUT_P2], tl.float32)
            table_row = None
            if PAGED:
                table_row = block_table + row.to(tl.int64) * stride_table
            base = kv_head.to(tl.int64) * stride_head
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
                k_mask = seen[None, :]
                v_mask = seen[:, None]
                if HEAD_DIM < DIM_P2:
                    k_mask = k_mask & (dims < HEAD_DIM)[:, None]
                    v_mask = v_mask & (out_dims < HEAD_DIM)[None, :]
                keys = tl.load(k_row + at[None, :] + dims[:, None], mask=k_mask, other=0.0).to(queries.dtype)
                dots = tl.dot(queries, keys, input_precision="ieee")
                logits = shape_logits(
                    dots, k_factor, softcap, slope, (tokens - 1 - token)[None, :], seen[None, :]
                )
                higher = tl.maximum(highest, tl.max(logits, 1) * unit)
                shrink = tl.exp2(highest - higher)
                weights = tl.exp2(logits * unit - higher[:, None])
                total = total * shrink + tl.sum(weights, 1)
                if FP8:
                    pairs = (
                        v_row.to(tl.pointer_type(tl.int16))
                        + (at // 2)[:, None]
                        + tl.arange(0, OUT_P2)[None, :]
                    )
                    even, odd = fp8_pair(tl.load(pairs, mask=v_mask, other=0))
                    weights16 = weights.to(tl.float16)
                    values = tl.dot(weights16, even, values * shrink[:, None])
                    values_odd = tl.dot(weights16, odd, values_odd * shrink[:, None])
                else:
                    vals = tl.load(v_row + at[:, None] + dims[None, :], mask=v_mask, other=0.0)
                    values = tl.dot(
                        weights.to(vals.dtype), vals, values * shrink[:, None], input_precision="ieee"
                    )
                highest = higher
            if FP8:
                value_scale = tl.load(v_scale + kv_head * stride_scale)
                values *= value_scale
                values_odd *= value_scale
            inside = in_group[:, None] & (out_dims < HEAD_DIM)[None, :]
            if (lo == 0) & (hi == units):
                sink = None
                if sinks is not None:
                    sink = tl.load(sinks + head, mask=in_group, other=0.0)
                factor, row_lse = close_softmax(highest, total, sink)
                out_row = out + row.to(tl.int64) * stride_out
                out_at = head[:, None] * stride_out_head + out_dims[None, :]
                tl.store(out_row + out_at, (values * factor[:, None]).to(out.dtype.element_ty), mask=inside)
                if FP8:
                    odd_values = (values_odd * factor[:, None]).to(out.dtype.element_ty)
                    tl.store(out_row + out_at + 1, odd_values, mask=inside)
                if lse is not None:
                    tl.store(lse + row * (KV_HEADS * GROUP) + head, row_lse, mask=in_group)
            else:
                slot = work if SPLIT else program * 2 + (lo == 0).to(tl.int32)
                rows = slot.to(tl.int64) * GROUP + group
                piece = partials + rows[:, None] * HEAD_DIM + out_dims[None, :]
                tl.store(piece, values, mask=inside)
                if FP8:
                    tl.store(piece + 1, values_odd, mask=inside)
                tl.store(partial_stats + rows * 2, highest, mask=in_group)
                tl.store(partial_stats + rows * 2 + 1, total, mask=in_group)
        work += end - begin
        if (end == units + extra) & (kv_head == KV_HEADS - 1):
            row_start += KV_HEADS * (units + extra)
            row += 1
