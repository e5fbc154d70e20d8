"""The same results from PyTorch operations: where there is no CUDA device, and to check against.

Everything is computed in fp32, sequence by sequence, which is exact enough to be the better of two answers
and plain enough to be read.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from pagefault.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from pagefault.attention.variant import Variant
    from pagefault.attention.views import KVView, PagedView


def decode(
    q: Tensor,
    view: KVView,
    block_table: Tensor | None,
    block_size: int,
    variant: Variant,
    out: Tensor,
    lse: Tensor | None,
) -> None:
    """One query a sequence; arguments as in `pagefault.attention.decode`, checked there."""
    for row, tokens in enumerate(view.lengths.tolist()):
        k, v = tokens_of(view, row, variant.oldest_seen(tokens, 1), tokens, block_table, block_size)
        result, row_lse = attend(q[row : row + 1], k, v, variant)
        out[row] = result[0].to(out.dtype)
        if lse is not None:
            lse[row] = row_lse[0]


def prefill(
    q: Tensor, view: PagedView, query_offsets: Tensor, variant: Variant, out: Tensor, lse: Tensor | None
) -> None:
    """A chunk of queries a sequence; arguments as in `pagefault.attention.prefill`, checked there."""
    offsets = query_offsets.tolist()
    if offsets != sorted(offsets) or offsets[0] != 0 or offsets[-1] > len(q):
        raise InputError(
            f"query_offsets: expected to rise from 0 to at most the {len(q)} queries, given {offsets}"
        )
    for row, tokens in enumerate(view.lengths.tolist()):
        chunk = slice(offsets[row], offsets[row + 1])
        oldest = variant.oldest_seen(tokens, offsets[row + 1] - offsets[row])
        k, v = tokens_of(view, row, oldest, tokens, view.block_table, view.block_size)
        result, row_lse = attend(q[chunk], k, v, variant)
        out[chunk] = result.to(out.dtype)
        if lse is not None:
            lse[chunk] = row_lse


def tokens_of(
    view: KVView, row: int, first: int, tokens: int, block_table: Tensor | None, block_size: int
) -> tuple[Tensor, Tensor]:
    """A sequence's K and V from its token `first` on, ``[tokens - first, kv_heads, head_dim]`` in fp32.

    fp8 is multiplied by its scales. Pages before `first` are not touched: they may have been given back.
    """
    most = view.k.shape[1] if block_table is None else block_table.shape[1] * block_size
    if not 0 <= tokens <= most:
        raise InputError(f"lengths: expected 0 to {most} tokens, given {tokens} for sequence {row}")
    both = []
    for stored, scale in ((view.k, view.k_scale), (view.v, view.v_scale)):
        if block_table is None:
            part = stored[row, first:tokens]
        else:
            page, skipped = divmod(first, block_size)
            frames = block_table[row, page : math.ceil(tokens / block_size)].long()
            check_range(f"block_table of sequence {row}", frames, stored.shape[0])
            part = stored[frames].flatten(0, 1)[skipped : skipped + tokens - first]
        values = part.float()
        both.append(values if scale is None else values * scale[:, None])
    return both[0], both[1]


def attend(q: Tensor, k: Tensor, v: Tensor, variant: Variant) -> tuple[Tensor, Tensor]:
    """Attention of the newest positions, causal: output ``[queries, heads, head_dim]`` and natural log-sum-exp, fp32.

    Args:
        q: ``[queries, heads, head_dim]``, the last one at the last token.
        k: ``[tokens, kv_heads, head_dim]``, fp32.
        v: Like `k`.
        variant: What is done to a logit.
    """
    chunk, heads, head_dim = q.shape
    tokens, kv_heads, _ = k.shape
    grouped = q.float().view(chunk, kv_heads, heads // kv_heads, head_dim)
    logits = variant.scale * torch.einsum("nkgd,tkd->nkgt", grouped, k).reshape(chunk, heads, tokens)
    if variant.softcap is not None:
        logits = variant.softcap * torch.tanh(logits / variant.softcap)
    positions = torch.arange(tokens - chunk, tokens, device=q.device)
    distance = (positions[:, None] - torch.arange(tokens, device=q.device))[:, None]
    if variant.alibi_slopes is not None:
        logits = logits - variant.alibi_slopes[:, None] * distance
    hidden = distance < 0
    if variant.window is not None:
        hidden = hidden | (distance >= variant.window)
    logits = logits.masked_fill(hidden, -math.inf)
    if variant.sinks is not None:
        logits = torch.cat([logits, variant.sinks.expand(chunk, heads)[..., None]], dim=2)
    if logits.shape[2] == 0:
        return torch.zeros_like(q, dtype=torch.float32), torch.full(
            (chunk, heads), -math.inf, device=q.device
        )
    lse = torch.logsumexp(logits, dim=2)
    finite = lse.masked_fill(lse == -math.inf, 0.0)  # who sees nothing gets zeros
    weights = torch.exp(logits - finite[..., None])[..., :tokens].view(*grouped.shape[:3], tokens)
    return torch.einsum("nkgt,tkd->nkgd", weights, v).reshape(chunk, heads, head_dim), lse


def check_range(name: str, numbers: Tensor, stop: int) -> None:
    """That frame or slot numbers lie in the pool.

    Raises:
        InputError: One does not.
    """
    wrong = numbers[(numbers < 0) | (numbers >= stop)]
    if wrong.numel():
        raise InputError(f"{name}: expected 0 to {stop - 1}, given {int(wrong[0])}")


def append(k_new: Tensor, v_new: Tensor, slots: Tensor, view: KVView, block_size: int) -> None:
    """New tokens into their slots; negative slots are skipped."""
    kept = slots >= 0
    check_range("slots", slots[kept], view.k.shape[0] * block_size)
    frames, offsets = slots[kept].long() // block_size, slots[kept].long() % block_size
    for new, stored, scale in ((k_new, view.k, view.k_scale), (v_new, view.v, view.v_scale)):
        values = new[kept]
        if scale is not None:
            limit = torch.finfo(stored.dtype).max
            values = (values.float() / scale[:, None]).clamp(-limit, limit)
        stored[frames, offsets] = values.to(stored.dtype)


def copy_rows(source: Tensor, target: Tensor, source_rows: Tensor | None, target_rows: Tensor | None) -> None:
    """Rows of `source` to rows of `target`; without indices row *i*; negative indices are skipped."""
    count = len(source_rows if source_rows is not None else target_rows)  # type: ignore[arg-type]
    every = torch.arange(count, device=source.device)
    from_rows = every if source_rows is None else source_rows.long()
    to_rows = every if target_rows is None else target_rows.long()
    kept = (from_rows >= 0) & (to_rows >= 0)
    check_range("source frames", from_rows[kept], source.shape[0])
    check_range("target frames", to_rows[kept], target.shape[0])
    target[to_rows[kept]] = source[from_rows[kept]]
