"""Names on a profiler's timeline."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def stage(name: str) -> Iterator[None]:
    """A range called `name` in PyTorch's profiler and, on a CUDA GPU, in Nsight Systems (NVTX)."""
    on_gpu = torch.cuda.is_available()
    with torch.profiler.record_function(name):
        if on_gpu:
            torch.cuda.nvtx.range_push(name)  # type: ignore[no-untyped-call]
        try:
            yield
        finally:
            if on_gpu:
                torch.cuda.nvtx.range_pop()  # type: ignore[no-untyped-call]
