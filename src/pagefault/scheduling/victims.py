"""Who gives up its frames when a running sequence faults and none is free."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from pagefault.paging import Pager
    from pagefault.scheduling.running import RunningSet

    Ints = NDArray[np.int64]

    # (pager, running, candidate rows in order of admission) -> a badness for each; the largest is chosen, and
    # among equals the one admitted last.
    Rule = Callable[[Pager, RunningSet, Ints], Ints]


def _newest(_pager: Pager, _running: RunningSet, rows: Ints) -> Ints:
    return np.arange(rows.size)


def _oldest(_pager: Pager, _running: RunningSet, rows: Ints) -> Ints:
    return -np.arange(rows.size)


def _lowest_priority(_pager: Pager, running: RunningSet, rows: Ints) -> Ints:
    return running.priority[rows]


def _most_frames(pager: Pager, _running: RunningSet, rows: Ints) -> Ints:
    return pager.pages[rows]


def _fewest_tokens(pager: Pager, _running: RunningSet, rows: Ints) -> Ints:
    return -pager.lengths[rows]


RULES: dict[str, Rule] = {
    "self": _newest,  # for the head, which cannot give way itself
    "newest": _newest,
    "oldest": _oldest,
    "lowest_priority": _lowest_priority,
    "most_frames": _most_frames,
    "fewest_tokens": _fewest_tokens,
}


def head(policy: str, running: RunningSet) -> int:
    """The row that is served first and never a victim: of those that run, the one submitted first.

    Where victims are chosen by priority, it is the first one submitted of the most urgent.

    Args:
        policy: A name in `RULES`.
        running: At least one sequence.
    """
    rows = running.rows
    if policy == "lowest_priority":
        priority = running.priority[rows]
        rows = rows[priority == priority.min()]
    return int(rows[running.number[rows].argmin()])


def choose(policy: str, pager: Pager, running: RunningSet, candidates: Ints) -> int | None:
    """The row that gives up its frames, or None if there is no candidate.

    Args:
        policy: A name in `RULES`.
        pager: For frames and lengths.
        running: For priorities.
        candidates: Rows that hold frames and may be taken, in order of admission, int64 [n].
    """
    if not candidates.size:
        return None
    badness = RULES[policy](pager, running, candidates)
    return int(candidates[candidates.size - 1 - int(np.argmax(badness[::-1]))])
