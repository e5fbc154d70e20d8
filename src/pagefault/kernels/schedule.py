"""How the work of a ragged batch is cut into equal shares, on the device, from the lengths alone.

The work is laid out on a line: sequence after sequence, within a sequence item after item (an item is
one group of KV heads), within an item unit after unit of `UNIT` tokens (a tile, or a fixed split). Program
*p* of *P* takes the *p*-th of *P* equal shares of that line, wherever they begin and end. So one long
sequence spreads over all programs, and many short ones fill them evenly. Nothing is planned on the host:
every program finds its share by a prefix sum over the lengths, a few hundred nanoseconds.

Beginning an item costs time too (queries to load, a pipeline to fill, a result to store), so every item
that has tokens is charged `EXTRA` units in front of its real ones. A sequence without tokens has one
unit, with every token masked: its result is zeros, written by the same code.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
import triton
import triton.language as tl


@triton.jit
def unit_span(tokens, window, UNIT: tl.constexpr):
    """The units of a sequence that its newest query sees: the first one, and how many (at least one)."""
    first = tokens * 0
    if window is not None:
        first = tl.maximum(tokens - window, 0) // UNIT
    return first, tl.maximum((tokens + UNIT - 1) // UNIT - first, 1)


@triton.jit
def extra_units(tokens, EXTRA: tl.constexpr):
    """What beginning an item of this sequence is charged, in units."""
    return tl.where(tokens > 0, EXTRA, 0)


@triton.jit
def share_start(program, total, programs):
    """Where a program's share begins: the first ``total % programs`` shares are one unit longer."""
    return program * (total // programs) + tl.minimum(program, total % programs)


@triton.jit
def share_of(position, total, programs):
    """The program whose share holds a position: the inverse of `share_start`."""
    size = total // programs
    longer = total % programs
    in_longer = longer * (size + 1)
    return tl.where(
        position < in_longer,
        position // (size + 1),
        longer + (position - in_longer) // tl.maximum(size, 1),
    )


@triton.jit
def work_ends(
    lengths,
    batch,
    window,
    ITEMS: tl.constexpr,
    BATCH_P2: tl.constexpr,
    UNIT: tl.constexpr,
    EXTRA: tl.constexpr,
):
    """Where on the line each sequence ends: a vector of `BATCH_P2`, padded with the end of the line."""
    rows = tl.arange(0, BATCH_P2)
    tokens = tl.load(lengths + rows, mask=rows < batch, other=0)
    _, units = unit_span(tokens, window, UNIT)
    cost = tl.where(rows < batch, units + extra_units(tokens, EXTRA), 0)
    return tl.cumsum(cost, 0) * ITEMS


@triton.jit
def find_row(ends, position):
    """The sequence that holds a position of the line, and where that sequence begins."""
    row = tl.sum((ends <= position).to(tl.int32), 0)
    return row, tl.max(tl.where(ends <= position, ends, 0), 0)
