"""What a simulation may be as large as: beyond it the machine that simulates runs out of memory, not the pool."""

from __future__ import annotations

from pagefault.errors import InputError

MOST_FRAMES = 2**26
"""Frames of a pool, at about 30 bytes each; eight of today's largest GPUs hold some ten million at block size 1."""

MOST_ENTRIES = 2**29
"""Entries of all page tables, 4 bytes each."""

MOST_JOBS = 1_000_000
"""Of the classic experiment; each is an object."""


def check_sizes(frames: int, rows: int, pages: int) -> None:
    """Refuse what cannot be held in memory.

    Args:
        frames: Of the pool, or of the host pool.
        rows: Sequences that may hold frames at once.
        pages: Of the longest sequence.

    Raises:
        InputError: Too many frames, or page tables of too many entries.
    """
    if frames > MOST_FRAMES:
        raise InputError(
            f"a pool of {frames:,} blocks is more than can be simulated; expected at most {MOST_FRAMES:,}"
        )
    if rows * pages > MOST_ENTRIES:
        raise InputError(
            f"page tables of {rows:,} sequences of up to {pages:,} blocks each are more than can be simulated; let "
            "fewer run at once, or give a smaller longest sequence or larger blocks"
        )
