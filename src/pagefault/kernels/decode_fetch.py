"""The warp of `decode_hopper` that fetches, and how it tells the others what comes.

It finds its program's share of the work, walks the page tables and copies K and V into a ring of tiles. What each
item is, it notes down for the warps that compute, so that they need no schedule of their own.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

from pagefault.kernels.hopper_tiles import HALF, add, uniform
from pagefault.kernels.schedule import extra_tiles, share_start, tile_span

NOTES = gl.constexpr(4)  # what the fetching warp tells the others is at most so many items ahead
FIELDS = gl.constexpr(4)  # sequence, first tile, last tile + 1, slot of the piece (-1: it is the whole item)


@gluon.jit
def tell(notes, note_ready, note_free, told, row, lo, hi, slot):
    """Says which item comes next; a sequence of -1 is the end."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    place = told % NOTES
    mbarrier.wait(note_free.index(place), (told // NOTES + 1) & 1)
    notes.index(place * FIELDS).store(gl.full([1], row, gl.int32, layout))
    notes.index(place * FIELDS + 1).store(gl.full([1], lo, gl.int32, layout))
    notes.index(place * FIELDS + 2).store(gl.full([1], hi, gl.int32, layout))
    notes.index(place * FIELDS + 3).store(gl.full([1], slot, gl.int32, layout))
    mbarrier.arrive(note_ready.index(place), count=1)


@gluon.jit
def hear(notes, note_ready, note_free, heard):
    """What `tell` said."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    place = heard % NOTES
    mbarrier.wait(note_ready.index(place), (heard // NOTES) & 1)
    row = uniform(gl.max(notes.index(place * FIELDS).load(layout), 0))
    lo = uniform(gl.max(notes.index(place * FIELDS + 1).load(layout), 0))
    hi = uniform(gl.max(notes.index(place * FIELDS + 2).load(layout), 0))
    slot = uniform(gl.max(notes.index(place * FIELDS + 3).load(layout), 0))
    mbarrier.arrive(note_free.index(place), count=1)
    return row, lo, hi, slot


@gluon.jit
def copy(boxes, places, tiles, buffer, ready, ROWS: gl.constexpr, HALVES: gl.constexpr):
    """Begins the copies of a tile, `ROWS` rows from each of the places."""
    mbarrier.expect(ready.index(buffer), len(places) * ROWS * HALVES * HALF * 2)
    for box in gl.static_range(len(places)):
        for half in gl.static_range(HALVES):
            to = tiles.index(buffer * HALVES + half).slice(box * ROWS, ROWS)
            tma.async_copy_global_to_shared(boxes, [places[box], half * HALF], ready.index(buffer), to)


@gluon.jit
def fetch(
    k_boxes,
    v_boxes,
    block_table,
    lengths,
    k_tiles,
    v_tiles,
    notes,
    k_ready,
    v_ready,
    k_free,
    v_free,
    note_ready,
    note_free,
    batch,
    programs,
    stride_table,
    frame_rows,
    KV_HEADS: gl.constexpr,
    HALVES: gl.constexpr,
    BLOCK: gl.constexpr,
    BOX: gl.constexpr,
    TILE: gl.constexpr,
    EXTRA: gl.constexpr,
    BATCH_P2: gl.constexpr,
    BUFFERS: gl.constexpr,
):
    """The warp that fetches: finds the program's share, tells the others its items, and copies their tiles."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    rows = gl.arange(0, BATCH_P2, layout=layout)
    inside = rows < batch
    held = gl.load(lengths + rows, mask=inside, other=0)
    tiles = tile_span(held, None, TILE)[1]
    ends = gl.associative_scan(gl.where(inside, tiles + extra_tiles(held, EXTRA), 0), 0, add)
    total_work = uniform(gl.max(ends, 0))
    number = total_work * 0  # of the tile, over all items: its place in the ring
    told = number
    program = gl.program_id(0)
    work = share_start(program, total_work, programs)
    work_end = share_start(program + 1, total_work, programs)
    row = uniform(gl.sum((ends <= work).to(gl.int32), 0))
    row_start = uniform(gl.max(gl.where(ends <= work, ends, 0), 0))
    while work < work_end:
        tokens = uniform(gl.load(lengths + row))
        units = tile_span(tokens, None, TILE)[1]
        extra = extra_tiles(tokens, EXTRA)
        begin = work - row_start
        end = gl.minimum(units + extra, begin + work_end - work)
        lo = gl.maximum(begin - extra, 0)
        hi = gl.maximum(end - extra, 0)
        if hi > lo:
            slot = gl.where((lo == 0) & (hi == units), -1, program * 2 + (lo == 0).to(gl.int32))
            hi = gl.where(tokens > 0, hi, lo)  # an empty sequence has a tile to be done, and nothing in it
            tell(notes, note_ready, note_free, told, row, lo, hi, slot)
            told += 1
            table_row = block_table + row.to(gl.int64) * stride_table
            last = gl.maximum(tokens - 1, 0) // BOX * BOX
            for tile in range(lo, hi):
                buffer = number % BUFFERS
                other_phase = (number // BUFFERS + 1) & 1
                places = ()
                for box in gl.static_range(TILE // BOX):
                    # Past the end is the last box once more: those logits are masked, those rows of V zeroed.
                    token = gl.minimum(tile * TILE + box * BOX, last)
                    at = gl.load(table_row + token // BLOCK) * frame_rows + token % BLOCK * KV_HEADS
                    places = places + (uniform(at),)  # type: ignore[assignment]  # noqa: RUF005
                mbarrier.wait(k_free.index(buffer), other_phase)
                copy(k_boxes, places, k_tiles, buffer, k_ready, BOX * KV_HEADS, HALVES)
                mbarrier.wait(v_free.index(buffer), other_phase)
                copy(v_boxes, places, v_tiles, buffer, v_ready, BOX * KV_HEADS, HALVES)
                number += 1
        work += end - begin
        if end == units + extra:
            row_start += units + extra
            row += 1
    tell(notes, note_ready, note_free, told, -1, 0, 0, 0)
