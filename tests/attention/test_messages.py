"""What is wrong with a call is said by name, with what was expected and what was given; nothing is written."""

from __future__ import annotations

import math
from dataclasses import replace
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
    choose_prefill,
    contiguous_decode,
    copy_frames,
    floor_programs,
    gather_frames,
    paged_decode,
    paged_prefill,
    read_floor,
    scatter_frames,
)
from pagefault.attention.validate import check_paged
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


@pytest.mark.parametrize("offsets", [[0, 2, 1, 3], [-1, 1, 2, 3], [1, 1, 2, 3], [0, 1, 2, 4]])
def test_offsets_rise_from_0_to_the_queries(offsets: list[int]) -> None:
    with pytest.raises(
        InputError, match="query_offsets: expected to rise from 0 to at most the 3 queries, given"
    ):
        paged_prefill(Q, view(), torch.tensor(offsets, dtype=torch.int32))


def test_every_result_has_a_place() -> None:
    with pytest.raises(InputError, match="out: expected a place for every value, given strides"):
        paged_decode(Q, view(), out=torch.empty(1, 4, 64).expand(3, -1, -1))


def test_block_sizes_are_powers_of_two() -> None:
    pool = torch.randn(10, 2, 12, 2, 64)
    with pytest.raises(InputError, match="a power of two from 1 to 256, given 12"):
        paged_decode(Q, view(k=pool[:, 0], v=pool[:, 1]))


def test_fp8_needs_scales() -> None:
    pool = torch.zeros(10, 2, 16, 2, 64, dtype=torch.float8_e4m3fn)
    parts = {"k": pool[:, 0], "v": pool[:, 1]}
    with pytest.raises(
        InputError, match=r"k_scale: expected a tensor, fp32 \[1\] or \[2\], for fp8 K and V, given None"
    ):
        paged_decode(Q.half(), view(**parts))
    one = torch.ones(1)
    with pytest.raises(InputError, match="q: expected float16 or bfloat16, given float32"):
        paged_decode(Q, view(**parts, k_scale=one, v_scale=one))
    with pytest.raises(InputError, match="v_scale: expected shape"):
        paged_decode(Q.half(), view(**parts, k_scale=one, v_scale=torch.ones(2)))
    with pytest.raises(InputError, match=r"k_scale: expected a tensor, fp32 .* given float"):
        paged_decode(Q.half(), view(**parts, k_scale=0.5, v_scale=0.5))
    spread = torch.ones(2, 2)[:, 0]
    with pytest.raises(InputError, match="k_scale: expected the last axis contiguous"):
        paged_decode(Q.half(), view(**parts, k_scale=spread, v_scale=spread))


@pytest.mark.parametrize(("width", "head_dim"), [(65, 65), (65, 64)])
def test_fp8_is_read_in_pairs(width: int, head_dim: int) -> None:
    pool = torch.zeros(10, 2, 16, 2, width, dtype=torch.float8_e4m3fn)[..., :head_dim]
    scales = {"k_scale": torch.ones(1), "v_scale": torch.ones(1)}
    with pytest.raises(InputError, match="k: expected an even head dim, strides and address for fp8"):
        paged_decode(torch.randn(3, 4, head_dim).half(), view(k=pool[:, 0], v=pool[:, 1], **scales))


@pytest.mark.parametrize("order", [(1, 2, 0, 3), (1, 0, 2, 3)])
def test_places_within_a_block_are_32_bit_numbers(order: tuple[int, ...]) -> None:
    """KV heads, or tokens, outermost in a pool so large that the kernels' sums would overflow."""
    outermost = (
        torch.empty(4, 2**23, 16, 64, device="meta")
        if order[2] == 0
        else torch.empty(16, 2**22, 4, 64, device="meta")
    )
    pool = outermost.permute(order)
    with pytest.raises(InputError, match=r"k: expected axes 1, 2 to stay within 2\^31 elements"):
        check_paged(view(k=pool, v=pool, lengths=torch.ones(3, dtype=torch.int32, device="meta")))


def test_a_view_must_fit_its_call() -> None:
    k, v = torch.randn(2, 3, 16, 2, 64)
    with pytest.raises(InputError, match=r"view: expected a paged view .*, given ContiguousKV"):
        paged_decode(Q, ContiguousKV(k, v, torch.ones(3, dtype=torch.int32)))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"k: expected a tensor .*, given NoneType"):
        paged_decode(Q, view(k=None))
    with pytest.raises(InputError, match="at least one KV head and one value a head"):
        paged_decode(Q, view(k=torch.zeros(10, 16, 0, 64), v=torch.zeros(10, 16, 0, 64)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lengths": torch.tensor([1, 65, 2], dtype=torch.int32)}, "expected 0 to 64 tokens, given 65 for sequence 1"),
        ({"lengths": torch.tensor([1, -17, 2], dtype=torch.int32)}, "expected 0 to 64 tokens, given -17"),
        ({"block_table": torch.full((3, 4), 10, dtype=torch.int32)}, "of sequence 0: expected 0 to 9, given 10"),
        ({"block_table": torch.full((3, 4), -1, dtype=torch.int32)}, "of sequence 0: expected 0 to 9, given -1"),
    ],
)  # fmt: skip
def test_pytorch_checks_what_the_kernels_cannot(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        paged_decode(Q, view(**changes))
    with pytest.raises(InputError, match=message):
        paged_prefill(Q, view(**changes), OFFSETS)


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
        (Q, {"window": 2.5}, "window: expected at least 1 token, a whole number, given 2.5"),
        (Q, {"softcap": -1.0}, "softcap: expected a positive number"),
        (Q, {"softcap": math.inf}, "softcap: expected a positive number, given inf"),
        (Q, {"scale": torch.tensor(0.5)}, "scale: expected a positive number"),
        (None, {}, r"q: expected a tensor \[.*heads, 64\], given NoneType"),
        (torch.randn(4), {"sinks": torch.ones(4)}, r"q: expected shape \[.*heads, 64\], given \[4\]"),
        (Q, {"scale": 0.0}, "scale: expected a positive number"),
        (Q, {"alibi_slopes": torch.ones(3)}, r"alibi_slopes: expected shape \[4\]"),
        (Q, {"sinks": torch.ones(4).half()}, "sinks: expected float32"),
        (Q, {"backend": "cuda"}, "backend: expected 'triton', 'torch' or None"),
    ],
)
def test_wrong_queries_and_options(q: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        paged_decode(q, view(), **options)
    if q is None or q.shape[0] != 2:
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
    with pytest.raises(InputError, match="slots: expected 0 to 159, given 160"):
        append(new, new.clone(), torch.tensor([-1, 160]), view())
    pool, frames = torch.randn(6, 3, 8), torch.tensor([0, 2])
    with pytest.raises(InputError, match="target frames: expected 0 to 5, given 6"):
        copy_frames(pool, frames, frames + 4)
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


@pytest.mark.parametrize("split_tokens", [7, 0, -16, 64.0, "x"])
def test_a_wrong_split_is_wrong_on_a_cpu_too(split_tokens: Any) -> None:
    with pytest.raises(InputError, match=r"split_tokens: expected a multiple of \d+ \(the tile\), given"):
        paged_decode(Q, view(), split_tokens=split_tokens)


def test_a_choice_must_suit_the_call() -> None:
    choice = choose_decode(
        batch=3, heads=4, kv_heads=2, head_dim=64, max_tokens=64, kv_bytes=4, multiprocessors=3
    )
    with pytest.raises(InputError, match="choice: expected without split_tokens"):
        paged_decode(Q, view(), choice=choice, split_tokens=64)
    with pytest.raises(InputError, match=r"heads at once that divide the 2 KV heads .*, given 3"):
        paged_decode(Q, view(), choice=replace(choice, kernel="heads", heads=3))
    with pytest.raises(InputError, match="two slots for each of 100 programs, given 6"):
        paged_decode(Q, view(), choice=replace(choice, programs=100))
    with pytest.raises(InputError, match="the kernel 'head' for fp8"):
        replace(choice, kernel="heads").check(kv_heads=2, kv_bytes=1)
    with pytest.raises(InputError, match="choice: expected a Choice, given str"):
        paged_decode(Q, view(), choice="heads")  # type: ignore[arg-type]


def test_a_wrong_shape_of_heads() -> None:
    shape: dict[str, Any] = {
        "batch": 1,
        "head_dim": 64,
        "max_tokens": 64,
        "kv_bytes": 4,
        "multiprocessors": 3,
    }
    with pytest.raises(InputError, match="heads: expected a multiple of the KV heads, given 33 and 8"):
        choose_decode(heads=33, kv_heads=8, **shape)
    with pytest.raises(InputError, match="kv_bytes: expected 1, 2 or 4, given 3"):
        choose_decode(heads=8, kv_heads=8, **{**shape, "kv_bytes": 3})
    with pytest.raises(InputError, match="max_tokens: expected at least 1, given -5"):
        choose_decode(heads=8, kv_heads=8, **{**shape, "max_tokens": -5})
    with pytest.raises(InputError, match="expected a group and a head dim of at least 1"):
        choose_prefill(group=0, head_dim=64, q_bytes=2, kv_bytes=2)


def test_the_floor_is_measured_on_a_gpu() -> None:
    with pytest.raises(InputError, match="backend: 'triton' needs tensors on a CUDA device"):
        read_floor(view(), torch.empty(100, dtype=torch.int32), 8)
    with pytest.raises(InputError, match="tokens: expected a power of two, given 0"):
        floor_programs(view(), 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"split_tokens": 64}, "batch: expected at least 1 with split_tokens, given 0"),
        ({"kv_heads": 0}, "kv_heads: expected at least 1, given 0"),
        ({"kv_heads": 3}, "heads: expected a multiple of the 3 KV heads, given 8"),
        ({"device": "tpu9"}, "device: expected a device of PyTorch"),
    ],
)
def test_a_workspace_for_nothing(changes: dict[str, Any], message: str) -> None:
    sizes: dict[str, Any] = {"heads": 8, "kv_heads": 2, "head_dim": 64, "device": "cpu"}
    with pytest.raises(InputError, match=message):
        DecodeWorkspace.for_decode(**{**sizes, **changes})


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there() -> None:
    with pytest.raises(InputError, match=r"device: given 'cuda', but PyTorch .* finds no CUDA GPU"):
        DecodeWorkspace.for_decode(heads=8, kv_heads=2, head_dim=64, device="cuda")


def test_a_workspace_for_fixed_splits_is_enough_for_even_ones() -> None:
    sizes: dict[str, Any] = {"heads": 4, "kv_heads": 2, "head_dim": 64, "device": "cpu"}
    workspace = DecodeWorkspace.for_decode(**sizes, split_tokens=64, batch=3, max_tokens=64)
    for split_tokens in (None, 64):
        paged_decode(Q, view(), workspace=workspace, split_tokens=split_tokens)
    with pytest.raises(InputError, match="workspace: expected a DecodeWorkspace, given str"):
        paged_decode(Q, view(), workspace="x")  # type: ignore[arg-type]


def test_a_workspace_too_small_says_how_to_make_one() -> None:
    workspace = DecodeWorkspace("cpu", 2, 64)
    with pytest.raises(InputError, match=r"workspace: expected room for 100 rows of 64.*for_decode"):
        workspace.check(100, 64, torch.device("cpu"))
