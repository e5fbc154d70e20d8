from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagefault.capacity import (
    CacheLayout,
    FixedState,
    KVGroup,
    LayoutPart,
    ModelShape,
    Weights,
    bytes_per_token,
    cache_layout,
    find_dtype,
    find_gpu,
    fit,
    given_budget,
    gpu_budget,
    longest_sequence,
    measure,
    plain_layout,
    sequence_ceiling,
)
from pagefault.errors import InputError

GB, GIB = 10**9, 2**30
BF16 = find_dtype("bf16")


def model(
    *groups: KVGroup, heads: int = 32, state: tuple[FixedState, ...] = (), weights: int | None = None
) -> Any:
    known = Weights(weights // 2, weights // 2, weights, f"{weights // 2:,} × 2 B") if weights else None
    return ModelShape("m", "llama", 32, 4096, heads, "bfloat16", 8192, groups, state, known)


LLAMA_8B = model(KVGroup("full", 32, 8, 128, 128), weights=16_060_522_496)
LLAMA_70B = model(KVGroup("full", 80, 8, 128, 128), heads=64, weights=141_107_412_992)
MLA = model(KVGroup("mla", 61, 1, 576, 0), heads=128)
GEMMA = model(KVGroup("full", 5, 4, 256, 256), KVGroup("sliding", 29, 4, 256, 256, window=1024), heads=8)


def fit_of(budget: int, shape: ModelShape, mean_len: int, max_len: int, block_size: int = 16) -> Any:
    layout = cache_layout(shape, BF16)
    return fit(budget, measure([mean_len], block_size, pool_blocks=None, max_len=max_len, layout=layout))


def test_llama_3_70b_in_80_gb() -> None:
    assert bytes_per_token(LLAMA_70B, BF16) == 327_680
    found = fit_of(80 * GB, LLAMA_70B, 2000, 8192)
    assert (found.naive_sequences, found.paged_sequences) == (29, 122)
    assert f"{found.gain:.1f}" == "4.2"
    assert found.naive_bytes == 8192 * 327_680
    assert found.paged_bytes == 125 * 16 * 327_680


@pytest.mark.parametrize(("logged_gib", "blocks"), [(11.12, 5691), (3.81, 1952), (2.89, 1478)])
def test_blocks_that_a_real_server_logged(logged_gib: float, blocks: int) -> None:
    """Llama-3-8B, bf16, blocks of 16: the log has two decimals, so memory within half of the last one."""
    block = 16 * bytes_per_token(LLAMA_8B, BF16)
    least, most = (round((logged_gib + error) * GIB) for error in (-0.005, 0.005))
    assert least // block <= blocks <= most // block
    assert f"{blocks * block / GIB:.2f}" in (f"{logged_gib:.2f}", f"{logged_gib - 0.01:.2f}")


def test_tokens_of_a_recorded_run() -> None:
    budget = 2588 * 16 * bytes_per_token(LLAMA_8B, BF16)
    assert longest_sequence(budget, cache_layout(LLAMA_8B, BF16), 16) == 41_408
    assert longest_sequence(budget - 1, cache_layout(LLAMA_8B, BF16), 16) == 41_408 - 16


def test_the_default_overhead_foresees_a_recorded_run() -> None:
    """vLLM 0.19, Llama-3.1-8B on an RTX 4090 at 0.9: 2,588 blocks. The assumption is on the safe side by 2%."""
    budget = gpu_budget(find_gpu("rtx-4090"), LLAMA_8B)
    blocks = budget.bytes // (16 * bytes_per_token(LLAMA_8B, BF16))
    assert 0.97 * 2588 < blocks <= 2588


@pytest.mark.parametrize(
    ("dtype", "expected", "formula"),
    [
        ("fp32", 2 * 32 * 8 * 128 * 4, "2 (K, V) × 32 layers × 8 KV heads × 128 × 4 B"),
        ("bf16", 2 * 32 * 8 * 128 * 2, "2 (K, V) × 32 layers × 8 KV heads × 128 × 2 B"),
        ("fp8", 2 * 32 * 8 * 128, "2 (K, V) × 32 layers × 8 KV heads × 128 × 1 B"),
        ("int8", 2 * 32 * 8 * (128 + 2), "2 (K, V) × 32 layers × 8 KV heads × (128 × 1 B + 2 B scale)"),
        ("int4", 2 * 32 * 8 * (64 + 4), "2 (K, V) × 32 layers × 8 KV heads × (128 × 0.5 B + 4 B scale)"),
    ],
)
def test_dtypes_and_their_scales(dtype: str, expected: int, formula: str) -> None:
    part = cache_layout(LLAMA_8B, find_dtype(dtype)).parts[0]
    assert part.bytes_per_token == expected
    assert part.formula == formula


def evaluate(formula: str) -> float:
    """The formula as arithmetic: words go, signs are Python's."""
    import re

    bare = re.sub(
        r"\(\d+ ÷ \d+ GPUs\)|\(\d+ replicated over \d+ GPUs\)|\([^()]*[a-zA-Z]{3}[^()]*GPU\)", "", formula
    )
    bare = bare.replace("(K, V)", "").replace("(one latent for K and V)", "").replace("(float32)", "")
    bare = re.sub(r"[A-Za-z]+", "", bare).replace("×", "*").replace("÷", "/")
    return float(eval(bare))


@settings(deadline=None, derandomize=True)
@given(
    st.sampled_from(["full", "mla"]),
    st.integers(1, 90),
    st.sampled_from([1, 2, 4, 8, 16]),
    st.sampled_from([64, 128, 192]),
    st.sampled_from([64, 128]),
    st.sampled_from(["fp32", "bf16", "fp8", "int8", "int4"]),
    st.sampled_from([1, 2, 4, 8, 16]),
)
def test_the_formula_shown_gives_the_figure_shown(
    kind: str, layers: int, kv_heads: int, k_dim: int, v_dim: int, dtype: str, tp: int
) -> None:
    group = KVGroup(kind, layers, 1 if kind == "mla" else kv_heads, k_dim, 0 if kind == "mla" else v_dim)
    part = cache_layout(model(group, heads=16), find_dtype(dtype), tp).parts[0]
    assert evaluate(part.formula) == part.bytes_per_token


def test_tensor_parallelism_divides_heads_and_then_replicates_them() -> None:
    assert bytes_per_token(LLAMA_70B, BF16, tp=4) == 327_680 // 4
    assert bytes_per_token(LLAMA_70B, BF16, tp=8) == bytes_per_token(LLAMA_70B, BF16, tp=16) == 327_680 // 8
    assert "1 KV head (8 replicated over 16 GPUs)" in cache_layout(LLAMA_70B, BF16, 16).parts[0].formula


def test_a_latent_is_kept_whole_by_every_rank() -> None:
    assert bytes_per_token(MLA, BF16) == bytes_per_token(MLA, BF16, tp=8) == 61 * 576 * 2
    assert (
        cache_layout(MLA, BF16, 8).parts[0].formula.endswith("(one latent for K and V, whole on every GPU)")
    )


def test_windows_have_two_numbers() -> None:
    layout = cache_layout(GEMMA, BF16)
    assert layout.bytes_per_token == 34 * 4 * 512 * 2
    assert layout.bytes_per_token_later == 5 * 4 * 512 * 2
    assert layout.window_ceiling(16) == (64 + 1) * 16 * 29 * 4 * 512 * 2
    assert sequence_ceiling(GEMMA, BF16, 16) is None
    sliding = model(KVGroup("sliding", 32, 8, 128, 128, window=4096))
    assert sequence_ceiling(sliding, BF16, 16) == 257 * 16 * 131_072
    assert cache_layout(sliding, BF16).uniform


def test_a_long_sequence_of_a_windowed_model_costs_its_full_layers_only() -> None:
    layout = cache_layout(GEMMA, BF16)
    grown = layout.paged_bytes(32_768, 16) - layout.paged_bytes(16_384, 16)
    assert grown == 16_384 * layout.bytes_per_token_later


def test_state_is_paid_once_a_sequence_and_split_over_ranks() -> None:
    shape = model(KVGroup("full", 4, 8, 128, 128), state=(FixedState("mamba", 28, 1_000_001, "1,000,001 B"),))
    layout = cache_layout(shape, BF16, tp=2)
    assert layout.state_bytes == 28 * 500_001
    assert layout.states[0].formula == "28 layers × 1,000,001 B ÷ 2 GPUs"
    assert not layout.uniform
    assert layout.paged_bytes(16, 16) == 28 * 500_001 + 16 * layout.bytes_per_token


def test_a_model_without_any_kv_cache() -> None:
    shape = model(state=(FixedState("mamba", 64, 1_000_000, "1,000,000 B"),))
    found = fit_of(GB, shape, 500, 100_000)
    assert found.naive_sequences == found.paged_sequences == GB // 64_000_000
    assert sequence_ceiling(shape, BF16, 16) == 64_000_000


def test_budget_lines_add_up() -> None:
    budget = gpu_budget(
        find_gpu("h200"),
        LLAMA_70B,
        utilization=0.95,
        tp=2,
        weights_bytes=100 * GIB + 1,
        overhead_bytes=3 * GIB,
    )
    memory, unused, weights, overhead = budget.lines
    assert memory.bytes == 143_771 * 2**20
    assert memory.bytes + unused.bytes == int(143_771 * 2**20 * 0.95)
    assert weights.bytes == -(50 * GIB + 1)
    assert weights.origin.endswith("given; ÷ 2 GPUs")
    assert overhead.bytes == -3 * GIB
    assert budget.bytes == sum(line.bytes for line in budget.lines)


def test_weights_come_from_the_model_unless_given() -> None:
    line = gpu_budget(find_gpu("h100"), LLAMA_8B).lines[2]
    assert line.bytes == -16_060_522_496
    assert line.origin == "8,030,261,248 × 2 B"


def test_a_model_larger_than_the_gpu_says_what_would_fit() -> None:
    with pytest.raises(InputError, match=r"m is larger than 1 × NVIDIA H100 SXM.*; --tp 2 would fit"):
        gpu_budget(find_gpu("h100"), LLAMA_70B)
    assert gpu_budget(find_gpu("h100"), LLAMA_70B, tp=2).bytes > 0
    with pytest.raises(InputError, match=r"m is larger than 2 × .*: 70.55 GB of weights.*; --tp 4 would fit"):
        gpu_budget(find_gpu("h100"), LLAMA_70B, tp=2, overhead_bytes=8 * GIB)


def test_a_model_larger_than_any_number_of_gpus() -> None:
    with pytest.raises(InputError, match="no --tp up to 64 fits"):
        gpu_budget(find_gpu("t4"), replace(LLAMA_8B, attention_heads=1), weights_bytes=100 * GIB)


def test_unknown_weights_are_asked_for() -> None:
    with pytest.raises(InputError, match="give --weights-gib"):
        gpu_budget(find_gpu("h100"), MLA)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"utilization": 0.0}, "utilization is 0, expected more than 0 and at most 1"),
        ({"utilization": 1.1}, "utilization is 1.1, expected"),
        ({"utilization": float("nan")}, "utilization is nan, expected"),
        ({"tp": 0}, "tensor parallelism is 0"),
        ({"tp": 3}, "tensor parallelism of 3 does not divide the 32 attention heads"),
        ({"weights_bytes": 0}, "weights are 0 bytes"),
        ({"overhead_bytes": -1}, "overhead is -1 bytes"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        gpu_budget(find_gpu("h100"), LLAMA_8B, **arguments)


def test_kv_heads_that_do_not_go_with_the_ranks() -> None:
    with pytest.raises(InputError, match="does not divide the model's 8 KV heads"):
        cache_layout(model(KVGroup("full", 1, 8, 64, 64), heads=48), BF16, tp=6)


def test_a_budget_smaller_than_one_sequence_says_what_fits() -> None:
    with pytest.raises(
        InputError, match=r"budget of 1.00 GB is smaller than one sequence: .*give --max-len 3040"
    ):
        fit_of(GB, LLAMA_70B, 100, 8192)
    assert fit_of(GB, LLAMA_70B, 100, 3040).naive_sequences == 1


def test_a_budget_smaller_than_a_block() -> None:
    with pytest.raises(InputError, match="give more memory"):
        fit_of(1000, LLAMA_70B, 100, 8192)


def test_a_budget_of_nothing() -> None:
    with pytest.raises(InputError, match="budget is 0 bytes"):
        given_budget(0, "--budget-gb 0")


def test_sequences_that_exceed_the_budget_are_told() -> None:
    report = measure([100] * 10, 16, pool_blocks=None, max_len=200, layout=plain_layout(10))
    assert fit(112 * 10 * 10, report).bytes_short == 0
    assert fit(112 * 10 * 9, report).bytes_short == 112 * 10


@settings(deadline=None, derandomize=True)
@given(
    st.lists(st.integers(1, 400), min_size=1, max_size=20),
    st.sampled_from([1, 4, 16]),
    st.integers(50_000, 10_000_000),
)
def test_as_many_fit_as_are_counted(lengths: list[int], block_size: int, budget: int) -> None:
    layout = CacheLayout((LayoutPart("full", 7), LayoutPart("sliding", 3, 100)))
    found = fit(budget, measure(lengths, block_size, pool_blocks=None, max_len=400, layout=layout))
    assert (
        found.naive_sequences * found.naive_bytes <= budget < (found.naive_sequences + 1) * found.naive_bytes
    )
    assert found.paged_sequences * found.paged_bytes <= budget + 1e-3
    assert (found.paged_sequences + 1) * found.paged_bytes > budget - 1e-3


@settings(deadline=None, derandomize=True)
@given(st.integers(0, 10**7), st.sampled_from([1, 16, 256]))
def test_the_longest_sequence_fits_and_one_block_more_does_not(budget: int, block_size: int) -> None:
    layout = CacheLayout((LayoutPart("full", 7), LayoutPart("sliding", 30, 100)))
    longest = longest_sequence(budget, layout, block_size)
    assert longest == 0 or layout.paged_bytes(longest, block_size) <= budget
    assert layout.paged_bytes(longest + block_size, block_size) > budget
