"""Attention on the Q, K and V of a real model, and files that are not such."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
safetensors = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")

# ruff: noqa: E402  # what follows needs them
from pagefault.bench import BenchSetup, activation_options, build, load_activations, run
from pagefault.errors import InputError

ROOT = Path(__file__).parents[2]
EXPORTED = Path(os.environ.get("PAGEFAULT_KV_FILE", ROOT / "build" / "kv.safetensors"))


def tensors(layers: int = 2, tokens: int = 40) -> dict[str, Any]:
    random = np.random.default_rng(0)
    made = {}
    for layer in range(layers):
        for letter, heads in (("q", 6), ("k", 2), ("v", 2)):
            # Peaky, as real ones are: a few tokens get nearly all of the weight.
            made[f"layers.{layer}.{letter}"] = random.standard_normal((tokens, heads, 64)).astype("f4") * 4
    return made


def write(path: Path, made: dict[str, Any], **metadata: str) -> str:
    safetensors.save_file(made, path, {"layers": "2", "scale": "0.125", "model": "tiny"} | metadata)
    return str(path)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_every_layer_is_a_sequence(tmp_path: Path, dtype: str) -> None:
    made = tensors()
    path = write(tmp_path / "kv.safetensors", made, scale="0.25")
    setup = BenchSetup(**activation_options(path), dtype=dtype, iters=2)
    assert setup.name == f"2x40 6/2x64 {dtype} block 16 of tiny"
    problem = build(setup, load_activations(path, setup))
    assert all(check.passed for check in run(problem).checks)
    # Against the formula itself: the newest query of layer 1, head 5, which reads KV head 1.
    q, k, v = (made[f"layers.1.{letter}"].astype(float) for letter in "qkv")
    logits = 0.25 * k[:, 1] @ q[-1, 5]
    weights = np.exp(logits - logits.max())
    right = weights @ v[:, 1] / weights.sum()
    out = problem.calls()["paged shuffled"][0]()[1, 5].double().numpy()
    np.testing.assert_allclose(out, right, atol=1e-5 if dtype == "fp32" else 0.2)


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_a_real_model(dtype: str) -> None:
    if not EXPORTED.exists():
        pytest.skip(f"no activations at {EXPORTED}: write them with scripts/export_kv.py")
    setup = BenchSetup(**activation_options(str(EXPORTED)), dtype=dtype, iters=2)
    problem = build(setup, load_activations(str(EXPORTED), setup))
    assert all(check.passed for check in run(problem).checks)


def test_files_that_are_not_such_say_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "kv.safetensors"
    with pytest.raises(InputError, match="no file at"):
        activation_options(str(path))
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(InputError, match="is not a safetensors file"):
        activation_options(str(path))
    safetensors.save_file(tensors(), path)
    with pytest.raises(InputError, match="has no metadata 'layers'"):
        activation_options(str(path))
    with pytest.raises(InputError, match=r"has no layers.2.q; expected what scripts/export_kv.py writes"):
        activation_options(write(path, tensors(), layers="3"))
    for name, value in (("layers", "two"), ("layers", "0"), ("scale", "nan"), ("scale", "-1")):
        with pytest.raises(InputError, match=f"metadata '{name}' is '{value}'; expected a number above 0"):
            activation_options(write(path, tensors(), **{name: value}))
    made = tensors()
    made["layers.1.v"] = made["layers.1.v"][:30]
    with pytest.raises(
        InputError, match=r"layers.1.v is float32 \[30, 2, 64\]; expected float32 \[40, 2, 64\]"
    ):
        activation_options(write(path, made))
    made = {name: part[:30] if name.endswith("q") else part for name, part in tensors().items()}
    with pytest.raises(InputError, match=r"q is \[30, 6, 64\] and k \[40, 2, 64\]; expected as many tokens"):
        activation_options(write(path, made))
    made = tensors() | {"layers.0.q": tensors()["layers.0.q"][:, :, 0]}
    with pytest.raises(
        InputError, match=r"layers.0.q is float32 \[40, 6\]; expected float32 \[tokens, heads"
    ):
        activation_options(write(path, made))
