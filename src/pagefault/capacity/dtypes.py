"""Number formats of the cache: bytes a value, and the scales that are stored beside the values.

Names are those of PyTorch and of vLLM's ``--kv-cache-dtype``.
"""

from __future__ import annotations

from dataclasses import dataclass

from pagefault.errors import InputError


@dataclass(frozen=True)
class KVDtype:
    """A format for K and V.

    Attributes:
        name: Canonical name.
        bits: Bits a value.
        scale_bytes: Bytes of scale (and zero point) stored for each token, layer and KV head, for K and V each;
            0 where a scale belongs to a whole tensor or head and costs nothing a token.
        scales: What these scales are, in words; empty where there are none.
    """

    name: str
    bits: int
    scale_bytes: int = 0
    scales: str = ""

    @property
    def bytes_per_value(self) -> float:
        """Bytes a value; int4 is half a byte."""
        return self.bits / 8


KV_DTYPES: dict[str, KVDtype] = {
    dtype.name: dtype
    for dtype in (
        KVDtype("float32", 32),
        KVDtype("float16", 16),
        KVDtype("bfloat16", 16),
        KVDtype("fp8_e4m3", 8, 0, "one scale a tensor or head: nothing a token"),
        KVDtype("fp8_e5m2", 8),
        KVDtype("int8", 8, 2, "one float16 scale for each token and head, of K and of V"),
        KVDtype("int4", 4, 4, "one float16 scale and zero point for each token and head, of K and of V"),
    )
}
"""Formats by their canonical name."""

_ALIASES = {
    "fp32": "float32",
    "float": "float32",
    "fp16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
    "fp8": "fp8_e4m3",
    "float8_e4m3fn": "fp8_e4m3",
    "float8_e5m2": "fp8_e5m2",
}


def find_dtype(name: str | None) -> KVDtype:
    """The format of this name or alias (``bf16``, ``torch.bfloat16``, ``fp8`` …).

    Args:
        name: The name; None is a model whose configuration names no dtype.

    Raises:
        InputError: No such format, or no name.
    """
    if name is None:
        raise InputError("the model's configuration names no dtype (dtype or torch_dtype); give --kv-dtype")
    key = name.lower().removeprefix("torch.")
    key = _ALIASES.get(key, key)
    if key not in KV_DTYPES:
        known = ", ".join([*KV_DTYPES, *_ALIASES])
        raise InputError(f"unknown dtype {name!r}; expected one of {known}")
    return KV_DTYPES[key]
