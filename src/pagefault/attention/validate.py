"""Checks of what a launcher is given: host only, nothing read from the device, each with one message.

A message names the argument, what was expected and what was given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from pagefault.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from pagefault.attention.views import ContiguousView, KVView, PagedView

QUERY_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
FP8 = torch.float8_e4m3fn
# Wider heads would not fit the registers.
MAX_KERNEL_HEAD_DIM = 512
# Places within a block, or within a row of queries, are 32-bit numbers.
REACH = 2**31
# The prefix sum over the batch is one vector of a program.
MAX_BATCH = 8192


def check_tensor(
    name: str,
    tensor: Tensor,
    shape: Sequence[int | str],
    dtypes: Sequence[torch.dtype],
    device: torch.device,
) -> None:
    """One tensor against a shape (a name stands for any size), dtypes and a device."""
    expected = f"[{', '.join(map(str, shape))}]"
    if not isinstance(tensor, torch.Tensor):
        raise InputError(f"{name}: expected a tensor {expected}, given {type(tensor).__name__}")
    given = tuple(tensor.shape)
    if len(given) != len(shape) or any(
        isinstance(want, int) and want != have for want, have in zip(shape, given, strict=True)
    ):
        raise InputError(f"{name}: expected shape {expected}, given {list(given)}")
    if tensor.dtype not in dtypes:
        raise InputError(f"{name}: expected {_names(dtypes)}, given {_name(tensor.dtype)}")
    if tensor.device != device:
        raise InputError(f"{name}: expected on {device} like the other tensors, given on {tensor.device}")


def check_last_contiguous(name: str, tensor: Tensor) -> None:
    """The innermost axis must lie in memory value after value."""
    if tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
        raise InputError(
            f"{name}: expected the last axis contiguous (stride 1), given strides {tensor.stride()}; "
            "call .contiguous()"
        )


def check_reach(name: str, tensor: Tensor, axes: Sequence[int]) -> None:
    """What the kernels add up in 32 bit: the places along these axes, within one block or one row of queries."""
    if sum(tensor.shape[axis] * tensor.stride(axis) for axis in axes if tensor.shape[axis] > 1) >= REACH:
        raise InputError(
            f"{name}: expected axes {', '.join(map(str, axes))} to stay within 2^31 elements, given shape "
            f"{list(tensor.shape)} with strides {tensor.stride()}; let the outermost axis have the large stride"
        )


def check_cache(view: KVView, axes: tuple[str, str]) -> None:
    """K and V of a view: alike, 4 axes, a known dtype, scales exactly where the dtype needs them."""
    k, v = view.k, view.v
    if not isinstance(k, torch.Tensor):
        raise InputError(
            f"k: expected a tensor [{axes[0]}, {axes[1]}, kv_heads, head_dim], given {type(k).__name__}"
        )
    device = k.device
    check_tensor("k", k, (*axes, "kv_heads", "head_dim"), (*QUERY_DTYPES, FP8), device)
    if 0 in k.shape[2:]:
        raise InputError(f"k: expected at least one KV head and one value a head, given {list(k.shape)}")
    check_tensor("v", v, tuple(k.shape), (k.dtype,), device)
    check_last_contiguous("k", k)
    if k.stride() != v.stride():
        raise InputError(f"v: expected strides {k.stride()} like k, given {v.stride()}")
    check_tensor("lengths", view.lengths, ("batch",), (torch.int32,), device)
    check_last_contiguous("lengths", view.lengths)
    if k.dtype == FP8:
        _check_pairs(k, v)
    for name, scale in (("k_scale", view.k_scale), ("v_scale", view.v_scale)):
        if k.dtype != FP8:
            if scale is not None:
                raise InputError(f"{name}: expected None for {_name(k.dtype)} K and V, given a tensor")
        elif not isinstance(scale, torch.Tensor):
            given = "None" if scale is None else type(scale).__name__
            raise InputError(
                f"{name}: expected a tensor, fp32 [1] or [{k.shape[2]}], for fp8 K and V, given {given}"
            )
        else:
            sizes = 1 if scale.numel() == 1 else int(k.shape[2])
            check_tensor(name, scale, (sizes,), (torch.float32,), device)
            check_last_contiguous(name, scale)
    if view.k_scale is not None and view.v_scale is not None and view.k_scale.shape != view.v_scale.shape:
        raise InputError(
            f"v_scale: expected shape {list(view.k_scale.shape)} like k_scale, "
            f"given {list(view.v_scale.shape)}"
        )


def _check_pairs(k: Tensor, v: Tensor) -> None:
    """fp8 values are read two at a time: a pair must not straddle two heads, nor begin at an odd address."""
    places = (int(k.shape[3]), *k.stride()[:3], k.data_ptr(), v.data_ptr())
    if any(place % 2 for place in places):
        raise InputError(
            f"k: expected an even head dim, strides and address for fp8, given {k.shape[3]}, {k.stride()}"
        )


def check_paged(view: PagedView) -> None:
    """A paged view as a whole."""
    if not hasattr(view, "block_table"):
        raise InputError(
            f"view: expected a paged view (PagedKV, or a layer of PagedKVCache), given {type(view).__name__}"
        )
    check_cache(view, ("num_blocks", "block_size"))
    check_reach("k", view.k, (1, 2))
    size = int(view.k.shape[1])
    if not 1 <= size <= 256 or size & (size - 1):
        raise InputError(f"k: expected a block size that is a power of two from 1 to 256, given {size}")
    if view.block_size != size:
        raise InputError(f"block_size: expected the {size} of k's second axis, given {view.block_size}")
    batch = int(view.lengths.shape[0])
    check_tensor("block_table", view.block_table, (batch, "max_pages"), (torch.int32,), view.k.device)
    check_last_contiguous("block_table", view.block_table)
    if view.block_table.shape[1] == 0:
        raise InputError("block_table: expected at least one page a sequence, given [batch, 0]")


def check_contiguous(view: ContiguousView) -> None:
    """A contiguous view as a whole."""
    check_cache(view, ("batch", "max_tokens"))
    check_reach("k", view.k, (2,))
    check_tensor("lengths", view.lengths, (int(view.k.shape[0]),), (torch.int32,), view.k.device)


def check_queries(q: Tensor, view: KVView) -> None:
    """The queries of a decode step against the view they attend to."""
    _check_q(q, view, int(view.lengths.shape[0]))


def check_chunks(q: Tensor, view: KVView, query_offsets: Tensor) -> None:
    """The queries of a ragged batch of chunks, and where each sequence's begin."""
    _check_q(q, view, "tokens")
    batch = int(view.lengths.shape[0])
    check_tensor("query_offsets", query_offsets, (batch + 1,), (torch.int32,), view.k.device)
    check_last_contiguous("query_offsets", query_offsets)


def _check_q(q: Tensor, view: KVView, rows: int | str) -> None:
    k = view.k
    batch, head_dim, kv_heads = int(view.lengths.shape[0]), int(k.shape[3]), int(k.shape[2])
    dtypes = (torch.float16, torch.bfloat16) if k.dtype == FP8 else (k.dtype,)
    check_tensor("q", q, (rows, "heads", head_dim), dtypes, k.device)
    check_last_contiguous("q", q)
    check_reach("q", q, (1,))
    heads = int(q.shape[1])
    if heads == 0 or heads % kv_heads:
        raise InputError(f"q: expected heads to be a multiple of the {kv_heads} KV heads, given {heads}")
    if batch > MAX_BATCH:
        raise InputError(f"q: expected at most {MAX_BATCH} sequences a call, given {batch}; split the batch")


def check_outputs(q: Tensor, out: Tensor | None, lse: Tensor | None) -> None:
    """Where the results go, as far as the caller said."""
    if out is not None:
        check_tensor("out", out, tuple(q.shape), (q.dtype,), q.device)
        if any(size > 1 and step == 0 for size, step in zip(out.shape, out.stride(), strict=True)):
            raise InputError(
                f"out: expected a place for every value, given strides {out.stride()}; call .clone()"
            )
        check_last_contiguous("out", out)
        check_reach("out", out, (1,))
    if lse is not None:
        check_tensor("lse", lse, tuple(q.shape[:2]), (torch.float32,), q.device)
        if not lse.is_contiguous():
            raise InputError(f"lse: expected a contiguous tensor, given strides {lse.stride()}")


def check_kernel_head_dim(q: Tensor) -> None:
    """What the kernels can take of a head."""
    if q.shape[2] > MAX_KERNEL_HEAD_DIM:
        raise InputError(
            f"q: expected a head dim of at most {MAX_KERNEL_HEAD_DIM} for the kernels, given {q.shape[2]}; "
            "backend='torch' takes any"
        )


def check_per_head(name: str, tensor: Tensor | None, q: Tensor) -> None:
    """ALiBi slopes or sinks: one fp32 value a query head."""
    if tensor is not None:
        check_tensor(name, tensor, (int(q.shape[1]),), (torch.float32,), q.device)
        check_last_contiguous(name, tensor)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _names(dtypes: Sequence[torch.dtype]) -> str:
    return " or ".join(_name(dtype) for dtype in dtypes)
