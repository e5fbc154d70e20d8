"""`pagefault sim`: who runs when, on the write-up's experiment or on real traffic."""

from __future__ import annotations

from typing import Annotated

import typer

from pagefault.cli.sim_options import given_only

_CLASSIC, _TRAFFIC, _SERVER, _SCHEDULER, _OUT = (
    "Classic experiment",
    "Traffic",
    "Server",
    "Scheduler",
    "Output",
)


def _option(text: str, panel: str, default: str | None = None) -> typer.models.OptionInfo:
    found: typer.models.OptionInfo = typer.Option(
        help=text, rich_help_panel=panel, show_default=default or False
    )
    return found


def sim(
    jobs: Annotated[int | None, _option("Jobs in all.", _CLASSIC, "512")] = None,
    workers: Annotated[int | None, _option("Jobs in the system at once.", _CLASSIC, "128")] = None,
    seed: Annotated[int | None, _option("Seed of the length mix.", _CLASSIC, "42")] = None,
    seeds: Annotated[int | None, _option("Runs with so many seeds: mean and spread.", _CLASSIC)] = None,
    max_len: Annotated[int | None, _option("Tokens that naive reserves.", _CLASSIC, "2048")] = None,
    tick_us: Annotated[float | None, _option("Length of a tick.", _CLASSIC, "100")] = None,
    sweep: Annotated[
        str | None, _option("watermark=0,0.02,0.05,...: many runs, the best marked.", _CLASSIC)
    ] = None,
    trace: Annotated[str | None, _option("A real trace; - reads stdin.", _TRAFFIC)] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Count broken lines.", rich_help_panel=_TRAFFIC)
    ] = False,
    requests: Annotated[int | None, _option("Only the trace's first requests.", _TRAFFIC)] = None,
    scale: Annotated[float | None, _option("Multiply the arrival rate.", _TRAFFIC, "1")] = None,
    slo_ttft: Annotated[float | None, _option("Promised time to first token, ms.", _TRAFFIC)] = None,
    slo_tpot: Annotated[float | None, _option("Promised time an output token, ms.", _TRAFFIC)] = None,
    slo_share: Annotated[
        float | None, _option("Share of requests that must be good.", _TRAFFIC, "0.9")
    ] = None,
    find_limit: Annotated[
        bool,
        typer.Option(
            "--find-limit", help="Find the highest rate that meets the SLO.", rich_help_panel=_TRAFFIC
        ),
    ] = False,
    model: Annotated[str | None, _option("A preset, a config.json, or a folder with one.", _SERVER)] = None,
    gpu: Annotated[str | None, _option("A GPU by name.", _SERVER)] = None,
    tp: Annotated[int | None, _option("GPUs that share the model.", _SERVER, "1")] = None,
    kv_dtype: Annotated[str | None, _option("Format of K and V.", _SERVER, "the model's")] = None,
    gpu_memory_utilization: Annotated[
        float | None, _option("Share of the GPU to use.", _SERVER, "0.9")
    ] = None,
    weights_gib: Annotated[float | None, _option("Weights of the whole model.", _SERVER)] = None,
    overhead_gib: Annotated[float | None, _option("Activations, context, graphs.", _SERVER)] = None,
    pool_blocks: Annotated[
        int | None, _option("Blocks of the pool.", _SERVER, "4096, or what the GPU holds")
    ] = None,
    block_size: Annotated[int | None, _option("Tokens a block.", _SERVER, "16")] = None,
    host_blocks: Annotated[int | None, _option("Blocks of the host pool, for swap.", _SERVER)] = None,
    no_prefix_caching: Annotated[
        bool,
        typer.Option(
            "--no-prefix-caching", help="Forget blocks with their sequence.", rich_help_panel=_SERVER
        ),
    ] = False,
    cost_table: Annotated[str | None, _option("Measured step times, CSV: tokens,step_us.", _SERVER)] = None,
    bandwidth_efficiency: Annotated[float | None, _option("Share of peak bandwidth.", _SERVER, "0.9")] = None,
    compute_efficiency: Annotated[float | None, _option("Share of peak FLOP/s.", _SERVER, "0.8")] = None,
    step_us: Annotated[float | None, _option("Fixed cost a step.", _SERVER, "1000")] = None,
    sequence_us: Annotated[float | None, _option("Cost a sequence and step.", _SERVER, "10")] = None,
    watermark: Annotated[
        float | None, _option("Share of the pool admission leaves free.", _SCHEDULER, "0.05, 0.01")
    ] = None,
    admission: Annotated[str | None, _option("naive, max_output, watermark or estimate.", _SCHEDULER)] = None,
    victim: Annotated[
        str | None,
        _option(
            "self, newest, oldest, lowest_priority, most_frames, fewest_tokens.", _SCHEDULER, "self; newest"
        ),
    ] = None,
    preempt: Annotated[
        str | None, _option("restart, recompute, swap or cheaper.", _SCHEDULER, "restart; recompute")
    ] = None,
    policy: Annotated[str | None, _option("fcfs or priority.", _SCHEDULER, "fcfs")] = None,
    max_num_seqs: Annotated[int | None, _option("Sequences at once.", _SCHEDULER, "256")] = None,
    max_num_batched_tokens: Annotated[int | None, _option("Tokens a step.", _SCHEDULER, "2048")] = None,
    max_model_len: Annotated[int | None, _option("Longest sequence.", _SCHEDULER, "the model's")] = None,
    events: Annotated[str | None, _option("Write the event log, JSON lines.", _OUT)] = None,
    trace_out: Annotated[
        str | None, _option("Write a timeline for Perfetto (ui.perfetto.dev).", _OUT)
    ] = None,
    live: Annotated[
        bool,
        typer.Option("--live", help="Show the pool while it runs, in the terminal.", rich_help_panel=_OUT),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object only.", rich_help_panel=_OUT)
    ] = False,
) -> None:
    """Simulate the classic experiment, or with --trace real traffic on a GPU."""
    given = given_only(locals())
    if trace is None:
        from pagefault.cli import sim_classic

        sim_classic.run(given)
    else:
        from pagefault.cli import sim_trace

        sim_trace.run(given)
