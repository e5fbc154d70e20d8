"""Scatters new tokens' K and V into their slots."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
import triton
import triton.language as tl


@triton.jit
def append(
    k_new,
    v_new,
    slots,
    k,
    v,
    k_scale,
    v_scale,
    stride_new,
    stride_new_head,
    stride_block,
    stride_token,
    stride_head,
    stride_scale,
    KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    ROW_P2: tl.constexpr,
    BLOCK: tl.constexpr,
    FP8: tl.constexpr,
):
    """One token a program, all its KV heads. A negative slot is skipped: padding in a captured graph."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + token).to(tl.int64)
    if slot >= 0:
        at = tl.arange(0, ROW_P2)
        mask = at < KV_HEADS * HEAD_DIM
        head = at // HEAD_DIM
        dim = at % HEAD_DIM
        source = token * stride_new + head * stride_new_head + dim
        target = (slot // BLOCK) * stride_block + (slot % BLOCK) * stride_token + head * stride_head + dim
        keys = tl.load(k_new + source, mask=mask, other=0.0)
        values = tl.load(v_new + source, mask=mask, other=0.0)
        if FP8:
            # e4m3 ends at ±448; what lies outside saturates instead of becoming NaN.
            keys = keys.to(tl.float32) / tl.load(k_scale + head * stride_scale, mask=mask, other=1.0)
            values = values.to(tl.float32) / tl.load(v_scale + head * stride_scale, mask=mask, other=1.0)
            keys = tl.clamp(keys, -448.0, 448.0)
            values = tl.clamp(values, -448.0, 448.0)
        tl.store(k + target, keys.to(k.dtype.element_ty), mask=mask)
        tl.store(v + target, values.to(v.dtype.element_ty), mask=mask)
