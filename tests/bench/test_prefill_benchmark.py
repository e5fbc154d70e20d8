"""The check that the prefill benchmark makes before it times."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

# ruff: noqa: E402  # what follows needs PyTorch
from benchmarks.cases import make_inputs
from benchmarks.prefill import TOLERANCE, Prefill, error
from pagefault.attention import paged_prefill


def test_every_sequence_and_every_value_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.cases.ROTATE_BYTES", 1)
    case = Prefill("small", 3, 64, 16, heads=4, kv_heads=2, head_dim=64)
    one = make_inputs(case.case, "cpu")[0]
    q = torch.randn(48, 4, 64, generator=torch.Generator().manual_seed(1)).bfloat16()
    out = paged_prefill(q, one.view, torch.tensor([0, 16, 32, 48], dtype=torch.int32))
    assert error(case, out, q, one) < TOLERANCE
    for sequence in range(3):
        wrong = out.clone()
        wrong[sequence * 16 : sequence * 16 + 16] *= 1.1
        assert error(case, wrong, q, one) > TOLERANCE
    out[5, 1, 3] = math.nan
    assert math.isnan(error(case, out, q, one))
