"""The launcher's table: what every choice must keep, and the few that a shape decides."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from kernels.decode_cases import DTYPES, random_case
from pagefault.attention import Choice, choose_decode, choose_prefill
from pagefault.attention.choose import most_partial_rows

LARGE: dict[str, Any] = {
    "batch": 64, "heads": 32, "kv_heads": 8, "head_dim": 128, "max_tokens": 4096, "kv_bytes": 2, "multiprocessors": 132,
}  # fmt: skip


def choose(**changed: Any) -> Choice:
    return choose_decode(**(LARGE | changed))


def test_a_workspace_for_these_heads_holds_every_choice() -> None:
    heads_of_each = ((32, 8), (8, 1), (32, 32), (15, 3), (64, 2))
    dims = (64, 80, 128, 256, 512)
    for batch, (heads, kv_heads), dim, tokens, size, block in itertools.product(
        (1, 7, 64, 1000), heads_of_each, dims, (20, 4096), (1, 2, 4), (1, 16)
    ):
        shape: dict[str, Any] = {"heads": heads, "kv_heads": kv_heads, "head_dim": dim}
        choice = choose(batch=batch, max_tokens=tokens, kv_bytes=size, block_size=block, **shape)
        assert choice.partial_rows <= most_partial_rows(**shape, multiprocessors=132)
        assert kv_heads % choice.heads == 0


def test_small_blocks_have_one_tile_more_in_flight() -> None:
    assert choose(block_size=16).kernel == choose(block_size=1).kernel == "heads"
    assert [choose(block_size=size).depth - choose().depth for size in (1, 8, 16, 256)] == [1, 1, 0, 0]
    one_head = choose(batch=1, max_tokens=8192)
    assert one_head.kernel == "head"
    assert choose(batch=1, max_tokens=8192, block_size=1) == one_head


def test_random_batches_on_a_gpu_meet_every_kernel_and_way_to_merge() -> None:
    met = set()
    for case in map(random_case, range(40)):
        choice = choose(
            batch=len(case.lengths), heads=case.kv_heads * case.group, kv_heads=case.kv_heads, head_dim=case.head_dim,
            max_tokens=max(case.lengths), kv_bytes=DTYPES[case.dtype].itemsize, block_size=case.block_size,
        )  # fmt: skip
        met.add((choice.kernel, choice.merges_by_item(len(case.lengths) * case.kv_heads // choice.heads)))
    assert met == set(itertools.product(("head", "heads"), (True, False)))


def test_a_fixed_split_does_not_depend_on_the_batch() -> None:
    few, many = choose(batch=1, split_tokens=512), choose(batch=100, split_tokens=512)
    for name in ("kernel", "heads", "tile", "unit", "split", "extra"):
        assert getattr(few, name) == getattr(many, name)


@pytest.mark.parametrize("group", [1, 3, 4, 7, 16, 64, 71])
@pytest.mark.parametrize("head_dim", [16, 64, 80, 128, 256, 512])
@pytest.mark.parametrize(("q_bytes", "kv_bytes"), [(4, 4), (2, 2), (2, 1)])
def test_a_prefill_choice_suits_its_kernel(group: int, head_dim: int, q_bytes: int, kv_bytes: int) -> None:
    for hopper in (False, True):
        choice = choose_prefill(
            group=group, head_dim=head_dim, q_bytes=q_bytes, kv_bytes=kv_bytes, hopper=hopper
        )
        rows = choice.tile_q * (1 << (group - 1).bit_length())
        takes = hopper and kv_bytes == 2 and head_dim in (64, 128) and group <= 64
        assert choice.kernel == ("hopper" if takes else "portable")
        assert rows == 128 if takes else rows >= 16, "a matrix unit's smallest side, or two warp groups"
        assert choice.tile % 16 == 0
        assert choice.reason
