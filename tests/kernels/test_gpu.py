"""The kernels on a real GPU: every variant against the oracle, graph replays, ragged batches at random."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
if not torch.cuda.is_available():
    pytest.skip("needs a CUDA GPU", allow_module_level=True)

# ruff: noqa: E402  # what follows needs a GPU machine
from kernels import prefill_cases
from kernels.decode_cases import Case, interpreter_cases, judge, random_case, tensors, worst_row
from kernels.frame_cases import FRAME_CHECKS
from kernels.prefill_cases import PrefillCase
from kernels.schedule_cases import SCHEDULE_CHECKS
from pagefault.attention import DecodeWorkspace, PagedKV, append, paged_decode, paged_prefill

pytestmark = pytest.mark.gpu


def gpu_cases() -> list[Case]:
    every: dict[str, Any] = {"alibi": True, "sinks": True, "options": {"window": 1000, "softcap": 4.0}}
    cases = interpreter_cases()
    cases += [
        replace(case, name=case.name + ", bf16", dtype="bf16") for case in cases if case.dtype == "fp16"
    ]
    long = (3001, 0, 17, 1024, 5000)
    cases += [
        Case(f"{heads}x{group} of {dim} in {dtype}, block {size}", long, heads, group, dim, size, dtype)
        for heads, group, dim, size, dtype in (
            (8, 4, 128, 16, "bf16"),
            (8, 4, 128, 1, "fp16"),
            (32, 1, 128, 256, "bf16"),
            (1, 8, 128, 16, "bf16"),
            (3, 3, 64, 16, "fp16"),
            (2, 5, 80, 32, "bf16"),
            (4, 7, 96, 8, "fp16"),
            (4, 6, 256, 16, "bf16"),
            (2, 16, 512, 16, "bf16"),
            (8, 1, 64, 64, "fp32"),
            (2, 4, 256, 2, "fp32"),
            (1, 32, 64, 16, "bf16"),
            (1, 71, 64, 16, "fp16"),
        )
    ]
    cases += [
        Case("fp8", long, 8, 4, 128, 16, "fp8"),
        Case("fp8, heads first", long, 8, 4, 128, 16, "fp8", heads_first=True),
        Case("fp8, head dim 80, block 1", long, 2, 5, 80, 1, "fp8"),
        Case("fp8, variants", long, 4, 7, 64, 16, "fp8", **every),
        Case("fp8, fixed splits", long, 4, 8, 128, 16, "fp8", split_tokens=512),
        Case("large, bf16", (4096,) * 64, 8, 4, 128, 16, "bf16"),
        Case("large, variants", (4000,) * 64, 8, 4, 128, 16, "bf16", **every),
        Case("peaky", long, 8, 4, 128, 16, "bf16", peak=20.0),
    ]
    return cases


@pytest.mark.parametrize("case", gpu_cases(), ids=lambda case: case.name)
def test_decode_is_within_its_error_budget(case: Case) -> None:
    judged = judge(case, "cuda", "triton")
    assert judged.error <= judged.budget
    assert judged.lse_error <= (2e-3 if case.peak > 1 else 5e-5)
    assert judged.empty_rows_are_zero


def gpu_prefill_cases() -> list[PrefillCase]:
    every: dict[str, Any] = {"alibi": True, "sinks": True, "options": {"window": 700, "softcap": 4.0}}
    cases = prefill_cases.interpreter_cases()
    cases += [
        replace(case, name=case.name + ", bf16", dtype="bf16") for case in cases if case.dtype == "fp16"
    ]
    lengths, chunks = (3001, 0, 17, 1024, 2500), (700, 0, 17, 1, 300)
    cases += [
        PrefillCase(
            f"{heads}x{group} of {dim} in {dtype}, block {size}",
            lengths,
            chunks,
            heads,
            group,
            dim,
            size,
            dtype,
        )
        for heads, group, dim, size, dtype in (
            (8, 4, 128, 16, "bf16"),
            (8, 4, 128, 1, "fp16"),
            (8, 4, 128, 8, "bf16"),
            (8, 4, 128, 128, "bf16"),
            (2, 16, 64, 32, "bf16"),
            (1, 64, 128, 16, "fp16"),
            (4, 1, 128, 256, "bf16"),
            (1, 8, 128, 64, "bf16"),
            (2, 5, 80, 32, "bf16"),
            (2, 16, 256, 16, "bf16"),
            (2, 7, 512, 16, "fp16"),
            (2, 4, 64, 16, "fp32"),
        )
    ]
    cases += [
        PrefillCase("fp8", lengths, chunks, 8, 4, 128, 16, "fp8"),
        PrefillCase(
            "fp8, heads first, variants", lengths, chunks, 2, 6, 64, 16, "fp8", heads_first=True, **every
        ),
        PrefillCase("variants, bf16", lengths, chunks, 8, 4, 128, 16, "bf16", **every),
        PrefillCase("peaky, bf16", lengths, chunks, 8, 4, 128, 16, "bf16", peak=20.0),
        PrefillCase("heads first, bf16", lengths, chunks, 8, 4, 128, 16, "bf16", heads_first=True),
        PrefillCase("window, bf16", lengths, chunks, 8, 4, 128, 16, "bf16", options={"window": 300}),
        PrefillCase("narrow window, fp16", lengths, chunks, 8, 4, 64, 16, "fp16", options={"window": 5}),
    ]
    return cases


@pytest.mark.parametrize("case", gpu_prefill_cases(), ids=lambda case: case.name)
def test_prefill_is_within_its_error_budget(case: PrefillCase) -> None:
    judged = prefill_cases.judge(case, "cuda", "triton")
    assert judged.error <= judged.budget
    assert judged.lse_error <= (2e-3 if case.peak > 1 else 5e-5)
    assert judged.unused_rows_are_left


@pytest.mark.parametrize("block_size", [1, 16, 64])
@pytest.mark.parametrize("chunk", [1, 40])
def test_what_was_never_written_does_not_matter(block_size: int, chunk: int) -> None:
    """Slots that no token has are whatever memory held before: NaN here."""
    lengths = (601, 300, 17)
    case = PrefillCase("nan", lengths, tuple(min(chunk, n) for n in lengths), 8, 4, 128, block_size, "bf16")
    q, view, offsets = prefill_cases.tensors(case, "cuda")
    used = sum(case.chunks)
    clean = paged_prefill(q, view, offsets)[:used]
    slots = torch.arange(view.block_table.shape[1] * block_size, device="cuda")
    written = torch.zeros(view.k.shape[0] * block_size, dtype=torch.bool, device="cuda")
    for row, tokens in enumerate(lengths):
        frames = view.block_table[row, slots[:tokens] // block_size].long()
        written[frames * block_size + slots[:tokens] % block_size] = True
    for part in (view.k, view.v):
        part[~written.view(part.shape[:2])] = math.nan
    assert torch.equal(paged_prefill(q, view, offsets)[:used], clean)
    if chunk == 1:
        decoded = paged_decode(q[:used], view)
        assert (decoded.float() - clean.float()).norm() <= 6e-3 * clean.float().norm()


def test_a_captured_prefill_follows_lengths_offsets_and_tables() -> None:
    case = PrefillCase("graph", (600, 300, 900), (40, 300, 1), 8, 4, 128, 16, "bf16")
    q, view, offsets = prefill_cases.tensors(case, "cuda")
    out = torch.empty_like(q)
    paged_prefill(q, view, offsets, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        paged_prefill(q, view, offsets, out=out)
    for lengths, chunks in (
        ((600, 300, 900), (300, 40, 1)),
        ((17, 300, 2), (17, 0, 2)),
        ((599, 1, 64), (0, 1, 64)),
    ):
        view.lengths.copy_(torch.tensor(lengths, dtype=torch.int32))
        offsets.copy_(torch.tensor([0, *itertools.accumulate(chunks)], dtype=torch.int32))
        out.fill_(math.nan)
        graph.replay()
        used = sum(chunks)
        expected = paged_prefill(q, view, offsets, backend="torch").float()[:used]
        assert (out[:used].float() - expected).norm() <= 6e-3 * expected.norm()
        assert out[used:].isnan().all()


@pytest.mark.parametrize("name", [*FRAME_CHECKS, *SCHEDULE_CHECKS])
def test_moving_and_cutting_is_exact(name: str) -> None:
    assert {**FRAME_CHECKS, **SCHEDULE_CHECKS}[name]("cuda") == ""


def workspace_for(case: Case) -> DecodeWorkspace:
    heads = case.kv_heads * case.group
    return DecodeWorkspace.for_decode(
        heads=heads, kv_heads=case.kv_heads, head_dim=case.head_dim, device="cuda"
    )


def test_a_captured_graph_follows_growing_lengths_and_changing_tables() -> None:
    case = Case("graph", (3000, 0, 500, 3000), 8, 4, 128, 16, "bf16")
    q, view = tensors(case, "cuda")
    assert isinstance(view, PagedKV)
    generator = torch.Generator("cuda").manual_seed(5)
    table = torch.randperm(view.k.shape[0], generator=generator, device="cuda")[: view.block_table.numel()]
    view.block_table.copy_(table.reshape(view.block_table.shape))
    view.lengths.copy_(torch.tensor([1, 0, 500, 2040], dtype=torch.int32))
    new_k = torch.randn(4, 8, 128, generator=generator, device="cuda").to(q.dtype)
    slots = torch.full((4,), -1, device="cuda")
    out, lse = torch.empty_like(q), torch.empty(q.shape[:2], device="cuda")
    workspace = DecodeWorkspace.for_decode(
        heads=q.shape[1], kv_heads=case.kv_heads, head_dim=case.head_dim, device="cuda"
    )

    def step() -> None:
        append(new_k, new_k, slots, view)
        paged_decode(q, view, out=out, lse=lse, workspace=workspace)

    step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    rows = torch.arange(4, device="cuda")
    for turn in range(40):
        growth = torch.tensor([1 + 5 * (turn % 2), turn % 3, 17, 1], dtype=torch.int32, device="cuda")
        view.lengths.add_(growth)
        last = (view.lengths - 1).clamp(min=0).long()
        slots.copy_(view.block_table[rows, last // 16].long() * 16 + last % 16)
        slots.masked_fill_(view.lengths == 0, -1)
        if turn % 7 == 0:  # sequences change places
            view.block_table.copy_(view.block_table.flip(0))
            view.lengths.copy_(view.lengths.flip(0))
            slots.fill_(-1)
        q.normal_(generator=generator)
        new_k.normal_(generator=generator)
        out.fill_(math.nan)
        graph.replay()
        expected_lse = torch.empty_like(lse)
        expected = paged_decode(q, view, lse=expected_lse, backend="torch").float()
        assert (out.float() - expected).norm() <= 5e-3 * expected.norm()
        torch.testing.assert_close(lse, expected_lse, atol=1e-3, rtol=1e-5)
        again = out.clone()
        graph.replay()
        assert torch.equal(again, out), "the same inputs gave different bits"


def test_fixed_splits_do_not_depend_on_the_batch() -> None:
    case = Case("batch", (3000, 700, 1800), 8, 4, 128, 16, "bf16")
    q, view = tensors(case, "cuda")
    assert isinstance(view, PagedKV)
    together = paged_decode(q, view, split_tokens=256)
    for row in range(3):
        rows = slice(row, row + 1)
        alone = PagedKV(view.k, view.v, view.block_table[rows], view.lengths[rows])
        assert torch.equal(paged_decode(q[rows], alone, split_tokens=256), together[rows])


# Of a row: the rounding of the weights and of the output, half a unit in the last place each at worst.
LIMITS = {"fp32": 4e-6, "fp16": 1e-3, "bf16": 6e-3, "fp8": 6e-3}


@pytest.mark.parametrize("seed", range(40))
def test_ragged_batches_at_random(seed: int) -> None:
    """A shape of kernel a seed, 25 batches of random lengths each: a thousand in all."""
    rng = random.Random(seed)
    case = random_case(seed)
    batch, most = len(case.lengths), max(case.lengths)
    q, view = tensors(case, "cuda", seed)
    assert isinstance(view, PagedKV)
    out = torch.empty_like(q)
    lse, expected_lse = torch.empty(2, *q.shape[:2], device="cuda")
    workspace = workspace_for(case)
    for _ in range(25):
        longest = rng.choice([1, 40, most // 2, most])
        lengths = [rng.choice([0, 1, rng.randint(0, longest), longest]) for _ in range(batch)]
        view.lengths.copy_(torch.tensor(lengths, dtype=torch.int32))
        out.fill_(math.nan)
        paged_decode(q, view, out=out, lse=lse, workspace=workspace)
        expected = paged_decode(q, view, lse=expected_lse, backend="torch")
        assert worst_row(out, expected) <= LIMITS[case.dtype], lengths
        torch.testing.assert_close(lse, expected_lse, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("seed", range(20))
def test_ragged_chunks_at_random(seed: int) -> None:
    """A shape of kernel a seed, 10 batches of random lengths and chunks each."""
    rng = random.Random(100 + seed)
    dtype = rng.choice(list(LIMITS))
    kv_heads, group = rng.choice([(1, 1), (1, 8), (2, 5), (8, 4), (4, 7), (8, 1), (3, 3)])
    case = PrefillCase(
        "random", (2000,) * 6, (400,) * 6, kv_heads, group,
        rng.choice([64, 80, 128]), 2 ** rng.randint(0, 8), dtype, heads_first=rng.random() < 0.3,
    )  # fmt: skip
    q, view, offsets = prefill_cases.tensors(case, "cuda", seed)
    out = torch.empty_like(q)
    lse, expected_lse = torch.empty(2, *q.shape[:2], device="cuda")
    for _ in range(10):
        lengths = [rng.choice([0, 1, rng.randint(0, 2000), 2000]) for _ in range(6)]
        chunks = [rng.choice([0, min(1, n), rng.randint(0, min(n, 400)), min(n, 400)]) for n in lengths]
        used = sum(chunks)
        if not used:
            continue
        view.lengths.copy_(torch.tensor(lengths, dtype=torch.int32))
        offsets.copy_(torch.tensor([0, *itertools.accumulate(chunks)], dtype=torch.int32))
        out.fill_(math.nan)
        paged_prefill(q, view, offsets, out=out, lse=lse)
        expected = paged_prefill(q, view, offsets, lse=expected_lse, backend="torch")
        assert worst_row(out[:used], expected[:used]) <= LIMITS[dtype], (lengths, chunks)
        torch.testing.assert_close(lse[:used], expected_lse[:used], atol=1e-4, rtol=1e-5)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_kernels_run_where_the_tensors_are() -> None:
    case = Case("second GPU", (300, 20), 2, 4, 64, 16, "bf16")
    q, view = tensors(case, "cuda:1")
    assert isinstance(view, PagedKV)
    append(q[:, :2].contiguous(), q[:, :2].contiguous(), torch.tensor([0, 40], device="cuda:1"), view)
    assert worst_row(paged_decode(q, view), paged_decode(q, view, backend="torch")) <= LIMITS["bf16"]
    offsets = torch.tensor([0, 1, 2], dtype=torch.int32, device="cuda:1")
    assert (
        worst_row(paged_prefill(q, view, offsets), paged_decode(q, view, backend="torch")) <= LIMITS["bf16"]
    )
