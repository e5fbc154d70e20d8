"""Runs the interpreter's share of the tests in a process of its own and prints one JSON object.

Triton decides when a kernel is defined whether it is interpreted, so this cannot share a process with tests
that compile for a GPU. Run by `test_interpreter.py`; also by hand: ``TRITON_INTERPRET=1 python <this file>``.
"""

# ruff: noqa: T201  # a program of its own
from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from kernels import prefill_cases
from kernels.decode_cases import interpreter_cases, judge
from kernels.frame_cases import FRAME_CHECKS
from kernels.schedule_cases import SCHEDULE_CHECKS


def main() -> None:
    results: dict[str, object] = {}
    for case in interpreter_cases():
        judged = judge(case, "cpu", "triton")
        results[case.name] = {**asdict(judged), "budget": judged.budget}
    for prefill in prefill_cases.interpreter_cases():
        found = prefill_cases.judge(prefill, "cpu", "triton")
        results[f"prefill: {prefill.name}"] = {**asdict(found), "budget": found.budget}
    for name, check in {**FRAME_CHECKS, **SCHEDULE_CHECKS}.items():
        results[name] = check("cpu")
    print(json.dumps(results))


if __name__ == "__main__":
    main()
