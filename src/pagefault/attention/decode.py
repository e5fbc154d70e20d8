"""Decode attention: one query a sequence over its cached tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from pagefault.attention import backend as backends
from pagefault.attention import torch_path, validate
from pagefault.attention.choose import Choice, choose_decode, padded
from pagefault.attention.variant import make_variant
from pagefault.attention.views import scale_stride
from pagefault.attention.workspace import DecodeWorkspace
from pagefault.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from pagefault.attention.backend import Backend
    from pagefault.attention.variant import Variant
    from pagefault.attention.views import ContiguousView, KVView, PagedView


def paged_decode(
    q: Tensor,
    view: PagedView,
    *,
    scale: float | None = None,
    window: int | None = None,
    softcap: float | None = None,
    alibi_slopes: Tensor | None = None,
    sinks: Tensor | None = None,
    out: Tensor | None = None,
    lse: Tensor | None = None,
    workspace: DecodeWorkspace | None = None,
    split_tokens: int | None = None,
    choice: Choice | None = None,
    backend: Backend | None = None,
) -> Tensor:
    """Attention of one query a sequence over the tokens that its page table names.

    On CUDA the kernels read through the table in place; nothing is gathered. The work is cut evenly on the
    device, whatever the lengths, and the same inputs give the same bits. A sequence of length 0 gives zeros
    (log-sum-exp minus infinity, or its sink).

    With `out` and `workspace` given, nothing is allocated and nothing read back: the call can be captured in
    a CUDA graph, which then follows `q`, the pool, tables and lengths as they change in place.

    Args:
        q: ``[batch, heads, head_dim]``, fp32, fp16 or bf16, last axis contiguous; the dtype of K and V, or 16
            bit where these are fp8. Query head *h* reads KV head ``h // (heads // kv_heads)``.
        view: K, V, block table and lengths; the lengths count the query's own token.
        scale: Factor of the logits; ``1 / sqrt(head_dim)`` if not given.
        window: Only the newest `window` tokens are seen (Mistral's sliding window).
        softcap: Logits become ``softcap · tanh(logit / softcap)`` (Gemma 2).
        alibi_slopes: fp32 ``[heads]``: ``slope · distance`` is taken off a logit (Press et al. 2022).
        sinks: fp32 ``[heads]``: one more logit in the denominator, without a value (gpt-oss).
        out: Where the result goes, shaped like `q`; allocated if not given.
        lse: fp32 ``[batch, heads]``: where the natural log-sum-exp of the logits goes, if wanted.
        workspace: Scratch memory, made once; allocated for this call if not given.
        split_tokens: Cut every sequence into pieces of this many tokens instead of evenly over the device:
            its result then does not depend on who else is in the batch, at a price in time.
        choice: A kernel and configuration instead of the launcher's own choice, for measurements.
        backend: `triton` or `torch`; Triton on CUDA and PyTorch elsewhere if not given.

    Returns:
        `out`: ``[batch, heads, head_dim]`` in the dtype of `q`.

    Raises:
        InputError: A shape, dtype, device or stride is wrong; the message names it.
        MissingExtra: Triton was asked for and is not installed.
    """
    validate.check_paged(view)
    validate.check_queries(q, view)
    max_tokens = int(view.block_table.shape[1]) * view.block_size
    source = _Source(view, view.block_table, view.block_size, max_tokens)
    variant = make_variant(q, scale, window, softcap, alibi_slopes, sinks)
    return _decode(q, source, variant, out, lse, workspace, split_tokens, choice, backend)


def contiguous_decode(
    q: Tensor,
    view: ContiguousView,
    *,
    scale: float | None = None,
    window: int | None = None,
    softcap: float | None = None,
    alibi_slopes: Tensor | None = None,
    sinks: Tensor | None = None,
    out: Tensor | None = None,
    lse: Tensor | None = None,
    workspace: DecodeWorkspace | None = None,
    split_tokens: int | None = None,
    choice: Choice | None = None,
    backend: Backend | None = None,
) -> Tensor:
    """The naive baseline: the same kernel as `paged_decode` with the page walk compiled out.

    K and V are ``[batch, max_tokens, kv_heads, head_dim]``, a sequence's tokens one after another. The
    difference in time to `paged_decode` is what paging costs, and nothing else.

    Args:
        q: As in `paged_decode`, and so are the others.
        view: K, V and lengths.
        scale: See `paged_decode`.
        window: See `paged_decode`.
        softcap: See `paged_decode`.
        alibi_slopes: See `paged_decode`.
        sinks: See `paged_decode`.
        out: See `paged_decode`.
        lse: See `paged_decode`.
        workspace: See `paged_decode`.
        split_tokens: See `paged_decode`.
        choice: See `paged_decode`.
        backend: See `paged_decode`.

    Returns:
        `out`: ``[batch, heads, head_dim]`` in the dtype of `q`.

    Raises:
        InputError: A shape, dtype, device or stride is wrong; the message names it.
        MissingExtra: Triton was asked for and is not installed.
    """
    validate.check_contiguous(view)
    validate.check_queries(q, view)
    source = _Source(view, None, 1, int(view.k.shape[1]))
    variant = make_variant(q, scale, window, softcap, alibi_slopes, sinks)
    return _decode(q, source, variant, out, lse, workspace, split_tokens, choice, backend)


@dataclass(frozen=True, slots=True)
class _Source:
    """Where K and V are: a view, its table (None: contiguous), and the most tokens a sequence can have."""

    view: KVView
    block_table: Tensor | None
    block_size: int
    max_tokens: int


def _decode(
    q: Tensor,
    source: _Source,
    variant: Variant,
    out: Tensor | None,
    lse: Tensor | None,
    workspace: DecodeWorkspace | None,
    split_tokens: int | None,
    choice: Choice | None,
    backend: Backend | None,
) -> Tensor:
    view = source.view
    validate.check_outputs(q, out, lse)
    if choice is not None and split_tokens is not None:
        raise InputError("choice: expected without split_tokens, which is part of a choice; given both")
    if out is None:
        out = torch.empty_like(q, memory_format=torch.contiguous_format)
    if q.shape[0] == 0:
        return out
    if choice is None:
        # Also where PyTorch computes, so that what is wrong for a GPU is said on a laptop.
        choice = choose_decode(
            batch=int(q.shape[0]),
            heads=int(q.shape[1]),
            kv_heads=int(view.k.shape[2]),
            head_dim=int(q.shape[2]),
            max_tokens=source.max_tokens,
            kv_bytes=view.k.element_size(),
            multiprocessors=backends.multiprocessors(q.device),
            split_tokens=split_tokens,
            block_size=source.block_size,
        )
    elif not isinstance(choice, Choice):
        raise InputError(f"choice: expected a Choice, given {type(choice).__name__}")
    else:
        choice.check(kv_heads=int(view.k.shape[2]), kv_bytes=view.k.element_size())
    if workspace is not None:
        if not isinstance(workspace, DecodeWorkspace):
            raise InputError(f"workspace: expected a DecodeWorkspace, given {type(workspace).__name__}")
        workspace.check(choice.partial_rows, int(q.shape[2]), q.device)
    if backends.pick(q, backend) == "torch":
        torch_path.decode(q, view, source.block_table, source.block_size, variant, out, lse)
        return out
    validate.check_kernel_head_dim(q)
    if workspace is None:
        workspace = DecodeWorkspace(q.device, choice.partial_rows, int(q.shape[2]))
    with backends.current(q.device):
        _launch(q, source, variant, out, lse, workspace, choice)
    return out


def _launch(
    q: Tensor,
    source: _Source,
    variant: Variant,
    out: Tensor,
    lse: Tensor | None,
    workspace: DecodeWorkspace,
    choice: Choice,
) -> None:
    """The two launches: pieces, then their merge. Host work only: no allocation, no synchronization."""
    view, block_table = source.view, source.block_table
    batch, heads, head_dim = (int(size) for size in q.shape)
    kv_heads = int(view.k.shape[2])
    group = heads // kv_heads
    dependent = backends.has_dependent_launch(q.device)
    shared: dict[str, Any] = {
        "lengths": view.lengths,
        "out": out,
        "lse": lse,
        "partials": workspace.partials,
        "partial_stats": workspace.partial_stats,
        "sinks": variant.sinks,
        "window": variant.window,
        "batch": batch,
        "programs": choice.programs,
        "stride_out": out.stride(0),
        "stride_out_head": out.stride(1),
        "HEAD_DIM": head_dim,
        "DIM_P2": padded(head_dim),
        "UNIT": choice.unit,
        "SPLIT": choice.split,
        "EXTRA": choice.extra,
        "BATCH_P2": padded(batch),
    }
    own: dict[str, Any] = {
        "q": q,
        "k": view.k,
        "v": view.v,
        "block_table": block_table,
        "slopes": variant.alibi_slopes,
        "scale": variant.scale,
        "softcap": variant.softcap,
        "stride_table": 0 if block_table is None else block_table.stride(0),
        "stride_block": view.k.stride(0),
        "stride_token": view.k.stride(1),
        "stride_head": view.k.stride(2),
        "stride_q": q.stride(0),
        "stride_q_head": q.stride(1),
        "KV_HEADS": kv_heads,
        "GROUP": group,
        "GROUP_P2": padded(group),
        "PAGED": block_table is not None,
        "BLOCK": source.block_size,
        "TILE": choice.tile,
        "STAGES": choice.depth if block_table is None else 2 * choice.depth - 1,
        "WAIT": dependent and choice.follow_early,
        "TRIGGER": dependent,
    }
    if choice.kernel == "heads":
        kernel = backends.kernel_module("decode_heads").decode_heads
        own["HEADS"] = choice.heads
    else:
        kernel = backends.kernel_module("decode_head").decode_head
        own |= {
            "FP8": view.k.dtype == validate.FP8,
            "k_scale": view.k_scale,
            "v_scale": view.v_scale,
            "stride_scale": scale_stride(view),
        }
    kernel[(choice.programs,)](
        **shared, **own, num_warps=choice.warps, **_dependent_launch(dependent and choice.follow_early)
    )
    items = kv_heads // choice.heads
    by_item = choice.merges_by_item(batch * items)
    boundaries = batch * items if by_item else choice.programs - 1
    if boundaries:
        backends.kernel_module("combine").combine[(boundaries, -(-choice.item_rows // choice.combine_rows))](
            **shared,
            ITEMS=items,
            ROWS=choice.item_rows,
            ROWS_P2=choice.combine_rows,
            BY_ITEM=by_item,
            CHUNK=choice.combine_chunk,
            WAIT=dependent,
            num_warps=choice.combine_warps,
            **_dependent_launch(dependent),
        )


def _dependent_launch(wanted: bool) -> dict[str, bool]:
    """The launch option by name: only where it is meant, as Triton's interpreter does not know it."""
    return {"launch_pdl": True} if wanted else {}
