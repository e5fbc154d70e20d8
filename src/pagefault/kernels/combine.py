"""Merges the pieces of the items that several programs of a decode kernel worked on.

A second, small launch. Under programmatic dependent launch it finds its work while the decode kernel
still runs and waits only then, so that it costs little more than its own loads.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from pagefault.kernels.schedule import extra_units, find_row, share_of, share_start, unit_span, work_ends
from pagefault.kernels.tiles import LOWEST, close_softmax


@triton.jit
def merge(
    partials,
    partial_stats,
    first_slot,
    pieces,
    row,
    row_mask,
    ROWS: tl.constexpr,
    ROWS_P2: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    DIM_P2: tl.constexpr,
    CHUNK: tl.constexpr,
    TWO_SLOTS: tl.constexpr,
):
    """Merges `pieces` partial results, `CHUNK` at a time, in the order of their tokens (so deterministic).

    A piece is a sum of values weighted by 2^(logit - highest), with its `highest` and the sum of its
    weights. `TWO_SLOTS`: every program owns two slots, one for an item it came into and one (the odd one) for
    an item it began; `first_slot` is a program then. Otherwise pieces lie one after another.
    """
    dims = tl.arange(0, DIM_P2)
    highest = tl.full([ROWS_P2], LOWEST, tl.float32)
    total = tl.zeros([ROWS_P2], tl.float32)
    values = tl.zeros([ROWS_P2, DIM_P2], tl.float32)
    for chunk in range(0, pieces, CHUNK):
        piece = chunk + tl.arange(0, CHUNK)
        slot = first_slot + piece
        if TWO_SLOTS:
            slot = slot * 2 + (piece == 0).to(tl.int32)
        at = slot.to(tl.int64)[:, None] * ROWS + row[None, :]
        mask = (piece < pieces)[:, None] & row_mask[None, :]
        tops = tl.load(partial_stats + at * 2, mask=mask, other=LOWEST)
        sums = tl.load(partial_stats + at * 2 + 1, mask=mask, other=0.0)
        part = tl.load(
            partials + at[:, :, None] * HEAD_DIM + dims[None, None, :],
            mask=mask[:, :, None] & (dims < HEAD_DIM)[None, None, :],
            other=0.0,
        )
        higher = tl.maximum(highest, tl.max(tops, 0))
        shrink = tl.exp2(highest - higher)
        weights = tl.exp2(tops - higher[None, :])
        values = values * shrink[:, None] + tl.sum(part * weights[:, :, None], 0)
        total = total * shrink + tl.sum(sums * weights, 0)
        highest = higher
    return values, highest, total


@triton.jit(do_not_specialize=["batch", "programs", "window"])
def combine(
    partials,
    partial_stats,
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
    UNIT: tl.constexpr,
    SPLIT: tl.constexpr,
    EXTRA: tl.constexpr,
    BATCH_P2: tl.constexpr,
    BY_ITEM: tl.constexpr,
    CHUNK: tl.constexpr,
    WAIT: tl.constexpr,
):
    """`ROWS_P2` query heads of one item a program.

    `BY_ITEM`: program *i* is item *i* of the batch, for few items and for fixed splits. Otherwise program *i*
    stands for the boundary between the shares *i* and *i + 1*, and merges the item that this boundary is
    the first to cut, if it cuts one; so the grid does not grow with the batch.
    """
    if WAIT:
        gdc_launch_dependents()  # a follower may be launched early; it waits until this grid has ended
    ends = work_ends(lengths, batch, window, ITEMS, BATCH_P2, UNIT, EXTRA)
    total_work = tl.max(ends, 0)
    boundary = tl.program_id(0) + 1
    work = share_start(boundary, total_work, programs)
    if BY_ITEM:
        row = tl.program_id(0) // ITEMS
        row_start = tl.max(tl.where(tl.arange(0, BATCH_P2) < row, ends, 0), 0)
        inside = row < batch
    else:
        row, row_start = find_row(ends, work)
        inside = work < total_work
    tokens = tl.load(lengths + row, mask=inside, other=1)
    _, units = unit_span(tokens, window, UNIT)
    extra = extra_units(tokens, EXTRA)
    item = tl.program_id(0) % ITEMS if BY_ITEM else (work - row_start) // (units + extra)
    # The item's first real tile: what lies before it is only a charge, and leaves no piece.
    item_start = row_start + item * (units + extra) + extra
    if SPLIT:
        first_slot = item_start
        pieces = units
    else:
        first_slot = share_of(item_start, total_work, programs)
        last_slot = share_of(item_start + units - 1, total_work, programs)
        pieces = last_slot - first_slot + 1
    mine = inside & (pieces > 1)
    if not BY_ITEM:
        mine = mine & (item_start < work) & (first_slot == boundary - 1)
    in_item = tl.program_id(1) * ROWS_P2 + tl.arange(0, ROWS_P2)
    row_mask = in_item < ROWS
    if WAIT:
        gdc_wait()  # every program, also one with nothing to merge, or what follows may start too early
    if mine:
        values, highest, total = merge(
            partials,
            partial_stats,
            first_slot,
            pieces,
            in_item,
            row_mask,
            ROWS,
            ROWS_P2,
            HEAD_DIM,
            DIM_P2,
            CHUNK,
            not SPLIT,
        )
        head = item * ROWS + in_item
        sink = None
        if sinks is not None:
            sink = tl.load(sinks + head, mask=row_mask, other=0.0)
        factor, row_lse = close_softmax(highest, total, sink)
        dims = tl.arange(0, DIM_P2)
        out_at = row.to(tl.int64) * stride_out + head[:, None] * stride_out_head + dims[None, :]
        inside_out = row_mask[:, None] & (dims < HEAD_DIM)[None, :]
        tl.store(out + out_at, (values * factor[:, None]).to(out.dtype.element_ty), mask=inside_out)
        if lse is not None:
            tl.store(lse + row * (ITEMS * ROWS) + head, row_lse, mask=row_mask)
