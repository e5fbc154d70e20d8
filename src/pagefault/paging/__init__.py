"""Who owns which frame: the frame pool, page tables, prefix index, and the pager that is their one door.

NumPy only: no tensor library, no clock, no I/O.
"""

from __future__ import annotations

from pagefault.paging.arrays import NO_FRAME
from pagefault.paging.block_keys import BlockHasher, keys_from_ids, private_keys
from pagefault.paging.events import AllBlocksCleared, BlockEvent, BlockRemoved, BlockStored
from pagefault.paging.frame_pool import FramePool
from pagefault.paging.page_tables import PageTables
from pagefault.paging.pager import Pager
from pagefault.paging.prefix_index import PrefixIndex
from pagefault.paging.results import FrameCopies, Growth, PrefixHit, TableUpdates
from pagefault.paging.stats import PagerStats

__all__ = [
    "NO_FRAME",
    "AllBlocksCleared",
    "BlockEvent",
    "BlockHasher",
    "BlockRemoved",
    "BlockStored",
    "FrameCopies",
    "FramePool",
    "Growth",
    "PageTables",
    "Pager",
    "PagerStats",
    "PrefixHit",
    "PrefixIndex",
    "TableUpdates",
    "keys_from_ids",
    "private_keys",
]
