"""Models by name: the fields of their ``config.json`` that size the cache and the weights.

Each preset is read by the same code as a file. Source: the ``config.json`` of the Hugging Face repository named in
`Preset.source`, without the fields that size nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pagefault.capacity.preset_fields import (
    MIXTRAL,
    QWEN3_NEXT,
    TIED,
    V3,
    decoder,
    gemma2,
    gemma3,
    glm45,
    gpt_oss,
    latent,
    llama3,
    llama4,
    qwen2,
    qwen3,
    qwen3_moe,
)


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


_TEXT_ONLY = ", its text decoder"
_NO_MTP = ", without the layer that predicts a second token"

_ALL = (
    Preset(
        "llama2-7b",
        "meta-llama/Llama-2-7b-hf",
        decoder("llama", 4096, 11008, 32, (32, 32), 32000, 4096, torch_dtype="float16"),
    ),
    Preset(
        "llama2-13b",
        "meta-llama/Llama-2-13b-hf",
        decoder("llama", 5120, 13824, 40, (40, 40), 32000, 4096, torch_dtype="float16"),
    ),
    Preset(
        "llama2-70b",
        "meta-llama/Llama-2-70b-hf",
        decoder("llama", 8192, 28672, 80, (64, 8), 32000, 4096, torch_dtype="float16"),
    ),
    Preset("llama3-8b", "meta-llama/Meta-Llama-3-8B", llama3(4096, 14336, 32, 32, 8192)),
    Preset("llama3-70b", "meta-llama/Meta-Llama-3-70B", llama3(8192, 28672, 80, 64, 8192)),
    Preset("llama3.1-8b", "meta-llama/Llama-3.1-8B", llama3(4096, 14336, 32, 32)),
    Preset("llama3.1-70b", "meta-llama/Llama-3.1-70B", llama3(8192, 28672, 80, 64)),
    Preset("llama3.1-405b", "meta-llama/Llama-3.1-405B", llama3(16384, 53248, 126, 128)),
    Preset("llama3.2-1b", "meta-llama/Llama-3.2-1B", llama3(2048, 8192, 16, 32, head_dim=64, **TIED)),
    Preset("llama3.2-3b", "meta-llama/Llama-3.2-3B", llama3(3072, 8192, 28, 24, head_dim=128, **TIED)),
    Preset("llama3.3-70b", "meta-llama/Llama-3.3-70B-Instruct", llama3(8192, 28672, 80, 64)),
    Preset("llama4-scout", f"meta-llama/Llama-4-Scout-17B-16E{_TEXT_ONLY}", llama4(16, 1, 10485760)),
    Preset("llama4-maverick", f"meta-llama/Llama-4-Maverick-17B-128E{_TEXT_ONLY}", llama4(128, 2, 1048576)),
    Preset(
        "mistral-7b",
        "mistralai/Mistral-7B-v0.3",
        decoder("mistral", 4096, 14336, 32, (32, 8), 32768, 32768, sliding_window=None),
    ),
    Preset(
        "mistral-small-24b",
        "mistralai/Mistral-Small-24B-Instruct-2501",
        decoder("mistral", 5120, 32768, 40, (32, 8), 131072, 32768, head_dim=128, sliding_window=None),
    ),
    Preset(
        "mixtral-8x7b",
        "mistralai/Mixtral-8x7B-v0.1",
        decoder("mixtral", 4096, 14336, 32, (32, 8), 32000, 32768, **MIXTRAL),
    ),
    Preset(
        "mixtral-8x22b",
        "mistralai/Mixtral-8x22B-v0.1",
        decoder("mixtral", 6144, 16384, 56, (48, 8), 32000, 65536, **MIXTRAL),
    ),
    Preset("qwen2.5-0.5b", "Qwen/Qwen2.5-0.5B-Instruct", qwen2(896, 4864, 24, (14, 2), 151936, **TIED)),
    Preset("qwen2.5-7b", "Qwen/Qwen2.5-7B-Instruct", qwen2(3584, 18944, 28, (28, 4))),
    Preset("qwen2.5-14b", "Qwen/Qwen2.5-14B-Instruct", qwen2(5120, 13824, 48, (40, 8))),
    Preset("qwen2.5-32b", "Qwen/Qwen2.5-32B-Instruct", qwen2(5120, 27648, 64, (40, 8))),
    Preset("qwen2.5-72b", "Qwen/Qwen2.5-72B-Instruct", qwen2(8192, 29568, 80, (64, 8))),
    Preset("qwen3-0.6b", "Qwen/Qwen3-0.6B", qwen3(1024, 3072, 28, (16, 8), **TIED)),
    Preset("qwen3-4b", "Qwen/Qwen3-4B", qwen3(2560, 9728, 36, (32, 8), **TIED)),
    Preset("qwen3-8b", "Qwen/Qwen3-8B", qwen3(4096, 12288, 36, (32, 8))),
    Preset("qwen3-14b", "Qwen/Qwen3-14B", qwen3(5120, 17408, 40, (40, 8))),
    Preset("qwen3-32b", "Qwen/Qwen3-32B", qwen3(5120, 25600, 64, (64, 8))),
    Preset("qwen3-30b-a3b", "Qwen/Qwen3-30B-A3B", qwen3_moe(2048, 48, (32, 4), 768, 6144)),
    Preset("qwen3-235b-a22b", "Qwen/Qwen3-235B-A22B", qwen3_moe(4096, 94, (64, 4), 1536, 12288)),
    Preset("qwen3-next-80b-a3b", f"Qwen/Qwen3-Next-80B-A3B-Instruct{_NO_MTP}", QWEN3_NEXT),
    Preset("gemma2-2b", "google/gemma-2-2b", gemma2(2304, 9216, 26, (8, 4), 256)),
    Preset("gemma2-9b", "google/gemma-2-9b", gemma2(3584, 14336, 42, (16, 8), 256)),
    Preset("gemma2-27b", "google/gemma-2-27b", gemma2(4608, 36864, 46, (32, 16), 128)),
    Preset("gemma3-1b", "google/gemma-3-1b-it", gemma3(1152, 6912, 26, (4, 1), 256, 512, 262144, 32768)),
    Preset(
        "gemma3-4b",
        f"google/gemma-3-4b-it{_TEXT_ONLY}",
        gemma3(2560, 10240, 34, (8, 4), 256, 1024, 262208, 131072),
    ),
    Preset(
        "gemma3-12b",
        f"google/gemma-3-12b-it{_TEXT_ONLY}",
        gemma3(3840, 15360, 48, (16, 8), 256, 1024, 262208, 131072),
    ),
    Preset(
        "gemma3-27b",
        f"google/gemma-3-27b-it{_TEXT_ONLY}",
        gemma3(5376, 21504, 62, (32, 16), 128, 1024, 262208, 131072),
    ),
    Preset(
        "phi3-mini",
        "microsoft/Phi-3-mini-4k-instruct",
        decoder("phi3", 3072, 8192, 32, (32, 32), 32064, 4096, sliding_window=2047),
    ),
    Preset(
        "phi4",
        "microsoft/phi-4",
        decoder("phi3", 5120, 17920, 40, (40, 10), 100352, 16384, sliding_window=None),
    ),
    Preset(
        "deepseek-v2-lite",
        "deepseek-ai/DeepSeek-V2-Lite",
        latent(
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
        latent("deepseek_v3", 7168, 61, 128, 129280, 18432, 2048, 256, first_k_dense_replace=3, **V3),
    ),
    Preset(
        "deepseek-r1",
        f"deepseek-ai/DeepSeek-R1{_NO_MTP}",
        latent("deepseek_v3", 7168, 61, 128, 129280, 18432, 2048, 256, first_k_dense_replace=3, **V3),
    ),
    Preset(
        "kimi-k2",
        "moonshotai/Kimi-K2-Instruct",
        latent("kimi_k2", 7168, 61, 64, 163840, 18432, 2048, 384, first_k_dense_replace=1, **V3)
        | {"max_position_embeddings": 131072},
    ),
    Preset("gpt-oss-20b", "openai/gpt-oss-20b", gpt_oss(24, 32)),
    Preset("gpt-oss-120b", "openai/gpt-oss-120b", gpt_oss(36, 128)),
    Preset("glm-4.5-air", f"zai-org/GLM-4.5-Air{_NO_MTP}", glm45(4096, 10944, 1408, 46, 128, 1, norm=False)),
    Preset("glm-4.5", f"zai-org/GLM-4.5{_NO_MTP}", glm45(5120, 12288, 1536, 92, 160, 3, norm=True)),
    Preset(
        "smollm2-135m",
        "HuggingFaceTB/SmolLM2-135M",
        decoder("llama", 576, 1536, 30, (9, 3), 49152, 8192, **TIED),
    ),
    Preset(
        "smollm2-1.7b",
        "HuggingFaceTB/SmolLM2-1.7B",
        decoder("llama", 2048, 8192, 24, (32, 32), 49152, 8192, **TIED),
    ),
    Preset(
        "falcon-7b",
        "tiiuae/falcon-7b",
        decoder("falcon", 4544, 18176, 32, (71, 1), 65024, 2048, **TIED)
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
