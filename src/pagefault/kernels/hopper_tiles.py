"""What the Hopper kernels share: tiles of K and V in shared memory, and numbers that a whole warp agrees on."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared

LOG2E = gl.constexpr(1.4426950408889634)
LN2 = gl.constexpr(0.6931471805599453)
LOWEST = gl.constexpr(-1.0e30)  # see `tiles`
HALF = gl.constexpr(64)  # values a row of a swizzled tile: 128 bytes. A head of 128 is two tiles.


@gluon.jit
def add(a, b):
    """For the prefix sum."""
    return a + b


@gluon.jit
def uniform(value):
    """The same number, in a way that shows the assembler that it is the same for the whole warp.

    Addresses and loop bounds then live in uniform registers; otherwise every copy and every wait is a loop over the
    threads' different opinions.
    """
    return gl.inline_asm_elementwise(
        "shfl.sync.idx.b32 $0, $1, 0, 31, 0xffffffff;", "=r,r", [value], dtype=gl.int32, is_pure=True, pack=1
    )


@gluon.jit
def clean(tiles, buffer, rows_left, HALVES: gl.constexpr, ROWS: gl.constexpr):
    """Zeroes the rows of V past the end: memory that was never written, where a weight of 0 does not help.

    Several groups of warps may do it at once, with the same result.
    """
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [gl.num_warps(), 1], [1, 0])
    row = gl.arange(0, ROWS, layout=gl.SliceLayout(1, layout))
    for half in gl.static_range(HALVES):
        tile = tiles.index(buffer * HALVES + half)
        held = tile.load(layout)
        tile.store(gl.where(gl.expand_dims(row < rows_left, 1), held, gl.zeros_like(held)))
    fence_async_shared()
