"""`pagefault bench`: what paging costs attention, measured here: contiguous, ordered and scattered frames."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pagefault.cli.console import atomic_file, atomic_path, check_writable, command_line, progress
from pagefault.errors import InputError

if TYPE_CHECKING:
    from pagefault.bench import BenchReport, BenchSetup

_BATCH, _RUN, _SERVING, _OUT = "Batch", "Measurement", "Serving", "Output"
_OF_A_FILE = ("heads", "kv_heads", "head_dim", "seqs", "mean_len", "max_len")


def bench(
    seqs: Annotated[
        int | None,
        typer.Option(
            help="Sequences of the batch, of the seeded mix.", show_default="32", rich_help_panel=_BATCH
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of lengths and values.", rich_help_panel=_BATCH)] = 42,
    mean_len: Annotated[
        int | None,
        typer.Option(help="Tokens of every sequence, in place of the mix.", rich_help_panel=_BATCH),
    ] = None,
    max_len: Annotated[
        int | None,
        typer.Option(
            help="Tokens that the contiguous cache reserves for each.",
            show_default="2048, or the longest",
            rich_help_panel=_BATCH,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|PATH",
            help="Heads and dtype of a preset, a config.json, or a folder with one.",
            rich_help_panel=_BATCH,
        ),
    ] = None,
    heads: Annotated[
        int | None, typer.Option(help="Query heads.", show_default="1", rich_help_panel=_BATCH)
    ] = None,
    kv_heads: Annotated[
        int | None, typer.Option(help="KV heads.", show_default="1", rich_help_panel=_BATCH)
    ] = None,
    head_dim: Annotated[
        int | None, typer.Option(help="Values a head.", show_default="64", rich_help_panel=_BATCH)
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            help="fp32, fp16, bf16, or fp8 (K and V).",
            show_default="fp32, or the model's",
            rich_help_panel=_BATCH,
        ),
    ] = None,
    activations: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Q, K and V of a real model, from scripts/export_kv.py: a sequence a layer.",
            rich_help_panel=_BATCH,
        ),
    ] = None,
    block_size: Annotated[
        int | None,
        typer.Option(help="Tokens a block: 1, 2, 4, … 256.", show_default="16", rich_help_panel=_RUN),
    ] = None,
    sweep: Annotated[
        str | None,
        typer.Option(
            metavar="block-size=1,2,…", help="Many block sizes, in one table.", rich_help_panel=_RUN
        ),
    ] = None,
    shuffle_seed: Annotated[
        int,
        typer.Option(help="Seed of the scattered frames; 0: ordered frames only.", rich_help_panel=_RUN),
    ] = 1,
    iters: Annotated[
        int | None,
        typer.Option(help="Rounds of the timing.", show_default="50; 10 without a GPU", rich_help_panel=_RUN),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="Largest error allowed.",
            show_default="1e-3 fp32, 4e-3 fp16, 3e-2 bf16 and fp8",
            rich_help_panel=_RUN,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(help="cuda or cpu.", show_default="cuda where there is one", rich_help_panel=_RUN),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Jobs in all.", show_default="512", rich_help_panel=_SERVING)
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Jobs in the system at once.", show_default="128", rich_help_panel=_SERVING),
    ] = None,
    watermark: Annotated[
        float | None,
        typer.Option(
            help="Share of the pool that admission leaves free.",
            show_default="0.05",
            rich_help_panel=_SERVING,
        ),
    ] = None,
    skip_sim: Annotated[
        bool, typer.Option("--skip-sim", help="Leave the serving stage out.", rich_help_panel=_SERVING)
    ] = False,
    csv: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Add the rows to a results file; measured again, they are replaced.",
            rich_help_panel=_OUT,
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Write a timeline of a few steps, for Perfetto or chrome://tracing.",
            rich_help_panel=_OUT,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object only.", rich_help_panel=_OUT)
    ] = False,
) -> None:
    """Measure what paging costs attention: contiguous, ordered frames, scattered frames.

    One decode step of one layer: checked against a float64 oracle, against each
    other and by reading the pool back through its page tables; then timed. Exit
    code 1 if a check fails.
    """
    from pagefault.bench import default_device, read_results
    from pagefault.cli import bench_view, sim_classic

    serving = {
        name: value
        for name, value in (("jobs", jobs), ("workers", workers), ("watermark", watermark))
        if value is not None
    }
    if skip_sim and serving:
        raise InputError(f"--skip-sim leaves the serving stage out, and --{next(iter(serving))} is for it")
    for path in (csv, profile):
        if path is not None:
            check_writable(path)
    shape = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "dtype": dtype}
    batch = {"seqs": seqs, "mean_len": mean_len, "max_len": max_len}
    run: dict[str, Any] = {"seed": seed, "shuffle_seed": shuffle_seed, "iters": iters, "tolerance": tolerance}
    run |= {"device": device or default_device()}
    if csv is not None and profile is not None and Path(csv).resolve() == Path(profile).resolve():
        raise InputError(f"--csv and --profile are both {csv}; give two files")
    setups = _setups(batch, shape, run, model, activations, _block_sizes(block_size, sweep))
    before = "" if csv is None else read_results(csv)
    if not skip_sim:
        sim_classic.check(serving)
    reports = [_measure(setup, activations, profile if setup is setups[-1] else None) for setup in setups]
    if csv is not None:
        _write_rows(csv, before, reports)
    outcomes = None if skip_sim else sim_classic.experiment(serving)
    if as_json:
        bench_view.show_json(reports, outcomes)
    else:
        bench_view.show(reports)
        if outcomes is not None:
            bench_view.show_serving(outcomes, serving)


def _setups(
    batch: dict[str, Any],
    shape: dict[str, Any],
    run: dict[str, Any],
    model: str | None,
    activations: str | None,
    block_sizes: list[int],
) -> list[BenchSetup]:
    from pagefault.bench import BenchSetup, activation_options, model_options

    options: dict[str, Any] = {}
    if model is not None:
        from pagefault.capacity import load_model

        _refuse("--model", shape, "heads", "kv_heads", "head_dim")
        options |= model_options(load_model(model))
    if activations is not None:
        _refuse("--from", {"model": model} | shape | batch, "model", *_OF_A_FILE)
        options |= activation_options(activations)
    given = batch | shape | run
    options |= {name: value for name, value in given.items() if value is not None}
    return [BenchSetup(**options | {"block_size": size}) for size in block_sizes]


def _refuse(source: str, given: dict[str, Any], *names: str) -> None:
    for name in names:
        if given[name] is not None:
            raise InputError(f"{source} says what --{name.replace('_', '-')} would say; give one of them")


def _block_sizes(one: int | None, sweep: str | None) -> list[int]:
    if sweep is None:
        return [16 if one is None else one]
    if one is not None:
        raise InputError("--block-size is one size and --sweep many; give one of them")
    name, _, values = sweep.partition("=")
    try:
        if name.strip().replace("_", "-") != "block-size":
            raise ValueError
        return list(dict.fromkeys(int(value) for value in values.split(",")))
    except ValueError:
        raise InputError(f"--sweep {sweep}: expected block-size=1,2,4,…") from None


def _measure(setup: BenchSetup, activations: str | None, profile: str | None) -> BenchReport:
    from pagefault.bench import build, load_activations, run
    from pagefault.bench import profile as profile_steps

    with progress(setup.name) as update:
        update(0, 3, "building the caches")
        tokens = None if activations is None else load_activations(activations, setup)
        problem = build(setup, tokens)
        report = run(problem, lambda what: update(1 if what == "checks" else 2, 3, what), command_line())
    if profile is not None:
        with atomic_path(profile) as temporary:
            profile_steps(problem).export_chrome_trace(str(temporary))
    return report


def _write_rows(path: str, before: str, reports: list[BenchReport]) -> None:
    from pagefault.bench import rows_as_csv

    text = rows_as_csv([row for report in reports for row in report.rows], before)
    with atomic_file(path) as stream:
        stream.write(text)
