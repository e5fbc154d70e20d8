"""Which sequence gets which colour: the same in every run, and another than its neighbours' in the grid."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Column = npt.NDArray[np.int32]

PALETTE = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
    "#f0e442",
    "#8f2d24",
    "#9f64fb",
    "#8df5f0",
    "#66377f",
)
"""Okabe and Ito's seven, and four more that are as far from them and from each other, for every kind of sight."""


def columns_of(cells: int) -> int:
    """Cells a line of the grid: a power of two near the square root, so a reserved run of 128 fills whole lines."""
    return 1 << round(float(np.log2(max(cells, 1))) / 2)


def choose_colours(owners: Iterable[Column]) -> dict[int, int]:
    """A colour for every sequence.

    Who borders most on others chooses first, and takes the colour that it borders on least; of several, the next in
    turn.

    Args:
        owners: For each run the sequence that has a cell (negative where nobody has), int32 [instants, cells].

    Returns:
        Sequence → index into `PALETTE`.
    """
    touches: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    seen: set[int] = set()
    for owner in owners:
        seen.update(np.unique(owner[owner >= 0]).tolist())
        for (one, other), times in _neighbours(owner):
            # Squared: one long border is seen, the same cells scattered over a shuffled pool are not.
            touches[one][other] += times * times
            touches[other][one] += times * times
    chosen: dict[int, int] = {}
    for turn, sequence in enumerate(sorted(seen, key=lambda one: (-sum(touches[one].values()), one))):
        costs = [0] * len(PALETTE)
        for other, times in touches[sequence].items():
            if other in chosen:
                costs[chosen[other]] += times
        chosen[sequence] = min(
            range(len(PALETTE)), key=lambda colour: (costs[colour], (colour - turn) % len(PALETTE))
        )
    return chosen


def _neighbours(owner: Column) -> Iterable[tuple[tuple[int, int], int]]:
    """Pairs of sequences in cells side by side or one above the other, and how often."""
    owner = owner.astype(np.int64)
    across = columns_of(owner.shape[1])
    pairs = [(owner[:, :-1], owner[:, 1:]), (owner[:, :-across], owner[:, across:])]
    one = np.concatenate([np.minimum(*pair).ravel() for pair in pairs])
    other = np.concatenate([np.maximum(*pair).ravel() for pair in pairs])
    counted = (one >= 0) & (one != other)
    codes, times = np.unique(one[counted] << 32 | other[counted], return_counts=True)
    return zip(
        zip((codes >> 32).tolist(), (codes & 0xFFFFFFFF).tolist(), strict=True), times.tolist(), strict=True
    )
