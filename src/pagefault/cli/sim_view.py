"""What `pagefault sim` prints about a run on real traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagefault.cli.console import bytes_gib, percent, say, table

if TYPE_CHECKING:
    from pagefault.cli.sim_trace import Server
    from pagefault.sim import Quantiles, ServingSummary


def show_run(server: Server, scale: float, summary: ServingSummary) -> None:
    """Server, traffic, latencies, machine, verdict."""
    _show_server(server)
    rate = "" if scale == 1 else f" ({scale:g} × the trace's rate)"
    refused = f", {summary.refused:,} of them never fit" if summary.refused else ""
    say(f"traffic     {summary.requests:,} requests{refused}, {summary.arrival_rate:.2f} a second{rate}")
    say(
        f"served      {summary.finished:,} in {summary.duration_s:,.1f} s: "
        f"{summary.request_throughput:.2f} requests/s, {summary.output_throughput:,.0f} output tokens/s"
    )
    say()
    rows = [
        ("TTFT", *_seconds(summary.ttft)),
        ("TPOT", *_seconds(summary.tpot)),
        ("end to end", *_seconds(summary.e2e)),
        ("in line", *_seconds(summary.wait)),
    ]
    table(None, ["", "mean", "p50", "p90", "p95", "p99", "max"], rows)
    _show_slo(server, summary)
    say(
        f"KV usage    {percent(summary.kv_usage)} of the pool in the mean, {percent(summary.kv_usage_peak)} at most"
    )
    say(f"running     {summary.running:.1f} sequences in the mean, {summary.waiting:.1f} in line")
    say(f"hit rate    {percent(summary.hit_rate)} of prompt tokens found in the prefix cache")
    say(f"preempted   {summary.preemptions:,} times, {summary.preemption_rate:.3f} a request")
    say(f"recompute   {percent(summary.recompute_tax)} of the computed tokens had been computed before")
    say(f"steps       {summary.steps:,}, busy {percent(summary.busy_share)} of the time")
    say()
    say(summary.verdict)


def show_limit(server: Server, scale: float, summary: ServingSummary) -> None:
    """The highest rate that keeps the promise, and the run at it."""
    show_run(server, scale, summary)
    say()
    say(
        f"limit       {summary.arrival_rate:.2f} requests/s, {scale:.3f} × the trace's rate, keep the promise"
    )


def _show_server(server: Server) -> None:
    setup, config = server.setup, server.setup.config
    gpus = server.gpu.title if server.tp == 1 else f"{server.tp} × {server.gpu.title}"
    say(f"server      {server.model.name} on {gpus}")
    pool = f"{setup.pool_blocks:,} blocks of {setup.block_size} tokens"
    origin = (
        "given" if server.budget is None else f"{bytes_gib(server.budget.bytes)} a GPU left for the cache"
    )
    say(f"pool        {pool} = {setup.pool_blocks * setup.block_size:,} tokens ({origin})")
    say(
        f"scheduler   {config.admission}, watermark {percent(config.watermark)}, victims {config.victim}, "
        f"by {config.preempt}"
    )


def _show_slo(server: Server, summary: ServingSummary) -> None:
    slo = server.setup.slo
    parts = [
        f"{name} ≤ {value * 1000:g} ms"
        for name, value in (("TTFT", slo.ttft_s), ("TPOT", slo.tpot_s))
        if value is not None
    ]
    if parts:
        say(
            f"goodput     {percent(summary.good)} of the requests have {' and '.join(parts)}: "
            f"{summary.goodput:.2f} good requests/s"
        )


def _seconds(quantiles: Quantiles) -> tuple[str, ...]:
    values = (quantiles.mean, quantiles.p50, quantiles.p90, quantiles.p95, quantiles.p99, quantiles.max)
    return tuple(_time(value) for value in values)


def _time(seconds: float) -> str:
    """Milliseconds below ten seconds, seconds above; a dash for nothing."""
    if seconds != seconds:
        return "–"
    return f"{seconds * 1000:,.1f} ms" if seconds < 10 else f"{seconds:,.1f} s"
