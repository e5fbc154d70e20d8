"""The attention part of docs/results.md, made from rows: benchmarks/results/h200.csv."""

from __future__ import annotations

import statistics
from itertools import pairwise
from typing import TYPE_CHECKING

from benchmarks import prefill_section
from benchmarks.again_section import again
from benchmarks.cases import BLOCK_SIZES, CASES, SPLITS
from benchmarks.limits_section import limits
from benchmarks.serving_section import read_rows, table
from benchmarks.tried_section import shown, tried

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.serving_section import Row

    Found = dict[tuple[str, str], Row]

STAGE_3 = {
    "the write-up's: 1 head of 64, fp32": "32xmix 1/1x64 fp32 block 16",
    "llama3-8b: 32/8 heads of 128, bf16": "32xmix 32/8x128 bf16 block 16",
    "64 × 4096, llama3-8b": "64x4096 32/8x128 bf16 block 16",
    "256 × 1024, llama3-8b": "256x1024 32/8x128 bf16 block 16",
    "1 × 131072, llama3-8b": "1x131072 32/8x128 bf16 block 16",
    "32 × 2048, 32/32 heads, bf16": "32x2048 32/32x128 bf16 block 16",
    "64 × 4096, llama3-8b, fp8 K and V": "64x4096 32/8x128 fp8 block 16",
    "30 × 182, SmolLM2-135M's own Q, K, V, 9/3 heads of 64, bf16": (
        "30x182 9/3x64 bf16 block 16 of SmolLM2-135M-Instruct.Q4_1"
    ),
}
SWEEPS = {
    "the write-up's, fp32": "32xmix 1/1x64 fp32 block ",
    "llama3-8b, bf16": "32xmix 32/8x128 bf16 block ",
}
BLOCKS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
RIVALS = {
    "pagefault contiguous": "ours, contiguous",
    "flashinfer": "FlashInfer",
    "flex attention": "FlexAttention, pages of 128",
    "sdpa cudnn": "SDPA cuDNN, contiguous",
    "sdpa flash": "SDPA flash, contiguous",
}


def section(results: Path) -> str:
    """The text, from the files in a folder of results."""
    rows = read_rows(results / "h200.csv")
    found = {(row["case"], row["implementation"]): row for row in rows}
    timeline = _timeline(read_rows(results / "timeline.csv"))
    parts = (
        _caveats(rows),
        _stage_3(found),
        timeline,
        _sweeps(found),
        _rivals(found),
        _block_sizes(found),
        _splits(found),
        again(results),
        limits(results),
        prefill_section.prefill(found),
        tried(results),
    )
    return "\n".join(part for part in parts if part)


CHECKED_LESS = ("0628e77",)
"""Commits whose rows beside others were checked on one input set."""
SUMMARY = {
    "64x4096": "64 sequences of 4,096 tokens",
    "1x131072": "one of 131,072",
    "64 mixed": "64 uneven ones",
    "64x4096 fp8": "64 × 4,096 with fp8 K and V",
}


def summary(results: Path) -> str:
    """The most important figures, for the README."""
    found = {(row["case"], row["implementation"]): row for row in read_rows(results / "h200.csv")}
    lines = []
    for case, title in SUMMARY.items():
        cells = [f"decode, {title}: share of the floor's speed"]
        for name in ("pagefault", "flashinfer", "sdpa cudnn"):
            row = found.get((case, name))
            cells.append("–" if row is None else f"{float(row['ratio']):.3f}")
        lines.append(cells)
    for case, title in (
        ("prefill 8x2048", "8 prompts of 2,048"),
        ("prefill 8x512 of 16384", "8 chunks of 512 over 16,384"),
    ):
        rates = [
            prefill_section.tflops(found, case, name) for name in ("pagefault", "flashinfer", "sdpa cudnn")
        ]
        cells = ["–" if rate is None else f"{rate:.0f}" for rate in rates]
        lines.append([f"prefill, {title}: TFLOP/s", *cells])
    return (
        "On one H200, one layer, bf16, 32 query and 8 KV heads of 128, shuffled pages of 16 tokens. cuDNN reads "
        "contiguous memory. The *floor* reads the same bytes through the same tables and computes nothing.\n\n"
        + table(["", "PageFault", "FlashInfer", "cuDNN, contiguous"], lines)
        + "\n"
    )


def _caveats(rows: list[Row]) -> str:
    gpus, torches, tritons, commits = (
        ", ".join(dict.fromkeys(row[name] for row in rows)) for name in ("gpu", "torch", "triton", "commit")
    )
    less = ""
    if old := ", ".join(commit for commit in CHECKED_LESS if commit in commits):
        less = (
            f" (beside others at {old} on the first of the input sets, prefill on 64 rows of one sequence: the "
            "benchmarks have learned to check every set and sequence since)"
        )
    libraries = dict.fromkeys(row["version"] for row in rows if row["implementation"] == "flashinfer")
    return (
        "## Attention: measured\n\n"
        "**Caveats.** Machines of one kind. A table may hold rows of several runs and commits; the rows of a case "
        "are of one, and a ratio compares these alone: measured in the same process on the same tensors, "
        "interleaved, in replayed CUDA graphs that rotate through more memory than the L2 cache holds. Everything "
        f"was checked against the float64 oracle before it was timed{less}. Frames are shuffled unless it says "
        "otherwise. Our time has the schedule in it; FlashInfer's host plan is made before and not timed. FlashInfer "
        "is its batch wrappers with tensor cores, planned for CUDA graphs; its other kernels were not measured. SDPA "
        "reads contiguous memory, FlexAttention pages of 128 tokens in pools of its own. A decode step here is one "
        "layer's attention, nothing else of a model.\n\n"
        f"{gpus}; PyTorch {torches}, Triton {tritons}, FlashInfer {', '.join(libraries)}; commits {commits}. "
        "Rows: `benchmarks/results/h200.csv`.\n"
    )


def _stage_3(found: Found) -> str:
    lines = []
    for title, case in STAGE_3.items():
        naive, ordered, shuffled, floor = (
            found[case, name] for name in ("naive", "paged ordered", "paged shuffled", "floor")
        )
        difference = max(float(ordered["error"]), float(shuffled["error"]))
        lines.append(
            [
                title,
                *(f"{float(row['p50']):.1f}" for row in (floor, naive, ordered, shuffled)),
                f"**{float(shuffled['p50']) / float(naive['p50']):.3f}**",
                f"{float(shuffled['p50']) / float(ordered['p50']):.3f}",
                f"{difference:g}",
            ]
        )
    headings = ["case", "floor µs", "naive", "paged ordered", "paged shuffled", "slowdown"]
    headings += ["scattering", "max abs(paged − naive)"]
    return (
        "### What paging costs\n\n"
        "The write-up's Stage 3 table, which it left to be done: a decode step in a contiguous cache (naive), in "
        "frames in order, and in frames scattered over the pool. Slowdown is shuffled over naive, scattering shuffled "
        "over ordered; all three run the same kernel, with and without the walk through the page table. The "
        "first two are 32 sequences of the seeded mix (seed 42), block size 16.\n\n"
        + table(headings, lines)
        + "\nWhere there is much to read, the walk hides behind it. The write-up's own case reads little, which is "
        "over before a GPU has begun: it measures latencies, and of these the walk adds one, the table entry that an "
        "address waits for. In fp8 the frames hold heads first and the contiguous cache tokens first, so that row "
        "compares two layouts, too.\n\n"
        "`pagefault bench`, `pagefault bench --model llama3-8b`, and the others like "
        "`pagefault bench --model llama3-8b --seqs 64 --mean-len 4096 --max-len 4096`.\n"
    )


def _timeline(rows: list[Row]) -> str:
    lines = []
    kernels = list(dict.fromkeys(row["kernel"] for row in rows))
    for stage in dict.fromkeys(row["stage"] for row in rows):
        mine = [row for row in rows if row["stage"] == stage]
        medians = [
            statistics.median(float(row["us"]) for row in mine if row["kernel"] == kernel)
            for kernel in kernels
        ]
        starts = [float(row["start_us"]) for row in mine if row["kernel"] == kernels[0]]
        step = statistics.median(later - sooner for sooner, later in pairwise(starts))
        lines.append([stage, *(f"{median:.1f}" for median in medians), f"**{step:.1f}**"])
    return (
        "### In a profiler\n\n"
        "The same three in one timeline of PyTorch's profiler: llama3-8b, the mix, a replayed graph each. A kernel is "
        "launched while the one before it still runs (programmatic dependent launch) and waits for it, so a bar is "
        "longer than its work; what counts is the distance from one step to the next. Medians, µs.\n\n"
        + table(["stage", *kernels, "step to step"], lines)
        + "\n![Kernels of some decode steps: naive, paged ordered, paged shuffled](images/timeline.svg)\n\n"
        "`pagefault bench --model llama3-8b --profile timeline.json` writes the timeline, for Perfetto; `python -m "
        "benchmarks.timeline timeline.json --csv benchmarks/results/timeline.csv --plot docs/images/timeline.svg` made "
        "the rows and the picture.\n"
    )


def _sweeps(found: Found) -> str:
    lines = []
    for title, prefix in SWEEPS.items():
        for name, over in (("slowdown", "naive"), ("scattering", "paged ordered")):
            ratios = (
                _median(found, f"{prefix}{size}", "paged shuffled") / _median(found, f"{prefix}{size}", over)
                for size in BLOCKS
            )
            lines.append([f"{title}: {name}", *(f"{ratio:.3f}" for ratio in ratios)])
    return (
        "### Block sizes\n\n"
        "The first two cases again: `pagefault bench --sweep block-size=1,2,4,8,16,32,64,128,256`. Below 16, a tile's "
        "addresses come from several table entries.\n\n" + table(["block size", *map(str, BLOCKS)], lines)
    )


def _rivals(found: Found) -> str:
    dash = "SDPA and FlexAttention as they are called here need sequences of one length and 16-bit K and V"
    if ("64x4096 fp8", "flashinfer") not in found:
        dash += "; FlashInfer was not adapted to the heads-first fp8 pool yet when the rows were made"
    return (
        "### Beside others\n\n"
        "Floor over time: 1.00 would be reading K and V through the page table and doing nothing else. In brackets "
        "µs.\n\n"
        + _table_of([case.name for case in CASES], found)
        + "\n`python -m benchmarks.attention --csv benchmarks/results/h200.csv`. A dash: not "
        f"measured. {dash}.\n"
    )


def _block_sizes(found: Found) -> str:
    names = ["64x4096", *(case.name for case in BLOCK_SIZES)]
    return "### Block sizes beside others\n\n64 × 4096, block size 16 where it says nothing.\n\n" + _table_of(
        names, found
    )


def _splits(found: Found) -> str:
    """What fixed splits cost, once the benchmark has been run with them."""
    names = [f"pagefault split {tokens}" for tokens in SPLITS]
    lines = []
    for case in (*CASES, *BLOCK_SIZES):
        if all((case.name, name) in found for name in names):
            balanced = _median(found, case.name, "pagefault")
            costs = [_median(found, case.name, name) / balanced for name in names]
            lines.append([shown(case.name), f"{balanced:.1f}", *(f"{cost:.3f}" for cost in costs)])
    if not lines:
        return ""
    return (
        "### What fixed splits cost\n\n"
        "Time over that of balanced work, for results that do not depend on the batch (`split_tokens=`).\n\n"
        + table(["case", "balanced, µs", *(f"splits of {tokens:,} tokens" for tokens in SPLITS)], lines)
    )


def _median(found: Found, case: str, implementation: str) -> float:
    return float(found[case, implementation]["p50"])


def _table_of(cases: list[str], found: Found) -> str:
    lines = []
    for case in cases:
        floor = float(found[case, "floor"]["p50"])
        cells = [shown(case), f"{floor:.1f}"]
        for name in ("pagefault", *RIVALS):
            row = found.get((case, name))
            bold = "**" if name == "pagefault" else ""
            cells.append(
                "–" if row is None else f"{bold}{float(row['ratio']):.3f}{bold} ({float(row['p50']):.1f})"
            )
        lines.append(cells)
    return table(["case", "floor µs", "PageFault", *RIVALS.values()], lines)
