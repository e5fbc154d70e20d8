"""Small calls of every kernel, for ``compute-sanitizer --tool memcheck python tests/kernels/memcheck.py``.

Run with ``PYTORCH_NO_CUDA_MEMORY_CACHING=1``, so that each tensor is an allocation of its own and a read past
its end is seen.
"""

# ruff: noqa: T201  # a program of its own
from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch

from kernels import prefill_cases
from kernels.decode_cases import Case, judge
from kernels.frame_cases import FRAME_CHECKS
from kernels.prefill_cases import PrefillCase
from pagefault.attention import PagedKV, read_floor


def main() -> None:
    """Prints a line a check; ends with 1 where a result is wrong (what lies outside of memory, the tool reports)."""
    wrong = []

    def say(name: str, fault: str) -> None:
        print(name, fault or "ok")
        wrong.extend([name] if fault else [])

    cases = [
        Case("one head", (5, 0, 33, 300), 2, 3, 80, 16, "bf16"),
        Case("many heads", (300, 37, 0, 16), 8, 4, 128, 16, "bf16", heads_at_once=4),
        Case(
            "many heads, block 1, fixed splits",
            (300, 37),
            8,
            4,
            128,
            1,
            "bf16",
            heads_at_once=4,
            split_tokens=64,
        ),
        Case("contiguous", (300, 37, 0, 16), 2, 3, 64, dtype="fp16", paged=False),
        Case("block 4, window", (300, 37), 2, 4, 64, 4, "bf16", options={"window": 20}),
        Case("fp8", (300, 37, 0, 16), 2, 4, 128, 16, "fp8"),
    ]
    for case in cases:
        judged = judge(case, "cuda", "triton")
        say(case.name, "" if judged.error <= judged.budget else f"WRONG {judged}")
    chunks = [
        PrefillCase("prefill", (300, 37, 0, 16), (40, 37, 0, 1), 2, 4, 128, 16, "bf16"),
        PrefillCase("prefill, window", (300, 37), (40, 37), 2, 4, 64, 16, "fp16", options={"window": 20}),
        PrefillCase("prefill, soft cap", (300, 37), (40, 37), 2, 3, 80, 16, "bf16", options={"softcap": 4.0}),
    ]
    for chunk in chunks:
        found = prefill_cases.judge(chunk, "cuda", "triton")
        say(chunk.name, "" if found.error <= found.budget else f"WRONG {found}")
    for name, check in FRAME_CHECKS.items():
        say(name, check("cuda"))
    pool = torch.randn(4, 2, 16, 2, 64, device="cuda")
    table = torch.tensor([[3, 1]], dtype=torch.int32, device="cuda")
    view = PagedKV(pool[:, 0], pool[:, 1], table, torch.tensor([21], dtype=torch.int32, device="cuda"))
    read_floor(view, torch.zeros(4, dtype=torch.int32, device="cuda"), 16)
    torch.cuda.synchronize()
    print("floor ok")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
