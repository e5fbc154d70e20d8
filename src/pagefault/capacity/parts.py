"""What decoders are built from: each part says what it stores for a token and how many weights it has.

A model is read from its configuration into these parts once; its cache and its weights both follow from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pagefault.capacity.shapes import FixedState, KVGroup


class Tally(NamedTuple):
    """Weights, apart by what a quantized checkpoint does to them.

    Attributes:
        matrices: Linear layers of the decoder that every token uses.
        experts: Linear layers of routed experts.
        rest: What stays in 16 bits: embeddings, output layer, norms, routers, biases, convolutions.
    """

    matrices: int = 0
    experts: int = 0
    rest: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.matrices + self.experts + self.rest

    def plus(self, other: Tally) -> Tally:
        """The sum."""
        return Tally(self.matrices + other.matrices, self.experts + other.experts, self.rest + other.rest)


class Window(NamedTuple):
    """A layer that looks back `tokens` tokens at most: ``sliding``, or ``chunked`` where it starts anew."""

    kind: str
    tokens: int


@dataclass(frozen=True)
class Attention:
    """Multi-head attention with a K and a V for each KV head.

    Attributes:
        heads: Query heads.
        kv_heads: KV heads.
        head_dim: Width of a head.
        window: How far it looks back, or None.
        qkv_bias: Whether the projections of Q, K and V have a bias.
        out_bias: Whether the output projection has one.
        extra: Weights beside the projections: norms of Q and K, sinks.
        gated: Whether the query projection also makes a gate of the same width.
    """

    heads: int
    kv_heads: int
    head_dim: int
    window: Window | None = None
    qkv_bias: bool = False
    out_bias: bool = False
    extra: int = 0
    gated: bool = False

    def tally(self, hidden: int) -> Tally:
        """Its weights in a model of this width."""
        query = self.heads * self.head_dim
        made = query * (2 if self.gated else 1) + 2 * self.kv_heads * self.head_dim
        bias = made * self.qkv_bias + hidden * self.out_bias
        return Tally(matrices=hidden * made + query * hidden, rest=bias + self.extra)

    def group(self) -> KVGroup:
        """What one such layer stores."""
        kind, tokens = self.window or ("full", None)
        return KVGroup(kind, 1, self.kv_heads, self.head_dim, self.head_dim, tokens)


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1): one latent a token for K and V.

    Attributes:
        heads: Query heads.
        query_rank: Rank of the query's own latent, or None where queries are projected at once.
        rank: Rank of the latent of K and V (``kv_lora_rank``).
        rope: Dims with position, stored beside the latent (``qk_rope_head_dim``).
        nope: Dims of a head without position.
        value: Dims of V a head.
        bias: Whether the projections down and out have a bias.
    """

    heads: int
    query_rank: int | None
    rank: int
    rope: int
    nope: int
    value: int
    bias: bool = False

    def tally(self, hidden: int) -> Tally:
        """Its weights in a model of this width."""
        query, down = self.heads * (self.nope + self.rope), self.rank + self.rope
        rest = self.rank + (down + hidden) * self.bias
        if self.query_rank is None:
            first = hidden * query
        else:
            first = self.query_rank * (hidden + query)
            rest += self.query_rank + self.query_rank * self.bias
        up = self.rank * self.heads * (self.nope + self.value)
        return Tally(first + hidden * down + up + self.heads * self.value * hidden, rest=rest)

    def group(self) -> KVGroup:
        """What one such layer stores."""
        return KVGroup("mla", 1, 1, self.rank + self.rope, 0)


@dataclass(frozen=True)
class DeltaNet:
    """Gated DeltaNet (arXiv:2412.06464), the linear attention of Qwen3-Next: a matrix a head, not a cache."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int
    conv_bytes: int
    state_bytes: int

    @property
    def _channels(self) -> int:
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim

    def tally(self, hidden: int) -> Tally:
        """Its weights in a model of this width."""
        values = self.value_heads * self.value_dim
        made = self._channels + values + 2 * self.value_heads  # q, k, v; the gate z; decay and rate a head
        rest = self._channels * self.kernel + 2 * self.value_heads + self.value_dim
        return Tally(hidden * made + values * hidden, rest=rest)

    def state(self) -> FixedState:
        """What one such layer keeps for a sequence."""
        conv = self._channels * (self.kernel - 1)
        matrix = self.value_heads * self.key_dim * self.value_dim
        formula = (
            f"({self.value_heads} × {self.key_dim} × {self.value_dim} × {self.state_bytes} B + "
            f"{self._channels:,} × {self.kernel - 1} × {self.conv_bytes} B)"
        )
        return FixedState("linear", 1, matrix * self.state_bytes + conv * self.conv_bytes, formula)


@dataclass(frozen=True)
class Mamba2:
    """A state-space layer (Mamba-2, arXiv:2405.21060): a matrix of `state` rows a head, and a short convolution."""

    heads: int
    head_dim: int
    groups: int
    state_size: int
    kernel: int
    conv_bias: bool
    bias: bool
    conv_bytes: int
    state_bytes: int

    @property
    def _inner(self) -> int:
        return self.heads * self.head_dim

    @property
    def _channels(self) -> int:
        return self._inner + 2 * self.groups * self.state_size

    def tally(self, hidden: int) -> Tally:
        """Its weights in a model of this width."""
        made = self._inner + self._channels + self.heads
        rest = self._channels * (self.kernel + self.conv_bias) + 3 * self.heads + self._inner
        return Tally(hidden * made + self._inner * hidden, rest=rest + (made + hidden) * self.bias)

    def state(self) -> FixedState:
        """What one such layer keeps for a sequence."""
        conv, matrix = self._channels * (self.kernel - 1), self._inner * self.state_size
        formula = (
            f"({self.heads} × {self.head_dim} × {self.state_size} × {self.state_bytes} B + "
            f"{self._channels:,} × {self.kernel - 1} × {self.conv_bytes} B)"
        )
        return FixedState("mamba", 1, matrix * self.state_bytes + conv * self.conv_bytes, formula)


Mixer = Attention | Latent | DeltaNet | Mamba2


@dataclass(frozen=True)
class Mlp:
    """A dense feed-forward part: two matrices, or three where it is gated."""

    width: int
    gated: bool = True
    bias: bool = False

    def tally(self, hidden: int) -> Tally:
        """Its weights in a model of this width."""
        first = self.width * (2 if self.gated else 1)
        return Tally(hidden * (first + self.width), rest=(first + hidden) * self.bias)


@dataclass(frozen=True)
class Moe:
    """A mixture of experts.

    Attributes:
        experts: Routed experts.
        per_token: How many of them a token goes through.
        width: Width of one.
        shared: Width of the experts that every token goes through, together; 0 without.
        gated: Whether experts have three matrices, not two.
        rest: Weights beside experts and router matrix: biases, the gate of the shared expert.
        expert_bias: Whether each expert's matrices have biases.
        latent: Width that routed experts work in, where it is not the model's.
    """

    experts: int
    per_token: int
    width: int
    shared: int = 0
    gated: bool = True
    rest: int = 0
    expert_bias: bool = False
    latent: int | None = None

    def tally(self, hidden: int) -> Tally:
        """Its weights in a model of this width, every expert counted."""
        inside = hidden if self.latent is None else self.latent
        one = Mlp(self.width, self.gated, self.expert_bias).tally(inside)
        shared = Mlp(self.shared, self.gated).tally(hidden).matrices
        if self.latent is not None:
            shared += 2 * hidden * self.latent
        router = hidden * self.experts
        return Tally(shared, one.matrices * self.experts, router + one.rest * self.experts + self.rest)


@dataclass(frozen=True)
class Layer:
    """One layer: something that looks at other tokens, something that does not, and norms."""

    mixer: Mixer | None
    ffn: Mlp | Moe | None
    norms: int

    def tally(self, hidden: int) -> Tally:
        """Its weights in a model of this width."""
        total = Tally(rest=self.norms)
        for part in (self.mixer, self.ffn):
            if part is not None:
                total = total.plus(part.tally(hidden))
        return total


@dataclass(frozen=True)
class Decoder:
    """A whole decoder.

    Attributes:
        hidden: Width of the residual stream.
        heads: Query heads, which tensor parallelism splits.
        layers: In order.
        embedding: Weights of the input embedding (and of learned positions).
        head: Weights of an output layer of its own; 0 where it is the embedding.
        rest: Weights beside layers, embedding and head: the last norm.
        uncounted: Why the weights cannot be counted, or empty.
    """

    hidden: int
    heads: int
    layers: tuple[Layer, ...]
    embedding: int
    head: int
    rest: int
    uncounted: str = ""

    def tally(self) -> Tally:
        """All weights."""
        total = Tally(rest=self.embedding + self.head + self.rest)
        for layer in self.layers:
            total = total.plus(layer.tally(self.hidden))
        return total
