"""Merges the pieces of the items that several programs of a decode kernel worked on.

A second, small launch. Under programmatic dependent launch it finds its work while the decode kernel
still runs and waits only then, so that it costs little more than its own loads.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from pagefault.kernels.schedule import extra_tiles, find_row, share_of, share_start, tile_span, work_ends
from pagefault.kernels.tiles import LN2, LOG2E


@triton.jit
def merge(
    partials,
    partial_lse,
    first_slot,
    pieces,
    row,
    row_mask,
    sink,
    ROWS: tl.constexpr,
    ROWS_P2: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    DIM_P2: tl.constexpr,
    CHUNK: tl.constexpr,
    TWO_SLOTS: tl.constexpr,
):
    """Merges `pieces` partial results, `CHUNK` at a time, in the order of their tokens (so deterministic).

    `TWO_SLOTS`: every program owns two slots, one for an item it came into and one (the odd one) for an
    item it began; `first_slot` is a program then. Otherwise pieces lie one after another.
    """
    dims = tl.arange(0, DIM_P2)
    pieces_at = tl.arange(0, CHUNK)
    highest = tl.full([ROWS_P2], float("-inf"), tl.float32)
    total = tl.zeros([ROWS_P2], tl.float32)
    values = tl.zeros([ROWS_P2, DIM_P2], tl.float32)
    for chunk in range(0, pieces, CHUNK):
        piece = chunk + pieces_at
        there = piece < pieces
        slot = first_slot + piece
        if TWO_SLOTS:
            slot = slot * 2 + (piece == 0).to(tl.int32)
        at = slot.to(tl.int64)[:, None] * ROWS + row[None, :]
        mask = there[:, None] & row_mask[None, :]
        logs = tl.load(partial_lse + at, mask=mask, other=float("-inf")) * LOG2E
        part = tl.load(
            partials + at[:, :, None] * HEAD_DIM + dims[None, None, :],
            mask=mask[:, :, None] & (dims < HEAD_DIM)[None, None, :],
            other=0.0,
        )
        higher = tl.maximum(highest, tl.max(logs, 0))
        safe = tl.where(higher == float("-inf"), 0.0, higher)
        shrink = tl.exp2(highest - safe)
        weights = tl.exp2(logs - safe[None, :])
        values = values * shrink[:, None] + tl.sum(part * weights[:, :, None], 0)
        total = total * shrink + tl.sum(weights, 0)
        highest = higher
    if sink is not None:
        higher = tl.maximum(highest, sink * LOG2E)
        shrink = tl.exp2(highest - higher)
        values = values * shrink[:, None]
        total = total * shrink + tl.exp2(sink * LOG2E - higher)
        highest = higher
    some = total > 0.0
    safe_total = tl.where(some, total, 1.0)
    lse = tl.where(some, (highest + tl.log2(safe_total)) * LN2, float("-inf"))
    return values / safe_total[:, None], lse


@triton.jit(do_not_specialize=["batch", "programs", "window"])
def combine(
    partials,
    partial_lse,
    lengths,
    out,
    lse,
    sinks,
    window,
    batch,
    programs,
    stride_out,
    stride_out_head,
    ITEMS: tl.constexpr,
    ROWS: tl.constexpr,
    ROWS_P2: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    DIM_P2: tl.constexpr,
    TILE: tl.constexpr,
    SPLIT: tl.constexpr,
    EXTRA: tl.constexpr,
    BATCH_P2: tl.constexpr,
    CHUNK: tl.constexpr,
    WAIT: tl.constexpr,
):
    """`ROWS_P2` query heads of one item a program.

    Balanced work: program *i* of the grid stands for the boundary between the stretches *i* and *i + 1*; it
    merges the item that this boundary is the first to cut, if it cuts one. Fixed splits (`SPLIT` > 0):
    program *i* is item *i* of the batch.
    """
    UNIT: tl.constexpr = TILE * SPLIT if SPLIT > 0 else TILE
    if WAIT:
        gdc_launch_dependents()  # a follower may be launched early; it waits until this grid has ended
    ends = work_ends(lengths, batch, window, ITEMS, BATCH_P2, UNIT, EXTRA)
    total_work = tl.max(ends, 0)
    if SPLIT > 0:
        row = tl.program_id(0) // ITEMS
        item = tl.program_id(0) % ITEMS
        tokens = tl.load(lengths + row)
        _, units = tile_span(tokens, window, UNIT)
        first_slot = tl.max(tl.where(tl.arange(0, BATCH_P2) == row - 1, ends, 0), 0) + item * units
        pieces = units
        mine = units > 1
    else:
        boundary = tl.program_id(0) + 1
        work = share_start(boundary, total_work, programs)
        row, row_start = find_row(ends, work)
        inside = work < total_work
        tokens = tl.load(lengths + row, mask=inside, other=1)
        _, units = tile_span(tokens, window, UNIT)
        extra = extra_tiles(tokens, EXTRA)
        item = (work - row_start) // (units + extra)
        # The item's first real tile: what lies before it is only a charge, and leaves no piece.
        item_start = row_start + item * (units + extra) + extra
        first_slot = share_of(item_start, total_work, programs)
        pieces = share_of(item_start + units - 1, total_work, programs) - first_slot + 1
        mine = inside & (item_start < work) & (first_slot == boundary - 1)
    in_item = tl.program_id(1) * ROWS_P2 + tl.arange(0, ROWS_P2)
    row_mask = in_item < ROWS
    if WAIT:
        gdc_wait()  # every program, also one with nothing to merge, or what follows may start too early
    if mine:
        head = item * ROWS + in_item
        sink = None
        if sinks is not None:
            sink = tl.load(sinks + head, mask=row_mask, other=0.0)
        values, row_lse = merge(
            partials, partial_lse, first_slot, pieces, in_item, row_mask, sink,
            ROWS, ROWS_P2, HEAD_DIM, DIM_P2, CHUNK, SPLIT == 0,
        )  # fmt: skip
        dims = tl.arange(0, DIM_P2)
        out_at = row.to(tl.int64) * stride_out + head[:, None] * stride_out_head + dims[None, :]
        inside_out = row_mask[:, None] & (dims < HEAD_DIM)[None, :]
        tl.store(out + out_at, values.to(out.dtype.element_ty), mask=inside_out)
        if lse is not None:
            tl.store(lse + row * (ITEMS * ROWS) + head, row_lse, mask=row_mask)
