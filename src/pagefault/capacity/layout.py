"""What a sequence occupies on one GPU: bytes that grow with its tokens, ceilings, and fixed state.

A model's layers fall into parts. A part's bytes grow with every token until its window is full (or for ever),
and a sequence may hold a fixed state besides. Everything that `calc` counts is computed from this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pagefault.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pagefault.capacity.dtypes import KVDtype
    from pagefault.capacity.shapes import FixedState, KVGroup, ModelShape

MAX_BLOCK_SIZE = 256


@dataclass(frozen=True)
class LayoutPart:
    """Layers whose K and V live and die together.

    Attributes:
        kind: ``full``, ``sliding``, ``chunked`` or ``mla``, as in `KVGroup`.
        bytes_per_token: Bytes a token over all layers of the part, on one GPU.
        window: Tokens after which it stops growing, or None.
        formula: How the bytes came about, with the numbers put in.
    """

    kind: str
    bytes_per_token: int
    window: int | None = None
    formula: str = ""

    def blocks(self, tokens: NDArray[np.int64], block_size: int) -> NDArray[np.int64]:
        """Blocks that sequences of so many tokens hold at most: int64, shape as `tokens`."""
        blocks = -(-tokens // block_size)
        ceiling = self.ceiling_blocks(block_size)
        return blocks if ceiling is None else np.minimum(blocks, ceiling)

    def ceiling_blocks(self, block_size: int) -> int | None:
        """Blocks that a sequence of any length holds at most, or None.

        A window slides over block boundaries, so `window` tokens touch up to
        ``ceil((window − 1) / block_size) + 1`` blocks; a chunk begins where the last one ended, so it touches
        ``ceil(window / block_size)``, and one more where blocks do not divide chunks.
        """
        if self.window is None:
            return None
        if self.kind == "chunked" and self.window % block_size == 0:
            return self.window // block_size
        return -(-(self.window - 1) // block_size) + 1

    def stored(self, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """Tokens that sequences of so many tokens still need: int64, shape as `tokens`."""
        return tokens if self.window is None else np.minimum(tokens, self.window)


@dataclass(frozen=True)
class StatePart:
    """Layers that hold the same bytes for a sequence of any length.

    Attributes:
        kind: As in `FixedState`.
        bytes_per_sequence: Bytes a sequence over all layers, on one GPU.
        formula: How the bytes came about, with the numbers put in.
    """

    kind: str
    bytes_per_sequence: int
    formula: str


@dataclass(frozen=True)
class CacheLayout:
    """All parts of a cache, on one GPU.

    Attributes:
        parts: What grows.
        states: What does not.
    """

    parts: tuple[LayoutPart, ...]
    states: tuple[StatePart, ...] = ()

    @property
    def bytes_per_token(self) -> int:
        """Bytes a token while every part still grows."""
        return sum(part.bytes_per_token for part in self.parts)

    @property
    def bytes_per_token_later(self) -> int:
        """Bytes a token once every window is full; 0 where all parts have one."""
        return sum(part.bytes_per_token for part in self.parts if part.window is None)

    @property
    def state_bytes(self) -> int:
        """Bytes a sequence whatever its length."""
        return sum(state.bytes_per_sequence for state in self.states)

    @property
    def windowed(self) -> bool:
        """Whether any part stops growing."""
        return any(part.window is not None for part in self.parts)

    @property
    def uniform(self) -> bool:
        """Whether every layer holds the same number of blocks, so that a pool is a number of blocks."""
        kept = {(part.window, part.kind == "chunked" and part.window is not None) for part in self.parts}
        return len(kept) == 1 and not self.states

    def window_ceiling(self, block_size: int) -> int:
        """Bytes a sequence holds at most, in whole blocks, in the parts that have a window; 0 without any."""
        parts = CacheLayout(tuple(part for part in self.parts if part.window is not None))
        longest = max((part.window or 0 for part in parts.parts), default=0)
        return parts.paged_bytes(longest + block_size, block_size)

    def blocks(self, tokens: NDArray[np.int64], block_size: int) -> NDArray[np.int64]:
        """Blocks of the part that holds most: int64, shape as `tokens`; zero where nothing grows."""
        blocks = np.zeros_like(tokens)
        for part in self.parts:
            blocks = np.maximum(blocks, part.blocks(tokens, block_size))
        return blocks

    def paged(self, tokens: NDArray[np.int64], block_size: int) -> NDArray[np.int64]:
        """Bytes that paged sequences of so many tokens reserve, state included: int64, shape as `tokens`."""
        total = np.full_like(tokens, self.state_bytes)
        for part in self.parts:
            total += part.blocks(tokens, block_size) * (block_size * part.bytes_per_token)
        return total

    def stored(self, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """Bytes in use of sequences of so many tokens, state included: int64, shape as `tokens`."""
        total = np.full_like(tokens, self.state_bytes)
        for part in self.parts:
            total += part.stored(tokens) * part.bytes_per_token
        return total

    def paged_bytes(self, tokens: int, block_size: int) -> int:
        """Bytes that one paged sequence of so many tokens reserves."""
        return int(self.paged(np.array([tokens], dtype=np.int64), block_size)[0])

    def contiguous_bytes(self, max_len: int) -> int:
        """Bytes that a contiguous cache reserves for one sequence of up to `max_len` tokens.

        Parts with a window reserve no more than the window: a ring buffer, as contiguous caches have it.
        """
        return int(self.stored(np.array([max_len], dtype=np.int64))[0])


def check_block_size(block_size: int) -> None:
    """Raise unless `block_size` is a power of two from 1 to 256.

    Raises:
        InputError: It is not.
    """
    if not (1 <= block_size <= MAX_BLOCK_SIZE and block_size & (block_size - 1) == 0):
        raise InputError(
            f"block size is {block_size}, expected a power of two from 1 to {MAX_BLOCK_SIZE} tokens"
        )


def plain_layout(bytes_per_token: int, formula: str = "") -> CacheLayout:
    """A cache of which nothing is known but its bytes a token (and, for people, how they came about).

    Raises:
        InputError: `bytes_per_token` is below 1.
    """
    if bytes_per_token < 1:
        raise InputError(f"bytes a token is {bytes_per_token}, expected 1 or more")
    return CacheLayout((LayoutPart("full", bytes_per_token, formula=formula),))


def cache_layout(shape: ModelShape, dtype: KVDtype, tp: int = 1) -> CacheLayout:
    """What a model's cache occupies on one of `tp` GPUs.

    Args:
        shape: The model.
        dtype: Format of K and V.
        tp: Ranks of tensor parallelism; KV heads are split among them and replicated where there are fewer
            heads than ranks, an MLA latent is kept whole by every rank, a fixed state is split.

    Raises:
        InputError: `tp` is below 1 or does not divide the attention heads, or does not go with the KV heads.
    """
    check_tp(shape, tp)
    return CacheLayout(
        tuple(
            LayoutPart(
                group.kind, group.bytes_per_token(dtype, tp), group.window, group_formula(group, dtype, tp)
            )
            for group in shape.groups
        ),
        tuple(_state_part(state, tp) for state in shape.state),
    )


def check_tp(shape: ModelShape, tp: int) -> None:
    """Raise unless `tp` ranks can share the model's attention heads evenly.

    Raises:
        InputError: They cannot.
    """
    if tp < 1:
        raise InputError(f"tensor parallelism is {tp}, expected 1 or more GPUs")
    if shape.attention_heads % tp:
        raise InputError(
            f"tensor parallelism of {tp} does not divide the {shape.attention_heads} attention heads of "
            f"{shape.name}; give --tp a divisor of {shape.attention_heads}"
        )
    for group in shape.groups:
        group.heads_per_rank(tp)


def bytes_per_token(shape: ModelShape, dtype: KVDtype, tp: int = 1) -> int:
    """Bytes a token on one of `tp` GPUs, over all layers, while every layer still grows.

    Raises:
        InputError: `tp` does not go with the model's heads.
    """
    return cache_layout(shape, dtype, tp).bytes_per_token


def sequence_ceiling(shape: ModelShape, dtype: KVDtype, block_size: int, tp: int = 1) -> int | None:
    """The most a sequence ever holds on one GPU, in bytes of whole blocks; None if it grows for ever.

    Raises:
        InputError: The block size or `tp` cannot be.
    """
    check_block_size(block_size)
    layout = cache_layout(shape, dtype, tp)
    if layout.bytes_per_token_later:
        return None
    return layout.window_ceiling(block_size) + layout.state_bytes


def group_formula(group: KVGroup, dtype: KVDtype, tp: int = 1) -> str:
    """Bytes a token of a group with the numbers put in: ``2 (K, V) × 32 layers × 8 KV heads × 128 × 2 B``."""
    heads = group.heads_per_rank(tp)
    size = f"{dtype.bytes_per_value:g} B"
    if group.kind == "mla":
        values = f"{group.k_dim} × {size}"
        values = f"({values} + {dtype.scale_bytes} B scale)" if dtype.scale_bytes else values
        whole = ", whole on every GPU" if tp > 1 else ""
        return f"{group.layers} layers × {values} (one latent for K and V{whole})"
    of_rank = f"{heads} KV heads" if heads != 1 else "1 KV head"
    if tp > 1:
        how = "÷" if group.kv_heads >= tp else "replicated over"
        of_rank += f" ({group.kv_heads} {how} {tp} GPUs)"
    if group.k_dim == group.v_dim:
        values = f"{group.k_dim} × {size}"
        values = f"({values} + {dtype.scale_bytes} B scale)" if dtype.scale_bytes else values
        return f"2 (K, V) × {group.layers} layers × {of_rank} × {values}"
    values = f"({group.k_dim} K + {group.v_dim} V) × {size}"
    values = f"({values} + 2 × {dtype.scale_bytes} B scale)" if dtype.scale_bytes else values
    return f"{group.layers} layers × {of_rank} × {values}"


def _state_part(state: FixedState, tp: int) -> StatePart:
    size = state.layers * -(-state.bytes_per_layer // tp)
    formula = f"{state.layers} layers × {state.formula}"
    return StatePart(state.kind, size, f"{formula} ÷ {tp} GPUs" if tp > 1 else formula)
