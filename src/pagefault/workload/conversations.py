"""Which requests belong to one conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def conversation_of(turn: NDArray[np.int64], parent: NDArray[np.int64]) -> NDArray[np.int64]:
    """The id of the conversation that each turn belongs to: the id of its first turn.

    Links are followed for all turns together, each round twice as far as the one before, so a conversation of
    k turns takes log2(k) rounds. Turns that continue a turn outside the trace share that turn's id.

    Args:
        turn: int64 ``[n]``, an id a turn.
        parent: int64 ``[n]``, the id of the turn before, -1 for none.

    Returns:
        int64 ``[n]``.
    """
    order = np.argsort(turn, kind="stable")
    place = np.minimum(np.searchsorted(turn, parent, sorter=order), len(turn) - 1)
    known = turn[order[place]] == parent
    root = np.where(known, order[place], np.arange(len(turn)))
    for _ in range(len(turn).bit_length()):
        further = root[root]
        if np.array_equal(further, root):
            break
        root = further
    label = np.where(known | (parent == -1), turn, parent)
    return np.asarray(label[root], dtype=np.int64)


def numbered(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Labels as numbers 0, 1, … in order of first appearance; -1 stays -1. int64 ``[n]`` to ``[n]``."""
    distinct, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    first[distinct == -1] = -1
    number = np.empty(len(distinct), dtype=np.int64)
    number[np.argsort(first)] = np.arange(len(distinct))
    if distinct.size and -1 in distinct:
        number -= 1
    return number[inverse]
