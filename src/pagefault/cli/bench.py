"""`pagefault bench`: what paging costs attention, measured here: contiguous, ordered and scattered frames."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pagefault.cli.console import atomic_file, atomic_path, progress
from pagefault.cli.sim_options import check_writable
from pagefault.errors import InputError

if TYPE_CHECKING:
    from pagefault.bench import BenchReport, BenchSetup

_BATCH, _RUN, _SERVING, _OUT = "Batch", "Measurement", "Serving", "Output"


def bench(
    seqs: Annotated[
        int, typer.Option(help="Sequences of the batch, of the seeded mix.", rich_help_panel=_BATCH)
    ] = 32,
    seed: Annotated[int, typer.Option(help="Seed of lengths and values.", rich_help_panel=_BATCH)] = 42,
    mean_len: Annotated[
        int | None,
        typer.Option(help="Tokens of every sequence, in place of the mix.", rich_help_panel=_BATCH),
    ] = None,
    max_len: Annotated[
        int, typer.Option(help="Tokens that the contiguous cache reserves for each.", rich_help_panel=_BATCH)
    ] = 2048,
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
    block_size: Annotated[
        int, typer.Option(help="Tokens a block: 1, 2, 4, … 256.", rich_help_panel=_RUN)
    ] = 16,
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
    from pagefault.bench import default_device
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
    batch = {
        "seqs": seqs,
        "seed": seed,
        "mean_len": mean_len,
        "max_len": max_len,
        "shuffle_seed": shuffle_seed,
    }
    run = {
        "iters": iters,
        "tolerance": tolerance,
        "device": device or default_device(),
        "block_size": block_size,
    }
    setups = _setups(batch | run, shape, model, sweep)
    before = Path(csv).read_text(encoding="utf-8") if csv and Path(csv).exists() else ""
    reports = [_measure(setup, profile if setup is setups[-1] else None) for setup in setups]
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
    given: dict[str, Any], shape: dict[str, Any], model: str | None, sweep: str | None
) -> list[BenchSetup]:
    from pagefault.bench import BenchSetup, model_options

    options = given | {name: value for name, value in shape.items() if value is not None}
    if model is not None:
        from pagefault.capacity import load_model

        taken = [name for name in ("heads", "kv_heads", "head_dim") if shape[name] is not None]
        if taken:
            raise InputError(
                f"--{taken[0].replace('_', '-')} and --model both say the heads; give one of them"
            )
        options = model_options(load_model(model)) | options
    return [BenchSetup(**options | {"block_size": size}) for size in _block_sizes(given["block_size"], sweep)]


def _block_sizes(one: int, sweep: str | None) -> list[int]:
    if sweep is None:
        return [one]
    name, _, values = sweep.partition("=")
    try:
        if name.strip().replace("_", "-") != "block-size":
            raise ValueError
        return [int(value) for value in values.split(",")]
    except ValueError:
        raise InputError(f"--sweep {sweep}: expected block-size=1,2,4,…") from None


def _measure(setup: BenchSetup, profile: str | None) -> BenchReport:
    from pagefault.bench import build, run
    from pagefault.bench import profile as profile_steps

    with progress(setup.name) as update:
        update(0, 3, "building the caches")
        problem = build(setup)
        report = run(problem, lambda what: update(1 if what == "checks" else 2, 3, what))
    if profile is not None:
        with atomic_path(profile) as temporary:
            profile_steps(problem).export_chrome_trace(str(temporary))
    return report


def _write_rows(path: str, before: str, reports: list[BenchReport]) -> None:
    from pagefault.bench import rows_as_csv

    text = rows_as_csv([row for report in reports for row in report.rows], before)
    with atomic_file(path) as stream:
        stream.write(text)
