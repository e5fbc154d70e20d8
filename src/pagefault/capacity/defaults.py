"""What a field means that a configuration leaves out: the defaults of its model type.

Transformers writes every field of a plain model, so only hand-made files lack these. Of a decoder inside another
model (``text_config``) it writes only what differs from the type's defaults: Gemma 3's published files say neither
their vocabulary nor their head width. Source: ``configuration_*.py`` of each model type in transformers 5.24. A
default that is taken is noted, so that people see it.
"""

from __future__ import annotations

KV_HEADS, HEAD_DIM, WINDOW, BIAS = "num_key_value_heads", "head_dim", "sliding_window", "attention_bias"

ABSENT: dict[str, dict[str, int | bool]] = {
    "mistral": {KV_HEADS: 8, WINDOW: 4096},
    "ministral3": {KV_HEADS: 8, HEAD_DIM: 128},
    "qwen2": {KV_HEADS: 32, WINDOW: 4096},
    "qwen2_vl_text": {KV_HEADS: 8, WINDOW: 4096},
    "qwen2_5_vl_text": {KV_HEADS: 8, WINDOW: 4096},
    "qwen3": {KV_HEADS: 32, HEAD_DIM: 128, WINDOW: 4096},
    "qwen3_vl_text": {KV_HEADS: 32, HEAD_DIM: 128},
    "gemma": {KV_HEADS: 16, HEAD_DIM: 256},
    "gemma2": {KV_HEADS: 4, HEAD_DIM: 256, WINDOW: 4096},
    "gemma3_text": {KV_HEADS: 4, HEAD_DIM: 256, WINDOW: 4096},
    "cohere2": {WINDOW: 4096},
    "glm": {KV_HEADS: 2, HEAD_DIM: 128, BIAS: True},
    "glm4": {KV_HEADS: 2, HEAD_DIM: 128, BIAS: True},
    "olmo3": {WINDOW: 4096},
    "seed_oss": {KV_HEADS: 8, HEAD_DIM: 128, BIAS: True},
    "smollm3": {KV_HEADS: 4},
    "starcoder2": {KV_HEADS: 2, "use_bias": True},
    "mixtral": {KV_HEADS: 8},
    "qwen2_moe": {KV_HEADS: 16, "qkv_bias": True, WINDOW: 4096},
    "qwen3_moe": {KV_HEADS: 4, WINDOW: 4096},
    "qwen3_vl_moe_text": {KV_HEADS: 16},
    "minimax_m2": {KV_HEADS: 8, HEAD_DIM: 128},
    "gpt_oss": {KV_HEADS: 8, HEAD_DIM: 64, BIAS: True, WINDOW: 128},
    "llama4_text": {KV_HEADS: 8, HEAD_DIM: 128},
    "glm4_moe": {KV_HEADS: 8},
    "qwen3_next": {KV_HEADS: 2, HEAD_DIM: 256},
    "qwen3_5_text": {KV_HEADS: 4, HEAD_DIM: 256},
    "qwen3_5_moe_text": {KV_HEADS: 2, HEAD_DIM: 256},
    "nemotron_h": {KV_HEADS: 8, HEAD_DIM: 128},
    "gpt_neox": {BIAS: True},
}
"""Beside these, a llama-like model has as many KV heads as heads, heads of hidden size ÷ heads, and no biases."""


def _sizes(hidden: int, width: int, layers: int, heads: int, vocab: int, longest: int) -> dict[str, int]:
    return {
        "hidden_size": hidden,
        "intermediate_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "vocab_size": vocab,
        "max_position_embeddings": longest,
    }


_DELTA_NET = {
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
}

INSIDE: dict[str, dict[str, int]] = {
    "llama": _sizes(4096, 11008, 32, 32, 32000, 2048),
    "mistral": _sizes(4096, 14336, 32, 32, 32000, 131072),
    "gemma3_text": _sizes(2304, 9216, 26, 8, 262208, 131072),
    "qwen2_vl_text": _sizes(8192, 29568, 80, 64, 152064, 32768) | {"max_window_layers": 80},
    "qwen2_5_vl_text": _sizes(8192, 29568, 80, 64, 152064, 32768) | {"max_window_layers": 80},
    "qwen3_vl_text": _sizes(4096, 22016, 32, 32, 151936, 128000),
    "qwen3_vl_moe_text": _sizes(2048, 5632, 24, 16, 151936, 128000)
    | {"num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408},
    "qwen3_5_text": _sizes(4096, 12288, 32, 16, 248320, 32768) | _DELTA_NET,
    "qwen3_5_moe_text": _sizes(2048, 512, 40, 16, 248320, 32768)
    | _DELTA_NET
    | {
        "num_experts": 256,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
    },
    "llama4_text": _sizes(5120, 8192, 48, 40, 202048, 131072)
    | {
        "intermediate_size_mlp": 16384,
        "num_local_experts": 16,
        "num_experts_per_tok": 1,
        "attention_chunk_size": 8192,
    },
}
"""Sizes of decoders inside another model; the whole model's own file has to give them."""
