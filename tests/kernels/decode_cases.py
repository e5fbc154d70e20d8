"""Decode cases and how one is judged, for the interpreter on a CPU and for a GPU alike.

Pools are filled with noise everywhere, so that a token read past a length or through a wrong table entry
shows; outputs are poisoned with NaN, so that an element that nobody wrote shows. Where there is a window, pages
that have left it are given back, and every slot without a visible page is NaN, also those before the pool's first.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pagefault.attention import Choice, ContiguousKV, PagedKV, contiguous_decode, paged_decode
from pagefault.reference import attention, paged_attention

if TYPE_CHECKING:
    from pagefault.attention.backend import Backend

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}
# In fp32 both sides only round: whose few rounding errors are larger is a throw of dice below this.
ROUNDING = 2e-6


@dataclass(frozen=True)
class Case:
    """One batch; `heads_at_once`: force the many-heads kernel, so many heads a program; `sink`: what all sinks are."""

    name: str
    lengths: tuple[int, ...]
    kv_heads: int = 2
    group: int = 4
    head_dim: int = 64
    block_size: int = 16
    dtype: str = "fp32"
    heads_at_once: int = 0
    paged: bool = True
    heads_first: bool = False
    split_tokens: int | None = None
    options: dict[str, Any] = field(default_factory=dict)
    alibi: bool = False
    sinks: bool = False
    sink: float | None = None
    peak: float = 1.0


@dataclass
class Judged:
    """Relative errors against the float64 oracle: ours, and PyTorch eager's at the same precision."""

    error: float
    eager_error: float
    lse_error: float
    empty_rows_are_zero: bool

    @property
    def budget(self) -> float:
        return max(2 * self.eager_error, ROUNDING)


def heads_choice(case: Case, programs: int = 5) -> Choice:
    """The many-heads kernel on few programs, so that even small batches are cut in odd places."""
    slots = 2 * programs
    if case.split_tokens is not None:
        per_row = max(1, -(-(max(case.lengths) + 2 * case.block_size) // case.split_tokens))
        slots = len(case.lengths) * per_row * (case.kv_heads // case.heads_at_once)
    return Choice(
        kernel="heads",
        heads=case.heads_at_once,
        tile=16,
        depth=2,
        warps=case.heads_at_once,
        programs=programs,
        unit=case.split_tokens or 16,
        extra=0 if case.split_tokens else 3,
        split=case.split_tokens is not None,
        slots=slots,
        item_rows=case.heads_at_once * case.group,
        combine_rows=2,
        combine_chunk=4,
        combine_warps=1,
        follow_early=False,
        reason="a test",
    )


def tensors(case: Case, device: str, seed: int = 0) -> tuple[torch.Tensor, PagedKV | ContiguousKV]:
    """Queries and a view: shuffled frames, K and V side by side in them, wild table entries past the end."""
    rng = torch.Generator().manual_seed(seed)
    batch, size, dtype = len(case.lengths), case.block_size, DTYPES[case.dtype]
    heads = case.kv_heads * case.group
    q_dtype = torch.bfloat16 if case.dtype == "fp8" else dtype
    q = (case.peak * torch.randn(batch, heads, case.head_dim, generator=rng)).to(q_dtype)
    lengths = torch.tensor(case.lengths, dtype=torch.int32)
    scales: dict[str, Any] = {}
    if case.dtype == "fp8":
        scales = {
            "k_scale": torch.rand(case.kv_heads, generator=rng) + 0.5,
            "v_scale": torch.rand(case.kv_heads, generator=rng) + 0.5,
        }
        scales = {name: scale.to(device) for name, scale in scales.items()}
    if not case.paged:
        rows = max(max(case.lengths), 1) + 3
        kv = torch.randn(2, batch, rows, case.kv_heads, case.head_dim, generator=rng).to(dtype)
        return q.to(device), ContiguousKV(kv[0].to(device), kv[1].to(device), lengths.to(device), **scales)
    pages = -(-max(max(case.lengths), 1) // size) + 1
    frames = batch * pages + 3
    inner = (case.kv_heads, size) if case.heads_first else (size, case.kv_heads)
    # One frame more than the view names, in front: what an entry of -1 would read.
    pool = torch.randn(frames + 1, 2, *inner, case.head_dim, generator=rng).to(dtype).to(device)[1:]
    if case.heads_first:
        pool = pool.transpose(2, 3)
    table = torch.randperm(frames, generator=rng)[: batch * pages].reshape(batch, pages).int()
    for row, tokens in enumerate(case.lengths):
        used = -(-tokens // size)
        table[row, max(used, 1) :] = 2**31 - 1  # would fault on a GPU, or be far outside here
    return q.to(device), PagedKV(pool[:, 0], pool[:, 1], table.to(device), lengths.to(device), **scales)


def judge(case: Case, device: str, backend: Backend | None, seed: int = 0) -> Judged:
    """Runs a case and compares it with the oracle and with eager."""
    q, view = tensors(case, device, seed)
    batch, heads, _ = q.shape
    generator = torch.Generator().manual_seed(seed + 1)
    options = dict(case.options)
    if case.alibi:
        options["alibi_slopes"] = (torch.rand(heads, generator=generator) * 0.1).to(device)
    if case.sinks:
        options["sinks"] = torch.randn(heads, generator=generator).to(device)
        if case.sink is not None:
            options["sinks"].fill_(case.sink)
    reference, reference_lse = oracle(q, view, options)
    eager_error = relative(eager(q, view, options), reference)
    if isinstance(view, PagedKV) and "window" in options:
        give_back(view, [max(tokens - options["window"], 0) for tokens in case.lengths])

    out = torch.full_like(q, math.nan)
    lse = torch.full((batch, heads), math.nan, dtype=torch.float32, device=device)
    launch: dict[str, Any] = {"out": out, "lse": lse, "backend": backend, **options}
    if case.heads_at_once:
        launch["choice"] = heads_choice(case)
    elif case.split_tokens is not None:
        launch["split_tokens"] = case.split_tokens
    if isinstance(view, PagedKV):
        paged_decode(q, view, **launch)
    else:
        contiguous_decode(q, view, **launch)

    ours, our_lse = out.double().cpu().numpy(), lse.double().cpu().numpy()
    empty = np.array(case.lengths) == 0
    with np.errstate(invalid="ignore"):
        lse_error = np.abs(np.where(our_lse == reference_lse, 0.0, our_lse - reference_lse)).max()
    return Judged(
        error=relative(ours, reference),
        eager_error=eager_error,
        lse_error=float(lse_error),
        empty_rows_are_zero=bool((ours[empty] == 0).all()),
    )


def give_back(view: PagedKV, oldest: list[int]) -> None:
    """Unmaps the pages before each sequence's oldest visible token, and fills with NaN what no page holds."""
    size = view.block_size
    held = torch.zeros(view.k.shape[:2], dtype=torch.bool, device=view.k.device)
    for row, first in enumerate(oldest):
        view.block_table[row, : first // size] = -1
        slots = torch.arange(first // size * size, int(view.lengths[row]), device=view.k.device)
        held[view.block_table[row, slots // size].long(), slots % size] = True
    for part in (view.k, view.v):
        whole = part.as_strided(
            (part.shape[0] + 1, *part.shape[1:]), part.stride(), part.storage_offset() - part.stride(0)
        )
        lost = torch.cat([torch.ones_like(held[:1]), ~held])
        if part.dtype == torch.float8_e4m3fn:
            whole.view(torch.uint8)[lost] = 0x7F  # its NaN
        else:
            whole[lost] = math.nan


def random_case(seed: int) -> Case:
    """A shape at random: few long sequences or many short ones, so that both ways to merge pieces are met."""
    rng = random.Random(seed)
    dtype = rng.choice(list(DTYPES))
    kv_heads, group = rng.choice([(1, 1), (1, 8), (2, 5), (8, 4), (4, 7), (8, 1), (2, 16), (3, 3)])
    return Case(
        "random", rng.choice([(5000,) * 12, (400,) * 200]), kv_heads, group,
        rng.choice([64, 80, 96, 128]), 2 ** rng.randint(0, 8), dtype, heads_first=rng.random() < 0.3,
    )  # fmt: skip


def worst_row(ours: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest relative error of a row; a row that should be zero and is not counts as infinite, NaN as NaN."""
    wrong = (ours.float() - expected.float()).flatten(1).norm(dim=1)
    return float(torch.where(wrong == 0, 0.0, wrong / expected.float().flatten(1).norm(dim=1)).max())


def relative(ours: np.ndarray, reference: np.ndarray) -> float:
    """‖ours − reference‖ / ‖reference‖; NaN never passes a comparison."""
    norm = float(np.linalg.norm(reference))
    return float(np.linalg.norm(ours - reference)) / (norm if norm else 1.0)


def oracle(
    q: torch.Tensor, view: PagedKV | ContiguousKV, options: dict[str, Any]
) -> tuple[np.ndarray, np.ndarray]:
    """The float64 reference on the same stored values, fp8 after dequantizing."""
    known: dict[str, Any] = {
        name: value.cpu().numpy() if torch.is_tensor(value) else value for name, value in options.items()
    }
    k, v = (dequantized(part, scale) for part, scale in ((view.k, view.k_scale), (view.v, view.v_scale)))
    lengths = view.lengths.cpu().numpy()
    q64 = q.double().cpu().numpy()
    if isinstance(view, PagedKV):
        return paged_attention(q64, k, v, view.block_table.cpu().numpy(), lengths, **known)
    rows = [attention(q64[b : b + 1], k[b, :n], v[b, :n], **known) for b, n in enumerate(lengths)]
    return np.concatenate([out for out, _ in rows]), np.concatenate([lse for _, lse in rows])


def dequantized(stored: torch.Tensor, scale: torch.Tensor | None) -> np.ndarray:
    """Stored K or V in float64."""
    values = stored.float() if scale is None else stored.float() * scale[:, None]
    return values.double().cpu().numpy()


def eager(q: torch.Tensor, view: PagedKV | ContiguousKV, options: dict[str, Any]) -> np.ndarray:
    """The textbook formula in PyTorch, every operation in the dtype of the queries."""
    dtype, device = q.dtype, q.device
    batch, heads, head_dim = q.shape
    kv_heads = view.k.shape[2]
    out = torch.zeros_like(q)
    for row in range(batch):
        tokens = int(view.lengths[row])
        if not tokens:
            continue
        both = []
        for stored, scale in ((view.k, view.k_scale), (view.v, view.v_scale)):
            if isinstance(view, PagedKV):
                frames = view.block_table[row, : -(-tokens // view.block_size)].long()
                values = stored[frames].flatten(0, 1)[:tokens]
            else:
                values = stored[row, :tokens]
            values = values.to(dtype) if scale is None else (values.float() * scale[:, None]).to(dtype)
            both.append(values.repeat_interleave(heads // kv_heads, dim=1))
        k, v = both
        logits = torch.einsum("hd,thd->ht", q[row], k) / math.sqrt(head_dim)
        if cap := options.get("softcap"):
            logits = cap * torch.tanh(logits / cap)
        distance = torch.arange(tokens - 1, -1, -1, device=device)
        if "alibi_slopes" in options:
            logits = logits - (options["alibi_slopes"][:, None] * distance).to(dtype)
        if window := options.get("window"):
            logits = logits.masked_fill(distance >= window, -math.inf)
        if "sinks" in options:
            logits = torch.cat([logits, options["sinks"][:, None].to(dtype)], dim=1)
        weights = torch.softmax(logits, dim=1)[:, :tokens]
        out[row] = torch.einsum("ht,thd->hd", weights, v)
    return out.double().cpu().numpy()


def interpreter_cases() -> list[Case]:
    """What the interpreter gets right (fp32, fp16), small enough for two cores."""
    every: dict[str, Any] = {"alibi": True, "sinks": True, "options": {"window": 50, "softcap": 4.0}}
    return [
        Case("one head, fp32, ragged", (5, 0, 33, 300), 1, 1),
        Case("gqa, fp16", (5, 0, 33, 300), 2, 3, dtype="fp16"),
        Case("everything empty", (0, 0, 0), 2, 2),
        Case("more programs than work", (1,), 1, 1, 16, dtype="fp16"),
        Case("head dim 80", (70, 3), 1, 5, 80, dtype="fp16"),
        Case("head dim 96, block 1", (40, 129), 1, 6, 96, 1),
        Case("head dim 128, block 64", (200, 64), 2, 7, 128, 64, "fp16"),
        Case("head dim 256, block 256", (257, 256), 1, 2, 256, 256, "fp16"),
        Case("head dim 512", (70,), 1, 2, 512, 16, "fp16"),
        Case("group 16, block 4", (90, 0, 4), 1, 16, 64, 4),
        Case("group 20", (90, 17), 1, 20, 64),
        Case("heads first in a frame", (90, 17), 2, 2, 64, heads_first=True),
        Case("contiguous", (90, 0, 17), 2, 2, 64, paged=False),
        Case("variants", (200, 0, 37, 50), 2, 3, 64, 8, **every),
        Case("variants, fixed splits", (200, 0, 37, 129), 2, 3, 64, split_tokens=64, **every),
        Case("sinks of nothing", (0, 20), 2, 2, sinks=True, sink=-math.inf),
        Case("a wide soft cap", (300, 20), 1, 4, options={"softcap": 1e5}),
        Case(
            "many heads, a window in fixed splits",
            (300, 0, 61),
            4,
            2,
            block_size=4,
            dtype="fp16",
            heads_at_once=2,
            split_tokens=64,
            options={"window": 20},
        ),
        Case("peaky logits", (300, 20), 1, 4, 64, peak=20.0),
        Case("many heads, fp16", (300, 37, 0, 16), 8, 3, 64, dtype="fp16", heads_at_once=4),
        Case("many heads, mha, block 1", (40, 0, 17), 4, 1, 80, 1, "fp16", heads_at_once=2),
        Case("many heads, block 128", (129, 200), 4, 5, 64, 128, "fp16", heads_at_once=4, heads_first=True),
        Case("many heads, contiguous", (129, 0, 50), 4, 2, 64, dtype="fp16", heads_at_once=4, paged=False),
        Case("many heads, variants", (200, 0, 60), 4, 3, 64, dtype="fp16", heads_at_once=2, **every),
        Case(
            "many heads, fixed splits", (200, 0, 60), 4, 3, 64, dtype="fp16", heads_at_once=2, split_tokens=32
        ),
    ]
