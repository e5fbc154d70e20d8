"""Decoders with a mixture of experts, and those with multi-head latent attention, which all have one.

Sources as in `decoders`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pagefault.capacity.decoders import BIASED, QWEN3, FeedForward, Style, decoder, whole
from pagefault.capacity.parts import Latent, Layer, Mlp, Moe, Window
from pagefault.capacity.windows import Windows, even_below_max_window_layers, every_other, everywhere, if_used

if TYPE_CHECKING:
    from collections.abc import Callable

    from pagefault.capacity.fields import Fields
    from pagefault.capacity.parts import Decoder

_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
"""Names for the same number: transformers writes another one than the publisher's file has for some types."""


def routed(fields: Fields, experts: str, width: str) -> Moe:
    """Routed experts: how many the field `experts` says, each as wide as the field `width` says.

    Raises:
        ConfigError: A field is missing, or a token would go through more experts than there are.
    """
    number = fields.count(experts, *_EXPERTS)
    return Moe(number, fields.count("num_experts_per_tok", most=number), fields.count(width))


def _mixtral(fields: Fields, _: int) -> Moe:
    return routed(fields, "num_local_experts", "intermediate_size")


def _minimax_m2(fields: Fields, number: int) -> Moe:
    moe = _mixtral(fields, number)
    return replace(moe, rest=moe.experts)  # e_score_correction_bias


def _gpt_oss(fields: Fields, number: int) -> Moe:
    moe = _mixtral(fields, number)
    return replace(moe, rest=moe.experts, expert_bias=True)  # the router has a bias, each expert too


def _olmoe(fields: Fields, _: int) -> Moe:
    return routed(fields, "num_experts", "intermediate_size")


def qwen_moe(fields: Fields, number: int) -> Mlp | Moe:
    """Qwen's rule: every ``decoder_sparse_step``-th layer has experts, unless listed in ``mlp_only_layers``."""
    step = fields.count("decoder_sparse_step", default=1)
    dense = fields.items("mlp_only_layers", int) or []
    if number in dense or (number + 1) % step:
        return Mlp(fields.count("intermediate_size"))
    return routed(fields, "num_experts", "moe_intermediate_size")


def qwen_shared_moe(fields: Fields, number: int) -> Mlp | Moe:
    """The same with an expert that every token uses, behind a gate of one number."""
    ffn = qwen_moe(fields, number)
    if isinstance(ffn, Mlp):
        return ffn
    width = fields.count("shared_expert_intermediate_size")
    return replace(ffn, shared=width, rest=fields.count("hidden_size"))


def _llama4(fields: Fields, number: int) -> Mlp | Moe:
    listed = fields.items("moe_layers", int)
    step = fields.count("interleave_moe_layer_step", default=1)
    sparse = (number + 1) % step == 0 if listed is None else number in listed
    if not sparse:
        return Mlp(fields.count("intermediate_size_mlp"))
    moe = routed(fields, "num_local_experts", "intermediate_size")
    return replace(moe, shared=moe.width)


def _llama4_windows(fields: Fields, layers: int) -> Windows:
    """Layers with rotary positions are chunked; every ``no_rope_layer_interval``-th has none and sees everything."""
    rope = fields.items("no_rope_layers", int)  # 1: with rotary positions, whatever the name says
    if rope and len(rope) != layers:
        raise fields.error(
            "no_rope_layers", f"a list of {len(rope)}", f"one entry for each of {layers} layers"
        )
    if not rope:
        every = fields.count("no_rope_layer_interval", default=4)
        rope = [int((number + 1) % every != 0) for number in range(layers)]
    if fields.is_null("attention_chunk_size"):
        return [None] * layers
    window = Window("chunked", fields.count("attention_chunk_size"))
    return [window if rotary else None for rotary in rope]


def _first_dense(router_bias: bool) -> FeedForward:
    """DeepSeek's rule: the first ``first_k_dense_replace`` layers are dense, the others have shared experts too."""

    def read(fields: Fields, number: int) -> Mlp | Moe:
        step = fields.optional("moe_layer_freq") or 1
        if number < fields.count("first_k_dense_replace", least=0) or number % step:
            return Mlp(fields.count("intermediate_size"))
        moe = routed(fields, "n_routed_experts", "moe_intermediate_size")
        shared = 0 if fields.is_null("n_shared_experts") else fields.count("n_shared_experts", least=0)
        return replace(moe, shared=shared * moe.width, rest=moe.experts * router_bias)

    return read


def _latent_decoder(router_bias: bool) -> Callable[[Fields], Decoder]:
    ffn = _first_dense(router_bias)

    def read(fields: Fields) -> Decoder:
        hidden = fields.count("hidden_size")
        heads = fields.count("num_attention_heads")
        rank = fields.count("kv_lora_rank")
        query_rank = fields.optional("q_lora_rank")
        if query_rank is None and not fields.is_null("q_lora_rank"):
            raise fields.error(
                "q_lora_rank", "missing", "a whole number, or null for queries without a latent"
            )
        attention = Latent(
            heads,
            query_rank,
            rank,
            fields.count("qk_rope_head_dim"),
            fields.count("qk_nope_head_dim"),
            fields.count("v_head_dim"),
            fields.flag(BIASED, False),
        )
        layers = tuple(Layer(attention, ffn(fields, number), 2 * hidden) for number in range(fields.layers()))
        return whole(fields, heads, layers, tied=False)

    return read


def _glm4_moe(fields: Fields) -> Decoder:
    norm = "head" if fields.flag("use_qk_norm", False) else ""
    return decoder(Style(qkv_bias=BIASED, qk_norm=norm), _first_dense(router_bias=True))(fields)


_QWEN3_MOE = replace(QWEN3, windows=if_used)
_LLAMA4 = Style(windows=_llama4_windows, qkv_bias=BIASED, out_bias=BIASED)
_GPT_OSS = Style(windows=every_other(2), qkv_bias=BIASED, out_bias=BIASED, sinks=True)

SPARSE: dict[str, Callable[[Fields], Decoder]] = {
    "mixtral": decoder(Style(windows=everywhere), _mixtral),
    "qwen2_moe": decoder(Style(windows=even_below_max_window_layers, qkv_bias="qkv_bias"), qwen_shared_moe),
    "qwen3_moe": decoder(_QWEN3_MOE, qwen_moe),
    "qwen3_vl_moe_text": decoder(replace(QWEN3, windows=None), qwen_moe),
    "olmoe": decoder(Style(qkv_bias=BIASED, out_bias=BIASED, qk_norm="full"), _olmoe),
    "minimax_m2": decoder(Style(qk_norm="full"), _minimax_m2),
    "gpt_oss": decoder(_GPT_OSS, _gpt_oss),
    "llama4_text": decoder(_LLAMA4, _llama4),
    "glm4_moe": _glm4_moe,
    "deepseek_v2": _latent_decoder(router_bias=False),
    "deepseek_v3": _latent_decoder(router_bias=True),
    "kimi_k2": _latent_decoder(router_bias=True),
}
