"""Attention over paged K and V: one call for users, launchers underneath.

`paged_decode(q, view)` and `paged_prefill(q, view, query_offsets)` take the kernels of `pagefault.kernels` on a CUDA
device and PyTorch elsewhere. A launcher validates on the host without asking the device anything, allocates what it
was not given, and launches. Given `out` (and, for decode, `workspace`) it allocates nothing, so it can be captured in
a CUDA graph; a captured graph replays rightly while lengths, tables and slots change in place under it.
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    from pagefault.errors import MissingExtra

    raise MissingExtra("attention needs PyTorch; in PageFault's folder: pip install '.[gpu]'") from error

from pagefault.attention.choose import Choice as Choice
from pagefault.attention.choose import PrefillChoice as PrefillChoice
from pagefault.attention.choose import choose_decode as choose_decode
from pagefault.attention.choose import choose_prefill as choose_prefill
from pagefault.attention.decode import contiguous_decode as contiguous_decode
from pagefault.attention.decode import paged_decode as paged_decode
from pagefault.attention.floor import FLOOR_TOKENS as FLOOR_TOKENS
from pagefault.attention.floor import floor_programs as floor_programs
from pagefault.attention.floor import read_floor as read_floor
from pagefault.attention.frames import append as append
from pagefault.attention.frames import copy_frames as copy_frames
from pagefault.attention.frames import gather_frames as gather_frames
from pagefault.attention.frames import scatter_frames as scatter_frames
from pagefault.attention.prefill import paged_prefill as paged_prefill
from pagefault.attention.views import ContiguousKV as ContiguousKV
from pagefault.attention.views import ContiguousView as ContiguousView
from pagefault.attention.views import PagedKV as PagedKV
from pagefault.attention.views import PagedView as PagedView
from pagefault.attention.workspace import DecodeWorkspace as DecodeWorkspace

__all__ = [
    "FLOOR_TOKENS",
    "Choice",
    "ContiguousKV",
    "ContiguousView",
    "DecodeWorkspace",
    "PagedKV",
    "PagedView",
    "PrefillChoice",
    "append",
    "choose_decode",
    "choose_prefill",
    "contiguous_decode",
    "copy_frames",
    "floor_programs",
    "gather_frames",
    "paged_decode",
    "paged_prefill",
    "read_floor",
    "scatter_frames",
]
