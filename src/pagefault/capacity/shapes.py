"""What of a model matters to its cache: which layers store what for a token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagefault.errors import InputError

if TYPE_CHECKING:
    from pagefault.capacity.dtypes import KVDtype


@dataclass(frozen=True)
class KVGroup:
    """Layers that store the same thing for a token.

    Attributes:
        kind: ``full``, ``sliding``, ``chunked`` or ``mla``.
        layers: How many layers store it (layers that reuse another layer's K and V are not counted).
        kv_heads: KV heads of the whole model; 1 for MLA, whose latent all heads share.
        k_dim: Values of K a token, layer and head; for MLA the latent, ``kv_lora_rank + qk_rope_head_dim``.
        v_dim: Values of V a token, layer and head; 0 for MLA, where V is computed from the same latent.
        window: Tokens after which a layer of this kind stops growing, or None.
    """

    kind: str
    layers: int
    kv_heads: int
    k_dim: int
    v_dim: int
    window: int | None = None

    def heads_per_rank(self, tp: int) -> int:
        """KV heads that one of `tp` ranks stores; heads are replicated when there are fewer than ranks.

        Raises:
            InputError: Neither divides the other.
        """
        if self.kind == "mla":
            return 1  # the latent belongs to every head, so every rank keeps all of it
        if self.kv_heads % tp == 0:
            return self.kv_heads // tp
        if tp % self.kv_heads == 0:
            return 1
        raise InputError(
            f"tensor parallelism of {tp} does not divide the model's {self.kv_heads} KV heads "
            f"(num_key_value_heads), nor do the heads divide it; give --tp a divisor or a multiple of {self.kv_heads}"
        )

    def bytes_per_token(self, dtype: KVDtype, tp: int = 1) -> int:
        """Bytes a token on one rank, over all layers of the group (scales included)."""
        heads = self.heads_per_rank(tp)
        bits = heads * (self.k_dim + self.v_dim) * dtype.bits
        scales = heads * dtype.scale_bytes * (1 if self.v_dim == 0 else 2)
        return self.layers * ((bits + 7) // 8 + scales)


@dataclass(frozen=True)
class FixedState:
    """Layers that keep a state of fixed size a sequence instead of a KV cache (Mamba, linear attention).

    Attributes:
        kind: ``mamba``, ``linear``, …
        layers: How many.
        bytes_per_layer: Bytes a sequence and layer on one GPU without tensor parallelism.
        formula: How that number came about, for people.
    """

    kind: str
    layers: int
    bytes_per_layer: int
    formula: str


@dataclass(frozen=True)
class Weights:
    """How many parameters a model has and what they weigh.

    Attributes:
        parameters: All of them, every expert included.
        active: Those that one token uses (all of them, unless the model is a mixture of experts).
        bytes: Size as stored by the checkpoint.
        formula: How the bytes came about, for people.
        lookup: Parameters of an input embedding that is not also the output layer: a step reads a few rows of it
            and multiplies with none.
        experts: Routed experts a layer; 0 without a mixture of experts.
        experts_per_token: How many of them a token goes through.
    """

    parameters: int
    active: int
    bytes: int
    formula: str
    lookup: int = 0
    experts: int = 0
    experts_per_token: int = 0


@dataclass(frozen=True)
class ModelShape:
    """The shape of a model.

    Attributes:
        name: What the user called it.
        model_type: Hugging Face ``model_type``.
        layers: Layers of all kinds.
        hidden_size: Width of the residual stream.
        attention_heads: Query heads.
        dtype: The format of its activations, hence of the cache unless another is asked for (``bfloat16`` …); None
            where the config names none.
        max_position: Longest context it was made for, or None where the config does not say.
        groups: What a token stores.
        state: What a sequence stores whatever its length.
        weights: Parameters and bytes, or None where they cannot be counted from the config.
        uncounted: Why they cannot, in the middle of a sentence; empty where they can.
        notes: Where it comes from, and defaults that were taken for absent fields, for people.
    """

    name: str
    model_type: str
    layers: int
    hidden_size: int
    attention_heads: int
    dtype: str | None
    max_position: int | None
    groups: tuple[KVGroup, ...]
    state: tuple[FixedState, ...] = ()
    weights: Weights | None = None
    uncounted: str = ""
    notes: tuple[str, ...] = ()
