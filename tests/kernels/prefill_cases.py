"""Prefill cases and how one is judged, for the interpreter on a CPU and for a GPU alike.

As with decode, pools are noise everywhere and outputs are poisoned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kernels import decode_cases
from kernels.decode_cases import ROUNDING, dequantized, give_back, relative
from pagefault.attention import PagedKV, paged_prefill
from pagefault.reference import paged_attention

if TYPE_CHECKING:
    from pagefault.attention import PrefillChoice
    from pagefault.attention.backend import Backend


@dataclass(frozen=True)
class PrefillCase:
    """One ragged batch: tokens of each sequence, and how many of them are queries."""

    name: str
    lengths: tuple[int, ...]
    chunks: tuple[int, ...]
    kv_heads: int = 2
    group: int = 4
    head_dim: int = 64
    block_size: int = 16
    dtype: str = "fp32"
    heads_first: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    alibi: bool = False
    sinks: bool = False
    peak: float = 1.0
    choice: PrefillChoice | None = None


@dataclass
class Judged:
    """Relative errors against the float64 oracle: ours, and PyTorch eager's at the same precision."""

    error: float
    eager_error: float
    lse_error: float
    unused_rows_are_left: bool

    @property
    def budget(self) -> float:
        return max(2 * self.eager_error, ROUNDING)


def tensors(case: PrefillCase, device: str, seed: int = 0) -> tuple[torch.Tensor, PagedKV, torch.Tensor]:
    """Queries (two rows more than the chunks have), a view, and where each chunk begins."""
    decode = decode_cases.Case(
        case.name, case.lengths, case.kv_heads, case.group, case.head_dim, case.block_size, case.dtype,
        heads_first=case.heads_first,
    )  # fmt: skip
    one, view = decode_cases.tensors(decode, device, seed)
    assert isinstance(view, PagedKV)
    generator = torch.Generator().manual_seed(seed + 2)
    shape = (sum(case.chunks) + 2, case.kv_heads * case.group, case.head_dim)
    q = (case.peak * torch.randn(shape, generator=generator)).to(one.dtype).to(device)
    offsets = torch.tensor([0, *np.cumsum(case.chunks).tolist()], dtype=torch.int32, device=device)
    return q, view, offsets


def judge(case: PrefillCase, device: str, backend: Backend | None, seed: int = 0) -> Judged:
    """Runs a case and compares it with the oracle and with eager."""
    q, view, offsets = tensors(case, device, seed)
    used, heads, _ = q.shape[0] - 2, q.shape[1], q.shape[2]
    generator = torch.Generator().manual_seed(seed + 1)
    options = dict(case.options)
    if case.alibi:
        options["alibi_slopes"] = (torch.rand(heads, generator=generator) * 0.1).to(device)
    if case.sinks:
        options["sinks"] = torch.randn(heads, generator=generator).to(device)
    known: dict[str, Any] = {
        name: value.cpu().numpy() if torch.is_tensor(value) else value for name, value in options.items()
    }
    reference, reference_lse = paged_attention(
        q[:used].double().cpu().numpy(),
        dequantized(view.k, view.k_scale),
        dequantized(view.v, view.v_scale),
        view.block_table.cpu().numpy(),
        view.lengths.cpu().numpy(),
        query_lengths=np.array(case.chunks),
        **known,
    )
    eager_error = relative(eager(q[:used], view, case.chunks, options), reference)
    if "window" in options:
        chunks = zip(case.lengths, case.chunks, strict=True)
        give_back(view, [max(tokens - chunk - options["window"] + 1, 0) for tokens, chunk in chunks])
    out = torch.full_like(q, math.nan)
    lse = torch.full((used + 2, heads), math.nan, dtype=torch.float32, device=device)
    paged_prefill(q, view, offsets, out=out, lse=lse, backend=backend, choice=case.choice, **options)
    our_lse = lse[:used].double().cpu().numpy()
    with np.errstate(invalid="ignore"):
        lse_error = np.abs(np.where(our_lse == reference_lse, 0.0, our_lse - reference_lse)).max(initial=0.0)
    return Judged(
        error=relative(out[:used].double().cpu().numpy(), reference),
        eager_error=eager_error,
        lse_error=float(lse_error),
        unused_rows_are_left=bool(out[used:].isnan().all()),
    )


def eager(
    q: torch.Tensor, view: PagedKV, chunks: tuple[int, ...], options: dict[str, Any]
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Eager decode, position by position: the textbook formula, every operation in the dtype of the queries."""
    rows = []
    start = 0
    for row, chunk in enumerate(chunks):
        tokens = int(view.lengths[row])
        at = torch.arange(tokens - chunk + 1, tokens + 1, dtype=torch.int32, device=q.device)
        table = view.block_table[row : row + 1].expand(chunk, -1)
        one = PagedKV(view.k, view.v, table, at, view.k_scale, view.v_scale)
        rows.append(decode_cases.eager(q[start : start + chunk], one, options))
        start += chunk
    return np.concatenate(rows) if rows else np.empty((0, *q.shape[1:]))


def interpreter_cases() -> list[PrefillCase]:
    """What the interpreter gets right (fp32, fp16), small enough for two cores."""
    every: dict[str, Any] = {"alibi": True, "sinks": True, "options": {"window": 20, "softcap": 4.0}}
    return [
        PrefillCase("whole prompts", (40, 1, 17), (40, 1, 17)),
        PrefillCase("chunks at the end, fp16", (100, 5, 70), (30, 5, 1), dtype="fp16"),
        PrefillCase("a decode row is a chunk of one", (33, 0, 80), (1, 0, 1), 2, 3),
        PrefillCase("no queries of some", (33, 50, 80), (0, 20, 0), 1, 5, 80, dtype="fp16"),
        PrefillCase("blocks of 1, group 7", (45, 20), (45, 9), 1, 7, 96, 1),
        PrefillCase("blocks of 256, head dim 256", (300,), (20,), 1, 2, 256, 256, "fp16"),
        PrefillCase("head dim 512", (70,), (9,), 1, 2, 512, 16, "fp16"),
        PrefillCase("group 20, block 4", (40, 9), (12, 9), 1, 20, 64, 4),
        PrefillCase("heads first in a frame", (90, 17), (25, 3), 2, 2, 64, heads_first=True),
        PrefillCase("variants", (90, 40, 7), (50, 40, 2), 2, 3, 64, 8, **every),
        PrefillCase("variants, fp16", (90, 40), (50, 1), 2, 4, 64, dtype="fp16", **every),
        PrefillCase("a window alone", (150,), (60,), 1, 2, 64, options={"window": 33}),
        PrefillCase("peaky logits", (90, 20), (60, 20), 1, 4, 64, peak=20.0),
    ]
