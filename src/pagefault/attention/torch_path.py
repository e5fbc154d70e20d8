"""The same results from PyTorch operations: where there is no CUDA device, and to check against.

Everything is computed in fp32, sequence by sequence, which is exact enough to be the better of two answers
and plain enough to be read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from pagefault.attention.views import KVView


@dataclass(frozen=True, slots=True)
class Variant:
    """What is done to a logit, in this order: scale, soft cap, ALiBi, window; sinks join the denominator."""

    scale: float
    window: int | None
    softcap: float | None
    alibi_slopes: Tensor | None
    sinks: Tensor | None


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
        k, v = tokens_of(view, row, tokens, block_table, block_size)
        result, row_lse = attend(q[row], k, v, variant)
        out[row] = result.to(out.dtype)
        if lse is not None:
            lse[row] = row_lse


def tokens_of(
    view: KVView, row: int, tokens: int, block_table: Tensor | None, block_size: int
) -> tuple[Tensor, Tensor]:
    """A sequence's K and V ``[tokens, kv_heads, head_dim]`` in fp32, fp8 multiplied by its scales."""
    both = []
    for stored, scale in ((view.k, view.k_scale), (view.v, view.v_scale)):
        if block_table is None:
            part = stored[row, :tokens]
        else:
            frames = block_table[row, : math.ceil(tokens / block_size)].long()
            part = stored[frames].flatten(0, 1)[:tokens]
        values = part.float()
        both.append(values if scale is None else values * scale[:, None])
    return both[0], both[1]


def attend(q: Tensor, k: Tensor, v: Tensor, variant: Variant) -> tuple[Tensor, Tensor]:
    """Attention of the newest position, ``[heads, head_dim]``: output and natural log-sum-exp, fp32."""
    heads, head_dim = q.shape
    tokens, kv_heads, _ = k.shape
    queries = q.float().view(kv_heads, heads // kv_heads, head_dim)
    logits = variant.scale * torch.einsum("kgd,tkd->kgt", queries, k).reshape(heads, tokens)
    if variant.softcap is not None:
        logits = variant.softcap * torch.tanh(logits / variant.softcap)
    distance = torch.arange(tokens - 1, -1, -1, device=q.device)
    if variant.alibi_slopes is not None:
        logits = logits - variant.alibi_slopes[:, None] * distance
    if variant.window is not None:
        logits = logits.masked_fill(distance >= variant.window, float("-inf"))
    if variant.sinks is not None:
        logits = torch.cat([logits, variant.sinks[:, None]], dim=1)
    if logits.shape[1] == 0:
        return torch.zeros_like(q, dtype=torch.float32), torch.full((heads,), -math.inf, device=q.device)
    lse = torch.logsumexp(logits, dim=1)
    weights = torch.exp(logits - lse[:, None])[:, :tokens].view(kv_heads, heads // kv_heads, tokens)
    return torch.einsum("kgt,tkd->kgd", weights, v).reshape(heads, head_dim), lse


def append(k_new: Tensor, v_new: Tensor, slots: Tensor, view: KVView, block_size: int) -> None:
    """New tokens into their slots; negative slots are skipped."""
    kept = slots >= 0
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
    target[to_rows[kept]] = source[from_rows[kept]]
