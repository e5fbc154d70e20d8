"""Decoders with attention in every layer: which fields of a configuration say what, family by family.

Source: ``configuration_*.py`` and ``modeling_*.py`` of each model type in transformers 5.24. What a
configuration leaves out is in `defaults`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pagefault.capacity.parts import Attention, Decoder, Layer, Mlp, Moe
from pagefault.capacity.windows import (
    WindowRule,
    above_max_window_layers,
    every_other,
    everywhere,
    layer_windows,
)

if TYPE_CHECKING:
    from pagefault.capacity.fields import Fields

FeedForward = Callable[["Fields", int], Mlp | Moe]
"""Reads the feed-forward part of the layer with this number."""


@dataclass(frozen=True)
class Style:
    """How a family of decoders differs from Llama.

    Attributes:
        windows: Which layers look back how far where ``layer_types`` is absent; None where all see everything.
        qkv_bias: The field that says whether Q, K and V have a bias, or the answer.
        out_bias: The same for the output projection.
        qk_norm: Norms of Q and K: none, over one head (``head``), or over all (``full``).
        norms: Norms a layer.
        norm_vectors: Vectors a norm has: 1, or 2 with a bias, or 0 without weights.
        gated: Whether the feed-forward part has three matrices.
        mlp_bias: The field that says whether it has biases, or the answer.
        tied: Whether the output layer is the embedding where ``tie_word_embeddings`` is absent.
        sinks: Whether each head has a learned sink.
    """

    windows: WindowRule | None = None
    qkv_bias: str | bool = False
    out_bias: str | bool = False
    qk_norm: str = ""
    norms: int = 2
    norm_vectors: int = 1
    gated: bool = True
    mlp_bias: str | bool = False
    tied: bool = False
    sinks: bool = False


def answer(fields: Fields, field: str | bool, default: bool = False) -> bool:
    """A flag that is either known or named by a field."""
    return fields.flag(field, default) if isinstance(field, str) else field


def head_counts(fields: Fields) -> tuple[int, int]:
    """Query heads and KV heads; as many KV heads as query heads where they are not given.

    Raises:
        ConfigError: The KV heads do not divide the query heads.
    """
    heads = fields.count("num_attention_heads")
    kv_heads = fields.count("num_key_value_heads", default=heads)
    if heads % kv_heads:
        raise fields.error("num_key_value_heads", str(kv_heads), f"a divisor of num_attention_heads, {heads}")
    return heads, kv_heads


def head_width(fields: Fields, hidden: int, heads: int) -> int:
    """The width of a head: ``head_dim`` where it is given, else hidden size ÷ heads.

    Raises:
        ConfigError: The heads do not divide the hidden size.
    """
    if "head_dim" in fields:
        return fields.count("head_dim")
    if hidden % heads:
        raise fields.error(
            "num_attention_heads", str(heads), f"a divisor of hidden_size, {hidden}, as head_dim is not given"
        )
    return hidden // heads


def read_attention(fields: Fields, hidden: int, style: Style) -> Attention:
    """The attention of a family, without a window."""
    heads, kv_heads = head_counts(fields)
    width = head_width(fields, hidden, heads)
    norms = {"": 0, "head": 2 * width, "full": (heads + kv_heads) * width}[style.qk_norm]
    return Attention(
        heads,
        kv_heads,
        width,
        qkv_bias=answer(fields, style.qkv_bias),
        out_bias=answer(fields, style.out_bias),
        extra=norms + heads * style.sinks,
    )


def read_mlp(fields: Fields, style: Style) -> Mlp:
    """The dense feed-forward part of a family."""
    return Mlp(fields.count("intermediate_size"), style.gated, answer(fields, style.mlp_bias))


def whole(
    fields: Fields,
    attention_heads: int,
    layers: tuple[Layer, ...],
    *,
    tied: bool | None,
    vectors: int = 1,
) -> Decoder:
    """Layers with an embedding before and a norm and an output layer behind them.

    Args:
        fields: The configuration.
        attention_heads: Query heads.
        layers: The layers.
        tied: Whether the output layer is the embedding unless the configuration says otherwise; None where the
            family never shares it, whatever the configuration says.
        vectors: Vectors that the last norm has.
    """
    hidden, vocab = fields.count("hidden_size"), fields.count("vocab_size")
    own = tied is None or not fields.flag("tie_word_embeddings", tied)
    return Decoder(
        hidden,
        attention_heads,
        layers,
        embedding=vocab * hidden,
        head=vocab * hidden * own,
        rest=vectors * hidden,
    )


def decoder(style: Style, ffn: FeedForward | None = None) -> Callable[[Fields], Decoder]:
    """The reader of a family: its style, and its feed-forward part where that is not dense."""

    def read(fields: Fields) -> Decoder:
        count, hidden = fields.layers(), fields.count("hidden_size")
        attention = read_attention(fields, hidden, style)
        windows = layer_windows(fields, count, style.windows)
        norms = style.norms * style.norm_vectors * hidden
        layers = tuple(
            Layer(
                replace(attention, window=window),
                ffn(fields, number) if ffn else read_mlp(fields, style),
                norms,
            )
            for number, window in enumerate(windows)
        )
        return whole(
            fields,
            attention.heads,
            layers,
            tied=style.tied,
            vectors=style.norm_vectors,
        )

    return read


BIASED = "attention_bias"
LLAMA = Style(qkv_bias=BIASED, out_bias=BIASED, mlp_bias="mlp_bias")
QWEN2 = Style(windows=above_max_window_layers, qkv_bias=True)
QWEN3 = Style(windows=above_max_window_layers, qkv_bias=BIASED, out_bias=BIASED, qk_norm="head")
_GEMMA = Style(qkv_bias=BIASED, out_bias=BIASED, tied=True)
_OLMO = Style(qkv_bias=BIASED, out_bias=BIASED, qk_norm="full")
_COHERE = Style(qkv_bias=BIASED, out_bias=BIASED, norms=1, tied=True)

DENSE: dict[str, Callable[[Fields], Decoder]] = {
    "llama": decoder(LLAMA),
    "mistral": decoder(Style(windows=everywhere)),
    "ministral3": decoder(Style(windows=everywhere)),
    "qwen2": decoder(QWEN2),
    "qwen2_vl_text": decoder(QWEN2),
    "qwen2_5_vl_text": decoder(QWEN2),
    "qwen3": decoder(QWEN3),
    "qwen3_vl_text": decoder(replace(QWEN3, windows=None)),
    "phi3": decoder(Style(windows=everywhere)),
    "gemma": decoder(_GEMMA),
    "gemma2": decoder(replace(_GEMMA, norms=4, windows=every_other(2))),
    "gemma3_text": decoder(replace(_GEMMA, norms=4, qk_norm="head", windows=every_other(6))),
    "cohere": decoder(_COHERE),
    "cohere2": decoder(replace(_COHERE, windows=every_other(4))),
    "glm": decoder(Style(qkv_bias=BIASED)),
    "glm4": decoder(Style(qkv_bias=BIASED, norms=4)),
    "granite": decoder(LLAMA),
    "olmo": decoder(replace(LLAMA, norm_vectors=0, mlp_bias=False)),
    "olmo2": decoder(_OLMO),
    "olmo3": decoder(replace(_OLMO, windows=every_other(4))),
    "seed_oss": decoder(Style(qkv_bias=BIASED, out_bias="attention_out_bias", mlp_bias="mlp_bias")),
    "smollm3": decoder(replace(LLAMA, tied=True)),
    "starcoder2": decoder(
        Style(
            windows=everywhere,
            qkv_bias="use_bias",
            out_bias="use_bias",
            mlp_bias="use_bias",
            gated=False,
            norm_vectors=2,
            tied=True,
        )
    ),
}
