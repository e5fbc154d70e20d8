"""What a cache has to know of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from pagefault.attention import validate
from pagefault.errors import InputError
from pagefault.paging.arrays import as_count

if TYPE_CHECKING:
    from torch import Tensor

DTYPES = (*validate.QUERY_DTYPES, validate.FP8)


@dataclass(frozen=True, slots=True)
class KVShape:
    """K and V of a token.

    Raises:
        InputError: A size is not an integer of at least 1.

    Attributes:
        layers: Layers with a cache of their own.
        kv_heads: KV heads of a layer (on this GPU).
        head_dim: Values a head.
    """

    layers: int
    kv_heads: int
    head_dim: int

    def __post_init__(self) -> None:
        for name in ("layers", "kv_heads", "head_dim"):
            as_count(getattr(self, name), name, 1)

    def bytes_per_token(self, dtype: torch.dtype) -> int:
        """K and V of a token in all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim * dtype.itemsize

    def check_layer(self, layer: int) -> None:
        """That there is such a layer.

        Raises:
            InputError: There is not.
        """
        if as_count(layer, "layer") >= self.layers:
            raise InputError(f"layer: expected one of {self.layers}, counted from 0, given {layer}")

    def check_new(self, k: Tensor, v: Tensor, tokens: int, stored: Tensor) -> None:
        """New K and V of all layers, before anything changes.

        Args:
            k: ``[layers, tokens, kv_heads, head_dim]``.
            v: Like `k`.
            tokens: How many they must be.
            stored: Where they go.

        Raises:
            InputError: A shape, dtype, device or stride is wrong.
        """
        expected = (self.layers, tokens, self.kv_heads, self.head_dim)
        dtypes = validate.QUERY_DTYPES if stored.dtype == validate.FP8 else (stored.dtype,)
        validate.check_tensor("k", k, expected, dtypes, stored.device)
        validate.check_tensor("v", v, expected, (k.dtype,), stored.device)
        for name, part in (("k", k), ("v", v)):
            validate.check_last_contiguous(name, part)
            validate.check_reach(name, part, (2,))
        if k.stride() != v.stride():
            raise InputError(f"v: expected strides {k.stride()} like k, given {v.stride()}")


def check_dtype(shape: KVShape, dtype: torch.dtype) -> None:
    """That a cache of this shape can have this dtype.

    Raises:
        InputError: It cannot.
    """
    if dtype not in DTYPES:
        names = ", ".join(str(known).removeprefix("torch.") for known in DTYPES)
        given = str(dtype).removeprefix("torch.") if isinstance(dtype, torch.dtype) else repr(dtype)
        raise InputError(f"dtype: expected one of {names} (a torch.dtype), given {given}")
    if dtype == validate.FP8 and shape.head_dim % 2:
        raise InputError(f"head_dim: expected an even one for fp8, given {shape.head_dim}")
