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
    "newest": _newest,
    "oldest": _oldest,
    "lowest_priority": _lowest_priority,
    "most_frames": _most_frames,
    "fewest_tokens": _fewest_tokens,
}


def choose(policy: str, pager: Pager, running: RunningSet, candidates: Ints, faulting: int) -> int | None:
    """The row that makes room for `faulting`, or None if nobody may be taken.

    The *head*, the running sequence that was submitted first (under the priority policy of victims: the most
    urgent one submitted first), is taken only when it is the last candidate and faults itself. So it
    advances in every step in which it wants to, which is what rules out livelock.

    Args:
        policy: A name in `RULES`.
        pager: For frames and lengths.
        running: For numbers and priorities.
        candidates: Rows that hold frames and may be taken, in order of admission, int64 [n]; `faulting` among them.
        faulting: The row that needs frames.
    """
    if policy == "lowest_priority":
        order = np.lexsort((running.number[candidates], running.priority[candidates]))
        head = candidates[order[0]]
    else:
        head = candidates[np.argmin(running.number[candidates])]
    others = candidates[candidates != head]
    if not others.size:
        return None
    badness = RULES[policy](pager, running, others)
    worst = int(others[others.size - 1 - int(np.argmax(badness[::-1]))])
    # A faulting sequence never takes from a more urgent one: it gives way itself.
    if policy == "lowest_priority" and running.priority[worst] < running.priority[faulting]:
        return faulting
    return worst
