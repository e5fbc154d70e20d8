"""Prefill attention: a chunk of queries a sequence over its paged context."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from pagefault.attention import backend as backends
from pagefault.attention import torch_path, validate
from pagefault.attention.choose import (
    HOPPER_HEAD_DIMS,
    PrefillChoice,
    choose_prefill,
    next_power_of_2,
    padded,
)
from pagefault.attention.pool_matrix import pool_matrix
from pagefault.attention.variant import make_variant
from pagefault.attention.views import scale_stride
from pagefault.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from pagefault.attention.backend import Backend
    from pagefault.attention.pool_matrix import PoolMatrix
    from pagefault.attention.variant import Variant
    from pagefault.attention.views import PagedView


def paged_prefill(
    q: Tensor,
    view: PagedView,
    query_offsets: Tensor,
    *,
    scale: float | None = None,
    window: int | None = None,
    softcap: float | None = None,
    alibi_slopes: Tensor | None = None,
    sinks: Tensor | None = None,
    out: Tensor | None = None,
    lse: Tensor | None = None,
    choice: PrefillChoice | None = None,
    backend: Backend | None = None,
) -> Tensor:
    """Causal attention of the newest tokens of each sequence over all its tokens, read through its page table.

    The queries of sequence *i* are rows ``query_offsets[i]`` to ``query_offsets[i + 1]`` of `q`; of n of them, the
    j-th stands at position ``lengths[i] - n + j`` and sees the tokens up to there. Their K and V are in the pool
    already (`append` them first). A chunk of one is a decode step; `paged_decode` does that faster. A sequence
    without queries costs nothing; a query that sees no token gives zeros (log-sum-exp minus infinity,
    or its sink).

    With `out` given, nothing is allocated and nothing read back: the call can be captured in a CUDA graph, which
    then follows `q`, the pool, tables, lengths and offsets as they change in place.

    Args:
        q: ``[tokens, heads, head_dim]``, fp32, fp16 or bf16, last axis contiguous; the dtype of K and V, or 16 bit
            where these are fp8.
        view: K, V, block table and lengths; the lengths count the queries' own tokens.
        query_offsets: int32 ``[batch + 1]``, rising, from 0 to at most `tokens`: where each sequence's queries begin.
        scale: See `paged_decode`, and so are the next four.
        window: See `paged_decode`.
        softcap: See `paged_decode`.
        alibi_slopes: See `paged_decode`.
        sinks: See `paged_decode`.
        out: Where the result goes, shaped like `q`; allocated if not given. Rows of no sequence are left alone:
            in an `out` not given, they hold anything.
        lse: fp32 ``[tokens, heads]``: where the natural log-sum-exp of the logits goes, if wanted.
        choice: A configuration instead of the launcher's own choice, for measurements.
        backend: As in `paged_decode`.

    Returns:
        `out`: ``[tokens, heads, head_dim]`` in the dtype of `q`.

    Raises:
        InputError: A shape, dtype, device or stride is wrong; the message names it.
        MissingExtra: Triton was asked for and is not installed.
    """
    validate.check_paged(view)
    validate.check_chunks(q, view, query_offsets)
    validate.check_outputs(q, out, lse)
    variant = make_variant(q, scale, window, softcap, alibi_slopes, sinks)
    if out is None:
        out = torch.empty_like(q, memory_format=torch.contiguous_format)
    if q.shape[0] == 0 or view.lengths.shape[0] == 0:
        return out
    if backends.pick(q, backend) == "torch":
        torch_path.prefill(q, view, query_offsets, variant, out, lse)
        return out
    validate.check_kernel_head_dim(q)
    matrix = pool_matrix(view) if variant.plain and backends.has_warpgroup_mma(q.device) else None
    if choice is None:
        choice = choose_prefill(
            group=int(q.shape[1]) // int(view.k.shape[2]),
            head_dim=int(q.shape[2]),
            q_bytes=q.element_size(),
            kv_bytes=view.k.element_size(),
            hopper=matrix is not None,
        )
    with backends.current(q.device):
        if choice.kernel == "portable":
            _launch(q, view, query_offsets, variant, out, lse, choice)
        elif matrix is None or q.shape[2] not in HOPPER_HEAD_DIMS:
            versions = " or ".join(f"{major}.{minor}" for major, minor in backends.GLUON_VERSIONS)
            raise InputError(
                f"choice: the hopper kernel needs a Hopper GPU, Triton {versions}, no variant but a window, heads of "
                f"{' or '.join(map(str, HOPPER_HEAD_DIMS))}, 16-bit K and V, blocks of at least 8, 16-byte strides"
            )
        else:
            _launch_hopper(q, view, query_offsets, variant, out, lse, choice, matrix)
    return out


def _launch(
    q: Tensor,
    view: PagedView,
    query_offsets: Tensor,
    variant: Variant,
    out: Tensor,
    lse: Tensor | None,
    choice: PrefillChoice,
) -> None:
    # How the queries are spread over the batch is known on the device alone: every sequence may begin a tile.
    tiles = -(-int(q.shape[0]) // choice.tile_q) + int(view.lengths.shape[0])
    backends.kernel_module("prefill").prefill[(tiles, int(view.k.shape[2]))](
        **_common(q, view, query_offsets, variant, out, lse, choice),
        k=view.k,
        v=view.v,
        k_scale=view.k_scale,
        v_scale=view.v_scale,
        slopes=variant.alibi_slopes,
        sinks=variant.sinks,
        softcap=variant.softcap,
        stride_block=view.k.stride(0),
        stride_token=view.k.stride(1),
        stride_head=view.k.stride(2),
        stride_scale=scale_stride(view),
        DIM_P2=padded(int(q.shape[2])),
        FP8=view.k.dtype == validate.FP8,
        STAGES=2 * choice.depth - 1,
        num_warps=choice.warps,
    )


def _launch_hopper(
    q: Tensor,
    view: PagedView,
    query_offsets: Tensor,
    variant: Variant,
    out: Tensor,
    lse: Tensor | None,
    choice: PrefillChoice,
    matrix: PoolMatrix,
) -> None:
    box = min(view.block_size, choice.tile)
    backends.kernel_module("prefill_hopper").prefill_hopper[(backends.multiprocessors(q.device),)](
        **_common(q, view, query_offsets, variant, out, lse, choice),
        k_boxes=matrix.boxes(view.k, box),
        v_boxes=matrix.boxes(view.v, box),
        frame_rows=matrix.frame_rows,
        head_rows=matrix.head_rows,
        head_columns=matrix.head_columns,
        BOX=box,
        BUFFERS=choice.depth,
        num_warps=choice.warps,
    )


def _common(
    q: Tensor,
    view: PagedView,
    query_offsets: Tensor,
    variant: Variant,
    out: Tensor,
    lse: Tensor | None,
    choice: PrefillChoice,
) -> dict[str, Any]:
    """What both kernels take, by name."""
    batch, kv_heads = int(view.lengths.shape[0]), int(view.k.shape[2])
    group = int(q.shape[1]) // kv_heads
    return {
        "q": q,
        "block_table": view.block_table,
        "lengths": view.lengths,
        "query_offsets": query_offsets,
        "out": out,
        "lse": lse,
        "scale": variant.scale,
        "window": variant.window,
        "batch": batch,
        "stride_table": view.block_table.stride(0),
        "stride_q": q.stride(0),
        "stride_q_head": q.stride(1),
        "stride_out": out.stride(0),
        "stride_out_head": out.stride(1),
        "KV_HEADS": kv_heads,
        "GROUP": group,
        "GROUP_P2": next_power_of_2(group),
        "HEAD_DIM": int(q.shape[2]),
        "BLOCK": view.block_size,
        "TILE_Q": choice.tile_q,
        "TILE": choice.tile,
        "BATCH_P2": padded(batch),
    }
