"""How `pagefault bench` shows what it found."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pagefault.cli import sim_classic
from pagefault.cli.console import bytes_mb, emit_json, heading, percent, say, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pagefault.bench import BenchReport, Timing
    from pagefault.sim import ClassicOutcome


def show(reports: Sequence[BenchReport]) -> None:
    """Text for people: one comparison in full, or a line each of a sweep."""
    first = reports[0]
    setup = first.setup
    say(
        f"{setup.seqs} sequences, {first.memory.tokens:,} tokens, {setup.heads}/{setup.kv_heads} heads of "
        f"{setup.head_dim}, {setup.dtype}, on {first.where.gpu}"
    )
    say()
    if len(reports) > 1:
        _show_sweep(reports)
        return
    _show_memory(first)
    _show_checks(first)
    _show_latency(first)


def show_serving(outcomes: Sequence[Sequence[ClassicOutcome]], given: Mapping[str, Any]) -> None:
    """The serving stage: the classic experiment's table."""
    say()
    heading("Serving, simulated")
    sim_classic.show(outcomes, given)


def show_json(reports: Sequence[BenchReport], outcomes: Sequence[Sequence[ClassicOutcome]] | None) -> None:
    """One JSON object: every comparison, and the serving stage or null."""
    emit_json(
        {
            "comparisons": [_as_json(report) for report in reports],
            "serving": None if outcomes is None else sim_classic.as_json(outcomes),
        }
    )


def _as_json(report: BenchReport) -> dict[str, Any]:
    memory = report.memory
    return {
        "name": report.setup.name,
        "setup": asdict(report.setup),
        "environment": asdict(report.where),
        "tokens": memory.tokens,
        "kv_bytes": report.setup.kv_bytes,
        "memory": {"naive": asdict(memory.naive), "paged": asdict(memory.paged)},
        "checks": [asdict(check) | {"passed": check.passed} for check in report.checks],
        "latency_us": {name: asdict(timing) for name, timing in report.timings.items()},
        "floor_us": None if report.floor is None else asdict(report.floor),
        "slowdown": report.slowdown,
        "scattering": report.scattering,
        "max_difference": report.difference,
    }


def _show_memory(report: BenchReport) -> None:
    memory = report.memory
    rows = [
        [name, bytes_mb(kept.reserved_bytes), percent(kept.utilization)]
        for name, kept in (("naive", memory.naive), (f"paged, block {memory.block_size}", memory.paged))
    ]
    table(None, ["", "reserved", "utilization"], rows)
    say()


def _show_checks(report: BenchReport) -> None:
    rows = [
        [check.what, f"{check.error:.1e}", f"{check.tolerance:g}", "ok" if check.passed else "WRONG"]
        for check in report.checks
    ]
    table(None, ["checked before timing", "error", "allowed", ""], rows)
    say()


def _show_latency(report: BenchReport) -> None:
    rows = [_latency(report, name, timing) for name, timing in report.timings.items()]
    if report.floor is not None:
        rows.append(_latency(report, "floor", report.floor))
    columns = ["one decode step", "median µs", "mean", "sd", "min"]
    table(None, [*columns, "TB/s", "floor/this"] if report.floor is not None else columns, rows)
    _say_where(report)
    say()
    frames = "scattered" if report.scattering is not None else "ordered"
    say(f"paged / contiguous         {report.slowdown:.3f}x   what paging costs, {frames} frames")
    if report.scattering is not None:
        say(f"shuffled / ordered         {report.scattering:.3f}x   what scattered frames cost")
    say(f"max |paged - naive|        {report.difference:.1e}")
    if report.floor is not None:
        say("floor: the same bytes through the same page tables, and no attention")


def _say_where(report: BenchReport) -> None:
    if report.setup.device == "cpu":
        say("no GPU is used: PyTorch operations stand in for the kernels, their times are not the point")


def _latency(report: BenchReport, name: str, timing: Timing) -> list[str]:
    cells = [name, *(f"{value:,.2f}" for value in (timing.p50, timing.mean, timing.sd, timing.min))]
    if report.floor is None:
        return cells
    return [*cells, f"{report.setup.kv_bytes / timing.p50 / 1e6:.2f}", f"{report.floor.p50 / timing.p50:.3f}"]


def _show_sweep(reports: Sequence[BenchReport]) -> None:
    scattered, floor = reports[0].scattering is not None, reports[0].floor is not None
    rows = []
    for report in reports:
        *_, last = report.timings.values()
        cells = [
            str(report.setup.block_size),
            bytes_mb(report.memory.paged.reserved_bytes),
            percent(report.memory.paged.utilization),
            f"{report.timings['naive'].p50:,.2f}",
            f"{last.p50:,.2f}",
            f"{report.slowdown:.3f}",
        ]
        cells += [f"{report.scattering:.3f}"] if report.scattering is not None else []
        cells += [f"{report.floor.p50 / last.p50:.3f}"] if report.floor is not None else []
        rows.append(cells)
    columns = ["block", "reserved", "used", "naive µs", "paged µs", "slowdown"]
    table(None, [*columns, *["scatter"] * scattered, *["floor"] * floor], rows)
    say("slowdown   paged over contiguous" + (", scattered frames" if scattered else ""))
    if scattered:
        say("scatter    shuffled over ordered frames")
    if floor:
        say("floor      the same bytes through the same page tables, no attention, over paged")
    _say_where(reports[0])
    say(f"max |paged - naive| {max(report.difference for report in reports):.1e}, checked before timing")
