"""The pager: the only door to the room, with its one lock.

Each public method takes the lock, hands the work to a module that does one subject, and tells the
listeners. The pager decides nothing: who is admitted, who is preempted and what is swapped is the
scheduler's business.
"""

from __future__ import annotations

import threading
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

import numpy as np

from pagefault.paging import growing, invariants, releasing, sharing, swapping
from pagefault.paging.frame_pool import CACHED
from pagefault.paging.state import PagerState

if TYPE_CHECKING:
    from collections.abc import Callable

    from pagefault.paging.arrays import Frames, IntLike, Ints, Keys
    from pagefault.paging.events import Listener
    from pagefault.paging.results import FrameCopies, Growth, PrefixHit, TableUpdates
    from pagefault.paging.stats import PagerStats

P = ParamSpec("P")
R = TypeVar("R")


def _locked(method: Callable[Concatenate[Pager, P], R]) -> Callable[Concatenate[Pager, P], R]:
    """Runs a method under the pager's lock and delivers its block events before the lock is let go."""

    @wraps(method)
    def call(self: Pager, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._lock:
            try:
                return method(self, *args, **kwargs)
            finally:
                self._state.events.flush()

    return call


class Pager:
    """Who owns which frame: page tables, reference counts, the prefix cache and the host pool.

    A sequence is a *row*: an integer from `open`, valid until `release`. Methods that take `rows` take
    one integer, a list or an integer array, and work on all of them or on none. A row that is out of
    range, not open, or twice in a batch raises `BadHandle`. Every call that raises a `PageFaultError`
    has changed nothing. Frames are handed out and evicted in a fixed order: the same calls give the
    same frames.

    Every method holds one lock, so several threads may share a pager. The properties are not locked;
    `lengths` and `block_table` are views of live memory, to be read by whoever drives the pager.

    Args:
        num_blocks: Frames of the pool.
        block_size: Tokens a frame holds: a power of two, 1 to 256.
        max_seqs: Rows; as many sequences can be open at once, swapped-out ones included.
        max_seq_len: Tokens the longest sequence may have, rounded up to whole blocks. It sets the
            width of the page tables (4 bytes a block and row); default: as many as the pool holds.
        host_blocks: Frames of the host pool, for swapping.
        prefix_caching: False turns the prefix cache off: nothing is ever found or kept.

    Raises:
        InputError: A size is not an integer or out of range.
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int = 16,
        *,
        max_seqs: int = 256,
        max_seq_len: int | None = None,
        host_blocks: int = 0,
        prefix_caching: bool = True,
    ) -> None:
        self._lock = threading.RLock()
        self._state = PagerState(num_blocks, block_size, max_seqs, max_seq_len, host_blocks, prefix_caching)

    # --- what is there -----------------------------------------------------------------------------

    @property
    def num_blocks(self) -> int:
        """Frames of the pool."""
        return self._state.device.capacity

    @property
    def block_size(self) -> int:
        """Tokens a frame holds."""
        return self._state.block_size

    @property
    def max_seqs(self) -> int:
        """Rows of the page tables."""
        return self._state.tables.max_seqs

    @property
    def max_pages(self) -> int:
        """Pages a row can have: the block table's width."""
        return self._state.tables.max_pages

    @property
    def prefix_caching(self) -> bool:
        """Whether computed blocks can be hit."""
        return self._state.prefix_caching

    @property
    def free_frames(self) -> int:
        """Frames that growth can have now: free ones and cached ones that nobody references."""
        return self._state.device.free + self._state.device.cached

    @property
    def cached_frames(self) -> Frames:
        """Frames kept for a later hit that nobody references now, rising, int32 [cached]; a new array."""
        return np.flatnonzero(self._state.device.state == CACHED).astype(np.int32)

    @property
    def free_host_frames(self) -> int:
        """Host frames that `swap_out` can have now."""
        return self._state.host.free

    @property
    def free_rows(self) -> int:
        """Rows that `open` can still give."""
        return self._state.tables.free_rows

    @property
    def lengths(self) -> Ints:
        """Tokens of each row, int64 [max_seqs], read-only, live; 0 for rows that are not open."""
        return self._state.tables.lengths_view

    @property
    def pages(self) -> Ints:
        """Device frames each row references, int64 [max_seqs]; a new array.

        Reserved pages past the length are in it; pages on the host or slid out of a window are not.
        """
        return self._state.tables.held()

    @property
    def block_table(self) -> Frames:
        """Page → frame, int32 [max_seqs, max_pages], read-only, live; NO_FRAME where there is none."""
        return self._state.tables.table_view

    # --- a sequence's life -------------------------------------------------------------------------

    @_locked
    def open(self, keys: Keys | None = None, max_tokens: int | None = None) -> int:
        """Claims a row for a new sequence. It has no frame yet.

        Args:
            keys: Keys of the prompt's full blocks, uint64 [n, 2], from `BlockHasher`, `keys_from_ids` or
                `private_keys`; without them the sequence finds nothing and leaves nothing behind.
            max_tokens: Tokens this sequence may ever have, rounded up to whole blocks; growing
                past it raises `NeverFits`. Default: what the page table's width allows.

        Returns:
            The row.

        Raises:
            PagingError: All `max_seqs` rows are open.
            InputError: `keys` has another shape or dtype, or `max_tokens` is negative.
        """
        return sharing.open_row(self._state, keys, max_tokens)

    @_locked
    def extend_keys(self, row: int, keys: Keys) -> None:
        """Appends the keys of blocks that decode filled; what is computed already may be hit at once.

        Args:
            row: An open row.
            keys: Keys of its next blocks, uint64 [n, 2].

        Raises:
            BadHandle: The row is not open or is swapped out.
            InputError: `keys` has another shape or dtype.
        """
        sharing.extend_keys(self._state, row, keys)

    @_locked
    def match(self, keys: Keys, max_tokens: int | None = None) -> PrefixHit:
        """How much of a prompt is already computed and present. Changes nothing, counts nothing.

        Args:
            keys: Keys of the prompt's full blocks, uint64 [n, 2].
            max_tokens: Use no more than the blocks that fit in so many tokens. A caller that has to
                compute the last token of the prompt (for its logits) passes the prompt less one.

        Raises:
            InputError: `keys` has another shape or dtype.
        """
        return sharing.match(self._state, keys, max_tokens)

    @_locked
    def attach(self, row: int, max_tokens: int | None = None, repeat: bool = False) -> int:
        """Takes the leading blocks that `match` would find, by reference, into an empty row.

        Args:
            row: An open row without tokens and frames; its keys are those given to `open`.
            max_tokens: As in `match`.
            repeat: The sequence was preempted and had these tokens once: they count as
                `repeated_hit_tokens`, not in the hit rate.

        Returns:
            Tokens found; the row's length from now on.

        Raises:
            BadHandle: The row is not open, is swapped out, or is not empty.
            NeverFits: They are more pages than the row may have.
            InputError: Two of the row's keys are equal.
        """
        return sharing.attach(self._state, row, max_tokens, repeat)

    @_locked
    def need(self, rows: IntLike, tokens: IntLike) -> Ints:
        """Frames each row would take if all of them grew by `tokens` now.

        A copy on write counts one. Where several rows of the batch share a partly filled last page, each
        takes a copy in the order of the batch, except that the last one keeps the original if nobody
        else references it by then.

        Args:
            rows: Open rows, [n].
            tokens: Tokens to add: one number for all, or [n].

        Returns:
            int64 [n]; its sum is what `grow` would take.

        Raises:
            BadHandle: A row is not open, is swapped out, or stands twice in the batch.
            NeverFits: As in `grow`.
        """
        return growing.need(self._state, rows, tokens)

    @_locked
    def grow(self, rows: IntLike, tokens: IntLike) -> Growth:
        """Adds tokens to rows: a chunk of a prompt, or one token each. Pages get frames as needed.

        An executor does the copies of the result before it writes new tokens; see `commit`.

        Args:
            rows: Open rows, [n].
            tokens: Tokens to add: one number for all, or [n]. 0 changes nothing.

        Returns:
            The faults and the copies on write; see `need` for the rule.

        Raises:
            OutOfFrames: Too few free frames now; `.short` says how many. Nothing has changed.
            NeverFits: More than a row's table or the whole pool can hold. Nothing has changed.
            BadHandle: A row is not open, is swapped out, or stands twice in the batch.
        """
        return growing.grow(self._state, rows, tokens)

    @_locked
    def reserve(self, row: int, tokens: int, contiguous: bool = False) -> Frames:
        """Gives a row frames now, so that it grows to `tokens` tokens in all without a fault.

        Args:
            row: An open row.
            tokens: Total tokens to have room for; where there is room already, nothing happens.
            contiguous: Take one run of consecutive frames, the first that is long enough, evicting cached
                frames in it: the layout of a cache without paging. The row must hold no frame yet.

        Returns:
            The new frames in page order, int32 [n].

        Raises:
            OutOfFrames: Too few free frames, or (`contiguous`) no run that is long enough; the message
                says which. Nothing has changed.
            NeverFits: More than the row's table or the whole pool can hold.
            BadHandle: The row is not open or is swapped out, or (`contiguous`) holds frames.
        """
        return growing.reserve(self._state, row, tokens, contiguous)

    @_locked
    def slots(self, rows: IntLike, tokens: IntLike) -> Ints:
        """Slots of the last `tokens` tokens of each row, `frame * block_size + offset`, row after row.

        Args:
            rows: Open rows, [n].
            tokens: How many of each row's last tokens: one number for all, or [n].

        Returns:
            int64 [sum of tokens].

        Raises:
            BadHandle: A row is not open or is swapped out, or a page of them slid out of a window.
            InputError: A row has fewer tokens.
        """
        return growing.slots(self._state, rows, tokens)

    @_locked
    def slots_at(self, row: int, start: int, stop: int) -> Ints:
        """Slots of tokens `[start, stop)` of one row, int64 [stop - start].

        Raises:
            BadHandle: The row is not open or is swapped out, or a page of them slid out of a window.
            InputError: Not `0 <= start <= stop <= length`.
        """
        return growing.slots_at(self._state, row, start, stop)

    @_locked
    def mark_computed(self, rows: IntLike, lengths: IntLike) -> None:
        """Full blocks up to these lengths have been computed; those with keys may be hit from now on.

        A key that another frame is already known by stays with that frame: the duplicate serves its
        own row and is freed with it.

        Args:
            rows: Open rows, [n].
            lengths: Tokens computed so far, at most the row's length: one number for all, or [n].

        Raises:
            BadHandle: A row is not open, is swapped out, or stands twice in the batch.
            InputError: A length is past the row's tokens.
        """
        sharing.mark_computed(self._state, rows, lengths)

    @_locked
    def fork(self, row: int, n: int = 1) -> Ints:
        """Opens n more sequences over the same frames: parallel samples, beams. Takes no frame.

        Each has the row's tokens, the keys of its full blocks and its limit. Frames reserved past the
        row's length stay with the row. A partly filled last page is copied when one of them writes. Fork
        after the step that writes the row's tokens has been committed: copies run before writes.

        Returns:
            The new rows, int64 [n].

        Raises:
            PagingError: Fewer than n rows are left.
            BadHandle: The row is not open or is swapped out.
        """
        return sharing.fork(self._state, row, n)

    @_locked
    def release(self, rows: IntLike, keep_cached: bool = True) -> None:
        """Ends sequences and gives back their rows, swapped-out ones too.

        Frames whose last reference this was stay cached if they can be hit (the tail of a sequence is
        evicted before its head, rows in the order given); the others are free. Host frames of a
        swapped-out row are in flight until `commit`, as a copy into them may be under way.

        Args:
            rows: Open rows, [n].
            keep_cached: False forgets their blocks instead, unless another row references them.

        Raises:
            BadHandle: A row is not open (given back twice, never given out), or stands twice in the batch.
        """
        releasing.release(self._state, rows, keep_cached)

    @_locked
    def release_before(self, rows: IntLike, positions: IntLike) -> None:
        """Frees the pages that lie wholly before a position: they slid out of an attention window.

        The rows' lengths stay; the pages' table entries become NO_FRAME. Tokens that the running step
        still writes must not be among them.

        Args:
            rows: Open rows, [n].
            positions: First token that is still needed, at most the row's length: one number, or [n].

        Raises:
            BadHandle: A row is not open, is swapped out, or stands twice in the batch.
            InputError: A position is past the row's tokens.
        """
        releasing.release_before(self._state, rows, positions)

    # --- the host pool -----------------------------------------------------------------------------

    @_locked
    def need_swap_out(self, rows: IntLike) -> Ints:
        """Host frames that swapping out each row would take, int64 [n]; as many device frames come free.

        Raises:
            BadHandle: A row is not open, is swapped out, or stands twice in the batch.
        """
        return swapping.need_out(self._state, rows)

    @_locked
    def need_swap_in(self, rows: IntLike) -> Ints:
        """Device frames that swapping in each row would take, int64 [n].

        Raises:
            BadHandle: A row is not swapped out, or stands twice in the batch.
        """
        return swapping.need_in(self._state, rows)

    @_locked
    def swap_out(self, rows: IntLike) -> FrameCopies:
        """Moves rows to the host pool. Frames they share with other rows stay, still referenced.

        A row that grew or was swapped in since the last `commit` must not be swapped out yet. The
        device frames are in flight until `commit`, then free. Their blocks cannot be hit any more:
        the caller swaps because it needs the frames. Frames reserved past the length are free at once
        and are not reserved again by `swap_in`. Until `swap_in` a row can only be released.

        Returns:
            Device frames (`src`) to copy to host frames (`dst`).

        Raises:
            OutOfFrames: The host pool has too few free frames now; `.short` says how many.
            NeverFits: The rows' frames are more than the whole host pool.
            BadHandle: A row is not open, is swapped out already, or stands twice in the batch.
        """
        return swapping.swap_out(self._state, rows)

    @_locked
    def swap_in(self, rows: IntLike) -> FrameCopies:
        """Brings swapped-out rows back. Their host frames are in flight until `commit`, then free.

        Their computed full blocks with keys may be hit again at once: an executor does the copies of
        a step before its attention.

        Returns:
            Host frames (`src`) to copy to device frames (`dst`).

        Raises:
            OutOfFrames: Too few free device frames now; `.short` says how many.
            NeverFits: The rows' frames are more than the whole pool.
            BadHandle: A row is not swapped out, or stands twice in the batch.
        """
        return swapping.swap_in(self._state, rows)

    @_locked
    def commit(self) -> None:
        """The step has run: its copies are done and every frame in flight is free.

        A *step* is what happens between two commits. An executor runs it in this order: the copies of
        `swap_out`, those of `swap_in`, those of `grow`, the writes of new tokens; within each of the
        four, in any order. For that to be right whatever the order of calls, a frame that a copy reads
        or writes does not come free before `commit`. What the pager cannot see is on the caller: a row
        that was grown or swapped in is swapped out, forked or cut by `release_before` in a later step
        only, and nothing is written any more for a row that was released.
        """
        self._state.commit()

    # --- who watches -------------------------------------------------------------------------------

    @_locked
    def drain_updates(self) -> TableUpdates:
        """Block-table entries that changed since the last call, for a copy on a device.

        The first call returns every entry that has a frame and starts the recording; a pager whose
        updates nobody drains records nothing. A copy that starts filled with NO_FRAME and applies every
        update equals `block_table`.
        """
        return self._state.tables.drain_updates()

    @_locked
    def stats(self) -> PagerStats:
        """A snapshot. Costs a few array operations over the rows, whatever the pool's size."""
        return self._state.stats()

    @_locked
    def reset_counters(self) -> None:
        """Sets the counted events to zero and the peak to what is used now."""
        self._state.reset_counters()

    @_locked
    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Calls `listener` with each `BlockStored`, `BlockRemoved` and `AllBlocksCleared` from now on.

        It is called after the change, in order, with the lock held: it must be quick and must not call
        the pager. What it raises reaches whoever made the call, with the change done.

        Returns:
            A function that ends the subscription.
        """
        return self._state.events.subscribe(listener)

    @_locked
    def clear_cache(self) -> int:
        """Forgets every block, as after a change of the model's weights; cached frames become free.

        Open rows keep their frames and go on, but no block of theirs can be hit any more, nor one that
        they fill later: it would have been computed from forgotten ones.

        Returns:
            Frames that became free.
        """
        return sharing.clear_cache(self._state)

    @_locked
    def check(self) -> None:
        """Proves the invariants. Costs time in the size of the pool and tables: for tests and debugging.

        Raises:
            InvariantBroken: Names the first broken one with both sides of the equation.
        """
        invariants.check(self._state)

    @_locked
    def reset(self) -> None:
        """Back to a new pager: no row, no frame held, nothing cached; counters at zero.

        Listeners stay and hear `AllBlocksCleared`. Recording of table updates goes on.
        """
        self._state.reset()
