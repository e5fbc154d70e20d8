"""Files as people have them: sparse, old, broken; nothing is guessed without being said."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagefault.capacity import PRESETS, ModelShape, bytes_per_token, find_dtype, load_model, read_config
from pagefault.errors import ConfigError, InputError

if TYPE_CHECKING:
    from pathlib import Path

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
EXPERTS = {"num_local_experts": 8, "num_experts_per_tok": 2}
MATRICES = 32 * (4096 * (4096 + 2 * 1024 + 4096) + 3 * 4096 * 14336)
"""Weights of the linear layers of `LLAMA`."""


def without(config: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in names}


def quantized(config: dict[str, Any], **more: Any) -> ModelShape:
    return read_config(config | {"quantization_config": more}, "test")


def weight_bytes(shape: ModelShape) -> int:
    assert shape.weights is not None, shape.uncounted
    return shape.weights.bytes


# What a file leaves out.


def test_the_sparse_text_config_of_gemma3_is_filled_from_its_type_and_says_so() -> None:
    """google/gemma-3-4b-it gives neither heads, nor head_dim, nor vocabulary."""
    shape = read_config(
        {
            "model_type": "gemma3",
            "torch_dtype": "bfloat16",
            "text_config": {
                "model_type": "gemma3_text",
                "hidden_size": 2560,
                "intermediate_size": 10240,
                "num_hidden_layers": 34,
                "sliding_window": 1024,
            },
            "vision_config": {"hidden_size": 1152},
        },
        "gemma-3-4b-it",
    )
    assert shape.groups == load_model("gemma3-4b").groups
    assert bytes_per_token(shape, find_dtype(shape.dtype)) == 2 * 34 * 4 * 256 * 2
    assert shape.max_position == 131_072
    assert "text_config.head_dim is not given: 256, the default of this model type" in shape.notes


@pytest.mark.parametrize(
    ("model_type", "kv_heads"), [("llama", 32), ("mistral", 8), ("qwen3_moe", 4), ("gemma2", 4)]
)
def test_absent_kv_heads_are_those_of_the_type_and_null_means_one_a_head(
    model_type: str, kv_heads: int
) -> None:
    config = LLAMA | EXPERTS | {"model_type": model_type, "head_dim": 128, "moe_intermediate_size": 64}
    absent = read_config(without(config, "num_key_value_heads"), "test")
    assert absent.groups[0].kv_heads == kv_heads
    assert any("num_key_value_heads is not given" in note for note in absent.notes)
    assert read_config(config | {"num_key_value_heads": None}, "test").groups[0].kv_heads == 32


def test_biases_that_a_type_has_unless_told_otherwise() -> None:
    config = LLAMA | EXPERTS | {"model_type": "qwen2_moe", "moe_intermediate_size": 64}
    config["shared_expert_intermediate_size"] = 64
    with_bias = read_config(config, "test").weights
    plain = read_config(config | {"qkv_bias": False}, "test").weights
    assert with_bias is not None
    assert plain is not None
    assert with_bias.parameters - plain.parameters == 32 * (4096 + 2 * 1024)


def test_latent_queries_are_null_or_given_but_not_left_out() -> None:
    config = PRESETS["deepseek-v2-lite"].config
    assert config["q_lora_rank"] is None
    with pytest.raises(ConfigError, match="q_lora_rank is missing; expected a whole number, or null"):
        read_config(without(config, "q_lora_rank"), "test")
    with pytest.raises(ConfigError, match="n_shared_experts is missing"):
        read_config(without(config, "n_shared_experts"), "test")


def test_a_repository_names_its_preset() -> None:
    assert load_model("Qwen/Qwen3-14B").name == "qwen3-14b"
    with pytest.raises(ConfigError, match=r"did you mean llama3\.1-8b"):
        load_model("meta-llama/Llama-3.1-8B-Instruct")


def test_windows_of_each_rule() -> None:
    def windows(model_type: str, **more: Any) -> list[tuple[str, int, int | None]]:
        config = LLAMA | EXPERTS | {"model_type": model_type, "moe_intermediate_size": 64} | more
        config["shared_expert_intermediate_size"] = 64
        return [(group.kind, group.layers, group.window) for group in read_config(config, "test").groups]

    used = {"use_sliding_window": True, "sliding_window": 512, "max_window_layers": 8}
    assert windows("qwen2", **used) == [("full", 8, None), ("sliding", 24, 512)]
    assert windows("qwen2_moe", **used) == [("sliding", 4, 512), ("full", 28, None)]
    assert windows("qwen3_moe", **used) == [("sliding", 32, 512)]
    assert windows("cohere2", sliding_window=512) == [("sliding", 24, 512), ("full", 8, None)]
    assert windows("cohere2") == [("sliding", 24, 4096), ("full", 8, None)]
    assert windows("mistral") == [("sliding", 32, 4096)]
    assert windows("mistral", sliding_window=None) == [("full", 32, None)]
    # A window as long as the model's longest context never closes.
    assert windows("mistral", max_position_embeddings=4096) == [("full", 32, None)]


def test_falcons_three_kinds() -> None:
    falcon = {
        "model_type": "falcon",
        "hidden_size": 4096,
        "num_attention_heads": 64,
        "num_hidden_layers": 2,
        "vocab_size": 1024,
        "torch_dtype": "bfloat16",
    }
    kinds: list[tuple[dict[str, Any], int]] = [
        ({"multi_query": True}, 1),
        ({"multi_query": False}, 64),
        ({"new_decoder_architecture": True, "num_kv_heads": 8}, 8),
    ]
    for more, kv_heads in kinds:
        assert read_config(falcon | more, "test").groups[0].kv_heads == kv_heads


# Quantized checkpoints.


def test_an_ignore_list_may_leave_everything_but_the_experts_in_16_bits() -> None:
    """Kimi-K2-Thinking: experts in 4 bits, a scale for each 32, the rest as it was."""
    four = {"weights": {"num_bits": 4, "strategy": "group", "group_size": 32, "symmetric": True}}
    ignore = [
        "lm_head",
        "re:.*self_attn.*",
        "re:.*shared_experts.*",
        "re:.*mlp\\.(gate|up|gate_up|down)_proj.*",
    ]
    plain = without(PRESETS["kimi-k2"].config, "quantization_config")
    whole = read_config(plain, "test")
    quant = quantized(plain, quant_method="compressed-tensors", config_groups={"g": four}, ignore=ignore)
    experts = 60 * 384 * 3 * 7168 * 2048
    assert weight_bytes(whole) - weight_bytes(quant) == experts * 2 - experts * (4 + 16 / 32) / 8
    some = quantized(plain, quant_method="compressed-tensors", config_groups={"g": four}, ignore=ignore[:2])
    assert some.weights is None
    assert "quantization_config.ignore leaves 're:.*self_attn.*' in 16 bits" in some.uncounted


@pytest.mark.parametrize(
    ("config", "bits"),
    [
        ({"quant_method": "fp8"}, 8),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 8 + 32 / 128**2),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, 4 + (16 + 4) / 128),
        ({"quant_method": "awq", "bits": 4, "group_size": 64}, 4 + (16 + 4) / 64),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, 8),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 8),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 4.5),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}, 4.5),
    ],
)
def test_bits_of_each_method(config: dict[str, Any], bits: float) -> None:
    saved = weight_bytes(read_config(LLAMA, "test")) - weight_bytes(quantized(LLAMA, **config))
    assert saved == int(MATRICES * (16 - bits) / 8)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({}, "quantization_config.quant_method is missing"),
        ({"quant_method": "quip"}, "quantization_config.quant_method is 'quip', which is not known"),
        ({"quant_method": "modelopt", "quant_algo": "W9"}, "quantization_config.quant_algo is 'W9'"),
        (
            {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.0.self_attn"]},
            "quantization_config.modules_to_not_convert leaves 'model.layers.0.self_attn' in 16 bits",
        ),
        ({"quant_method": "fp8", "ignored_layers": ["weight"]}, "ignored_layers leaves 'weight'"),
    ],
)
def test_weights_that_cannot_be_counted_leave_the_cache_known(config: dict[str, Any], reason: str) -> None:
    shape = quantized(LLAMA, **config)
    assert shape.weights is None
    assert reason in shape.uncounted
    assert bytes_per_token(shape, find_dtype(shape.dtype)) == 131_072


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        (
            {"quant_method": "awq"},
            "quantization_config.bits is missing; expected a whole number from 1 to 16",
        ),
        ({"quant_method": "awq", "bits": 400}, "quantization_config.bits is 400; expected"),
        (
            {"quant_method": "fp8", "weight_block_size": []},
            "quantization_config.weight_block_size is []; expected two whole numbers, 1 or more",
        ),
        ({"quant_method": "fp8", "weight_block_size": [0, 0]}, "weight_block_size is [0, 0]"),
    ],
)
def test_broken_quantization_is_refused(config: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        quantized(LLAMA, **config)
    assert complaint in str(caught.value)


# What is absurd.


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"hidden_size": 10**30}, "hidden_size is 1000000000000000000000000000000; expected a whole number"),
        (
            {"num_hidden_layers": 10_001},
            "num_hidden_layers is 10001; expected a whole number from 1 to 10000",
        ),
        ({"num_hidden_layers": float("nan")}, "num_hidden_layers is nan"),
        ({"torch_dtype": "tf32"}, "torch_dtype is 'tf32'; expected one of float32, float16, bfloat16"),
        ({"torch_dtype": "int8"}, "torch_dtype is 'int8'"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings is 'yes'; expected true or false"),
        ({"num_hidden_layers": "x" * 1000}, "xxx...; expected"),
        ({"layer_types": "full_attention"}, "layer_types is 'full_attention'; expected a list of strings"),
        ({"layer_types": ["full_attention", 3]}, "layer_types[1] is 3; expected one of a list of strings"),
        (
            {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 8},
            "num_experts_per_tok is 8; expected a whole number from 1 to 4",
        ),
        ({"model_type": ["llama"]}, "model_type is ['llama']; expected a string"),
        ({"model_type": "jamba"}, "model_type is 'jamba'; expected one of"),
        ({"model_type": "llava", "text_config": {"model_type": "t5"}}, "text_config.model_type is 't5'"),
        ({"model_type": "llava", "text_config": 3}, "text_config is 3; expected an object"),
        ({"quantization_config": []}, "quantization_config is []; expected an object"),
    ],
)
def test_absurd_values_are_refused_with_their_field(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(LLAMA | change, "test")
    assert str(caught.value).startswith("test: ")
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is not JSON (Expecting value: line 1 column 1"),
        (b'{"a": 1,}', "line 1 column 9"),
        (b'{"a": ' + b"9" * 5000 + b"}", "is not JSON (Exceeds the limit"),
        (b"[" * 100_000, "is nested too deep"),
        (b"null", "holds None, expected a JSON object"),
    ],
)
def test_broken_files(tmp_path: Path, content: bytes, complaint: str) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_model(str(file))
    assert complaint in str(caught.value)


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA), encoding="utf-8-sig")
    assert load_model(str(file)).groups == read_config(LLAMA, "test").groups


@pytest.mark.parametrize("name", ["a" * 5000, "", "a\0b", "~no-such-user/model"])
def test_names_that_cannot_be_paths(name: str) -> None:
    with pytest.raises(ConfigError, match="neither a preset nor a path"):
        load_model(name)


def test_a_missing_file_is_called_one() -> None:
    with pytest.raises(ConfigError, match=r"no file 'nowhere/config\.json'"):
        load_model("nowhere/config.json")


# Whatever a file says, the answer is a shape or one clear line.

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**70) | st.floats() | st.sampled_from(["", "bf16", "llama"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["bits", "x"]), inner),
    max_leaves=4,
)
MODELS = [
    "llama3-8b",
    "deepseek-v3",
    "qwen3-next-80b-a3b",
    "gpt-oss-20b",
    "llama4-scout",
    "falcon-7b",
    "gpt2",
]


@settings(deadline=None, derandomize=True, max_examples=300)
@given(name=st.sampled_from(MODELS), data=st.data())
def test_a_broken_field_never_crashes(name: str, data: st.DataObject) -> None:
    config = dict(PRESETS[name].config)
    extra = ["layer_types", "quantization_config", "text_config", "head_dim", "no_rope_layers"]
    field = data.draw(st.sampled_from([*sorted(config), *extra]))
    config[field] = data.draw(JSON)
    message = ""
    try:
        assert bytes_per_token(read_config(config, "test"), find_dtype("bf16")) > 0
    except InputError as error:
        message = str(error)
    assert "\n" not in message
    assert len(message) < 2000
