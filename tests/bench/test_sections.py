"""Parts of docs/results.md that need rows which are not always there."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from benchmarks import kernel_section, prefill_section
from benchmarks.cases import SPLITS


def test_fixed_splits_are_shown_once_they_are_measured() -> None:
    found: dict[tuple[str, str], dict[str, Any]] = {("64x4096", "pagefault"): {"p50": "200"}}
    assert kernel_section._splits(found) == ""
    for number, tokens in enumerate(SPLITS, 1):
        found["64x4096", f"pagefault split {tokens}"] = {"p50": str(200 + 10 * number)}
    assert "| 64 × 4096 | 200.0 | 1.050 | 1.100 |" in kernel_section._splits(found)


def test_prefill_names_who_took_part() -> None:
    rates = {"pagefault": "90 TFLOP/s", "sdpa cudnn": "100 TFLOP/s", "sdpa flash": "60 TFLOP/s"}
    found: dict[tuple[str, str], dict[str, Any]] = {
        ("prefill 8x2048", name): {"note": note} for name, note in rates.items()
    }
    assert "| 8 × 2048 | **90** | 100 | 60 | **0.90** |" in prefill_section.prefill(found)
    found["prefill 8x2048", "flashinfer"] = {"note": "120.4 TFLOP/s; host plan not timed"}
    assert "| 8 × 2048 | **90** | 120 | 100 | 60 | **0.90** | **0.75** |" in prefill_section.prefill(found)
