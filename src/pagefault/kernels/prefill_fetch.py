"""The warp of `prefill_hopper` that copies: it walks the page tables and fills a ring of tiles of K and V (TMA)."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

from pagefault.kernels.prefill_schedule import find_item, key_span, tile_ends, uniform

HALF = gl.constexpr(64)  # values a row of a swizzled tile: 128 bytes. A head of 128 is two tiles.


@gluon.jit
def copy_tile(
    boxes,
    tiles,
    buffer,
    ready,
    table_row,
    position,
    last,
    frame_rows,
    first_row,
    column,
    HALVES: gl.constexpr,
    BLOCK: gl.constexpr,
    BOX: gl.constexpr,
    TILE: gl.constexpr,
):
    """Begins the copies of a tile's tokens from `position` on, a box a page; `ready` counts their bytes.

    Past the end is the last page (`last`) once more: those logits are masked, those rows of V are zeroed.
    """
    mbarrier.expect(ready, TILE * HALVES * HALF * 2)
    for box in gl.static_range(TILE // BOX):
        token = gl.minimum(position + box * BOX, last)
        row = gl.load(table_row + token // BLOCK) * frame_rows + first_row + token % BLOCK
        for half in gl.static_range(HALVES):
            tile = tiles.index(buffer * HALVES + half).slice(box * BOX, BOX)
            tma.async_copy_global_to_shared(boxes, [row, column + half * HALF], ready, tile)


@gluon.jit
def fetch(
    k_boxes,
    v_boxes,
    block_table,
    lengths,
    query_offsets,
    k_tiles,
    v_tiles,
    k_ready,
    v_ready,
    k_free,
    v_free,
    window,
    batch,
    stride_table,
    frame_rows,
    head_rows,
    head_columns,
    KV_HEADS: gl.constexpr,
    HALVES: gl.constexpr,
    BLOCK: gl.constexpr,
    BOX: gl.constexpr,
    TILE_Q: gl.constexpr,
    TILE: gl.constexpr,
    BATCH_P2: gl.constexpr,
    BUFFERS: gl.constexpr,
):
    """K of a tile, then V, each as soon as both groups that compute have done with what was there before."""
    ends = tile_ends(query_offsets, batch, TILE_Q, BATCH_P2)
    items = uniform(gl.max(ends, 0)) * KV_HEADS
    number = items * 0  # of the tile of keys, over all items: its place in the ring
    for item in range(gl.program_id(0), items, gl.num_programs(0)):
        row, tile, kv_head, _, count, tokens = find_item(
            item, ends, query_offsets, lengths, KV_HEADS, BATCH_P2
        )
        start, stop, turns = key_span(tile, count, tokens, window, TILE_Q, TILE, BOX)
        table_row = block_table + row.to(gl.int64) * stride_table
        first_row, column = kv_head * head_rows, kv_head * head_columns
        last = gl.maximum(stop - 1, 0) // BOX * BOX
        for turn in range(turns):
            buffer = (number + turn) % BUFFERS
            other_phase = ((number + turn) // BUFFERS + 1) & 1
            position = start + turn * TILE
            mbarrier.wait(k_free.index(buffer), other_phase)
            copy_tile(
                k_boxes, k_tiles, buffer, k_ready.index(buffer), table_row, position, last, frame_rows, first_row,
                column, HALVES, BLOCK, BOX, TILE,
            )  # fmt: skip
            mbarrier.wait(v_free.index(buffer), other_phase)
            copy_tile(
                v_boxes, v_tiles, buffer, v_ready.index(buffer), table_row, position, last, frame_rows, first_row,
                column, HALVES, BLOCK, BOX, TILE,
            )  # fmt: skip
        number += turns
