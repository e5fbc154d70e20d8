"""Decode attention: one query a sequence over its cached tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from pagefault.attention import backend as backends
from pagefault.attention import torch_path, validate
from pagefault.attention.choose import Choice, choose_decode
from pagefault.attention.launch_decode import Source, hopper_matrix, launch
from pagefault.attention.variant import make_variant
from pagefault.attention.workspace import DecodeWorkspace

if TYPE_CHECKING:
    from torch import Tensor

    from pagefault.attention.backend import Backend
    from pagefault.attention.variant import Variant
    from pagefault.attention.views import ContiguousView, PagedView


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
    (log-sum-exp minus infinity).

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
    max_tokens = int(view.block_table.shape[1]) * view.block_size
    source = Source(view, view.block_table, view.block_size, max_tokens)
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
    source = Source(view, None, 1, int(view.k.shape[1]))
    variant = make_variant(q, scale, window, softcap, alibi_slopes, sinks)
    return _decode(q, source, variant, out, lse, workspace, split_tokens, choice, backend)


def _decode(
    q: Tensor,
    source: Source,
    variant: Variant,
    out: Tensor | None,
    lse: Tensor | None,
    workspace: DecodeWorkspace | None,
    split_tokens: int | None,
    choice: Choice | None,
    backend: Backend | None,
) -> Tensor:
    view = source.view
    validate.check_queries(q, view)
    validate.check_outputs(q, out, lse)
    if out is None:
        out = torch.empty_like(q, memory_format=torch.contiguous_format)
    if q.shape[0] == 0:
        return out
    if backends.pick(q, backend) == "torch":
        torch_path.decode(q, view, source.block_table, source.block_size, variant, out, lse)
        return out
    if choice is None:
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
            hopper=hopper_matrix(q, source, variant) is not None,
        )
    if workspace is None:
        workspace = DecodeWorkspace(q.device, choice.partial_rows, int(q.shape[2]))
    workspace.check(choice.partial_rows, int(q.shape[2]), q.device)
    launch(q, source, variant, out, lse, workspace, choice)
    return out
