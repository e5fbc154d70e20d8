"""PageFault: virtual memory for an LLM's KV cache.

The public names of the rooms are reachable from here and loaded when first used, so that
``import pagefault`` costs nothing and no room drags in another one's dependencies.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pagefault.errors import PageFaultError as PageFaultError

__version__ = "0.1.0"

# name -> room that defines it
_EXPORTS: dict[str, str] = {
    "PageFaultError": "errors",
}

__all__ = [*_EXPORTS, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(import_module(f"pagefault.{_EXPORTS[name]}"), name)
    raise AttributeError(f"module 'pagefault' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
