"""Models by name: the fields of their ``config.json`` that size the cache and the weights.

Each preset is read by the same code as a file. Source: the ``config.json`` of the Hugging Face repository named in
`Preset.source`, without the fields that size nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Preset:
    """A model by name.

    Attributes:
        name: As `load_model` takes it, in lower case.
        source: The Hugging Face repository, and what of it is left out.
        config: Fields of its ``config.json``.
    """

    name: str
    source: str
    config: dict[str, Any]


def _decoder(
    model_type: str,
    hidden: int,
    width: int,
    layers: int,
    heads: tuple[int, int],
    vocab: int,
    longest: int,
    **more: Any,
) -> dict[str, Any]:
    """Fields that all decoders have; `heads` are query and KV heads, `width` is the feed-forward part's."""
    return {
        "model_type": model_type,
        "hidden_size": hidden,
        "intermediate_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        "vocab_size": vocab,
        "max_position_embeddings": longest,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    } | more


_FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
_TIED: dict[str, Any] = {"tie_word_embeddings": True}


def _llama3(
    hidden: int, width: int, layers: int, heads: int, longest: int = 131072, **more: Any
) -> dict[str, Any]:
    return _decoder("llama", hidden, width, layers, (heads, 8), 128256, longest, **more)


def _qwen2(
    hidden: int, width: int, layers: int, heads: tuple[int, int], vocab: int = 152064, **more: Any
) -> dict[str, Any]:
    fields = _decoder("qwen2", hidden, width, layers, heads, vocab, 32768, **more)
    return fields | {"use_sliding_window": False, "sliding_window": 131072, "max_window_layers": layers}


def _qwen3(
    hidden: int, width: int, layers: int, heads: tuple[int, int], model_type: str = "qwen3", **more: Any
) -> dict[str, Any]:
    fields = _decoder(model_type, hidden, width, layers, heads, 151936, 40960, head_dim=128)
    return fields | {"use_sliding_window": False, "sliding_window": None} | more


def _qwen3_moe(hidden: int, layers: int, heads: tuple[int, int], width: int, dense: int) -> dict[str, Any]:
    return _qwen3(
        hidden,
        dense,
        layers,
        heads,
        "qwen3_moe",
        moe_intermediate_size=width,
        num_experts=128,
        num_experts_per_tok=8,
        decoder_sparse_step=1,
        mlp_only_layers=[],
    )


def _gemma2(hidden: int, width: int, layers: int, heads: tuple[int, int], head_dim: int) -> dict[str, Any]:
    fields = _decoder("gemma2", hidden, width, layers, heads, 256000, 8192, **_TIED)
    return fields | {"head_dim": head_dim, "sliding_window": 4096, "sliding_window_pattern": 2}


def _gemma3(
    hidden: int,
    width: int,
    layers: int,
    heads: tuple[int, int],
    head_dim: int,
    window: int,
    vocab: int,
    longest: int,
) -> dict[str, Any]:
    fields = _decoder("gemma3_text", hidden, width, layers, heads, vocab, longest, **_TIED)
    return fields | {"head_dim": head_dim, "sliding_window": window, "sliding_window_pattern": 6}


def _latent(
    model_type: str,
    hidden: int,
    layers: int,
    heads: int,
    vocab: int,
    dense: int,
    width: int,
    experts: int,
    **more: Any,
) -> dict[str, Any]:
    """DeepSeek-V3's kind: 512 + 64 values of latent, heads of 128 + 64."""
    return _decoder(model_type, hidden, dense, layers, (heads, heads), vocab, 163840) | {
        "moe_intermediate_size": width,
        "n_routed_experts": experts,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        **more,
    }


def _gpt_oss(layers: int, experts: int) -> dict[str, Any]:
    return _decoder("gpt_oss", 2880, 2880, layers, (64, 8), 201088, 131072) | {
        "head_dim": 64,
        "attention_bias": True,
        "sliding_window": 128,
        "layer_types": ["sliding_attention", "full_attention"] * (layers // 2),
        "num_local_experts": experts,
        "num_experts_per_tok": 4,
        "quantization_config": {
            "quant_method": "mxfp4",
            "modules_to_not_convert": [
                "model.layers.*.self_attn",
                "model.layers.*.mlp.router",
                "model.embed_tokens",
                "lm_head",
            ],
        },
    }


def _llama4(experts: int, step: int, longest: int) -> dict[str, Any]:
    return _decoder("llama4_text", 5120, 8192, 48, (40, 8), 202048, longest) | {
        "head_dim": 128,
        "intermediate_size_mlp": 16384,
        "num_local_experts": experts,
        "num_experts_per_tok": 1,
        "interleave_moe_layer_step": step,
        "no_rope_layer_interval": 4,
        "attention_chunk_size": 8192,
    }


def _glm45(
    hidden: int, dense: int, width: int, layers: int, experts: int, first: int, norm: bool
) -> dict[str, Any]:
    return _decoder("glm4_moe", hidden, dense, layers, (96, 8), 151552, 131072) | {
        "head_dim": 128,
        "attention_bias": True,
        "use_qk_norm": norm,
        "moe_intermediate_size": width,
        "n_routed_experts": experts,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "first_k_dense_replace": first,
    }


_QWEN3_NEXT = _decoder("qwen3_next", 2048, 5120, 48, (16, 2), 151936, 262144) | {
    "head_dim": 256,
    "full_attention_interval": 4,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "num_experts": 512,
    "num_experts_per_tok": 10,
}

_V3 = {"q_lora_rank": 1536, "n_shared_experts": 1, "num_experts_per_tok": 8, "quantization_config": _FP8}
_MIXTRAL = {"num_experts_per_tok": 2, "num_local_experts": 8, "sliding_window": None}
_TEXT_ONLY = ", its text decoder"
_NO_MTP = ", without the layer that predicts a second token"

_ALL = (
    Preset(
        "llama2-7b",
        "meta-llama/Llama-2-7b-hf",
        _decoder("llama", 4096, 11008, 32, (32, 32), 32000, 4096, torch_dtype="float16"),
    ),
    Preset(
        "llama2-13b",
        "meta-llama/Llama-2-13b-hf",
        _decoder("llama", 5120, 13824, 40, (40, 40), 32000, 4096, torch_dtype="float16"),
    ),
    Preset(
        "llama2-70b",
        "meta-llama/Llama-2-70b-hf",
        _decoder("llama", 8192, 28672, 80, (64, 8), 32000, 4096, torch_dtype="float16"),
    ),
    Preset("llama3-8b", "meta-llama/Meta-Llama-3-8B", _llama3(4096, 14336, 32, 32, 8192)),
    Preset("llama3-70b", "meta-llama/Meta-Llama-3-70B", _llama3(8192, 28672, 80, 64, 8192)),
    Preset("llama3.1-8b", "meta-llama/Llama-3.1-8B", _llama3(4096, 14336, 32, 32)),
    Preset("llama3.1-70b", "meta-llama/Llama-3.1-70B", _llama3(8192, 28672, 80, 64)),
    Preset("llama3.1-405b", "meta-llama/Llama-3.1-405B", _llama3(16384, 53248, 126, 128)),
    Preset("llama3.2-1b", "meta-llama/Llama-3.2-1B", _llama3(2048, 8192, 16, 32, head_dim=64, **_TIED)),
    Preset("llama3.2-3b", "meta-llama/Llama-3.2-3B", _llama3(3072, 8192, 28, 24, head_dim=128, **_TIED)),
    Preset("llama3.3-70b", "meta-llama/Llama-3.3-70B-Instruct", _llama3(8192, 28672, 80, 64)),
    Preset("llama4-scout", f"meta-llama/Llama-4-Scout-17B-16E{_TEXT_ONLY}", _llama4(16, 1, 10485760)),
    Preset("llama4-maverick", f"meta-llama/Llama-4-Maverick-17B-128E{_TEXT_ONLY}", _llama4(128, 2, 1048576)),
    Preset(
        "mistral-7b",
        "mistralai/Mistral-7B-v0.3",
        _decoder("mistral", 4096, 14336, 32, (32, 8), 32768, 32768, sliding_window=None),
    ),
    Preset(
        "mistral-small-24b",
        "mistralai/Mistral-Small-24B-Instruct-2501",
        _decoder("mistral", 5120, 32768, 40, (32, 8), 131072, 32768, head_dim=128, sliding_window=None),
    ),
    Preset(
        "mixtral-8x7b",
        "mistralai/Mixtral-8x7B-v0.1",
        _decoder("mixtral", 4096, 14336, 32, (32, 8), 32000, 32768, **_MIXTRAL),
    ),
    Preset(
        "mixtral-8x22b",
        "mistralai/Mixtral-8x22B-v0.1",
        _decoder("mixtral", 6144, 16384, 56, (48, 8), 32000, 65536, **_MIXTRAL),
    ),
    Preset("qwen2.5-0.5b", "Qwen/Qwen2.5-0.5B-Instruct", _qwen2(896, 4864, 24, (14, 2), 151936, **_TIED)),
    Preset("qwen2.5-7b", "Qwen/Qwen2.5-7B-Instruct", _qwen2(3584, 18944, 28, (28, 4))),
    Preset("qwen2.5-14b", "Qwen/Qwen2.5-14B-Instruct", _qwen2(5120, 13824, 48, (40, 8))),
    Preset("qwen2.5-32b", "Qwen/Qwen2.5-32B-Instruct", _qwen2(5120, 27648, 64, (40, 8))),
    Preset("qwen2.5-72b", "Qwen/Qwen2.5-72B-Instruct", _qwen2(8192, 29568, 80, (64, 8))),
    Preset("qwen3-0.6b", "Qwen/Qwen3-0.6B", _qwen3(1024, 3072, 28, (16, 8), **_TIED)),
    Preset("qwen3-4b", "Qwen/Qwen3-4B", _qwen3(2560, 9728, 36, (32, 8), **_TIED)),
    Preset("qwen3-8b", "Qwen/Qwen3-8B", _qwen3(4096, 12288, 36, (32, 8))),
    Preset("qwen3-14b", "Qwen/Qwen3-14B", _qwen3(5120, 17408, 40, (40, 8))),
    Preset("qwen3-32b", "Qwen/Qwen3-32B", _qwen3(5120, 25600, 64, (64, 8))),
    Preset("qwen3-30b-a3b", "Qwen/Qwen3-30B-A3B", _qwen3_moe(2048, 48, (32, 4), 768, 6144)),
    Preset("qwen3-235b-a22b", "Qwen/Qwen3-235B-A22B", _qwen3_moe(4096, 94, (64, 4), 1536, 12288)),
    Preset("qwen3-next-80b-a3b", f"Qwen/Qwen3-Next-80B-A3B-Instruct{_NO_MTP}", _QWEN3_NEXT),
    Preset("gemma2-2b", "google/gemma-2-2b", _gemma2(2304, 9216, 26, (8, 4), 256)),
    Preset("gemma2-9b", "google/gemma-2-9b", _gemma2(3584, 14336, 42, (16, 8), 256)),
    Preset("gemma2-27b", "google/gemma-2-27b", _gemma2(4608, 36864, 46, (32, 16), 128)),
    Preset("gemma3-1b", "google/gemma-3-1b-it", _gemma3(1152, 6912, 26, (4, 1), 256, 512, 262144, 32768)),
    Preset(
        "gemma3-12b",
        f"google/gemma-3-12b-it{_TEXT_ONLY}",
        _gemma3(3840, 15360, 48, (16, 8), 256, 1024, 262208, 131072),
    ),
    Preset(
        "gemma3-27b",
        f"google/gemma-3-27b-it{_TEXT_ONLY}",
        _gemma3(5376, 21504, 62, (32, 16), 128, 1024, 262208, 131072),
    ),
    Preset(
        "phi3-mini",
        "microsoft/Phi-3-mini-4k-instruct",
        _decoder("phi3", 3072, 8192, 32, (32, 32), 32064, 4096, sliding_window=2047),
    ),
    Preset(
        "phi4",
        "microsoft/phi-4",
        _decoder("phi3", 5120, 17920, 40, (40, 10), 100352, 16384, sliding_window=None),
    ),
    Preset(
        "deepseek-v2-lite",
        "deepseek-ai/DeepSeek-V2-Lite",
        _latent(
            "deepseek_v2",
            2048,
            27,
            16,
            102400,
            10944,
            1408,
            64,
            q_lora_rank=None,
            n_shared_experts=2,
            num_experts_per_tok=6,
            first_k_dense_replace=1,
        ),
    ),
    Preset(
        "deepseek-v3",
        f"deepseek-ai/DeepSeek-V3{_NO_MTP}",
        _latent("deepseek_v3", 7168, 61, 128, 129280, 18432, 2048, 256, first_k_dense_replace=3, **_V3),
    ),
    Preset(
        "deepseek-r1",
        f"deepseek-ai/DeepSeek-R1{_NO_MTP}",
        _latent("deepseek_v3", 7168, 61, 128, 129280, 18432, 2048, 256, first_k_dense_replace=3, **_V3),
    ),
    Preset(
        "kimi-k2",
        "moonshotai/Kimi-K2-Instruct",
        _latent("kimi_k2", 7168, 61, 64, 163840, 18432, 2048, 384, first_k_dense_replace=1, **_V3)
        | {"max_position_embeddings": 131072},
    ),
    Preset("gpt-oss-20b", "openai/gpt-oss-20b", _gpt_oss(24, 32)),
    Preset("gpt-oss-120b", "openai/gpt-oss-120b", _gpt_oss(36, 128)),
    Preset("glm-4.5-air", f"zai-org/GLM-4.5-Air{_NO_MTP}", _glm45(4096, 10944, 1408, 46, 128, 1, norm=False)),
    Preset("glm-4.5", f"zai-org/GLM-4.5{_NO_MTP}", _glm45(5120, 12288, 1536, 92, 160, 3, norm=True)),
    Preset(
        "smollm2-135m",
        "HuggingFaceTB/SmolLM2-135M",
        _decoder("llama", 576, 1536, 30, (9, 3), 49152, 8192, **_TIED),
    ),
    Preset(
        "smollm2-1.7b",
        "HuggingFaceTB/SmolLM2-1.7B",
        _decoder("llama", 2048, 8192, 24, (32, 32), 49152, 8192, **_TIED),
    ),
    Preset(
        "falcon-7b",
        "tiiuae/falcon-7b",
        _decoder("falcon", 4544, 18176, 32, (71, 1), 65024, 2048, **_TIED)
        | {"multi_query": True, "new_decoder_architecture": False, "parallel_attn": True, "bias": False},
    ),
    Preset(
        "gpt2",
        "openai-community/gpt2, in fp16",
        {
            "model_type": "gpt2",
            "n_embd": 768,
            "n_head": 12,
            "n_layer": 12,
            "n_positions": 1024,
            "vocab_size": 50257,
            "torch_dtype": "float16",
        },
    ),
)

PRESETS: dict[str, Preset] = {preset.name: preset for preset in _ALL}
"""Every preset, by name."""
