"""What a pager consists of, and the two things that every subject needs: take frames, let go of frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pagefault.errors import InputError, NeverFits, OutOfFrames
from pagefault.paging.arrays import NO_FRAME, as_count
from pagefault.paging.events import AllBlocksCleared, EventHub
from pagefault.paging.frame_pool import FramePool
from pagefault.paging.page_tables import PageTables
from pagefault.paging.prefix_index import PrefixIndex
from pagefault.paging.row_keys import RowKeys
from pagefault.paging.stats import Counters, PagerStats

if TYPE_CHECKING:
    from pagefault.paging.arrays import Frames, Ints, Mask

MAX_BLOCK_SIZE = 256


class PagerState:
    """The parts of a `Pager`, without its lock. Arguments as there."""

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        max_seqs: int,
        max_seq_len: int | None,
        host_blocks: int,
        prefix_caching: bool,
    ) -> None:
        size = as_count(block_size, "block_size", least=1)
        if size > MAX_BLOCK_SIZE or size & (size - 1):
            raise InputError(f"block_size must be a power of two from 1 to {MAX_BLOCK_SIZE}; got {size}")
        blocks = as_count(num_blocks, "num_blocks", least=1)
        length = blocks * size if max_seq_len is None else as_count(max_seq_len, "max_seq_len", least=1)
        self.block_size = size
        self.shift = size.bit_length() - 1
        self.mask = size - 1
        self.prefix_caching = bool(prefix_caching)
        self.device = FramePool(blocks, "the pool")
        self.host = FramePool(as_count(host_blocks, "host_blocks"), "the host pool")
        self.tables = PageTables(max_seqs, -(-length // size), size)
        self.index = PrefixIndex(blocks)
        self.copying: Mask = np.zeros(blocks, np.bool_)
        """Device frames that a copy of the running step reads (copy on write) or writes (that, swap in)."""
        self.copies_pending = False
        self.row_keys = RowKeys(max_seqs)
        self.on_host: dict[int, tuple[Ints, Frames]] = {}
        """Swapped-out row → (its pages on the host, the host frames they are in)."""
        self.events = EventHub()
        self.counters = Counters()

    def pages_for(self, tokens: Ints) -> Ints:
        """Pages that hold so many tokens: `ceil(tokens / block_size)`."""
        return (tokens + self.mask) >> self.shift

    def require_fit(self, rows: Ints, ends: Ints, frames: int) -> None:
        """Tells what can never fit from what does not fit now.

        Args:
            rows: Rows that would get pages, int64 [n].
            ends: The pages they would then have, int64 [n].
            frames: Frames the whole batch would take.

        Raises:
            NeverFits: A row is past its limit or the pool's size, or the batch past the pool's size.
        """
        limits = self.tables.limits[rows]
        past = (ends > limits).nonzero()[0]
        if past.size:
            i = int(past[0])
            raise NeverFits(
                f"row {rows[i]} would need {ends[i]} pages of {self.block_size} tokens, but may have at most "
                f"{limits[i]}: raise max_tokens of this row or max_seq_len of the pager, or end the sequence"
            )
        most = frames
        if self.tables.max_pages > self.device.capacity:  # else the limit is the tighter bound
            most = max(most, int((ends - self.tables.first[rows]).max(initial=0)))
        if most > self.device.capacity:
            raise NeverFits(
                f"{most} frames are needed at once, but the whole pool has {self.device.capacity}: "
                "the pool is too small for this request"
            )

    def take(self, n: int) -> Frames:
        """Takes n frames with one reference each, evicting cached ones where too few are free.

        Raises:
            OutOfFrames: Free and cached frames together are too few; nothing has changed.
        """
        pool = self.device
        self.require_frames(pool, n)
        if n > pool.free:
            self.evict(self.index.oldest(n - pool.free))
        return pool.take(n)

    def require_frames(self, pool: FramePool, n: int) -> None:
        """Raises `OutOfFrames` where `pool` cannot give n frames now."""
        short = n - pool.free - pool.cached
        if short > 0:
            raise OutOfFrames(
                f"{pool.name} is {short} frames short: {n} are needed, {pool.free} are free and "
                f"{pool.cached} cached; release or preempt a sequence, or wait for one to finish",
                short,
            )

    def evict(self, frames: Frames) -> None:
        """Cached frames, out of the eviction order already, lose their keys and become free."""
        self.events.removed(self.index.forget(frames))
        self.device.reclaim(frames)
        self.counters.evictions += frames.size

    def mark_copying(self, frames: Frames) -> None:
        """A copy of the running step reads or writes these frames: they stay what they are until `commit`."""
        self.copying[frames] = True
        self.copies_pending = True

    def commit(self) -> None:
        """The step has run."""
        if self.copies_pending:
            self.copying[:] = False
            self.copies_pending = False
        self.device.land()
        self.host.land()

    def let_go(self, frames: Frames, keep_cached: bool) -> None:
        """Drops one reference of each frame; idle ones are cached where they can be hit, or free.

        An idle frame that a copy of the running step reads or writes is in flight until `commit`: an
        executor does all copies of one kind at once, in any order, so no frame may be in two of them.

        Args:
            frames: In the order in which they are to be evicted later.
            keep_cached: False frees published ones, too.
        """
        idle = self.device.drop(frames)
        if self.copies_pending:
            busy = idle[self.copying[idle]]
            self.events.removed(self.index.forget(busy))
            self.device.hold(busy)
            idle = idle[~self.copying[idle]]
        published = self.index.published[idle]
        if keep_cached:
            kept = idle[published]
            if kept.size:
                self.device.park(kept)
                self.index.append(kept)
                idle = idle[~published]
        elif np.count_nonzero(published):
            self.events.removed(self.index.forget(idle))
        self.device.give_back(idle)

    def reset(self) -> None:
        """Back to a new pager; listeners and the recording of table updates stay."""
        self.tables.reset()
        self.device.reset()
        self.host.reset()
        self.index.reset()
        self.row_keys = RowKeys(self.tables.max_seqs)
        self.on_host.clear()
        self.copying[:] = False
        self.copies_pending = False
        self.reset_counters()
        if self.events.listening:
            self.events.add(AllBlocksCleared())

    def reset_counters(self) -> None:
        """Counters to zero, peaks to the present."""
        self.counters = Counters()
        for pool in (self.device, self.host):
            pool.peak_used = pool.used

    def stats(self) -> PagerStats:
        """The snapshot that `Pager.stats` returns."""
        device, host, count = self.device, self.host, self.counters
        reserved = device.used << self.shift
        waste = self._unfilled()
        return PagerStats(
            num_blocks=device.capacity,
            block_size=self.block_size,
            used=device.used,
            cached=device.cached,
            free=device.free,
            in_flight=device.in_flight,
            peak_used=device.peak_used,
            sequences=self.tables.max_seqs - self.tables.free_rows,
            tokens=reserved - waste,
            reserved_tokens=reserved,
            internal_fragmentation=waste,
            faults=count.faults,
            evictions=count.evictions,
            copies=count.copies,
            swapped_out=count.swapped_out,
            swapped_in=count.swapped_in,
            queried_tokens=count.queried_tokens,
            hit_tokens=count.hit_tokens,
            repeated_hit_tokens=count.repeated_hit_tokens,
            host_blocks=host.capacity,
            host_used=host.used,
            host_free=host.free,
            host_in_flight=host.in_flight,
        )

    def _unfilled(self) -> int:
        """Room for tokens in used frames that holds none.

        Only a row's last page and the reserved ones behind it have any. The last page is the row's own,
        unless the row carries the mark of a shared tail; the rows that share one have filled it
        equally far (writing copies it first), so it is counted once a frame.
        """
        tables = self.tables
        rows = np.flatnonzero(tables.usable)
        waste = int((tables.room[rows] - tables.lengths[rows]).sum())
        if tables.shared_tails:
            rows = np.flatnonzero(tables.shared_tail)
            tails = tables.table[rows, tables.lengths[rows] >> self.shift]
            unfilled = -tables.lengths[rows] & self.mask
            waste -= int(unfilled[tables.usable[rows] == 1].sum())
            on_device = tails != NO_FRAME
            once = np.unique(tails[on_device], return_index=True)[1]
            waste += int(unfilled[on_device][once].sum())
        return waste
