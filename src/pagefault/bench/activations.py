"""Q, K and V of a real model, as scripts/export_kv.py wrote them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pagefault.bench.problem import Tokens
from pagefault.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from collections.abc import Callable

    from pagefault.bench.setup import BenchSetup

_WRITTEN = (
    "what scripts/export_kv.py writes: layers.I.q, .k and .v of every layer I, and their number and scale"
)


def activation_options(path: str) -> dict[str, Any]:
    """Shape of a file of activations as arguments of `BenchSetup`: a sequence a layer, all of one length.

    Raises:
        InputError: It is not such a file.
        MissingExtra: The package safetensors is not installed.
    """
    tensors, metadata = _read(path)
    tokens, heads, head_dim = tensors["layers.0.q"].shape
    return {
        "seqs": int(metadata["layers"]),
        "mean_len": tokens,
        "max_len": tokens,
        "heads": heads,
        "kv_heads": tensors["layers.0.k"].shape[1],
        "head_dim": head_dim,
        "origin": metadata.get("model", Path(path).stem),
    }


def load_activations(path: str, setup: BenchSetup) -> Tokens:
    """What the sequences hold: each layer's K and V, and its last token's queries.

    Args:
        path: The file.
        setup: Made with `activation_options` of the same file; says dtype and device.

    Raises:
        InputError: It is not such a file.
        MissingExtra: The package safetensors is not installed.
    """
    tensors, metadata = _read(path)

    def joined(letter: str, rows: slice) -> torch.Tensor:
        parts = [tensors[f"layers.{layer}.{letter}"][rows] for layer in range(int(metadata["layers"]))]
        return torch.from_numpy(np.concatenate(parts)).to(setup.device, setup.q_dtype)

    everything, last = slice(None), slice(-1, None)
    return Tokens(
        q=joined("q", last),
        k=joined("k", everything),
        v=joined("v", everything),
        lengths=setup.lengths,
        scale=float(metadata["scale"]),
    )


def _read(path: str) -> tuple[dict[str, np.ndarray[Any, np.dtype[np.float32]]], dict[str, str]]:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise MissingExtra(
            f"reading {path} needs safetensors; in PageFault's folder: pip install '.[gpu]'"
        ) from error
    if not Path(path).is_file():
        raise InputError(f"no file at {path}; write one with scripts/export_kv.py")
    try:
        with safe_open(path, "np") as stream:
            metadata = stream.metadata() or {}
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118 - not a dict
    except SafetensorError as error:
        raise InputError(f"{path} is not a safetensors file: {error}") from error
    except TypeError as error:  # NumPy has no bfloat16
        raise InputError(f"{path} holds tensors in 16-bit dtypes; expected float32, {_WRITTEN}") from error
    _check(path, tensors, metadata)
    return tensors, metadata


def _check(
    path: str, tensors: dict[str, np.ndarray[Any, np.dtype[np.float32]]], metadata: dict[str, str]
) -> None:
    layers = int(_positive(path, metadata, "layers", int))
    _positive(path, metadata, "scale", float)
    for name in (f"layers.{layer}.{part}" for layer in range(layers) for part in "qkv"):
        if name not in tensors:
            raise InputError(f"{path} has no {name}; expected {_WRITTEN}")
        found = tensors[name]
        right = tensors.get("layers.0.q" if name.endswith("q") else "layers.0.k", found)
        if found.shape != right.shape or found.ndim != 3 or 0 in found.shape or found.dtype != np.float32:
            shape = "[tokens, heads, head_dim]"
            if found is not right:
                shape = f"{list(right.shape)} like layer 0: {shape}"
            raise InputError(f"{path}: {name} is {found.dtype} {list(found.shape)}; expected float32 {shape}")
    q, k = tensors["layers.0.q"].shape, tensors["layers.0.k"].shape
    if (q[0], q[2]) != (k[0], k[2]) or q[1] % k[1]:
        raise InputError(
            f"{path}: q is {list(q)} and k {list(k)}; expected as many tokens, one head_dim, and q's heads a "
            "multiple of k's"
        )


def _positive(path: str, metadata: dict[str, str], name: str, kind: Callable[[str], float]) -> float:
    if name not in metadata:
        raise InputError(f"{path} has no metadata {name!r}; expected {_WRITTEN}")
    try:
        value = kind(metadata[name])
    except ValueError:
        value = 0
    if not 0 < value < math.inf:
        raise InputError(f"{path}: metadata {name!r} is {metadata[name]!r}; expected a number above 0")
    return value
