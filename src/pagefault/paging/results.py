"""What the pager's calls return: frozen records of arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pagefault.paging.arrays import Frames, Ints


@dataclass(frozen=True, slots=True)
class FrameCopies:
    """Frames whose whole content an executor has to copy: `src[i]` to `dst[i]`.

    Which pools the ids belong to is said by the call that returned them: device to device from
    `Pager.grow`, device to host from `Pager.swap_out`, host to device from `Pager.swap_in`.

    Attributes:
        src: Frames to read, int32 [n].
        dst: Frames to write, int32 [n]; no frame twice.
    """

    src: Frames
    dst: Frames

    def __len__(self) -> int:
        return int(self.src.size)


@dataclass(frozen=True, slots=True)
class Growth:
    """What `Pager.grow` did. Page `pages[i]` of row `rows[i]` now has frame `frames[i]`.

    Attributes:
        rows: Row of each fault, int64 [faults]; a row that faulted k pages stands here k times.
        pages: Page of each fault, int64 [faults].
        frames: The frame that page got, int32 [faults].
        copies: Copies on write, to be done before anything is written to the rows' new tokens.
    """

    rows: Ints
    pages: Ints
    frames: Frames
    copies: FrameCopies

    @property
    def faults(self) -> int:
        """Pages that got a frame."""
        return int(self.frames.size)


@dataclass(frozen=True, slots=True)
class PrefixHit:
    """What of a prompt is already there.

    Attributes:
        blocks: Leading blocks that are computed and present.
        tokens: The tokens they hold: `blocks * block_size`.
        cached: How many of those blocks nobody references. Taking them lowers `Pager.free_frames`
            by as many, so admission has to count them like new frames.
    """

    blocks: int
    tokens: int
    cached: int


@dataclass(frozen=True, slots=True)
class TableUpdates:
    """Entries of the block table that changed: `block_table[rows[i], pages[i]] = frames[i]`.

    Attributes:
        rows: int32 [n].
        pages: int32 [n]; no (row, page) pair twice, so the order of the writes does not matter.
        frames: int32 [n]; NO_FRAME where the page lost its frame.
    """

    rows: Frames
    pages: Frames
    frames: Frames

    def __len__(self) -> int:
        return int(self.frames.size)
