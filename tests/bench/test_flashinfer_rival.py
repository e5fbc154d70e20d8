"""What FlashInfer is given, read as its documents say, is the same attention."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

# ruff: noqa: E402  # what follows needs PyTorch
from benchmarks import flashinfer_rival
from benchmarks.attention import oracle
from benchmarks.cases import Case, make_inputs
from benchmarks.prefill import Prefill, error
from benchmarks.rivals import Unsuitable


class Wrapper:
    """Its wrappers' arguments, by the names and the meaning in its documents."""

    indptr: Any
    indices: Any
    last: Any
    size: int
    group: int

    def __init__(self, scratch: Any, layout: str, **buffers: Any) -> None:
        assert scratch is None
        assert buffers.pop("use_cuda_graph")
        self.layout = layout

    def keys_and_values(self, pool: Any, row: int) -> list[Any]:
        pages = self.indices[self.indptr[row] : self.indptr[row + 1]].long()
        parts = [part[pages] if self.layout == "NHD" else part[pages].transpose(1, 2) for part in pool]
        tokens = (len(pages) - 1) * self.size + int(self.last[row])
        return [part.flatten(0, 1)[:tokens].double() for part in parts]

    def attend(self, q: Any, pool: Any, row: int) -> Any:
        k, v = (part.repeat_interleave(self.group, 1) for part in self.keys_and_values(pool, row))
        logits = torch.einsum("nhd,thd->hnt", q.double(), k) / q.shape[-1] ** 0.5
        future = torch.ones(logits.shape[1:], dtype=torch.bool).triu(1 + len(k) - len(q))
        weights = logits.masked_fill(future, float("-inf")).softmax(-1)
        return torch.einsum("hnt,thd->nhd", weights, v).to(q.dtype)


class Decode(Wrapper):
    def plan(
        self, indptr: Any, indices: Any, last: Any, heads: int, kv: int, dim: int, size: int, **more: Any
    ) -> None:
        self.indptr, self.indices, self.last, self.size, self.group = indptr, indices, last, size, heads // kv

    def run(self, q: Any, pool: Any, out: Any) -> Any:
        return out.copy_(torch.cat([self.attend(q[row : row + 1], pool, row) for row in range(len(q))]))


class Chunks(Decode):
    def plan(self, offsets: Any, *pages: Any, causal: bool, **more: Any) -> None:  # type: ignore[override]
        assert causal
        self.offsets = offsets.tolist()
        super().plan(*pages, **more)

    def run(self, q: Any, pool: Any, out: Any) -> Any:
        for row, (start, stop) in enumerate(zip(self.offsets, self.offsets[1:], strict=False)):
            out[start:stop] = self.attend(q[start:stop], pool, row)
        return out


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = SimpleNamespace(
        BatchDecodeWithPagedKVCacheWrapper=lambda *args, use_tensor_cores, **more: Decode(*args, **more),
        BatchPrefillWithPagedKVCacheWrapper=Chunks,
        __version__="0",
    )
    monkeypatch.setattr(flashinfer_rival, "_library", lambda: fake)
    monkeypatch.setattr(flashinfer_rival, "_scratch", lambda: None)
    monkeypatch.setattr("benchmarks.cases.ROTATE_BYTES", 1)


@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
def test_decode(dtype: str) -> None:
    case = Case("small", (40, 16, 1, 33), heads=8, kv_heads=2, head_dim=64, dtype=dtype)
    inputs = make_inputs(case, "cpu")
    right = oracle(case, inputs[0])
    out = flashinfer_rival.decode(case, inputs, []).calls[0]().double()
    assert (out - right).norm() < 1e-2 * right.norm()


def test_prefill() -> None:
    case = Prefill("small", 3, 50, 18, heads=4, kv_heads=2, head_dim=64)
    inputs = make_inputs(case.case, "cpu")[:1]
    q = torch.randn(54, 4, 64, generator=torch.Generator().manual_seed(1)).bfloat16()
    out = flashinfer_rival.prefill(case, inputs, [q]).calls[0]()
    assert error(case, out, q, inputs[0]) < 1e-2


def test_without_it_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "flashinfer", None)
    with pytest.raises(Unsuitable, match="cannot be imported"):
        flashinfer_rival.decode(Case("small", (40,)), [], [])
