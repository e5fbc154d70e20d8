"""`pagefault calc`: how much memory a KV cache takes, contiguous and paged, and how many sequences fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from pagefault.cli.calc_inputs import (
    BLOCK_SIZE,
    MAX_LEN,
    POOL_BLOCKS,
    SEED,
    SEQS,
    BudgetOptions,
    LengthOptions,
    ModelOptions,
)
from pagefault.cli.sim_options import given_only
from pagefault.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pagefault.capacity import Fit, MemoryBudget, PoolReport, SweepRow
    from pagefault.cli.calc_inputs import Lengths, Model

_SEQUENCES, _MODEL, _MEMORY, _SERVING = "Sequences", "Model", "Memory", "Serving"
# Options that the serving experiment shares, and those that are its own.
_EXPERIMENT, _EXPERIMENT_ONLY = (
    ("seed", "max_len", "pool_blocks", "block_size"),
    ("sim", "watermark", "workers"),
)


@dataclass(frozen=True)
class Sizing:
    """Everything that `calc` found out.

    Attributes:
        lengths: The sequences.
        model: The model, or None for the bytes a token of the write-up.
        budget: Memory for the cache, or None where it is not known (or is a pool of blocks without a model).
        report: The sequences, paged and contiguous.
        rows: The same at every block size.
        fit: How many sequences the budget holds; None without one.
    """

    lengths: Lengths
    model: Model | None
    budget: MemoryBudget | None
    report: PoolReport
    rows: list[SweepRow]
    fit: Fit | None


def calc(
    seqs: Annotated[
        int | None,
        typer.Option(
            help="Sequences at once; of a trace, its first.",
            show_default=str(SEQS),
            rich_help_panel=_SEQUENCES,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed of the length mix.", show_default=str(SEED), rich_help_panel=_SEQUENCES),
    ] = None,
    max_len: Annotated[
        int | None,
        typer.Option(
            help="Tokens that a contiguous cache reserves for each.",
            show_default=f"the model's context, a trace's longest, or {MAX_LEN}",
            rich_help_panel=_SEQUENCES,
        ),
    ] = None,
    mean_len: Annotated[
        int | None,
        typer.Option(
            help="Tokens of each sequence, in the mean; in place of the mix.", rich_help_panel=_SEQUENCES
        ),
    ] = None,
    trace: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Lengths of a real trace, in place of the mix; - reads stdin.",
            rich_help_panel=_SEQUENCES,
        ),
    ] = None,
    skip_bad: Annotated[
        bool,
        typer.Option(
            "--skip-bad", help="Count broken lines of the trace and go on.", rich_help_panel=_SEQUENCES
        ),
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|PATH|custom",
            help="A preset, a config.json, a folder with one, or your own.",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    layers: Annotated[int | None, typer.Option(help="Layers (custom).", rich_help_panel=_MODEL)] = None,
    kv_heads: Annotated[int | None, typer.Option(help="KV heads (custom).", rich_help_panel=_MODEL)] = None,
    head_dim: Annotated[
        int | None, typer.Option(help="Values a head (custom).", rich_help_panel=_MODEL)
    ] = None,
    dtype_bytes: Annotated[
        int | None, typer.Option(help="Bytes a value (custom).", show_default="2", rich_help_panel=_MODEL)
    ] = None,
    kv_dtype: Annotated[
        str,
        typer.Option(help="Format of K and V: fp16, bf16, fp8, int8, int4, …", rich_help_panel=_MODEL),
    ] = "auto",
    tp: Annotated[
        int | None,
        typer.Option(help="GPUs that share the model's heads.", show_default="1", rich_help_panel=_MODEL),
    ] = None,
    block_size: Annotated[
        int, typer.Option(help="Tokens a block: 1, 2, 4, … 256.", rich_help_panel=_MEMORY)
    ] = BLOCK_SIZE,
    pool_blocks: Annotated[
        int | None,
        typer.Option(
            help="Blocks of the pool.", show_default=f"{POOL_BLOCKS} without a model", rich_help_panel=_MEMORY
        ),
    ] = None,
    budget_gb: Annotated[
        float | None,
        typer.Option(help="Memory for the KV cache of a GPU, in GB (10^9 bytes).", rich_help_panel=_MEMORY),
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option(help="Derive the budget from a GPU: h200, a100, …", rich_help_panel=_MEMORY),
    ] = None,
    gpu_memory_utilization: Annotated[
        float | None,
        typer.Option(
            help="Share of the GPU that the server takes.", show_default="0.9", rich_help_panel=_MEMORY
        ),
    ] = None,
    weights_gib: Annotated[
        float | None,
        typer.Option(
            help="Weights of the whole model, in GiB (2^30 bytes).",
            show_default="counted from the config",
            rich_help_panel=_MEMORY,
        ),
    ] = None,
    overhead_gib: Annotated[
        float | None,
        typer.Option(
            help="Activations, context and graphs of a GPU, in GiB.",
            show_default="1.25",
            rich_help_panel=_MEMORY,
        ),
    ] = None,
    sim: Annotated[
        bool,
        typer.Option(
            "--sim", help="The serving experiment instead: pagefault sim.", rich_help_panel=_SERVING
        ),
    ] = False,
    watermark: Annotated[
        float | None,
        typer.Option(
            help="Share of the pool that admission leaves free (--sim).",
            show_default="0.05",
            rich_help_panel=_SERVING,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Jobs in the system at once (--sim).", show_default="128", rich_help_panel=_SERVING
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Show how much KV-cache memory is reserved, contiguous and paged, and what fits.

    Without options: the write-up's 32 sequences at 512 B a token in a pool of
    4096 blocks. With --model: bytes a token; with --budget-gb or --gpu as well:
    how many sequences fit. With --sim: the serving experiment on that pool.
    """
    given = given_only({**locals(), "kv_dtype": None if kv_dtype == "auto" else kv_dtype})
    if _is_experiment(given):
        from pagefault.cli import sim_classic

        sim_classic.run(given)
        return
    from pagefault.cli.calc_json import sizing_json
    from pagefault.cli.calc_view import show_text
    from pagefault.cli.console import emit_json, note

    found = size_up(
        LengthOptions(seqs, seed, mean_len, max_len, trace, skip_bad),
        ModelOptions(model, layers, kv_heads, head_dim, dtype_bytes, kv_dtype, tp),
        BudgetOptions(pool_blocks, budget_gb, gpu, gpu_memory_utilization, weights_gib, overhead_gib),
        block_size,
    )
    for remark in _notes(found):
        note(f"note: {remark}")
    if as_json:
        emit_json(sizing_json(found))
    else:
        show_text(found)


def _is_experiment(given: Mapping[str, object]) -> bool:
    """Whether --sim was given; options that mean nothing with it, or only with it, are refused."""
    for name in given:
        flag = "--" + name.replace("_", "-")
        if "sim" in given and name not in (*_EXPERIMENT, *_EXPERIMENT_ONLY, "as_json"):
            raise InputError(f"{flag} means nothing to the serving experiment; leave it out, or --sim")
        if "sim" not in given and name in _EXPERIMENT_ONLY:
            raise InputError(f"{flag} is for --sim, the serving experiment; give --sim with it")
    return "sim" in given


def _notes(found: Sizing) -> Iterator[str]:
    yield from found.lengths.notes
    if found.model is None:
        return
    yield from found.model.shape.notes
    longest = found.model.shape.max_position
    if longest is not None and found.report.max_len > longest:
        yield f"{found.report.max_len:,} tokens are beyond the model's longest context of {longest:,}"


def size_up(
    length_options: LengthOptions,
    model_options: ModelOptions,
    budget_options: BudgetOptions,
    block_size: int = BLOCK_SIZE,
) -> Sizing:
    """Everything that `calc` shows, computed.

    Raises:
        InputError: Options that do not go together, or are out of range; a trace or a model that cannot be read;
            a model larger than the GPU; a budget smaller than one sequence.
    """
    from pagefault.capacity import DEMO_LAYOUT, check_block_size, fit, measure, sweep
    from pagefault.cli.calc_inputs import read_budget, read_lengths, read_model

    check_block_size(block_size)
    model = read_model(model_options)
    budget = read_budget(budget_options, model, block_size)
    lengths = read_lengths(length_options, model.shape if model else None)
    layout = model.layout if model else DEMO_LAYOUT
    pool_blocks = budget_options.pool_blocks
    if model is None and pool_blocks is None:
        pool_blocks = POOL_BLOCKS
    elif budget is not None and layout.uniform:
        pool_blocks = budget.bytes // (block_size * layout.bytes_per_token) or None  # fit() refuses less
    report = measure(
        lengths.tokens, block_size, pool_blocks=pool_blocks, max_len=lengths.max_len, layout=layout
    )
    return Sizing(
        lengths=lengths,
        model=model,
        budget=budget,
        report=report,
        rows=sweep(lengths.tokens, max_len=lengths.max_len, layout=layout),
        fit=fit(budget.bytes, report) if budget else None,
    )
