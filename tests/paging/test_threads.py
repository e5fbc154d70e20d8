"""Eight threads on one pager: nothing is lost and nothing is given twice."""

from __future__ import annotations

import sys
import threading
from random import Random

import numpy as np

from pagefault.errors import OutOfFrames
from pagefault.paging import Pager, private_keys

THREADS, ROUNDS, BLOCK = 8, 150, 4


def test_eight_threads() -> None:
    pager = Pager(96, BLOCK, max_seqs=64, host_blocks=64)
    owner = np.full(96, -1)  # the thread that was given a frame last
    shorts: list[int] = []
    failures: list[BaseException] = []
    start = threading.Barrier(THREADS)

    def live(me: int, turn: int, random: Random) -> None:
        """A sequence's whole life, with a fork; its frames are this thread's as long as it lives."""
        rows = [pager.open(private_keys(me * ROUNDS + turn, 0, 4))]
        try:
            owner[pager.grow(rows, random.randint(1, 40)).frames] = me
            rows += pager.fork(rows[0]).tolist()
            growth = pager.grow(rows, 1)
            owner[growth.frames] = owner[growth.copies.dst] = me
            pager.mark_computed(rows, pager.lengths[rows])
            table = pager.block_table[rows]
            assert (owner[table[table >= 0]] == me).all(), "another thread was given a frame that is in use"
            first, second = pager.slots(rows, 1).tolist()
            assert first != second, "two tokens share a slot"
            pager.commit()
            if random.random() < 0.5:
                pager.swap_out(rows)
                pager.commit()
                owner[pager.swap_in(rows).dst] = me
        except OutOfFrames as error:
            shorts.append(error.short)
        finally:
            pager.release(rows)
            pager.commit()

    def work(me: int) -> None:
        random = Random(me)
        start.wait()
        for turn in range(ROUNDS):
            live(me, turn, random)

    def guarded(me: int) -> None:
        try:
            work(me)
        except BaseException as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=guarded, args=(me,)) for me in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    if failures:
        raise failures[0]
    pager.check()
    assert min(shorts, default=1) > 0
    assert pager.free_rows == 64
    assert pager.free_frames == 96
    assert pager.free_host_frames == 64
    assert pager.stats().faults > THREADS * ROUNDS
