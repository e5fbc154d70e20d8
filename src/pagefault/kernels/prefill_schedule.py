"""Which tile of queries comes next, and which keys it sees: for programs that stay (`prefill_hopper`).

Every warp that asks finds the same answer by itself, from the offsets of the queries.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


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
def tile_ends(query_offsets, batch, TILE_Q: gl.constexpr, BATCH_P2: gl.constexpr):
    """Tiles of queries up to the end of each sequence, int32 [BATCH_P2]."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    rows = gl.arange(0, BATCH_P2, layout=layout)
    inside = rows < batch
    begins = gl.load(query_offsets + rows, mask=inside, other=0)
    stops = gl.load(query_offsets + rows + 1, mask=inside, other=0)
    return gl.associative_scan(gl.where(inside, (stops - begins + TILE_Q - 1) // TILE_Q, 0), 0, add)


@gluon.jit
def find_item(item, ends, query_offsets, lengths, KV_HEADS: gl.constexpr, BATCH_P2: gl.constexpr):
    """Sequence, tile and KV head of an item, where the sequence's queries begin, their number, and its tokens.

    Tiles are counted from the end of the batch: under a causal mask a sequence's last queries have the most to
    do, and what begins late should be short. The heads of a tile are neighbours.
    """
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    rows = gl.arange(0, BATCH_P2, layout=layout)
    number = gl.max(ends, 0) - 1 - item // KV_HEADS
    row = uniform(gl.sum((ends <= number).to(gl.int32), 0))
    tile = uniform(number - gl.max(gl.where(rows < row, ends, 0), 0))
    begin = uniform(gl.load(query_offsets + row))
    count = uniform(gl.load(query_offsets + row + 1)) - begin
    return row, tile, item % KV_HEADS, begin, count, uniform(gl.load(lengths + row))


@gluon.jit
def key_span(tile, count, tokens, window, TILE_Q: gl.constexpr, TILE: gl.constexpr, BOX: gl.constexpr):
    """Keys that some query of a tile sees, from the start of a box on, and the tiles of keys they take.

    No page before the first of them is read: it may have left the window of every query and been given back.

    At least one, so that there is always something to wait for; where nothing is seen, all of it is masked.
    """
    first = tokens - count + tile * TILE_Q
    stop = gl.minimum(first + TILE_Q, tokens)
    start = first * 0
    if window is not None:
        start = gl.maximum(first - window + 1, 0) // BOX * BOX
    return start, stop, gl.maximum((stop - start + TILE - 1) // TILE, 1)
