"""The floor of a measurement: the same bytes through the same block table, and no attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from pagefault.attention import backend as backends
from pagefault.attention import validate
from pagefault.attention.choose import next_power_of_2
from pagefault.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from pagefault.attention.views import PagedView

FLOOR_TOKENS = (4, 8, 16)
"""Tokens a program reads; 16-byte loads either way. A measurement takes the fastest of these."""


def read_floor(view: PagedView, checksums: Tensor, tokens: int) -> None:
    """Reads every valid K and V byte of a batch once and stores checksums, so that no load is left out.

    Args:
        view: What a decode of the same case would read.
        checksums: int32, one an executed program: at least `floor_programs(view, tokens)` values.
        tokens: Tokens a program reads; a power of two.

    Raises:
        InputError: The view is wrong or not on a GPU, there are too few checksums, or `tokens` is no power of two.
    """
    validate.check_paged(view)
    device = view.k.device
    backends.pick(view.k, "triton")
    validate.check_tensor("checksums", checksums, ("programs",), (torch.int32,), device)
    if checksums.numel() < floor_programs(view, tokens):
        raise InputError(
            f"checksums: expected at least {floor_programs(view, tokens)} values, given {checksums.numel()}"
        )
    size = view.k.element_size()
    words = view.k.view(torch.int32), view.v.view(torch.int32)
    block, token, head = (stride * size // 4 for stride in view.k.stride()[:3])
    kv_heads, head_words = int(view.k.shape[2]), int(view.k.shape[3]) * size // 4
    total = next_power_of_2(tokens * kv_heads * head_words)
    with backends.current(device):
        backends.kernel_module("floor").read_floor[(_chunks(view, tokens), view.lengths.shape[0])](
            words[0], words[1], view.block_table, view.lengths, checksums,
            view.block_table.stride(0), block, token, head,
            KV_HEADS=kv_heads, HEAD_WORDS=head_words, HEADS_FIRST=head > token, BLOCK=view.block_size,
            TOKENS=tokens, WORDS_P2=total, num_warps=max(1, min(8, total // 512)),
        )  # fmt: skip


def floor_programs(view: PagedView, tokens: int) -> int:
    """How many checksums a call of `read_floor` stores at most.

    Raises:
        InputError: `tokens` is no power of two.
    """
    if tokens < 1 or tokens & (tokens - 1):
        raise InputError(f"tokens: expected a power of two, given {tokens}")
    return _chunks(view, tokens) * int(view.lengths.shape[0])


def _chunks(view: PagedView, tokens: int) -> int:
    return -(-int(view.block_table.shape[1]) * view.block_size // tokens)
