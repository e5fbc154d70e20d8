"""What `pagefault sim` prints about a run on real traffic."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from pagefault.cli.console import WIDTH, bytes_gib, percent, say, table

if TYPE_CHECKING:
    from pagefault.cli.sim_trace import Server
    from pagefault.sim import Quantiles, ServingSummary


def show_run(server: Server, scale: float, summary: ServingSummary) -> None:
    """Server, traffic, latencies, machine, verdict."""
    _show_server(server)
    rate = "" if scale == 1 else f" ({scale:.4g} × the trace's rate)"
    refused = f", {summary.refused:,} of them never fit" if summary.refused else ""
    _line("traffic", f"{summary.requests:,} requests{refused}, {summary.arrival_rate:.2f} a second{rate}")
    _line(
        "served",
        f"{summary.finished:,} in {summary.duration_s:,.1f} s: {summary.request_throughput:.2f} requests/s, "
        f"{summary.output_throughput:,.0f} output tokens/s",
    )
    say()
    rows = [
        _row("TTFT", summary.ttft),
        _row("TPOT", summary.tpot),
        _row("end to end", summary.e2e),
        _row("in line", summary.wait),
    ]
    table(None, ["", "", "mean", "p50", "p90", "p95", "p99", "max"], rows)
    say()
    _show_slo(server, summary)
    peak = percent(summary.kv_usage_peak)
    _line("KV usage", f"{percent(summary.kv_usage)} of the pool in the mean, {peak} at most")
    _line("running", f"{summary.running:.1f} sequences in the mean, {summary.waiting:.1f} in line")
    _line("hit rate", f"{percent(summary.hit_rate)} of prompt tokens found in the prefix cache")
    _line("preempted", f"{summary.preemptions:,} times, {summary.preemption_rate:.3f} a request")
    _line("recompute", f"{percent(summary.recompute_tax)} of the computed tokens had been computed before")
    _line("steps", f"{summary.steps:,}, busy {percent(summary.busy_share)} of the time")
    _line("verdict", summary.verdict)


def show_limit(server: Server, scale: float, summary: ServingSummary) -> None:
    """The highest rate that keeps the promise, and the run at it."""
    show_run(server, scale, summary)
    limit = f"{summary.arrival_rate:.2f} requests/s, {scale:.3f} × the trace's rate, keep the promise"
    _line("limit", limit)


def _line(label: str, text: str) -> None:
    """A label and what there is to say, wrapped below itself."""
    say(textwrap.fill(f"{label:<12}{text}", WIDTH, subsequent_indent=" " * 12))


def _show_server(server: Server) -> None:
    setup, config = server.setup, server.setup.config
    gpus = server.gpu.title if server.tp == 1 else f"{server.tp} × {server.gpu.title}"
    _line("server", f"{server.model.name} on {gpus}")
    pool = f"{setup.pool_blocks:,} blocks of {setup.block_size} = {setup.pool_blocks * setup.block_size:,} tokens"
    origin = "given" if server.budget is None else f"{bytes_gib(server.budget.bytes)} a GPU"
    _line("pool", f"{pool} ({origin})")
    _line(
        "scheduler",
        f"admission {config.admission}, watermark {percent(config.watermark)}, victims {config.victim}, by "
        f"{config.preempt}",
    )


def _show_slo(server: Server, summary: ServingSummary) -> None:
    slo = server.setup.slo
    parts = [
        f"{name} ≤ {value * 1000:g} ms"
        for name, value in (("TTFT", slo.ttft_s), ("TPOT", slo.tpot_s))
        if value is not None
    ]
    if parts:
        promise, rate = " and ".join(parts), f"{summary.goodput:.2f} good requests/s"
        _line("goodput", f"{percent(summary.good)} of the requests have {promise}: {rate}")


def _row(name: str, quantiles: Quantiles) -> tuple[str, ...]:
    """A row of times, all of them in the unit that suits the largest."""
    values = (quantiles.mean, quantiles.p50, quantiles.p90, quantiles.p95, quantiles.p99, quantiles.max)
    if quantiles.max != quantiles.max:
        return (name, "", *["–"] * len(values))
    if quantiles.max < 10:
        return (name, "ms", *(f"{1000 * value:,.1f}" for value in values))
    return (name, "s", *(f"{value:,.2f}" for value in values))
