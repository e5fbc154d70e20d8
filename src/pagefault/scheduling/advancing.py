"""The running sequences take their next tokens; where frames are short, somebody waits or loses its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pagefault.scheduling import victims

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pagefault.scheduling.step import Step

    Ints = NDArray[np.int64]


class Advance:
    """The part of a step in which those who run grow.

    Args:
        step: The step in the making.
    """

    def __init__(self, step: Step) -> None:
        self._step = step
        self._policy = step.config.victim
        self._head = -1  # no row

    def __call__(self) -> None:
        """Everybody takes its next tokens, the head first, then in order of admission, while the budget lasts."""
        step, running, pager = self._step, self._step.running, self._step.pager
        step.scheduler.head_waits = False
        rows = self._order()
        wanted = running.known[rows] - pager.lengths[rows]
        take = np.minimum(wanted, np.maximum(step.budget - (np.cumsum(wanted) - wanted), 0))
        served = take > 0
        if not served.all():
            rows, take = rows[served], take[served]
        if not rows.size:
            return
        # At most a page begun and a copy on write each.
        most = int(take.sum()) // pager.block_size + 2 * rows.size
        if most > pager.free_frames:
            need = pager.need(rows, take)
            if int(need.sum()) > pager.free_frames:
                granted = self._make_room(rows, need)
                rows, take = rows[granted], take[granted]
        if rows.size:
            running.stalls[rows] = 0
            step.grow(rows, take)

    def _order(self) -> Ints:
        """Who is to be served, first to last."""
        step, rows = self._step, self._step.running.rows
        if step.config.protects_head and rows.size:
            self._head = victims.head(self._policy, step.running)
        if step.scheduled:
            rows = rows[~np.isin(rows, list(step.scheduled))]
        if rows.size and self._head >= 0 and rows[0] != self._head:
            others = rows != self._head
            rows = np.concatenate((rows[~others], rows[others]))
        return rows

    def _make_room(self, rows: Ints, need: Ints) -> NDArray[np.bool_]:
        """Who of the batch gets its frames, when there are not enough for all.

        `promised` counts the frames granted here, `held` those of each row; they are taken in one call at the end,
        so a victim that was granted some before simply hands its promise back. `coming` counts frames that come
        free with this step's commit, less those that a stalled row already waits for.
        """
        step, pager = self._step, self._step.pager
        granted = np.ones(rows.size, np.bool_)
        held = np.zeros(rows.size, np.int64)
        promised = coming = 0
        index_of = {row: i for i, row in enumerate(rows.tolist())}
        for i in np.flatnonzero(need).tolist():
            row, wanted = int(rows[i]), int(need[i])
            while granted[i] and wanted > pager.free_frames - promised:
                if wanted <= pager.free_frames - promised + coming:
                    coming -= wanted
                    granted[i] = self._stall(row)
                elif (victim := self._victim(row)) is not None:
                    coming += step.preempt(victim, row)
                    if (at := index_of.get(victim)) is not None:
                        promised -= int(held[at])
                        held[at] = 0
                        granted[at] = False
                elif not self._drop_swapped(row):
                    granted[i] = self._stall(row)
            if granted[i]:
                promised += wanted
                held[i] = wanted
        return granted

    def _victim(self, row: int) -> int | None:
        """Who gives up its frames for `row`, or None if it has to wait."""
        step = self._step
        if self._patient(row) or (row in step.fresh and row != self._head):
            return None
        if self._policy == "self" and row != self._head:
            return row
        rows = step.running.rows
        candidates = rows[~np.isin(rows, [self._head, *step.fresh])]
        return victims.choose(self._policy, step.pager, step.running, candidates)

    def _drop_swapped(self, row: int) -> bool:
        if row != self._head or self._patient(row):
            return False
        return self._step.drop_swapped(self._step.running.sequence(row))

    def _patient(self, row: int) -> bool:
        return self._policy == "self" and bool(self._step.running.stalls[row] < self._step.config.patience)

    def _stall(self, row: int) -> bool:
        """The row waits; False: it is not granted its frames."""
        if row == self._head and not self._patient(row):
            self._step.scheduler.head_waits = True
        self._step.stalled.append(row)
        self._step.running.stalls[row] += 1
        return False
