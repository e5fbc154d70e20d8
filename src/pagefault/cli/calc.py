"""`pagefault calc`: how much memory a KV cache takes, contiguous and paged, and how many sequences fit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pagefault.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SEQS = 32
SEED = 42
BLOCK_SIZE = 16
POOL_BLOCKS = 4096
MAX_LEN = 2048


@dataclass(frozen=True)
class Lengths:
    """The sequences to size.

    Attributes:
        tokens: int64 ``[n]``, tokens a sequence, prompt and output together.
        origin: Where they come from, for people.
        kind: ``seeded``, ``uniform`` or ``trace``.
        notes: What the reader of a trace has to say.
    """

    tokens: NDArray[np.int64]
    origin: str
    kind: str
    notes: tuple[str, ...] = ()


def calc(
    seqs: Annotated[
        int | None, typer.Option(help="Sequences at once; of a trace, its first.", show_default=str(SEQS))
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the length mix.", show_default=str(SEED))] = None,
    block_size: Annotated[int, typer.Option(help="Tokens a block.")] = BLOCK_SIZE,
    pool_blocks: Annotated[
        int | None, typer.Option(help="Blocks of the pool.", show_default=str(POOL_BLOCKS))
    ] = None,
    max_len: Annotated[
        int | None,
        typer.Option(help="Tokens that a contiguous cache reserves a sequence.", show_default=str(MAX_LEN)),
    ] = None,
    trace: Annotated[
        str | None, typer.Option(help="Lengths of a real trace instead of the mix; - reads stdin.")
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Count broken lines of it and go on.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Show how much KV-cache memory is reserved, contiguous and paged, and what fits."""
    from pagefault.capacity import check_block_size, measure, sweep
    from pagefault.cli import calc_view
    from pagefault.cli.console import note

    check_block_size(block_size)
    if trace is None and skip_bad:
        raise InputError("--skip-bad is about a trace; give --trace FILE with it")
    lengths = _lengths(seqs, seed, trace, skip_bad)
    for remark in lengths.notes:
        note(f"note: {remark}")
    longest = max_len if max_len is not None else _default_max_len(lengths)
    report = measure(
        lengths.tokens,
        block_size,
        pool_blocks=POOL_BLOCKS if pool_blocks is None else pool_blocks,
        max_len=longest,
    )
    rows = sweep(lengths.tokens, max_len=longest)
    calc_view.show(lengths.origin, report, rows, as_json=as_json)


def _lengths(seqs: int | None, seed: int | None, trace: str | None, skip_bad: bool) -> Lengths:
    if seqs is not None and seqs < 1:
        raise InputError(f"number of sequences is {seqs}, expected 1 or more")
    if trace is not None:
        if seed is not None:
            raise InputError("--seed draws the seeded mix and --trace takes its place; give one of them")
        return _trace_lengths(trace, seqs, skip_bad)
    from pagefault.workload import seeded_lengths

    seed = SEED if seed is None else seed
    count = SEQS if seqs is None else seqs
    return Lengths(seeded_lengths(count, seed), f"the seeded mix, seed {seed}", "seeded")


def _trace_lengths(trace: str, seqs: int | None, skip_bad: bool) -> Lengths:
    from pagefault.cli.console import progress
    from pagefault.workload import read_trace

    with progress(f"reading {Path(trace).name}") as update:
        found = read_trace(
            trace,
            skip_bad=skip_bad,
            progress=lambda done, total, rows: update(done, total, f"{rows:,} requests"),
        )
    tokens = found.workload.prompt_tokens + found.workload.output_tokens
    if seqs is not None and seqs > len(tokens):
        raise InputError(f"--seqs {seqs} asks for more than the {len(tokens)} requests of {found.source}")
    some = "" if seqs is None or seqs == len(tokens) else f"the first of {len(tokens):,} requests of "
    return Lengths(tokens[:seqs], f"{some}{found.source}", "trace", found.notes)


def _default_max_len(lengths: Lengths) -> int:
    return int(lengths.tokens.max()) if lengths.kind == "trace" else MAX_LEN
