"""Decoders of which some layers keep a fixed state instead of a cache: Qwen3-Next, Qwen3.5, Nemotron-H, Granite 4.

Sources as in `decoders`. Sizes of states are those that vLLM allocates: the last ``kernel − 1`` inputs of the
convolution in the model's dtype, and a matrix a head in the dtype that the configuration names for it, float32
(what transformers keeps) where it names none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pagefault.capacity.decoders import BIASED, Style, head_counts, head_width, read_attention, whole
from pagefault.capacity.dtypes import find_dtype
from pagefault.capacity.experts import qwen_shared_moe, routed
from pagefault.capacity.fields import shown
from pagefault.capacity.parts import Attention, Decoder, DeltaNet, Layer, Mamba2, Mixer, Mlp, Moe

if TYPE_CHECKING:
    from collections.abc import Callable

    from pagefault.capacity.decoders import FeedForward
    from pagefault.capacity.fields import Fields

ATTENTION, LINEAR = "full_attention", "linear_attention"


def _bytes(name: str | None, default: int) -> int:
    return default if name is None else find_dtype(name).bits // 8


def _conv_bytes(fields: Fields) -> int:
    """Bytes a value of the model's dtype; 2 where the configuration names none, which is refused elsewhere."""
    return _bytes(fields.text("dtype", "torch_dtype"), 2)


def _delta_net(fields: Fields) -> DeltaNet:
    return DeltaNet(
        key_heads=fields.count("linear_num_key_heads"),
        value_heads=fields.count("linear_num_value_heads"),
        key_dim=fields.count("linear_key_head_dim"),
        value_dim=fields.count("linear_value_head_dim"),
        kernel=fields.count("linear_conv_kernel_dim"),
        conv_bytes=_conv_bytes(fields),
        state_bytes=_bytes(fields.text("mamba_ssm_dtype"), 4),
    )


def _qwen_kinds(fields: Fields) -> list[str]:
    count = fields.layers()
    kinds = fields.items("layer_types", str, count)
    if kinds is None:
        every = fields.count("full_attention_interval", default=4)
        kinds = [LINEAR if (number + 1) % every else ATTENTION for number in range(count)]
    for kind in kinds:
        if kind not in (ATTENTION, LINEAR):
            raise fields.error("layer_types", shown(kind), f"{ATTENTION} or {LINEAR}")
    return kinds


def _qwen_hybrid(ffn: FeedForward) -> Callable[[Fields], Decoder]:
    style = Style(qkv_bias=BIASED, out_bias=BIASED, qk_norm="head")

    def read(fields: Fields) -> Decoder:
        hidden = fields.count("hidden_size")
        attention = replace(read_attention(fields, hidden, style), gated=True)
        linear = _delta_net(fields)
        layers = tuple(
            Layer(attention if kind == ATTENTION else linear, ffn(fields, number), 2 * hidden)
            for number, kind in enumerate(_qwen_kinds(fields))
        )
        return whole(fields, attention.heads, layers, tied=False)

    return read


def _dense(fields: Fields, _: int) -> Mlp:
    return Mlp(fields.count("intermediate_size"))


def _every_layer_moe(fields: Fields, _: int) -> Moe:
    moe = routed(fields, "num_experts", "moe_intermediate_size")
    shared = fields.count("shared_expert_intermediate_size")
    return replace(moe, shared=shared, rest=fields.count("hidden_size"))


_NEMOTRON_SIGNS = {"M": LINEAR, "E": "moe", "*": ATTENTION, "-": "mlp"}
_NEMOTRON_NAMES = {"mamba": LINEAR, "attention": ATTENTION}


def _nemotron_kinds(fields: Fields) -> list[str]:
    count = fields.layers() if "num_hidden_layers" in fields else None
    pattern = fields.text("hybrid_override_pattern")
    if pattern is not None:
        for sign in pattern:
            if sign not in _NEMOTRON_SIGNS:
                raise fields.error("hybrid_override_pattern", shown(pattern), "the letters M, E, - and *")
        if count is not None and len(pattern) != count:
            raise fields.error(
                "hybrid_override_pattern", f"{len(pattern)} letters", f"one for each of {count} layers"
            )
        return [_NEMOTRON_SIGNS[sign] for sign in pattern]
    name = "layers_block_type" if "layers_block_type" in fields else "layer_types"
    kinds = fields.items(name, str, count)
    if kinds is None:
        raise fields.error("hybrid_override_pattern", "missing", "one letter of M, E, - and * for each layer")
    kinds = [_NEMOTRON_NAMES.get(kind, kind) for kind in kinds]
    for kind in kinds:
        if kind not in _NEMOTRON_SIGNS.values():
            raise fields.error(name, shown(kind), "mamba, attention, mlp or moe")
    return kinds


def _nemotron_moe(fields: Fields, hidden: int, bias: bool) -> Moe:
    moe = routed(fields, "n_routed_experts", "moe_intermediate_size")
    shared, latent = fields.count("moe_shared_expert_intermediate_size"), fields.optional("moe_latent_size")
    biases = shared + hidden + (0 if latent is None else latent + hidden)
    return replace(moe, shared=shared, gated=False, rest=moe.experts + biases * bias, latent=latent)


def _nemotron_h(fields: Fields) -> Decoder:
    """Nemotron-H: each layer is one thing, a state-space layer, attention, or a feed-forward part."""
    hidden = fields.count("hidden_size")
    heads, kv_heads = head_counts(fields)
    mlp_bias = fields.flag("mlp_bias", False)
    mamba = Mamba2(
        heads=fields.count("mamba_num_heads"),
        head_dim=fields.count("mamba_head_dim"),
        groups=fields.count("n_groups", "mamba_n_groups"),
        state_size=fields.count("ssm_state_size"),
        kernel=fields.count("conv_kernel", "mamba_d_conv"),
        conv_bias=fields.flag("use_conv_bias", True),
        bias=fields.flag("use_bias", False),
        conv_bytes=_conv_bytes(fields),
        state_bytes=_bytes(fields.text("mamba_ssm_cache_dtype"), 4),
    )
    attention = Attention(heads, kv_heads, head_width(fields, hidden, heads))

    def layer(kind: str) -> Layer:
        if kind == LINEAR:
            return Layer(mamba, None, hidden)
        if kind == ATTENTION:
            return Layer(attention, None, hidden)
        if kind == "mlp":
            return Layer(None, Mlp(fields.count("intermediate_size"), gated=False, bias=mlp_bias), hidden)
        return Layer(None, _nemotron_moe(fields, hidden, mlp_bias), hidden)

    return whole(fields, heads, tuple(layer(kind) for kind in _nemotron_kinds(fields)), tied=None)


def _granite_hybrid(fields: Fields) -> Decoder:
    """Granite 4: state-space layers or attention, then a shared feed-forward part and perhaps experts."""
    hidden = fields.count("hidden_size")
    attention = read_attention(fields, hidden, Style(qkv_bias=BIASED, out_bias=BIASED))
    heads = fields.count("mamba_n_heads")
    mamba = Mamba2(
        heads=heads,
        head_dim=fields.count("mamba_d_head"),
        groups=fields.count("mamba_n_groups"),
        state_size=fields.count("mamba_d_state"),
        kernel=fields.count("mamba_d_conv"),
        conv_bias=fields.flag("mamba_conv_bias", True),
        bias=fields.flag("mamba_proj_bias", False),
        conv_bytes=_conv_bytes(fields),
        state_bytes=4,
    )
    experts = fields.count("num_local_experts", least=0)
    shared = fields.count("shared_intermediate_size")
    ffn: Mlp | Moe = Mlp(shared)
    if experts:
        ffn = replace(routed(fields, "num_local_experts", "intermediate_size"), shared=shared)
    kinds = fields.items("layer_types", str, fields.layers())
    if kinds is None:
        raise fields.error("layer_types", "missing", "mamba or attention for each layer")
    mixers: dict[str, Mixer] = {"mamba": mamba, LINEAR: mamba, "attention": attention, ATTENTION: attention}
    for kind in kinds:
        if kind not in mixers:
            raise fields.error("layer_types", shown(kind), "mamba or attention")
    layers = tuple(Layer(mixers[kind], ffn, 2 * hidden) for kind in kinds)
    return whole(fields, attention.heads, layers, tied=False)


HYBRID: dict[str, Callable[[Fields], Decoder]] = {
    "qwen3_next": _qwen_hybrid(qwen_shared_moe),
    "qwen3_5_text": _qwen_hybrid(_dense),
    "qwen3_5_moe_text": _qwen_hybrid(_every_layer_moe),
    "nemotron_h": _nemotron_h,
    "granitemoehybrid": _granite_hybrid,
}
