"""What the Triton kernels, decode and prefill, do with a tile of tokens, whichever way they hold it.

The hardware's exponential is 2^x, so a row's highest logit is kept as an exponent of 2.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
# Below every logit, and finite: a row that has seen nothing yet gives 2^(x - LOWEST) without a NaN.
LOWEST = tl.constexpr(-1.0e30)


@triton.jit
def token_offsets(
    table_row,
    position,
    lane,
    seen,
    stride_block,
    stride_token,
    PAGED: tl.constexpr,
    BLOCK: tl.constexpr,
    TILE: tl.constexpr,
):
    """Offsets of the tokens ``position + lane`` of a sequence, in elements, int64.

    This is the page walk, and all of it. A tile that never straddles a page loads one table entry;
    a contiguous cache loads none.
    """
    if PAGED:
        if BLOCK % TILE == 0:
            frame = tl.load(table_row + position // BLOCK).to(tl.int64)
            # One number for the whole tile, so that what depends on the lane stays the same from tile to tile.
            return frame * stride_block + position % BLOCK * stride_token + lane * stride_token
        token = position + lane
        frame = tl.load(table_row + token // BLOCK, mask=seen, other=0).to(tl.int64)
        return frame * stride_block + (token % BLOCK) * stride_token
    return (position + lane).to(tl.int64) * stride_token


@triton.jit
def fp8_pair(pairs):
    """Two e4m3 values packed in an int16 → the even and the odd one in fp16.

    A plain cast makes the compiler shuffle bytes between threads before the dot; this stays in registers:
    one byte permute and two hardware conversions for four values.
    """
    return tl.inline_asm_elementwise(
        """
        {
        .reg .b16 even, odd;
        .reg .b32 sorted;
        prmt.b32 sorted, $2, $2, 0x3120;
        mov.b32 {even, odd}, sorted;
        cvt.rn.f16x2.e4m3x2 $0, even;
        cvt.rn.f16x2.e4m3x2 $1, odd;
        }
        """,
        "=r,=r,r",
        [pairs],
        dtype=(tl.float16, tl.float16),
        is_pure=True,
        pack=2,
    )


@triton.jit
def logit_unit(scale, softcap, slopes):
    """What a logit of `shape_logits` is multiplied by to be an exponent of 2.

    Without variants the scale waits until here too: then the exponent is one multiply-add, rounded once,
    after the row's highest has been taken off.
    """
    if softcap is None and slopes is None:
        return scale * LOG2E
    return LOG2E


@triton.jit
def shape_logits(dots, scale, softcap, slopes, distance, seen):
    """Scale, soft cap, ALiBi and mask, in this order; `slopes`, `distance` and `seen` broadcast to `dots`.

    Where `seen` is None, everything is.
    """
    if softcap is not None or slopes is not None:
        dots = dots * scale
        if softcap is not None:
            # tanh(y) = 1 - 2 / (e^2y + 1), which goes to ±1 without overflow, but is a difference of nearly equal
            # numbers where y is small; the first terms of its series are exact to fp32 there.
            ratio = dots * (1.0 / softcap)
            square = ratio * ratio
            curved = 1.0 - 2.0 / (tl.exp2(ratio * (2.0 * LOG2E)) + 1.0)
            dots = softcap * tl.where(square < 1.6e-3, ratio * (1.0 - square * (1.0 / 3.0)), curved)
        if slopes is not None:
            dots -= slopes * distance.to(tl.float32)
    if seen is not None:
        dots = tl.where(seen, dots, float("-inf"))
    return dots


@triton.jit
def close_softmax(highest, total, sink):
    """The factor that turns the weighted sum of values into the output, and the natural log-sum-exp.

    Zero and minus infinity where no weight is, neither a token's nor a sink's.
    """
    shrink = 1.0
    if sink is not None:
        top = tl.maximum(highest, sink * LOG2E)
        shrink = tl.exp2(highest - top)
        total = total * shrink + tl.exp2(sink * LOG2E - top)
        highest = top
    some = total > 0.0
    safe = tl.where(some, total, 1.0)
    return tl.where(some, shrink / safe, 0.0), tl.where(some, (highest + tl.log2(safe)) * LN2, float("-inf"))
