"""What FlashInfer is given, read as its documents say, is the same attention."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

# ruff: noqa: E402  # what follows needs PyTorch
import itertools

from benchmarks import flashinfer_rival
from benchmarks.attention import oracle
from benchmarks.cases import Case, make_inputs
from benchmarks.prefill import Prefill, error
from benchmarks.rivals import Unsuitable


class Wrapper:
    """A FlashInfer wrapper by the names and the meaning in its documents (0.6), page by page on the CPU."""

    def __init__(self, scratch: Any, layout: str, buffers: tuple[Any, ...]) -> None:
        assert scratch.dtype == torch.uint8
        assert not scratch.any()
        self.layout, self.buffers = layout, buffers
        self._backend = "fa2"

    def plan_pages(self, pages: tuple[Any, ...], heads: int, kv: int, size: int) -> None:
        assert all(part.dtype == torch.int32 for part in (*pages, *self.buffers))
        assert all(len(part) <= len(buffer) for part, buffer in zip(pages, self.buffers, strict=True))
        self.pages, self.size, self.group = pages, size, heads // kv

    def check(self, q: Any, pool: Any, dtypes: tuple[Any, Any]) -> None:
        assert dtypes == (q.dtype, pool[0].dtype)

    def attend(self, q: Any, pool: Any, row: int) -> Any:
        indptr, indices, last = self.pages
        pages = indices[indptr[row] : indptr[row + 1]].long()
        parts = [part[pages] if self.layout == "NHD" else part[pages].transpose(1, 2) for part in pool]
        tokens = (len(pages) - 1) * self.size + int(last[row])
        k, v = (part.flatten(0, 1)[:tokens].double().repeat_interleave(self.group, 1) for part in parts)
        logits = torch.einsum("nhd,thd->hnt", q.double(), k) / q.shape[-1] ** 0.5
        future = torch.ones(logits.shape[1:], dtype=torch.bool).triu(1 + len(k) - len(q))
        weights = logits.masked_fill(future, float("-inf")).softmax(-1)
        return torch.einsum("hnt,thd->nhd", weights, v).to(q.dtype)


class Decode(Wrapper):
    def __init__(
        self, float_workspace_buffer: Any, kv_layout: str, *, use_cuda_graph: bool, use_tensor_cores: bool,
        paged_kv_indptr_buffer: Any, paged_kv_indices_buffer: Any, paged_kv_last_page_len_buffer: Any,
    ) -> None:  # fmt: skip
        assert use_cuda_graph
        assert use_tensor_cores
        buffers = paged_kv_indptr_buffer, paged_kv_indices_buffer, paged_kv_last_page_len_buffer
        super().__init__(float_workspace_buffer, kv_layout, buffers)

    def plan(
        self, indptr: Any, indices: Any, last_page_len: Any, num_qo_heads: int, num_kv_heads: int, head_dim: int,
        page_size: int, *, q_data_type: Any, kv_data_type: Any,
    ) -> None:  # fmt: skip
        self.dtypes, self.head_dim = (q_data_type, kv_data_type), head_dim
        self.plan_pages((indptr, indices, last_page_len), num_qo_heads, num_kv_heads, page_size)

    def run(self, q: Any, paged_kv_cache: Any, *, out: Any) -> Any:
        self.check(q, paged_kv_cache, self.dtypes)
        return out.copy_(
            torch.cat([self.attend(q[row : row + 1], paged_kv_cache, row) for row in range(len(q))])
        )


class Chunks(Wrapper):
    def __init__(
        self, float_workspace_buffer: Any, kv_layout: str, *, use_cuda_graph: bool, qo_indptr_buf: Any,
        paged_kv_indptr_buf: Any, paged_kv_indices_buf: Any, paged_kv_last_page_len_buf: Any,
    ) -> None:  # fmt: skip
        assert use_cuda_graph
        buffers = qo_indptr_buf, paged_kv_indptr_buf, paged_kv_indices_buf, paged_kv_last_page_len_buf
        super().__init__(float_workspace_buffer, kv_layout, buffers[1:])
        self.offsets = qo_indptr_buf

    def plan(
        self, qo_indptr: Any, paged_kv_indptr: Any, paged_kv_indices: Any, paged_kv_last_page_len: Any,
        num_qo_heads: int, num_kv_heads: int, head_dim_qk: int, page_size: int, *, causal: bool, q_data_type: Any,
        kv_data_type: Any,
    ) -> None:  # fmt: skip
        assert causal
        assert torch.equal(qo_indptr, self.offsets)
        self.dtypes, self.head_dim = (q_data_type, kv_data_type), head_dim_qk
        pages = paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len
        self.plan_pages(pages, num_qo_heads, num_kv_heads, page_size)

    def run(self, q: Any, paged_kv_cache: Any, *, out: Any) -> Any:
        self.check(q, paged_kv_cache, self.dtypes)
        offsets = self.offsets.tolist()
        for row, (start, stop) in enumerate(itertools.pairwise(offsets)):
            out[start:stop] = self.attend(q[start:stop], paged_kv_cache, row)
        return out


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = SimpleNamespace(
        BatchDecodeWithPagedKVCacheWrapper=Decode, BatchPrefillWithPagedKVCacheWrapper=Chunks, __version__="0"
    )
    monkeypatch.setattr(flashinfer_rival, "_library", lambda: fake)
    monkeypatch.setattr(flashinfer_rival, "SCRATCH_BYTES", 16)
    monkeypatch.setattr("benchmarks.cases.ROTATE_BYTES", 1)


@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
def test_decode(dtype: str) -> None:
    case = Case("small", (40, 16, 1, 33), heads=8, kv_heads=2, head_dim=64, dtype=dtype)
    inputs = make_inputs(case, "cpu")
    right = oracle(case, inputs[0])
    rival = flashinfer_rival.decode(case, inputs, [])
    out = rival.calls[0]().double()
    assert rival.note.endswith("kernels: fa2")
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
