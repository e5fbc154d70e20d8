"""Parts of docs/results.md that need rows which are not always there."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from benchmarks import kernel_section
from benchmarks.cases import SPLITS


def test_fixed_splits_are_shown_once_they_are_measured() -> None:
    found: dict[tuple[str, str], dict[str, Any]] = {("64x4096", "pagefault"): {"p50": "200"}}
    assert kernel_section._splits(found) == ""
    for number, tokens in enumerate(SPLITS, 1):
        found["64x4096", f"pagefault split {tokens}"] = {"p50": str(200 + 10 * number)}
    assert "| 64 × 4096 | 200.0 | 1.050 | 1.100 |" in kernel_section._splits(found)
