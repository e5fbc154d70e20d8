"""The real device code on the CPU, through Triton's interpreter, against the float64 oracle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
if find_spec("triton") is None:
    pytest.skip("Triton is not installed (there is none for this platform)", allow_module_level=True)

from kernels import prefill_cases
from kernels.decode_cases import interpreter_cases

WORKER = Path(__file__).with_name("interpreter_worker.py")


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    run = subprocess.run(
        [sys.executable, str(WORKER)],
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", [case.name for case in interpreter_cases()])
def test_decode_is_within_its_error_budget(name: str, results: dict[str, Any]) -> None:
    judged = results[name]
    assert judged["error"] <= judged["budget"]
    assert judged["lse_error"] <= 2e-5
    assert judged["empty_rows_are_zero"]


@pytest.mark.parametrize("name", [case.name for case in prefill_cases.interpreter_cases()])
def test_prefill_is_within_its_error_budget(name: str, results: dict[str, Any]) -> None:
    judged = results[f"prefill: {name}"]
    assert judged["error"] <= judged["budget"]
    assert judged["lse_error"] <= 5e-5
    assert judged["unused_rows_are_left"]


@pytest.mark.parametrize("name", ["append", "copies", "schedule"])
def test_moving_and_cutting_is_exact(name: str, results: dict[str, Any]) -> None:
    assert results[name] == ""
