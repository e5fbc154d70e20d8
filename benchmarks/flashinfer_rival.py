"""FlashInfer on the same frames, decode and prefill: its host plan is made before and not timed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from benchmarks.rivals import Rival, Unsuitable

if TYPE_CHECKING:
    from benchmarks.cases import Case, Inputs
    from benchmarks.prefill import Prefill
    from benchmarks.rivals import Call
    from pagefault.attention import ContiguousKV

NAME = "flashinfer"
NOTE = "planned on the host for CUDA graphs, which is not timed; kernels: {}"
SCRATCH_BYTES = 256 * 2**20


def decode(case: Case, inputs: list[Inputs], copies: list[ContiguousKV]) -> Rival:  # noqa: ARG001
    """Its batch decode with tensor cores."""
    library = _library()
    calls: list[Call] = []
    kernels = ""
    for one in inputs:
        pages = _Pages.of(case, one)
        wrapper: Any = library.BatchDecodeWithPagedKVCacheWrapper(
            _scratch(one), pages.layout, use_cuda_graph=True, use_tensor_cores=True,
            paged_kv_indptr_buffer=pages.indptr, paged_kv_indices_buffer=pages.indices,
            paged_kv_last_page_len_buffer=pages.last,
        )  # fmt: skip
        wrapper.plan(
            pages.indptr, pages.indices, pages.last, case.heads, case.kv_heads, case.head_dim, case.block_size,
            q_data_type=one.q.dtype, kv_data_type=one.view.k.dtype,
        )  # fmt: skip
        kernels = str(wrapper._backend)  # which of its own "auto" has chosen
        calls.append(partial(wrapper.run, one.q, pages.pool, out=torch.full_like(one.q, math.nan)))
    return Rival(NAME, library.__version__, calls, NOTE.format(kernels))


def prefill(case: Prefill, inputs: list[Inputs], queries: list[torch.Tensor]) -> Rival:
    """Its batch prefill, by the backend that it chooses itself."""
    library = _library()
    offsets = torch.arange(case.batch + 1, dtype=torch.int32, device=queries[0].device) * case.chunk
    calls: list[Call] = []
    kernels = ""
    for one, q in zip(inputs, queries, strict=True):
        pages = _Pages.of(case.case, one)
        wrapper: Any = library.BatchPrefillWithPagedKVCacheWrapper(
            _scratch(one), pages.layout, use_cuda_graph=True, qo_indptr_buf=offsets,
            paged_kv_indptr_buf=pages.indptr, paged_kv_indices_buf=pages.indices,
            paged_kv_last_page_len_buf=pages.last,
        )  # fmt: skip
        wrapper.plan(
            offsets, pages.indptr, pages.indices, pages.last, case.heads, case.kv_heads, case.head_dim,
            case.case.block_size, causal=True, q_data_type=q.dtype, kv_data_type=one.view.k.dtype,
        )  # fmt: skip
        kernels = str(wrapper._backend)
        calls.append(partial(wrapper.run, q, pages.pool, out=torch.full_like(q, math.nan)))
    return Rival(NAME, library.__version__, calls, NOTE.format(kernels))


@dataclass(frozen=True)
class _Pages:
    """A view as FlashInfer wants it: the frames of all sequences one after another, and the pool's layout."""

    indptr: torch.Tensor
    indices: torch.Tensor
    last: torch.Tensor
    pool: tuple[torch.Tensor, torch.Tensor]
    layout: str

    @classmethod
    def of(cls, case: Case, one: Inputs) -> _Pages:
        view, size = one.view, case.block_size
        device = view.k.device
        counts = [-(-tokens // size) for tokens in case.lengths]
        ends = torch.tensor([0, *counts]).cumsum(0).to(device, torch.int32)
        indices = torch.cat([view.block_table[row, :count] for row, count in enumerate(counts)])
        last = torch.tensor([(tokens - 1) % size + 1 for tokens in case.lengths]).to(device, torch.int32)
        if view.k.stride(2) > view.k.stride(1):
            return cls(ends, indices, last, (view.k.transpose(1, 2), view.v.transpose(1, 2)), "HND")
        return cls(ends, indices, last, (view.k, view.v), "NHD")


def _library() -> Any:
    try:
        import flashinfer
    except ImportError as error:
        raise Unsuitable(f"cannot be imported ({error})") from error
    return flashinfer


def _scratch(one: Inputs) -> torch.Tensor:
    return torch.zeros(SCRATCH_BYTES, dtype=torch.uint8, device=one.q.device)
