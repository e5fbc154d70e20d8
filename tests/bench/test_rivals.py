"""The adapters of other libraries that run on a CPU too, against the oracle of the comparison."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

# ruff: noqa: E402  # what follows needs PyTorch
from benchmarks import rivals
from benchmarks.attention import oracle
from benchmarks.cases import Case, make_inputs

CASE = Case("small", (256,) * 3, heads=8, kv_heads=2, head_dim=64, dtype="fp32")


def error(case: Case, rival: rivals.Rival) -> float:
    expected = oracle(case, make_inputs(case, "cpu")[0])
    return float((rival.calls[0]().double() - expected).norm() / expected.norm())


def test_flex_attention_reads_through_its_page_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.cases.ROTATE_BYTES", 1)
    inputs = make_inputs(CASE, "cpu")
    rival = rivals.flex(CASE, inputs, rivals.contiguous_copies(CASE, inputs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is not compiled
        assert error(CASE, rival) < 1e-5


@pytest.mark.parametrize("case", [replace(CASE, lengths=(100,) * 3), replace(CASE, dtype="fp8")])
def test_flex_attention_says_what_it_does_not_take(case: Case) -> None:
    with pytest.raises(rivals.Unsuitable, match="whole pages of 128"):
        rivals.flex(case, [], [])


def test_contiguous_rivals_need_one_length() -> None:
    with pytest.raises(rivals.Unsuitable, match="one length"):
        rivals.contiguous_copies(replace(CASE, lengths=(256, 128)), [])
