"""Older decoders, with names of their own for the same fields: GPT-2, GPT-NeoX, OPT, BLOOM, Falcon.

Sources as in `decoders`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagefault.capacity.decoders import head_width, whole
from pagefault.capacity.parts import Attention, Decoder, Layer, Mlp

if TYPE_CHECKING:
    from collections.abc import Callable

    from pagefault.capacity.fields import Fields


def _plain(
    fields: Fields,
    names: tuple[str, ...],
    heads: int,
    layers: int,
    ffn: Mlp,
    *,
    positions: int = 0,
    tied: bool,
    bias: bool = True,
    norm_vectors: int = 2,
) -> Decoder:
    """Every head has its own K and V; two norms a layer and one at the end.

    Args:
        fields: The configuration.
        names: Of the field with the model's width.
        heads: Heads.
        layers: Layers.
        ffn: The feed-forward part.
        positions: Learned positions.
        tied: Whether the output layer is the embedding unless the configuration says otherwise.
        bias: Whether the projections of attention have biases.
        norm_vectors: Vectors a norm has: 2, or 0 without weights.
    """
    hidden, vocab = fields.count(*names), fields.count("vocab_size")
    if hidden % heads:
        raise fields.error(names[0], str(hidden), f"a multiple of the number of heads, {heads}")
    attention = Attention(heads, heads, hidden // heads, qkv_bias=bias, out_bias=bias)
    own = not fields.flag("tie_word_embeddings", tied)
    return Decoder(
        hidden,
        heads,
        (Layer(attention, ffn, 2 * norm_vectors * hidden),) * layers,
        embedding=(vocab + positions) * hidden,
        head=vocab * hidden * own,
        rest=norm_vectors * hidden,
    )


def _gpt2(fields: Fields) -> Decoder:
    hidden = fields.count("n_embd", "hidden_size")
    inner = fields.count("n_inner") if "n_inner" in fields else 4 * hidden
    positions = fields.count("n_positions", "max_position_embeddings", "n_ctx")
    heads, layers = (
        fields.count("n_head", "num_attention_heads"),
        fields.layers("n_layer", "num_hidden_layers"),
    )
    ffn = Mlp(inner, gated=False, bias=True)
    return _plain(fields, ("n_embd", "hidden_size"), heads, layers, ffn, positions=positions, tied=True)


def _gpt_neox(fields: Fields) -> Decoder:
    heads, layers = fields.count("num_attention_heads"), fields.layers()
    ffn = Mlp(fields.count("intermediate_size"), gated=False, bias=True)
    bias = fields.flag("attention_bias", True)
    return _plain(fields, ("hidden_size",), heads, layers, ffn, tied=False, bias=bias)


def _opt(fields: Fields) -> Decoder:
    hidden = fields.count("hidden_size")
    width = fields.count("word_embed_proj_dim", default=hidden)
    if width != hidden:
        raise fields.error(
            "word_embed_proj_dim", str(width), f"hidden_size, {hidden}: a projected embedding is not known"
        )
    if not fields.flag("do_layer_norm_before", True):
        raise fields.error("do_layer_norm_before", "false", "true: norms behind each part are not known")
    heads, layers = fields.count("num_attention_heads"), fields.layers()
    bias = fields.flag("enable_bias", True)
    return _plain(
        fields,
        ("hidden_size",),
        heads,
        layers,
        Mlp(fields.count("ffn_dim"), gated=False, bias=bias),
        positions=fields.count("max_position_embeddings") + 2,  # two of them are for padding
        tied=True,
        bias=bias,
        norm_vectors=2 * fields.flag("layer_norm_elementwise_affine", True),
    )


def _bloom(fields: Fields) -> Decoder:
    hidden = fields.count("hidden_size", "n_embed")
    heads, layers = (
        fields.count("n_head", "num_attention_heads"),
        fields.layers("n_layer", "num_hidden_layers"),
    )
    ffn = Mlp(4 * hidden, gated=False, bias=True)
    plain = _plain(fields, ("hidden_size", "n_embed"), heads, layers, ffn, tied=True)
    return Decoder(
        plain.hidden, plain.heads, plain.layers, plain.embedding, plain.head, plain.rest + 2 * hidden
    )  # a norm behind the embedding


def _falcon(fields: Fields) -> Decoder:
    """Falcon: one KV head (7B, ``multi_query``), several (40B, ``new_decoder_architecture``), or one a head (1B)."""
    hidden, heads = fields.count("hidden_size"), fields.count("num_attention_heads", "n_head")
    new = fields.flag("new_decoder_architecture", False)
    kv_heads = 1
    if new:
        kv_heads = fields.count("num_kv_heads", default=heads)
    elif not fields.flag("multi_query", True):
        kv_heads = heads
    if heads % kv_heads:
        raise fields.error("num_kv_heads", str(kv_heads), f"a divisor of num_attention_heads, {heads}")
    bias = fields.flag("bias", False)
    attention = Attention(heads, kv_heads, head_width(fields, hidden, heads), qkv_bias=bias, out_bias=bias)
    inner = fields.count("ffn_hidden_size") if "ffn_hidden_size" in fields else 4 * hidden
    parallel = fields.flag("parallel_attn", True)
    norms = 2 if new or not parallel else 1
    if new and parallel and "num_ln_in_parallel_attn" in fields:
        norms = fields.count("num_ln_in_parallel_attn")
    layer = Layer(attention, Mlp(inner, gated=False, bias=bias), 2 * norms * hidden)
    count = fields.layers("num_hidden_layers", "n_layer")
    return whole(fields, heads, (layer,) * count, tied=True, vectors=2)


ELDERS: dict[str, Callable[[Fields], Decoder]] = {
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "opt": _opt,
    "bloom": _bloom,
    "falcon": _falcon,
}
