"""What `pagefault calc` was asked for: options into lengths, a model and a budget, contradictions refused."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pagefault.cli.amounts import GB, GIB, optional_whole, whole
from pagefault.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pagefault.capacity import CacheLayout, KVDtype, MemoryBudget, ModelShape

SEQS = 32
SEED = 42
BLOCK_SIZE = 16
POOL_BLOCKS = 4096
MAX_LEN = 2048


@dataclass(frozen=True)
class LengthOptions:
    """Which sequences to size; None where an option was not given."""

    seqs: int | None
    seed: int | None
    mean_len: int | None
    max_len: int | None
    trace: str | None
    skip_bad: bool


@dataclass(frozen=True)
class ModelOptions:
    """Which model; None where an option was not given."""

    name: str | None
    layers: int | None
    kv_heads: int | None
    head_dim: int | None
    dtype_bytes: int | None
    kv_dtype: str
    tp: int | None


@dataclass(frozen=True)
class BudgetOptions:
    """How much memory; None where an option was not given."""

    pool_blocks: int | None
    budget_gb: float | None
    gpu: str | None
    utilization: float | None
    weights_gib: float | None
    overhead_gib: float | None


@dataclass(frozen=True)
class Lengths:
    """The sequences to size.

    Attributes:
        tokens: int64 ``[n]``, tokens a sequence, prompt and output together.
        max_len: Tokens that a contiguous cache reserves for each.
        origin: Where the lengths come from, for people.
        max_origin: Where the maximum comes from.
        asked: Whether the user named these sequences, not only their mean, or nothing.
        notes: What the reader of a trace has to say.
    """

    tokens: NDArray[np.int64]
    max_len: int
    origin: str
    max_origin: str
    asked: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Model:
    """A model and how its cache is kept.

    Attributes:
        shape: The model.
        dtype: Format of K and V.
        tp: Ranks of tensor parallelism.
        layout: What its cache occupies on one of them.
    """

    shape: ModelShape
    dtype: KVDtype
    tp: int
    layout: CacheLayout


def read_model(options: ModelOptions) -> Model | None:
    """The model that was asked for, or None.

    Raises:
        InputError: Options that do not go together, or a model that is not known or not understood.
    """
    own = {
        "--layers": options.layers,
        "--kv-heads": options.kv_heads,
        "--head-dim": options.head_dim,
        "--dtype-bytes": options.dtype_bytes,
    }
    given = [flag for flag, value in own.items() if value is not None]
    if given and options.name != "custom":
        raise InputError(f"{given[0]} describes a model of your own; give --model custom with it")
    if options.name is None:
        for flag, value in (("--tp", options.tp), ("--kv-dtype", options.kv_dtype)):
            if value not in (None, "auto"):
                raise InputError(
                    f"{flag} is about a model; give --model NAME, a config.json, or custom with it"
                )
        return None
    from pagefault.capacity import cache_layout, find_dtype

    shape = _load(options)
    dtype = find_dtype(shape.dtype if options.kv_dtype == "auto" else options.kv_dtype)
    tp = 1 if options.tp is None else options.tp
    return Model(shape, dtype, tp, cache_layout(shape, dtype, tp))


def _load(options: ModelOptions) -> ModelShape:
    from pagefault.capacity import custom_model, load_model

    if options.name != "custom":
        return load_model(str(options.name))
    layers, kv_heads, head_dim = options.layers, options.kv_heads, options.head_dim
    if layers is None or kv_heads is None or head_dim is None:
        raise InputError(
            "--model custom needs --layers, --kv-heads and --head-dim (and --dtype-bytes, unless 2)"
        )
    if options.dtype_bytes is not None and options.kv_dtype != "auto":
        raise InputError("--dtype-bytes and --kv-dtype both say how a value is stored; give one of them")
    return custom_model(layers, kv_heads, head_dim, 2 if options.dtype_bytes is None else options.dtype_bytes)


def read_lengths(options: LengthOptions, shape: ModelShape | None) -> Lengths:
    """The sequences that were asked for: a trace, sequences of one length, or the seeded mix.

    Raises:
        InputError: Options that do not go together or are out of range, or a trace that cannot be read.
    """
    for flag, value in (
        ("--seqs", options.seqs),
        ("--max-len", options.max_len),
        ("--mean-len", options.mean_len),
    ):
        if value is not None and value < 1:
            raise InputError(f"{flag} is {value}, expected 1 or more")
    if options.skip_bad and options.trace is None:
        raise InputError("--skip-bad is about a trace; give --trace FILE with it")
    sources = {"--trace": options.trace, "--mean-len": options.mean_len, "--seed": options.seed}
    given = [flag for flag, value in sources.items() if value is not None]
    if len(given) > 1:
        raise InputError(f"{given[0]} and {given[1]} both say how long the sequences are; give one of them")
    if options.trace is not None:
        return _trace_lengths(options.trace, options)
    max_len, max_origin = _max_len(options, shape)
    if options.mean_len is not None:
        return _equal_lengths(options.mean_len, max_len, max_origin, options)
    return _seeded_lengths(max_len, max_origin, options)


def _max_len(options: LengthOptions, shape: ModelShape | None) -> tuple[int, str]:
    if options.max_len is not None:
        return options.max_len, "--max-len"
    if shape is not None and shape.max_position is not None:
        return shape.max_position, "the model's longest context"
    return MAX_LEN, "the default"


def _equal_lengths(mean_len: int, max_len: int, max_origin: str, options: LengthOptions) -> Lengths:
    import numpy as np

    if mean_len > max_len:
        raise InputError(
            f"a mean of {mean_len:,} tokens (--mean-len) is longer than the maximum of {max_len:,} ({max_origin}); "
            "give a smaller --mean-len or a larger --max-len"
        )
    count = SEQS if options.seqs is None else options.seqs
    tokens = np.full(count, mean_len, dtype=np.int64)
    return Lengths(tokens, max_len, "of the mean length each", max_origin, options.seqs is not None)


def _seeded_lengths(max_len: int, max_origin: str, options: LengthOptions) -> Lengths:
    from pagefault.workload import seeded_lengths

    seed = SEED if options.seed is None else options.seed
    tokens = seeded_lengths(SEQS if options.seqs is None else options.seqs, seed)
    if tokens.max() > max_len:
        raise InputError(
            f"the seeded mix has sequences of up to {tokens.max():,} tokens, longer than the maximum of {max_len:,} "
            f"({max_origin}); give a larger --max-len, or your own lengths with --mean-len or --trace"
        )
    return Lengths(tokens, max_len, f"the seeded mix, seed {seed}", max_origin, asked=True)


def _trace_lengths(trace: str, options: LengthOptions) -> Lengths:
    from pagefault.cli.console import progress
    from pagefault.workload import read_trace

    with progress(f"reading {Path(trace).name}") as update:
        found = read_trace(
            trace,
            skip_bad=options.skip_bad,
            progress=lambda done, total, rows: update(done, total, f"{rows:,} requests"),
        )
    tokens = found.workload.prompt_tokens + found.workload.output_tokens
    if options.seqs is not None and options.seqs > len(tokens):
        raise InputError(f"--seqs {options.seqs} is more than the {len(tokens):,} requests of {found.source}")
    file = Path(found.source).name
    origin = f"prompt and output of each request of {file}"
    if options.seqs is not None:
        origin = f"the first of {len(tokens):,} requests of {file}"
        tokens = tokens[: options.seqs]
    if options.max_len is None:
        return Lengths(tokens, int(tokens.max()), origin, "the longest of them", True, found.notes)
    return Lengths(tokens, options.max_len, origin, "--max-len", True, found.notes)


def read_budget(options: BudgetOptions, model: Model | None, block_size: int) -> MemoryBudget | None:
    """The memory that was asked for, or None.

    Raises:
        InputError: Options that do not go together or are out of range, or nothing is left for the cache.
    """
    _refuse_budgets(options, model is not None)
    if model is None:
        return None
    from pagefault.capacity import DEFAULT_UTILIZATION, find_gpu, given_budget, gpu_budget

    where = "a GPU" if model.tp > 1 else ""
    if options.budget_gb is not None:
        size = whole(options.budget_gb, "--budget-gb", GB)
        return given_budget(size, f"--budget-gb {options.budget_gb:g} {where}".rstrip())
    if options.pool_blocks is not None:
        return _pool_budget(options.pool_blocks, model, block_size)
    if options.gpu is None:
        return None
    return gpu_budget(
        find_gpu(options.gpu),
        model.shape,
        utilization=DEFAULT_UTILIZATION if options.utilization is None else options.utilization,
        tp=model.tp,
        weights_bytes=optional_whole(options.weights_gib, "--weights-gib", GIB),
        overhead_bytes=optional_whole(options.overhead_gib, "--overhead-gib", GIB),
    )


def _refuse_budgets(options: BudgetOptions, with_model: bool) -> None:
    ways = {"--gpu": options.gpu, "--budget-gb": options.budget_gb, "--pool-blocks": options.pool_blocks}
    given = [flag for flag, value in ways.items() if value is not None]
    if len(given) > 1:
        raise InputError(f"{given[0]} and {given[1]} both say how much memory there is; give one of them")
    if not with_model and given and given[0] != "--pool-blocks":
        raise InputError(
            f"{given[0]} needs a model to say what a token takes; give --model NAME, a config.json, or custom"
        )
    details = {
        "--gpu-memory-utilization": options.utilization,
        "--weights-gib": options.weights_gib,
        "--overhead-gib": options.overhead_gib,
    }
    for flag, value in details.items():
        if value is not None and options.gpu is None:
            raise InputError(f"{flag} is about a GPU's memory; give --gpu NAME with it")


def _pool_budget(pool_blocks: int, model: Model, block_size: int) -> MemoryBudget:
    from pagefault.capacity import given_budget

    if not model.layout.uniform:
        raise InputError(
            f"--pool-blocks needs layers that all hold the same number of blocks, and {model.shape.name} has windows "
            "in some of its layers or a fixed state; give --budget-gb or --gpu"
        )
    block = block_size * model.layout.bytes_per_token
    return given_budget(pool_blocks * block, f"--pool-blocks: {pool_blocks:,} blocks × {block:,} B")
