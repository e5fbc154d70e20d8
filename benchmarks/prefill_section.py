"""The section of docs/results.md about prefill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.serving_section import table
from benchmarks.tried_section import shown

if TYPE_CHECKING:
    from benchmarks.kernel_section import Found

PREFILL_RIVALS = {"flashinfer": "FlashInfer", "sdpa cudnn": "SDPA cuDNN", "sdpa flash": "SDPA flash"}


def prefill(found: Found) -> str:
    """Rates, and ours over those of others."""
    cases = [
        case for case, implementation in found if case.startswith("prefill") and implementation == "pagefault"
    ]
    rivals = [name for name in PREFILL_RIVALS if any((case, name) in found for case in cases)]
    groups: dict[str, tuple[str, ...]] = {"best SDPA": ("sdpa cudnn", "sdpa flash")}
    if "flashinfer" in rivals:
        groups["FlashInfer"] = ("flashinfer",)
    lines = []
    for case in cases:
        rates = {name: tflops(found, case, name) for name in ("pagefault", *rivals)}
        shown_rates = {name: "–" if rate is None else f"{rate:.0f}" for name, rate in rates.items()}
        line = [
            shown(case.removeprefix("prefill ")),
            f"**{shown_rates.pop('pagefault')}**",
            *shown_rates.values(),
        ]
        for names in groups.values():
            others = [rate for name in names if (rate := rates.get(name)) is not None]
            line.append(f"**{(rates['pagefault'] or 0.0) / max(others):.2f}**" if others else "–")
        lines.append(line)
    titles = [PREFILL_RIVALS[name] for name in rivals] + [f"ours ÷ {name}" for name in groups]
    return (
        "### Prefill\n\n"
        "TFLOP/s of what a causal mask leaves, bf16, heads of 128: whole prompts of 2,048 tokens, and chunks of 512 "
        "over 16,384 tokens of context. Paged kernels read shuffled pages of 16 tokens, SDPA contiguous memory. A "
        "rate depends on what ran before it, by a tenth and more; the ratio is of one run, interleaved.\n\n"
        + table(["queries", "PageFault", *titles], lines)
        + "\n`python -m benchmarks.prefill --csv benchmarks/results/h200.csv`.\n"
    )


def tflops(found: Found, case: str, implementation: str) -> float | None:
    """TFLOP/s; None where it took no part."""
    row = found.get((case, implementation))
    return None if row is None else float(row["note"].split()[0])
