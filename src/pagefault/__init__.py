"""PageFault: virtual memory for an LLM's KV cache.

The public names of the rooms are reachable from here and loaded when first used, so that
``import pagefault`` costs nothing and no room drags in another one's dependencies.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pagefault.errors import BadHandle as BadHandle
    from pagefault.errors import InputError as InputError
    from pagefault.errors import InvariantBroken as InvariantBroken
    from pagefault.errors import NeverFits as NeverFits
    from pagefault.errors import OutOfFrames as OutOfFrames
    from pagefault.errors import PageFaultError as PageFaultError
    from pagefault.errors import PagingError as PagingError
    from pagefault.paging import NO_FRAME as NO_FRAME
    from pagefault.paging import AllBlocksCleared as AllBlocksCleared
    from pagefault.paging import BlockHasher as BlockHasher
    from pagefault.paging import BlockRemoved as BlockRemoved
    from pagefault.paging import BlockStored as BlockStored
    from pagefault.paging import FrameCopies as FrameCopies
    from pagefault.paging import FramePool as FramePool
    from pagefault.paging import Growth as Growth
    from pagefault.paging import Pager as Pager
    from pagefault.paging import PagerStats as PagerStats
    from pagefault.paging import PageTables as PageTables
    from pagefault.paging import PrefixHit as PrefixHit
    from pagefault.paging import PrefixIndex as PrefixIndex
    from pagefault.paging import TableUpdates as TableUpdates
    from pagefault.paging import keys_from_ids as keys_from_ids
    from pagefault.paging import private_keys as private_keys
    from pagefault.scheduling import Request as Request
    from pagefault.scheduling import Scheduler as Scheduler
    from pagefault.scheduling import SchedulerConfig as SchedulerConfig
    from pagefault.scheduling import StepPlan as StepPlan
    from pagefault.scheduling import StepResult as StepResult

__version__ = "0.1.0"

# name -> room that defines it
_EXPORTS: dict[str, str] = {
    "BadHandle": "errors",
    "InputError": "errors",
    "InvariantBroken": "errors",
    "NeverFits": "errors",
    "OutOfFrames": "errors",
    "PageFaultError": "errors",
    "PagingError": "errors",
    "NO_FRAME": "paging",
    "AllBlocksCleared": "paging",
    "BlockHasher": "paging",
    "BlockRemoved": "paging",
    "BlockStored": "paging",
    "FrameCopies": "paging",
    "FramePool": "paging",
    "Growth": "paging",
    "Pager": "paging",
    "PagerStats": "paging",
    "PageTables": "paging",
    "PrefixHit": "paging",
    "PrefixIndex": "paging",
    "TableUpdates": "paging",
    "keys_from_ids": "paging",
    "private_keys": "paging",
    "Request": "scheduling",
    "Scheduler": "scheduling",
    "SchedulerConfig": "scheduling",
    "StepPlan": "scheduling",
    "StepResult": "scheduling",
}

__all__ = [*_EXPORTS, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(import_module(f"pagefault.{_EXPORTS[name]}"), name)
    raise AttributeError(f"module 'pagefault' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
