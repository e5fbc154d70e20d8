"""What is wrong with a call is said by name, with what was expected and what was given; nothing is written."""

from __future__ import annotations

import math
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
import torch

from pagefault.attention import (
    ContiguousKV,
    DecodeWorkspace,
    PagedKV,
    append,
    choose_decode,
    contiguous_decode,
    copy_frames,
    gather_frames,
    paged_decode,
    paged_prefill,
    scatter_frames,
)
from pagefault.errors import InputError


def view(**changes: Any) -> PagedKV:
    pool = torch.randn(10, 2, 16, 2, 64)
    parts: dict[str, Any] = {
        "k": pool[:, 0],
        "v": pool[:, 1],
        "block_table": torch.zeros(3, 4, dtype=torch.int32),
        "lengths": torch.ones(3, dtype=torch.int32),
    }
    return PagedKV(**{**parts, **changes})


Q = torch.randn(3, 4, 64)
OFFSETS = torch.tensor([0, 1, 2, 3], dtype=torch.int32)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"k": torch.randn(10, 16, 64)},
            r"k: expected shape \[num_blocks, block_size, kv_heads, head_dim\], given",
        ),
        ({"k": torch.zeros(10, 16, 2, 64, dtype=torch.int32)}, "k: expected float32 or float16 or bfloat16"),
        ({"v": torch.randn(10, 16, 2, 32)}, r"v: expected shape \[10, 16, 2, 64\]"),
        ({"v": torch.randn(10, 16, 2, 64)}, "v: expected strides"),
        ({"k": torch.randn(10, 16, 64, 2).transpose(2, 3)}, "k: expected the last axis contiguous"),
        ({"lengths": torch.ones(3)}, "lengths: expected int32, given float32"),
        (
            {"block_table": torch.zeros(2, 4, dtype=torch.int32)},
            r"block_table: expected shape \[3, max_pages\]",
        ),
        ({"block_table": torch.zeros(3, 0, dtype=torch.int32)}, "at least one page"),
        ({"k_scale": torch.ones(1)}, "k_scale: expected None for float32"),
        ({"lengths": torch.ones(3, dtype=torch.int32, device="meta")}, "lengths: expected on cpu"),
    ],
)
def test_a_wrong_view(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        paged_decode(Q, view(**changes))
    with pytest.raises(InputError, match=message):
        paged_prefill(Q, view(**changes), OFFSETS)


def test_block_sizes_are_powers_of_two() -> None:
    pool = torch.randn(10, 2, 12, 2, 64)
    with pytest.raises(InputError, match="a power of two from 1 to 256, given 12"):
        paged_decode(Q, view(k=pool[:, 0], v=pool[:, 1]))


def test_fp8_needs_scales() -> None:
    pool = torch.zeros(10, 2, 16, 2, 64, dtype=torch.float8_e4m3fn)
    parts = {"k": pool[:, 0], "v": pool[:, 1]}
    with pytest.raises(
        InputError, match=r"k_scale: expected fp32 \[1\] or \[2\] for fp8 K and V, given None"
    ):
        paged_decode(Q.half(), view(**parts))
    one = torch.ones(1)
    with pytest.raises(InputError, match="q: expected float16 or bfloat16, given float32"):
        paged_decode(Q, view(**parts, k_scale=one, v_scale=one))
    with pytest.raises(InputError, match="v_scale: expected shape"):
        paged_decode(Q.half(), view(**parts, k_scale=one, v_scale=torch.ones(2)))


@pytest.mark.parametrize(
    ("q", "options", "message"),
    [
        (Q[:2], {}, r"q: expected shape \[3, heads, 64\], given \[2, 4, 64\]"),
        (Q[:, :3], {}, "a multiple of the 2 KV heads, given 3"),
        (Q.half(), {}, "q: expected float32, given float16"),
        (Q, {"out": torch.empty(3, 4, 32)}, r"out: expected shape \[3, 4, 64\]"),
        (Q, {"out": torch.empty(3, 4, 64).half()}, "out: expected float32"),
        (Q, {"lse": torch.empty(3, 4).double()}, "lse: expected float32"),
        (Q, {"window": 0}, "window: expected at least 1 token"),
        (Q, {"softcap": -1.0}, "softcap: expected a positive number"),
        (Q, {"scale": 0.0}, "scale: expected a positive number"),
        (Q, {"alibi_slopes": torch.ones(3)}, r"alibi_slopes: expected shape \[4\]"),
        (Q, {"sinks": torch.ones(4).half()}, "sinks: expected float32"),
        (Q, {"backend": "cuda"}, "backend: expected 'triton', 'torch' or None"),
    ],
)
def test_wrong_queries_and_options(q: torch.Tensor, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        paged_decode(q, view(), **options)
    if q.shape[0] == 3:
        with pytest.raises(InputError, match=message.replace("[3, heads", "[tokens, heads")):
            paged_prefill(q, view(), OFFSETS, **options)


def test_wrong_offsets() -> None:
    with pytest.raises(InputError, match=r"query_offsets: expected shape \[4\], given \[3\]"):
        paged_prefill(Q, view(), OFFSETS[:3])
    with pytest.raises(InputError, match="query_offsets: expected int32, given int64"):
        paged_prefill(Q, view(), OFFSETS.long())


def test_a_wrong_contiguous_view() -> None:
    k, v = torch.randn(2, 3, 20, 2, 64)
    with pytest.raises(InputError, match=r"lengths: expected shape \[3\]"):
        contiguous_decode(Q, ContiguousKV(k, v, torch.ones(2, dtype=torch.int32)))


def test_nothing_is_written_by_a_wrong_call() -> None:
    out = torch.full_like(Q, math.nan)
    with pytest.raises(InputError):
        paged_decode(Q, view(), out=out, window=-1)
    assert out.isnan().all()


def test_moving_frames() -> None:
    slots = torch.tensor([0, 1])
    new = torch.randn(2, 2, 64)
    with pytest.raises(InputError, match=r"k_new: expected shape \[tokens, 2, 64\]"):
        append(torch.randn(2, 3, 64), new, slots, view())
    with pytest.raises(InputError, match=r"slots: expected shape \[2\]"):
        append(new, new.clone(), slots[:1], view())
    pool, frames = torch.randn(6, 3, 8), torch.tensor([0, 2])
    with pytest.raises(InputError, match="pool: expected a contiguous tensor"):
        copy_frames(pool.transpose(1, 2), frames, frames + 1)
    with pytest.raises(InputError, match=r"target: expected shape \[2\]"):
        copy_frames(pool, frames, frames[:1])
    with pytest.raises(InputError, match="staging: expected room for 2 frames, given 1"):
        gather_frames(pool, frames, torch.empty(1, 3, 8))
    with pytest.raises(InputError, match="staging: expected float32"):
        scatter_frames(torch.empty(2, 3, 8).half(), frames, pool)


def test_fixed_splits_are_multiples_of_the_tile() -> None:
    with pytest.raises(InputError, match="split_tokens: expected a multiple of"):
        choose_decode(
            batch=1,
            heads=4,
            kv_heads=2,
            head_dim=64,
            max_tokens=64,
            kv_bytes=4,
            multiprocessors=3,
            split_tokens=33,
        )


def test_a_workspace_too_small_says_how_to_make_one() -> None:
    workspace = DecodeWorkspace("cpu", 2, 64)
    with pytest.raises(InputError, match=r"workspace: expected room for 100 rows of 64.*for_decode"):
        workspace.check(100, 64, torch.device("cpu"))
