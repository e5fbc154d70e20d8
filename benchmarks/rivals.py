"""Other people's attention on the same tensors: adapters, each a function from inputs to calls.

A rival that cannot take a case, or is not installed, is named and left out; one that is wrong is not timed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import BlockMask, flex_attention

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
        calls: One a set; each returns what its benchmark checks: ``[queries, heads, head_dim]``.
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
        partial(contiguous_decode, one.q, copy, out=torch.full_like(one.q, math.nan), workspace=workspace)
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


FLEX_PAGE = 128  # tokens: its kernels take no smaller block


@cache
def compiled_flex_attention() -> Callable[..., torch.Tensor]:
    """FlexAttention, which is slow and large unless it is compiled."""
    return torch.compile(flex_attention, dynamic=False)


def flex(case: Case, inputs: list[Inputs], copies: list[ContiguousKV]) -> Rival:
    """PyTorch's FlexAttention through a page table: a block mask whose indices are frames, as its PagedAttention makes.

    K and V lie in pools of their own, in frames of 128 tokens, shuffled.
    """
    tokens = case.lengths[0]
    if case.dtype == "fp8" or tokens % FLEX_PAGE:
        raise Unsuitable(f"takes 16-bit K and V, and here lengths of whole pages of {FLEX_PAGE}")
    attend: Any = compiled_flex_attention() if inputs[0].q.is_cuda else flex_attention
    calls: list[Call] = []
    for number, (one, copy) in enumerate(zip(inputs, copies, strict=True)):
        batch, device = len(one.q), one.q.device
        pages = tokens // FLEX_PAGE
        generator = torch.Generator(device).manual_seed(number)
        order = torch.randperm(batch * pages, generator=generator, device=device)
        owners = torch.arange(batch, device=device).repeat_interleave(pages)
        pools = []
        for part in (copy.k, copy.v):
            pool = torch.empty_like(part).view(batch * pages, FLEX_PAGE, case.kv_heads, case.head_dim)
            pool[order] = part.view(pool.shape)
            pools.append(pool.flatten(0, 1).transpose(0, 1)[None])  # [1, kv_heads, pool tokens, head_dim]
        indices = torch.zeros(batch, 1, 1, batch * pages, dtype=torch.int32, device=device)
        indices[:, 0, 0, :pages] = order.view(batch, pages)
        none = torch.zeros(batch, 1, 1, dtype=torch.int32, device=device)
        owns = partial(_owns, torch.empty_like(order).scatter_(0, order, owners))
        mask = BlockMask.from_kv_blocks(
            none, torch.zeros_like(indices), none + pages, indices, BLOCK_SIZE=(FLEX_PAGE, FLEX_PAGE), mask_mod=owns,
            seq_lengths=(1, batch * tokens),
        )  # fmt: skip
        k, v = pools
        calls.append(partial(_flex_call, attend, one.q, k, v, mask))
    return Rival("flex attention", torch.__version__, calls, f"pages of {FLEX_PAGE}; the mask is made before")


def _owns(
    owners: torch.Tensor,
    batch: torch.Tensor,
    head: torch.Tensor,  # noqa: ARG001
    q: torch.Tensor,  # noqa: ARG001
    kv: torch.Tensor,
) -> torch.Tensor:
    """What the list of full blocks says already, for when it is not compiled."""
    return owners[kv // FLEX_PAGE] == batch


def _flex_call(
    attend: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: BlockMask
) -> torch.Tensor:
    out: torch.Tensor = attend(q[:, :, None], k, v, block_mask=mask, enable_gqa=q.shape[1] != k.shape[1])
    return out[:, :, 0]
