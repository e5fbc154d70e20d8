"""`pagefault trace`: what a trace asks for, in numbers and a small picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pagefault.cli.console import WIDTH, console, emit_json, note, percent, progress, say, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pagefault.workload import Trace, WorkloadSummary

STATISTICS = ("min", "p25", "p50", "p75", "p90", "p95", "p99", "max", "mean")
LABEL_WIDTH = 12
_EIGHTHS = "▏▎▍▌▋▊▉"


def trace(
    file: Annotated[str, typer.Argument(help="The trace, plain or gzipped; - reads stdin.")],
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Count broken lines and go on.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Show what a trace asks for: rate, lengths, reuse of prompt blocks.

    Reads Azure (2023, 2024), BurstGPT and Vidur CSV, and Mooncake, Qwen-Bailian
    and LLMServingSim JSON lines; the format is recognised by itself.
    """
    from pagefault.workload import read_trace, summarize

    with progress(f"reading {Path(file).name}") as update:
        found = read_trace(
            file,
            skip_bad=skip_bad,
            progress=lambda done, total, rows: update(done, total, f"{rows:,} requests"),
        )
        summary = summarize(found.workload)
    for remark in found.notes:
        note(f"note: {remark}")
    if as_json:
        emit_json(trace_json(found, summary))
    else:
        _show(found, summary)


def trace_json(found: Trace, summary: WorkloadSummary) -> dict[str, Any]:
    """The object that ``--json`` prints: the summary's fields and what the reader saw."""
    from dataclasses import asdict

    values = asdict(summary)
    for side in ("prompt", "output"):
        spread = values.pop(side)
        spread["histogram"] = [{"from": low, "requests": count} for low, count in spread["histogram"]]
        values[f"{side}_tokens"] = spread
    return {
        "file": found.source,
        "format": found.format.name,
        **values,
        "failed_requests": found.failed,
        "bad_lines": found.bad_lines,
        "out_of_order": found.out_of_order,
        "has_arrivals": found.has_arrivals,
        "notes": list(found.notes),
    }


def _show(found: Trace, summary: WorkloadSummary) -> None:
    say(f"{found.source}: {found.format.title}")
    say()
    for name, value in _facts(found, summary):
        say(f"{name:<15}{value}")
    say()
    rows = [
        [name, *(f"{getattr(spread, name):,.0f}" for spread in (summary.prompt, summary.output))]
        for name in STATISTICS
    ]
    table("Length of a request, in tokens", ("", "prompt", "output"), rows)
    say()
    say("Requests by length")
    for line in _histogram(summary, ascii_only=console().options.ascii_only):
        say(line)


def _facts(found: Trace, summary: WorkloadSummary) -> Iterator[tuple[str, str]]:
    yield "requests", f"{summary.requests:,}"
    if found.failed:
        yield "left out", f"{found.failed:,} with 0 output tokens (failed)"
    if found.bad_lines:
        yield "broken lines", f"{found.bad_lines:,} skipped"
    if summary.conversations is not None:
        yield "conversations", f"{summary.conversations:,}"
    yield "duration", f"{summary.duration_s:,.1f} s"
    if summary.requests_per_s is None:
        yield "rate", "none: all arrive at the same time"
    else:
        yield "rate", f"{_number(summary.requests_per_s)} requests/s"
        yield "prompt tokens", f"{_number(summary.prompt_tokens_per_s or 0)} tokens/s"
        yield "output tokens", f"{_number(summary.output_tokens_per_s or 0)} tokens/s"
    if summary.reuse is not None:
        reuse = summary.reuse
        yield "seen before", f"{percent(reuse.share)} of prompt blocks: the hit rate of an infinite cache"
        yield "", f"({reuse.seen:,} of {reuse.blocks:,} blocks of {reuse.hash_tokens} tokens)"


def _number(value: float) -> str:
    """About three digits: ``40,937``, ``2.57``, ``0.0012``."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def _histogram(summary: WorkloadSummary, ascii_only: bool) -> Iterator[str]:
    """Requests by length, prompts and outputs side by side, one line a power of two."""
    sides = [dict(summary.prompt.histogram), dict(summary.output.histogram)]
    tallest = max(max(side.values()) for side in sides)
    digits = max(len(f"{tallest:,}"), len("output"))
    half = (WIDTH - LABEL_WIDTH) // 2
    cells = half - digits - 2
    yield f"{'tokens':<{LABEL_WIDTH}}{'prompt':>{digits}}{'':{half - digits}}{'output':>{digits}}"
    low, last = min(map(min, sides)), max(map(max, sides))
    while low <= last:
        counts = [side.get(low, 0) for side in sides]
        halves = [f"{count:>{digits},} {_bar(count / tallest, cells, ascii_only)}" for count in counts]
        label = f"{'>=' if ascii_only else '≥'} {low:,}"
        yield f"{label:<{LABEL_WIDTH}}{halves[0]:<{half}}{halves[1]}".rstrip()
        low *= 2


def _bar(share: float, cells: int, ascii_only: bool) -> str:
    """A bar of so many cells at full length, in eighths of a cell; never empty for a share above 0."""
    if not share:
        return ""
    if ascii_only:
        return "#" * max(round(share * cells), 1)
    full, rest = divmod(max(round(share * cells * 8), 1), 8)
    return "█" * full + (_EIGHTHS[rest - 1] if rest else "")
