"""Q, K and V of a real model, as scripts/export_kv.py wrote them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pagefault.bench.problem import Tokens
from pagefault.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from pagefault.bench.setup import BenchSetup


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
        raise MissingExtra(f"reading {path} needs safetensors: pip install 'pagefault[gpu]'") from error
    if not Path(path).is_file():
        raise InputError(f"no file at {path}; write one with scripts/export_kv.py")
    try:
        with safe_open(path, "np") as stream:
            metadata = stream.metadata() or {}
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118 - not a dict
    except SafetensorError as error:
        raise InputError(f"{path} is not a safetensors file: {error}") from error
    layers = int(metadata.get("layers", 0))
    missing = [f"metadata {name!r}" for name in ("layers", "scale") if name not in metadata]
    missing += [
        name for layer in range(layers) for part in "qkv" if (name := f"layers.{layer}.{part}") not in tensors
    ]
    if missing or not layers:
        raise InputError(
            f"{path} has no {missing[0] if missing else 'layers'}; expected what scripts/export_kv.py writes: "
            "layers.I.q, .k and .v of every layer I"
        )
    first_q, first_k = tensors["layers.0.q"], tensors["layers.0.k"]
    for layer in range(layers):
        for part, right in (("q", first_q), ("k", first_k), ("v", first_k)):
            found = tensors[f"layers.{layer}.{part}"]
            if found.shape != right.shape or found.ndim != 3 or found.dtype != np.float32:
                raise InputError(
                    f"{path}: layers.{layer}.{part} is {found.dtype} {list(found.shape)}; expected float32 "
                    f"{list(right.shape)} like layer 0: [tokens, heads, head_dim]"
                )
    return tensors, metadata
