"""Other people's attention on the same tensors: adapters, each a function from inputs to calls.

A rival that cannot take a case, or is not installed, is named and left out; one that is wrong is not timed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from pagefault.attention import ContiguousKV, DecodeWorkspace, contiguous_decode

if TYPE_CHECKING:
    from benchmarks.cases import Case, Inputs

Call = Callable[[], torch.Tensor]


@dataclass(frozen=True)
class Rival:
    """An implementation, ready to run on each of the disjoint input sets of a case.

    Attributes:
        name: As it stands in the rows.
        version: Of the library.
        calls: One a set; each returns ``[batch, heads, head_dim]``.
        note: What it is spared or given, if anything.
    """

    name: str
    version: str
    calls: list[Call]
    note: str = ""


class Unsuitable(Exception):
    """Why a rival does not take part."""


def contiguous_copies(case: Case, inputs: list[Inputs]) -> list[ContiguousKV]:
    """Each set's K and V gathered into ``[batch, tokens, kv_heads, head_dim]``, the layout without pages."""
    if not case.even:
        raise Unsuitable("needs sequences of one length")
    copies = []
    for one in inputs:
        view, tokens = one.view, case.lengths[0]
        pages = view.block_table[:, : -(-tokens // view.block_size)].long()
        k, v = (
            part[pages].flatten(1, 2)[:, :tokens].contiguous()  # [batch, pages, block, heads, dim]
            for part in (view.k, view.v)
        )
        copies.append(ContiguousKV(k, v, view.lengths, view.k_scale, view.v_scale))
    return copies


def ours_contiguous(case: Case, inputs: list[Inputs], copies: list[ContiguousKV]) -> Rival:
    """PageFault's own kernel without the page walk: what paging costs is the difference."""
    workspace = DecodeWorkspace.for_decode(
        heads=case.heads, kv_heads=case.kv_heads, head_dim=case.head_dim, device="cuda"
    )
    calls: list[Call] = [
        partial(contiguous_decode, one.q, copy, out=torch.empty_like(one.q), workspace=workspace)
        for one, copy in zip(inputs, copies, strict=True)
    ]
    return Rival("pagefault contiguous", "", calls, "no page walk")


def sdpa(
    backend: SDPBackend, name: str, case: Case, inputs: list[Inputs], copies: list[ContiguousKV]
) -> Rival:
    """PyTorch's SDPA on contiguous memory. A group of query heads stands as the queries of its KV head."""
    if case.dtype == "fp8":
        raise Unsuitable("takes no fp8 K and V")

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v).view(
                len(q), case.heads, case.head_dim
            )

    calls: list[Call] = []
    for one, copy in zip(inputs, copies, strict=True):
        q = one.q.view(len(one.q), case.kv_heads, case.heads // case.kv_heads, case.head_dim)
        calls.append(partial(call, q, copy.k.transpose(1, 2), copy.v.transpose(1, 2)))
    return Rival(name, torch.__version__, calls, "contiguous memory, no pages")


def flashinfer(case: Case, inputs: list[Inputs], copies: list[ContiguousKV]) -> Rival:  # noqa: ARG001
    """FlashInfer's batch decode with tensor cores; its host plan is made before and not timed."""
    try:
        import flashinfer as library
    except ImportError as error:
        raise Unsuitable("not installed") from error
    if case.dtype == "fp8":
        raise Unsuitable("its heads-first fp8 pool is not adapted")
    calls: list[Call] = []
    for one in inputs:
        view = one.view
        pages = [-(-tokens // case.block_size) for tokens in case.lengths]
        indptr = torch.tensor([0, *torch.tensor(pages).cumsum(0).tolist()], dtype=torch.int32, device="cuda")
        indices = torch.cat([view.block_table[row, :count] for row, count in enumerate(pages)])
        last = torch.tensor(
            [(n - 1) % case.block_size + 1 for n in case.lengths], dtype=torch.int32, device="cuda"
        )
        scratch = torch.empty(256 * 2**20, dtype=torch.uint8, device="cuda")
        wrapper: Any = library.BatchDecodeWithPagedKVCacheWrapper(
            scratch, "NHD", use_cuda_graph=True, use_tensor_cores=True, paged_kv_indptr_buffer=indptr,
            paged_kv_indices_buffer=indices, paged_kv_last_page_len_buffer=last,
        )  # fmt: skip
        wrapper.plan(
            indptr, indices, last, case.heads, case.kv_heads, case.head_dim, case.block_size,
            q_data_type=one.q.dtype, kv_data_type=view.k.dtype,
        )  # fmt: skip
        calls.append(partial(wrapper.run, one.q, (view.k, view.v), out=torch.empty_like(one.q)))
    return Rival("flashinfer", library.__version__, calls, "host plan not timed")


RIVALS: dict[str, Callable[[Case, list[Inputs], list[ContiguousKV]], Rival]] = {
    "pagefault contiguous": ours_contiguous,
    "sdpa flash": partial(sdpa, SDPBackend.FLASH_ATTENTION, "sdpa flash"),
    "sdpa cudnn": partial(sdpa, SDPBackend.CUDNN_ATTENTION, "sdpa cudnn"),
    "flashinfer": flashinfer,
}
