"""Which code runs: the Triton kernels or PyTorch."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

import torch

from pagefault.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from types import ModuleType

    from torch import Tensor

Backend = Literal["triton", "torch"]


@cache
def has_triton() -> bool:
    """Whether Triton is installed."""
    return find_spec("triton") is not None


@cache
def kernel_module(name: str) -> ModuleType:
    """A module of `pagefault.kernels`, imported when first used: Triton has no wheels for macOS."""
    if not has_triton():
        raise MissingExtra(
            "the Triton kernels need Triton (Linux only); in PageFault's folder: pip install '.[gpu]'"
        )
    return import_module(f"pagefault.kernels.{name}")


@cache
def interpreting() -> bool:
    """Whether Triton runs kernels on the CPU (``TRITON_INTERPRET=1``, before the kernels are first used)."""
    kernel_module("schedule")
    import triton

    return bool(triton.knobs.runtime.interpret)


def pick(tensor: Tensor, backend: Backend | None) -> Backend:
    """The backend for a tensor: what was asked for, else Triton on CUDA and PyTorch elsewhere."""
    if backend is None:
        return "triton" if tensor.is_cuda and has_triton() else "torch"
    if backend not in ("triton", "torch"):
        raise InputError(f"backend: expected 'triton', 'torch' or None, given {backend!r}")
    if backend == "triton" and not tensor.is_cuda and not interpreting():
        raise InputError(
            f"backend: 'triton' needs tensors on a CUDA device, given {tensor.device}; "
            "or set TRITON_INTERPRET=1 before Triton is imported"
        )
    return backend


def usable(device: torch.device | str) -> torch.device:
    """A device that tensors can be made on, a CUDA one with its number.

    Raises:
        InputError: There is none of this name.
    """
    try:
        given = torch.device(device)
    except (RuntimeError, TypeError):
        raise InputError(
            f"device: expected a device of PyTorch such as 'cuda' or 'cpu', given {device!r}"
        ) from None
    if given.type != "cuda":
        try:
            torch.empty(0, device=given)
        except (RuntimeError, AssertionError) as error:  # NotImplementedError is a RuntimeError
            raise InputError(
                f"device: given {str(given)!r}, which PyTorch {torch.__version__} does not have here"
            ) from error
        return given
    count = torch.cuda.device_count()
    if not count:
        raise InputError(
            f"device: given {str(given)!r}, but PyTorch {torch.__version__} finds no CUDA GPU; "
            "everything runs on device='cpu', too"
        )
    index = torch.cuda.current_device() if given.index is None else given.index
    if index >= count:
        raise InputError(f"device: given {str(given)!r}, but there are {count} CUDA GPUs")
    return torch.device("cuda", index)


def current(device: torch.device) -> AbstractContextManager[object]:
    """Makes a device the current one while a kernel is launched: Triton asks for that, not where tensors lie."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


@cache
def multiprocessors(device: torch.device) -> int:
    """Multiprocessors of a CUDA device (with its number); the interpreter plays a small one, so that work gets cut."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count) if device.type == "cuda" else 3


@cache
def has_dependent_launch(device: torch.device) -> bool:
    """Whether the device has programmatic dependent launch (Hopper and newer)."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)


GLUON_VERSIONS = ((3, 6), (3, 7))
"""Of Triton: Gluon is experimental and 3.9 renamed parts of it; with others the portable kernel runs."""


@cache
def has_warpgroup_mma(device: torch.device) -> bool:
    """Whether the device has wgmma (Hopper, and nothing before or after it) and Triton lets us place it by hand."""
    if device.type != "cuda" or torch.cuda.get_device_capability(device)[0] != 9:
        return False
    kernel_module("schedule")
    import triton

    return tuple(map(int, triton.__version__.split(".")[:2])) in GLUON_VERSIONS
