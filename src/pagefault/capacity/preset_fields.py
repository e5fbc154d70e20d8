"""Fields of ``config.json`` that the models of one family share, for `presets`."""

from __future__ import annotations

from typing import Any


def decoder(
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


FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
TIED: dict[str, Any] = {"tie_word_embeddings": True}


def llama3(
    hidden: int, width: int, layers: int, heads: int, longest: int = 131072, **more: Any
) -> dict[str, Any]:
    """Llama 3 in all its sizes: 8 KV heads, one vocabulary."""
    return decoder("llama", hidden, width, layers, (heads, 8), 128256, longest, **more)


def qwen2(
    hidden: int, width: int, layers: int, heads: tuple[int, int], vocab: int = 152064, **more: Any
) -> dict[str, Any]:
    """Qwen2.5: a window is named but not used."""
    fields = decoder("qwen2", hidden, width, layers, heads, vocab, 32768, **more)
    return fields | {"use_sliding_window": False, "sliding_window": 131072, "max_window_layers": layers}


def qwen3(
    hidden: int, width: int, layers: int, heads: tuple[int, int], model_type: str = "qwen3", **more: Any
) -> dict[str, Any]:
    """Qwen3: heads of 128 whatever the width."""
    fields = decoder(model_type, hidden, width, layers, heads, 151936, 40960, head_dim=128)
    return fields | {"use_sliding_window": False, "sliding_window": None} | more


def qwen3_moe(hidden: int, layers: int, heads: tuple[int, int], width: int, dense: int) -> dict[str, Any]:
    """Qwen3 with 128 experts in every layer."""
    return qwen3(
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


def gemma2(hidden: int, width: int, layers: int, heads: tuple[int, int], head_dim: int) -> dict[str, Any]:
    """Gemma 2: every other layer slides."""
    fields = decoder("gemma2", hidden, width, layers, heads, 256000, 8192, **TIED)
    return fields | {"head_dim": head_dim, "sliding_window": 4096, "sliding_window_pattern": 2}


def gemma3(
    hidden: int,
    width: int,
    layers: int,
    heads: tuple[int, int],
    head_dim: int,
    window: int,
    vocab: int,
    longest: int,
) -> dict[str, Any]:
    """Gemma 3's decoder: five layers of six slide."""
    fields = decoder("gemma3_text", hidden, width, layers, heads, vocab, longest, **TIED)
    return fields | {"head_dim": head_dim, "sliding_window": window, "sliding_window_pattern": 6}


def latent(
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
    return decoder(model_type, hidden, dense, layers, (heads, heads), vocab, 163840) | {
        "moe_intermediate_size": width,
        "n_routed_experts": experts,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        **more,
    }


def gpt_oss(layers: int, experts: int) -> dict[str, Any]:
    """gpt-oss: heads of 64, every other layer slides, experts in MXFP4."""
    return decoder("gpt_oss", 2880, 2880, layers, (64, 8), 201088, 131072) | {
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


def llama4(experts: int, step: int, longest: int) -> dict[str, Any]:
    """Llama 4's decoder: three layers of four are chunked."""
    return decoder("llama4_text", 5120, 8192, 48, (40, 8), 202048, longest) | {
        "head_dim": 128,
        "intermediate_size_mlp": 16384,
        "num_local_experts": experts,
        "num_experts_per_tok": 1,
        "interleave_moe_layer_step": step,
        "no_rope_layer_interval": 4,
        "attention_chunk_size": 8192,
    }


def glm45(
    hidden: int, dense: int, width: int, layers: int, experts: int, first: int, norm: bool
) -> dict[str, Any]:
    """GLM-4.5: dense first layers, one shared expert."""
    return decoder("glm4_moe", hidden, dense, layers, (96, 8), 151552, 131072) | {
        "head_dim": 128,
        "attention_bias": True,
        "use_qk_norm": norm,
        "moe_intermediate_size": width,
        "n_routed_experts": experts,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "first_k_dense_replace": first,
    }


QWEN3_NEXT = decoder("qwen3_next", 2048, 5120, 48, (16, 2), 151936, 262144) | {
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

V3 = {"q_lora_rank": 1536, "n_shared_experts": 1, "num_experts_per_tok": 8, "quantization_config": FP8}
MIXTRAL = {"num_experts_per_tok": 2, "num_local_experts": 8, "sliding_window": None}
