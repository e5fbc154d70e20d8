"""Moving K and V: new tokens into slots, frames to frames, frames to and from a staging buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from pagefault.attention import backend as backends
from pagefault.attention import torch_path, validate
from pagefault.attention.choose import next_power_of_2
from pagefault.attention.views import scale_stride
from pagefault.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from pagefault.attention.backend import Backend
    from pagefault.attention.views import PagedView

INDEX_DTYPES = (torch.int32, torch.int64)
# What a frame is copied in, the widest first that divides it.
WORDS = (torch.int64, torch.int32, torch.int16, torch.uint8)
# Words that one program copies: 8 loads of 16 bytes a thread.
COPY_WORDS = 2048


def append(
    k_new: Tensor, v_new: Tensor, slots: Tensor, view: PagedView, *, backend: Backend | None = None
) -> None:
    """Scatters new tokens' K and V into the pool: token *i* to slot ``slots[i]``.

    Slot *s* is offset ``s % block_size`` of frame ``s // block_size``. A negative slot is skipped, so that a
    captured graph can be padded. fp8 pools get ``value / scale``, saturated at ±448. Slots must be distinct
    and in range; they live on the device and are not checked.

    Args:
        k_new: ``[tokens, kv_heads, head_dim]``, fp32, fp16 or bf16, last axis contiguous.
        v_new: Like `k_new`, strides too.
        slots: int32 or int64 ``[tokens]``.
        view: The layer's pool; only `k`, `v`, their scales and `block_size` are used.
        backend: As in `paged_decode`.

    Raises:
        InputError: A shape, dtype, device or stride is wrong.
    """
    validate.check_paged(view)
    kv_heads, head_dim = int(view.k.shape[2]), int(view.k.shape[3])
    if isinstance(k_new, torch.Tensor) and isinstance(v_new, torch.Tensor):
        k_new, v_new = k_new.detach(), v_new.detach()  # what is stored has no gradient
    dtypes = validate.QUERY_DTYPES if view.k.dtype == validate.FP8 else (view.k.dtype,)
    check, device = validate.check_tensor, view.k.device
    check("k_new", k_new, ("tokens", kv_heads, head_dim), dtypes, device)
    check("v_new", v_new, tuple(k_new.shape), (k_new.dtype,), device)
    validate.check_last_contiguous("k_new", k_new)
    validate.check_reach("k_new", k_new, (1,))
    if v_new.stride() != k_new.stride():
        raise InputError(f"v_new: expected strides {k_new.stride()} like k_new, given {v_new.stride()}")
    check("slots", slots, (int(k_new.shape[0]),), INDEX_DTYPES, device)
    validate.check_last_contiguous("slots", slots)
    if slots.shape[0] == 0:
        return
    if backends.pick(k_new, backend) == "torch":
        torch_path.append(k_new, v_new, slots, view, view.block_size)
        return
    row_p2 = next_power_of_2(kv_heads * head_dim)
    with backends.current(k_new.device):
        backends.kernel_module("append").append[(slots.shape[0],)](
            k_new=k_new,
            v_new=v_new,
            slots=slots,
            k=view.k,
            v=view.v,
            k_scale=view.k_scale,
            v_scale=view.v_scale,
            stride_new=k_new.stride(0),
            stride_new_head=k_new.stride(1),
            stride_block=view.k.stride(0),
            stride_token=view.k.stride(1),
            stride_head=view.k.stride(2),
            stride_scale=scale_stride(view),
            KV_HEADS=kv_heads,
            HEAD_DIM=head_dim,
            ROW_P2=row_p2,
            BLOCK=view.block_size,
            FP8=view.k.dtype == validate.FP8,
            num_warps=min(8, max(1, row_p2 // 256)),
        )


def copy_frames(pool: Tensor, source: Tensor, target: Tensor, *, backend: Backend | None = None) -> None:
    """Copies whole frames within a pool (copy-on-write): frame ``source[i]`` to frame ``target[i]``.

    No frame may be both a source and a target of one call, nor a target twice. Pairs with a negative number
    are skipped. Frame numbers live on the device and are not checked.

    Args:
        pool: ``[num_blocks, ...]``, contiguous: one frame of all layers is one piece.
        source: int32 or int64 ``[copies]``.
        target: Like `source`.
        backend: As in `paged_decode`.

    Raises:
        InputError: A shape, dtype, device or stride is wrong.
    """
    _check_index("source", source, pool)
    _check_index("target", target, pool, int(source.shape[0]))
    _copy(pool, pool, source, target, int(source.shape[0]), backend)


def gather_frames(pool: Tensor, frames: Tensor, staging: Tensor, *, backend: Backend | None = None) -> None:
    """Frames of a pool → the first rows of a staging buffer, one after another (swap out).

    Args:
        pool: ``[num_blocks, ...]``, contiguous.
        frames: int32 or int64 ``[count]``.
        staging: ``[at least count, ...]``: the dtype and frame shape of the pool, contiguous.
        backend: As in `paged_decode`.

    Raises:
        InputError: A shape, dtype, device or stride is wrong.
    """
    _check_index("frames", frames, pool)
    _check_staging(pool, staging, int(frames.shape[0]))
    _copy(pool, staging, frames, None, int(frames.shape[0]), backend)


def scatter_frames(staging: Tensor, frames: Tensor, pool: Tensor, *, backend: Backend | None = None) -> None:
    """The first rows of a staging buffer → frames of a pool (swap in): the inverse of `gather_frames`.

    Args:
        staging: ``[at least count, ...]``: the dtype and frame shape of the pool, contiguous.
        frames: int32 or int64 ``[count]``, distinct.
        pool: ``[num_blocks, ...]``, contiguous.
        backend: As in `paged_decode`.

    Raises:
        InputError: A shape, dtype, device or stride is wrong.
    """
    _check_index("frames", frames, pool)
    _check_staging(pool, staging, int(frames.shape[0]))
    _copy(staging, pool, None, frames, int(frames.shape[0]), backend)


def _check_index(name: str, index: Tensor, pool: Tensor, count: int | str = "count") -> None:
    if not pool.is_contiguous() or pool.dim() < 1:
        raise InputError(
            f"pool: expected a contiguous tensor [num_blocks, ...], given strides {pool.stride()}"
        )
    validate.check_tensor(name, index, (count,), INDEX_DTYPES, pool.device)
    validate.check_last_contiguous(name, index)


def _check_staging(pool: Tensor, staging: Tensor, count: int) -> None:
    validate.check_tensor("staging", staging, ("count", *pool.shape[1:]), (pool.dtype,), pool.device)
    if not staging.is_contiguous():
        raise InputError(f"staging: expected a contiguous tensor, given strides {staging.stride()}")
    if staging.shape[0] < count:
        raise InputError(f"staging: expected room for {count} frames, given {staging.shape[0]}")


def _copy(
    source: Tensor,
    target: Tensor,
    source_rows: Tensor | None,
    target_rows: Tensor | None,
    count: int,
    backend: Backend | None,
) -> None:
    if count == 0 or source.numel() == 0:
        return
    if backends.pick(source, backend) == "torch":
        torch_path.copy_rows(source, target, source_rows, target_rows)
        return
    frame_bytes = source[0].numel() * source.element_size()
    word = next(word for word in WORDS if frame_bytes % word.itemsize == 0)
    words = frame_bytes // word.itemsize
    chunk = min(COPY_WORDS, next_power_of_2(words))
    with backends.current(source.device):
        backends.kernel_module("copy").copy_rows[(count, -(-words // chunk))](
            source=source.view(-1).view(word),
            target=target.view(-1).view(word),
            source_rows=source_rows,
            target_rows=target_rows,
            words=words,
            CHUNK=chunk,
            num_warps=4,
        )
