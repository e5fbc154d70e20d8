"""The numbers a user asks a pager for, and the counters behind them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """Events since the pager was made or `Pager.reset_counters` was called."""

    faults: int = 0
    evictions: int = 0
    copies: int = 0
    swapped_out: int = 0
    swapped_in: int = 0
    queried_tokens: int = 0
    hit_tokens: int = 0
    repeated_hit_tokens: int = 0


@dataclass(frozen=True, slots=True)
class PagerStats:
    """A snapshot of a pager. `used + cached + free + in_flight == num_blocks`.

    Attributes:
        num_blocks: Frames of the pool.
        block_size: Tokens a frame holds.
        used: Frames that a sequence references. A shared frame counts once.
        cached: Frames that nobody references and that a prompt can still hit; evicted when needed.
        free: Frames with nothing in them.
        in_flight: Frames being copied to the host; free after `Pager.commit`.
        peak_used: The largest `used` since the pager was made, or since the last counter reset.
        sequences: Rows that are open, swapped-out ones included.
        tokens: Tokens stored in used frames. A token in a shared frame counts once.
        reserved_tokens: Room for tokens in used frames: `used * block_size`.
        internal_fragmentation: Reserved room with no token in it: `reserved_tokens - tokens`.
        faults: Frames given to pages by `grow` and `reserve`.
        evictions: Cached frames taken back for something else.
        copies: Copies on write.
        swapped_out: Frames copied to the host pool.
        swapped_in: Frames copied back.
        queried_tokens: Tokens of full blocks that `attach(repeat=False)` looked up.
        hit_tokens: Those it found: work that was saved.
        repeated_hit_tokens: Tokens found by `attach(repeat=True)`: work that a preemption had thrown
            away and that the cache gave back. Never part of the hit rate.
        host_blocks: Frames of the host pool.
        host_used: Host frames that hold a swapped-out page.
        host_free: Host frames with nothing in them.
        host_in_flight: Host frames being copied back; free after `Pager.commit`.
    """

    num_blocks: int
    block_size: int
    used: int
    cached: int
    free: int
    in_flight: int
    peak_used: int
    sequences: int
    tokens: int
    reserved_tokens: int
    internal_fragmentation: int
    faults: int
    evictions: int
    copies: int
    swapped_out: int
    swapped_in: int
    queried_tokens: int
    hit_tokens: int
    repeated_hit_tokens: int
    host_blocks: int
    host_used: int
    host_free: int
    host_in_flight: int

    @property
    def utilization(self) -> float:
        """Tokens over reserved tokens, 0 to 1; 1.0 when nothing is reserved: nothing is wasted."""
        return self.tokens / self.reserved_tokens if self.reserved_tokens else 1.0

    @property
    def hit_rate(self) -> float:
        """Hit tokens over queried tokens, as vLLM counts it; 0.0 before the first query."""
        return self.hit_tokens / self.queried_tokens if self.queried_tokens else 0.0

    @property
    def cache_usage(self) -> float:
        """Share of the pool that is not available for growth, 0 to 1 (vLLM's `kv_cache_usage`)."""
        return (self.used + self.in_flight) / self.num_blocks
