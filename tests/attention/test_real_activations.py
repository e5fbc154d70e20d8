"""Decode attention over what a real model's layers hold: softmax over real logits is peakier than over random ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("safetensors", reason="safetensors is not installed")

# what follows needs them
import torch

from kernels.decode_cases import ROUNDING, eager, relative
from pagefault.attention import PagedKV, paged_decode
from pagefault.bench import BenchSetup, Tokens, activation_options, load_activations
from pagefault.reference import paged_attention

FILE = Path(os.environ.get("PAGEFAULT_KV_FILE", Path(__file__).parents[2] / "build" / "kv.safetensors"))
pytestmark = pytest.mark.skipif(
    not FILE.is_file(), reason=f"no activations at {FILE}: write them with scripts/export_kv.py"
)


@pytest.fixture(scope="module")
def setup() -> BenchSetup:
    return BenchSetup(**activation_options(str(FILE)))


@pytest.fixture(scope="module")
def tokens(setup: BenchSetup) -> Tokens:
    return load_activations(str(FILE), setup)


def paged(tokens: Tokens, dtype: torch.dtype, block_size: int) -> PagedKV:
    """Every layer as a sequence over shuffled frames; what no token fills is NaN, and would show."""
    layers, length = len(tokens.lengths), int(tokens.lengths[0])
    pages = -(-length // block_size)
    table = torch.randperm(layers * pages, generator=torch.Generator().manual_seed(0)).view(layers, pages)

    def pool_of(part: torch.Tensor) -> torch.Tensor:
        padded = torch.full((layers, pages * block_size, *part.shape[1:]), torch.nan, dtype=dtype)
        padded[:, :length] = part.view(layers, length, *part.shape[1:])
        pool = torch.empty(layers * pages, block_size, *part.shape[1:], dtype=dtype)
        pool[table.flatten()] = padded.view_as(pool)
        return pool

    lengths = torch.from_numpy(tokens.lengths).int()
    return PagedKV(pool_of(tokens.k), pool_of(tokens.v), table.int(), lengths)


@pytest.mark.parametrize("block_size", [16, 256])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_the_last_token_of_every_layer(tokens: Tokens, dtype: torch.dtype, block_size: int) -> None:
    q, view = tokens.q.to(dtype), paged(tokens, dtype, block_size)
    ours = paged_decode(q, view, scale=tokens.scale, backend="torch").double().numpy()
    k, v = (part.double().numpy() for part in (view.k, view.v))
    right, _ = paged_attention(
        q.double().numpy(), k, v, view.block_table.numpy(), view.lengths.numpy(), scale=tokens.scale
    )
    assert tokens.scale is not None
    usual = eager(
        (tokens.q * tokens.scale * q.shape[-1] ** 0.5).to(dtype), view, {}
    )  # it knows no other scale
    for layer in range(len(q)):
        budget = max(2 * relative(usual[layer], right[layer]), ROUNDING)
        assert relative(ours[layer], right[layer]) <= budget, f"layer {layer}"


def test_real_logits_are_peakier_than_random_ones(tokens: Tokens) -> None:
    """Else this file would test nothing that the cases with random values do not."""
    assert tokens.scale is not None
    k = tokens.k.view(len(tokens.q), -1, *tokens.k.shape[1:])
    random = torch.Generator().manual_seed(0)
    real = heaviest(tokens.q, k, tokens.scale)
    assert real > 3 * heaviest(
        torch.randn(tokens.q.shape, generator=random), torch.randn(k.shape, generator=random), tokens.scale
    )


def heaviest(q: torch.Tensor, k: torch.Tensor, scale: float) -> float:
    """The largest weight of a token: the median over layers and heads. Shapes with a leading axis of layers."""
    keys = k.double().repeat_interleave(q.shape[1] // k.shape[2], dim=2)
    weights = (scale * torch.einsum("lhd,lthd->lht", q.double(), keys)).softmax(dim=2)
    return float(weights.amax(dim=2).median())
