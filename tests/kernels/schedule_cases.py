"""The schedule against its definition: shares tile the line, and every tile of every item has one owner."""

# ruff: noqa: N803  # capitals for Triton's compile-time constants
from __future__ import annotations

import itertools
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from pagefault.kernels.schedule import find_row, share_of, share_start, work_ends

if TYPE_CHECKING:
    from collections.abc import Callable


@triton.jit  # type: ignore[untyped-decorator]
def lay_out(  # type: ignore[no-untyped-def]
    lengths, starts, rows, row_starts, owners, ends_out, batch, programs, window,
    ITEMS: tl.constexpr, BATCH_P2: tl.constexpr, UNIT: tl.constexpr, EXTRA: tl.constexpr,
    POSITIONS: tl.constexpr,
):  # fmt: skip
    """One program writes everything that the programs of a decode kernel would find out."""
    ends = work_ends(lengths, batch, window, ITEMS, BATCH_P2, UNIT, EXTRA)
    tl.store(ends_out + tl.arange(0, BATCH_P2), ends)
    total = tl.max(ends, 0)
    for share in range(programs + 1):
        start = share_start(share, total, programs)
        row, row_start = find_row(ends, start)
        tl.store(starts + share, start)
        tl.store(rows + share, row)
        tl.store(row_starts + share, row_start)
    position = tl.arange(0, POSITIONS)
    tl.store(owners + position, share_of(position, total, programs))


def check_schedule(device: str) -> str:
    for window, trial in itertools.product((None, 40), range(4)):
        if wrong := check_one_schedule(device, trial, window):
            return f"{wrong} ({trial=}, {window=})"
    return ""


def check_one_schedule(device: str, trial: int, window: int | None) -> str:
    batch, programs = 3 + trial, (1, 4, 7, 50)[trial]
    items, unit, extra = 2, 16, 3
    lengths = torch.randint(0, 200, (batch,), generator=torch.Generator().manual_seed(trial)).int()
    lengths[trial % batch] = 0
    cost = []
    for tokens in lengths.tolist():
        first = 0 if window is None else max(tokens - window, 0) // unit
        cost.append(max(-(-tokens // unit) - first, 1) + (extra if tokens else 0))
    bounds = [items * sum(cost[: row + 1]) for row in range(batch)]
    total = bounds[-1]

    def ints(count: int) -> torch.Tensor:
        return torch.full((count,), -7, dtype=torch.int32, device=device)

    starts, rows, row_starts = ints(programs + 1), ints(programs + 1), ints(programs + 1)
    owners, ends = ints(1024), ints(8)
    lay_out[(1,)](
        lengths.to(device), starts, rows, row_starts, owners, ends, batch, programs, window,
        ITEMS=items, BATCH_P2=8, UNIT=unit, EXTRA=extra, POSITIONS=1024,
    )  # fmt: skip
    if ends.tolist() != bounds + [total] * (8 - batch):
        return f"sequences end at {ends.tolist()}, not {bounds}"
    at = starts.tolist()
    sizes = [after - before for before, after in pairwise(at)]
    if at[0] != 0 or at[-1] != total or max(sizes) - min(sizes) > 1:
        return f"shares do not tile the line evenly: {at} of {total}"
    for position in range(total):
        owner = int(owners[position])
        if not at[owner] <= position < at[owner + 1]:
            return f"position {position} lies outside its owner's share"
    for share in range(programs):
        row = sum(bound <= at[share] for bound in bounds)
        found = int(rows[share]), int(row_starts[share])
        if at[share] < total and found != (row, bounds[row - 1] if row else 0):
            return f"share {share} begins in row and at {found}, not in row {row}"
    return ""


SCHEDULE_CHECKS: dict[str, Callable[[str], str]] = {"schedule": check_schedule}
