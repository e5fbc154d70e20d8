"""From config.json to what a token stores and what a model weighs, worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pagefault.capacity import PRESETS, bytes_per_token, custom_model, find_dtype, load_model, read_config
from pagefault.errors import ConfigError, InputError

CONFIGS = Path(__file__).parents[3] / "shared" / "data" / "model_configs"

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}


def token_bytes(config: dict[str, Any], dtype: str | None = None, tp: int = 1) -> int:
    shape = read_config(config, "test")
    return bytes_per_token(shape, find_dtype(dtype or shape.dtype), tp)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("llama-2-7b-hf", 2 * 32 * 32 * (4096 // 32) * 2),  # MHA: 32 KV heads of 128, fp16
        ("llama-3.1-8b-instruct", 2 * 32 * 8 * 128 * 2),  # GQA
        ("llama-3.1-70b-instruct", 2 * 80 * 8 * 128 * 2),
        ("mixtral-8x7b-v0.1", 2 * 32 * 8 * 128 * 2),  # experts store nothing
        ("qwen3-14b", 2 * 40 * 8 * 128 * 2),  # head_dim is given
        ("qwen3-30b-a3b", 2 * 48 * 4 * 128 * 2),  # head_dim 128, not 2048 / 32
        ("deepseek-v2-lite", 27 * (512 + 64) * 2),  # MLA: one latent for K and V
    ],
)
def test_bytes_a_token_of_real_configs(name: str, expected: int) -> None:
    path = CONFIGS / f"{name}.json"
    if not path.exists():
        pytest.skip(f"{path.name}: the shared model configs are not there")
    shape = load_model(str(path))
    assert bytes_per_token(shape, find_dtype(shape.dtype)) == expected


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("llama2-7b", 6_738_415_616),
        ("llama3.1-8b", 8_030_261_248),
        ("llama3-70b", 70_553_706_496),
        ("mixtral-8x7b", 46_702_792_704),
        ("qwen2.5-7b", 7_615_616_512),
        ("qwen3-14b", 14_768_307_200),
        ("qwen3-30b-a3b", 30_532_122_624),
        ("gemma2-9b", 9_241_705_984),
        ("deepseek-v2-lite", 15_706_484_224),
        ("deepseek-v3", 671_026_419_200),
        ("smollm2-135m", 134_515_008),
        ("gpt2", 124_439_808),
    ],
)
def test_published_parameter_counts(name: str, parameters: int) -> None:
    weights = load_model(name).weights
    assert weights is not None
    assert weights.parameters == parameters


def test_every_preset_is_understood() -> None:
    for name in PRESETS:
        shape = load_model(name)
        assert bytes_per_token(shape, find_dtype(shape.dtype)) > 0
        assert shape.weights is not None, name
        assert shape.weights.active <= shape.weights.parameters


@pytest.mark.parametrize(
    ("file", "preset"),
    [
        ("llama-2-7b-hf", "llama2-7b"),
        ("llama-3.1-8b-instruct", "llama3.1-8b"),
        ("llama-3.1-70b-instruct", "llama3.1-70b"),
        ("mixtral-8x7b-v0.1", "mixtral-8x7b"),
        ("qwen3-14b", "qwen3-14b"),
        ("qwen3-30b-a3b", "qwen3-30b-a3b"),
        ("deepseek-v2-lite", "deepseek-v2-lite"),
    ],
)
def test_a_preset_says_the_same_as_the_real_config(file: str, preset: str) -> None:
    path = CONFIGS / f"{file}.json"
    if not path.exists():
        pytest.skip(f"{path.name}: the shared model configs are not there")
    real, ours = load_model(str(path)), load_model(preset)
    assert (real.groups, real.weights, real.layers) == (ours.groups, ours.weights, ours.layers)


def test_active_parameters_of_a_mixture() -> None:
    weights = load_model("mixtral-8x7b").weights
    assert weights is not None
    idle = 6 * 32 * 3 * 4096 * 14336  # 6 of 8 experts, 3 matrices, 32 layers
    assert weights.active == weights.parameters - idle
    assert (weights.experts, weights.experts_per_token) == (8, 2)


def test_the_embedding_is_looked_up_unless_it_is_the_output_layer_too() -> None:
    untied, tied = load_model("llama3-8b").weights, load_model("llama3.2-1b").weights
    assert untied is not None
    assert tied is not None
    assert (untied.lookup, tied.lookup) == (128256 * 4096, 0)


def test_mqa_gqa_mha() -> None:
    for kv_heads in (1, 8, 32):
        assert token_bytes(LLAMA | {"num_key_value_heads": kv_heads}) == 2 * 32 * kv_heads * 128 * 2
    absent = {key: value for key, value in LLAMA.items() if key != "num_key_value_heads"}
    assert token_bytes(absent) == 2 * 32 * 32 * 128 * 2


def test_an_explicit_head_dim_wins() -> None:
    assert token_bytes(LLAMA | {"head_dim": 64}) == 2 * 32 * 8 * 64 * 2


def test_tensor_parallelism_divides_heads_then_replicates_them() -> None:
    by_ranks = {tp: token_bytes(LLAMA, tp=tp) for tp in (1, 2, 8, 16, 32)}
    whole = 131_072
    assert by_ranks == {1: whole, 2: whole // 2, 8: whole // 8, 16: whole // 8, 32: whole // 8}
    with pytest.raises(InputError, match="does not divide the 32 attention heads"):
        token_bytes(LLAMA, tp=3)


def test_an_mla_latent_is_not_divided() -> None:
    shape = load_model("deepseek-v3")
    assert [bytes_per_token(shape, find_dtype("bf16"), tp) for tp in (1, 8)] == [61 * 576 * 2] * 2


@pytest.mark.parametrize(
    ("dtype", "a_head"),
    [
        ("fp32", 2 * 128 * 4),
        ("fp16", 2 * 128 * 2),
        ("bf16", 2 * 128 * 2),
        ("fp8", 2 * 128),
        ("fp8_e5m2", 2 * 128),
        ("int8", 2 * (128 + 2)),  # a float16 scale a token and head
        ("int4", 2 * (64 + 4)),  # and a zero point
    ],
)
def test_kv_dtypes_with_their_scales(dtype: str, a_head: int) -> None:
    assert token_bytes(LLAMA, dtype) == 32 * 8 * a_head


def test_sliding_windows_and_patterns() -> None:
    gemma = load_model("gemma3-27b")
    assert [(group.kind, group.layers, group.window) for group in gemma.groups] == [
        ("sliding", 52, 1024),
        ("full", 10, None),
    ]
    mistral = read_config(LLAMA | {"model_type": "mistral", "sliding_window": 4096}, "test")
    assert [(group.kind, group.layers, group.window) for group in mistral.groups] == [("sliding", 32, 4096)]
    unused = {
        "model_type": "qwen2",
        "use_sliding_window": False,
        "sliding_window": 4096,
        "max_window_layers": 28,
    }
    assert [group.window for group in read_config(LLAMA | unused, "test").groups] == [None]
    scout = load_model("llama4-scout")
    assert [(group.kind, group.layers) for group in scout.groups] == [("chunked", 36), ("full", 12)]
    oss = load_model("gpt-oss-20b")
    assert [(group.kind, group.layers, group.window) for group in oss.groups] == [
        ("sliding", 12, 128),
        ("full", 12, None),
    ]


def test_layers_without_a_cache_keep_a_fixed_state() -> None:
    shape = load_model("qwen3-next-80b-a3b")
    assert [(group.kind, group.layers) for group in shape.groups] == [("full", 12)]
    state = shape.state[0]
    channels = 2 * 16 * 128 + 32 * 128
    assert (state.layers, state.bytes_per_layer) == (36, 32 * 128 * 128 * 4 + channels * 3 * 2)


def test_a_nested_text_config() -> None:
    outer = {
        "model_type": "llava",
        "torch_dtype": "float16",
        "text_config": {key: value for key, value in LLAMA.items() if key != "torch_dtype"},
        "vision_config": {"hidden_size": 1024},
    }
    shape = read_config(outer, "test")
    assert (shape.dtype, shape.groups[0].kv_heads) == ("float16", 8)
    assert shape.weights is None
    assert "vision_config" in shape.uncounted


def test_quantized_checkpoints_weigh_less_and_store_the_same() -> None:
    plain = read_config(LLAMA, "test")
    assert plain.weights is not None
    matrices = 32 * (4096 * (4096 + 2 * 1024 + 4096) + 3 * 4096 * 14336)
    fp8 = read_config(LLAMA | {"quantization_config": {"quant_method": "fp8"}}, "test")
    assert fp8.weights is not None
    assert fp8.weights.bytes == plain.weights.bytes - matrices
    assert bytes_per_token(fp8, find_dtype(fp8.dtype)) == 131_072
    awq = {"quant_method": "awq", "bits": 4, "group_size": 128}
    four = read_config(LLAMA | {"quantization_config": awq}, "test").weights
    assert four is not None
    assert four.bytes == plain.weights.bytes - matrices * 2 + int(matrices * (4 + 20 / 128) / 8)
    odd = read_config(LLAMA | {"quantization_config": {"quant_method": "sorcery"}}, "test")
    assert odd.weights is None
    assert "quant_method is 'sorcery'" in odd.uncounted
    assert load_model("gpt-oss-20b").weights.bytes == pytest.approx(13.76e9, rel=1e-3)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"model_type": "llamma"}, "model_type is 'llamma'; expected one of"),
        ({"model_type": None}, "model_type is missing"),
        (
            {"num_hidden_layers": None},
            "num_hidden_layers is missing; expected a whole number from 1 to 10000",
        ),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({"num_hidden_layers": 3.5}, "num_hidden_layers is 3.5"),
        ({"num_hidden_layers": True}, "num_hidden_layers is True"),
        (
            {"num_key_value_heads": 5},
            "num_key_value_heads is 5; expected a divisor of num_attention_heads, 32",
        ),
        ({"hidden_size": 4100}, "num_attention_heads is 32; expected a divisor of hidden_size, 4100"),
        ({"head_dim": -128}, "head_dim is -128"),
        ({"layer_types": ["full_attention"] * 31 + ["warp"]}, "layer_types is 'warp'"),
        (
            {"layer_types": ["full_attention"] * 3},
            "layer_types is a list of 3; expected one entry for each of 32",
        ),
        ({"torch_dtype": 16}, "torch_dtype is 16; expected a string"),
        ({"model_type": "mixtral"}, "num_local_experts is missing"),
        ({"model_type": "deepseek_v3"}, "kv_lora_rank is missing"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_field(change: dict[str, Any], complaint: str) -> None:
    config = {key: value for key, value in (LLAMA | change).items() if value is not None}
    with pytest.raises(ConfigError) as caught:
        read_config(config, "test")
    assert complaint in str(caught.value)


def test_files_and_names_that_are_wrong(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean llama3-8b"):
        load_model("llama3-8bb")
    with pytest.raises(ConfigError, match=r"has no config\.json"):
        load_model(str(tmp_path))
    broken = tmp_path / "config.json"
    broken.write_text("{not json")
    with pytest.raises(ConfigError, match=r"is not JSON \(.*line 1 column 2"):
        load_model(str(broken))
    broken.write_text("[1, 2]")
    with pytest.raises(ConfigError, match=r"holds \[1, 2\], expected a JSON object"):
        load_model(str(broken))
    broken.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not JSON"):
        load_model(str(broken))


def test_a_folder_and_a_file_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert load_model(str(tmp_path)).groups == load_model(str(tmp_path / "config.json")).groups
    assert load_model(str(tmp_path)).name == tmp_path.name


def test_a_model_of_your_own() -> None:
    shape = custom_model(80, 8, 128, 2)
    assert bytes_per_token(shape, find_dtype(shape.dtype)) == 327_680
    with pytest.raises(InputError, match="--layers is 0"):
        custom_model(0, 8, 128, 2)
    with pytest.raises(InputError, match="--dtype-bytes is 3"):
        custom_model(1, 8, 128, 3)
