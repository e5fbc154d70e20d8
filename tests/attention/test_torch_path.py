"""The PyTorch path gives the oracle's results in every case that the kernels are tested on."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

# what follows needs PyTorch
from kernels import decode_cases, prefill_cases

DECODE = [case for case in decode_cases.interpreter_cases() if not case.heads_at_once]
PREFILL = prefill_cases.interpreter_cases()


@pytest.mark.parametrize(
    "case",
    [
        *DECODE,
        *(replace(case, name=f"{case.name}, bf16", dtype="bf16") for case in DECODE if case.dtype == "fp16"),
    ],
    ids=lambda case: case.name,
)
def test_decode(case: decode_cases.Case) -> None:
    judged = decode_cases.judge(replace(case, split_tokens=None), "cpu", "torch")
    assert judged.error <= judged.budget
    assert judged.lse_error <= 5e-5
    assert judged.empty_rows_are_zero


@pytest.mark.parametrize(
    "case",
    [
        *PREFILL,
        *(replace(case, name=f"{case.name}, bf16", dtype="bf16") for case in PREFILL if case.dtype == "fp16"),
        replace(PREFILL[1], name="fp8", dtype="fp8", head_dim=128, heads_first=True),
    ],
    ids=lambda case: case.name,
)
def test_prefill(case: prefill_cases.PrefillCase) -> None:
    judged = prefill_cases.judge(case, "cpu", "torch")
    assert judged.error <= judged.budget
    assert judged.lse_error <= 5e-5
    assert judged.unused_rows_are_left
