"""How much of a GPU is left for the KV cache, line by line, and how many sequences that holds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagefault.capacity.layout import check_tp
from pagefault.errors import InputError

if TYPE_CHECKING:
    from pagefault.capacity.gpus import Gpu
    from pagefault.capacity.layout import CacheLayout
    from pagefault.capacity.pool import PoolReport
    from pagefault.capacity.shapes import ModelShape

GB = 10**9
GIB = 2**30

DEFAULT_UTILIZATION = 0.9
"""The share of a GPU that a server takes unless told otherwise (vLLM's long-standing default)."""

DEFAULT_OVERHEAD = 5 * GIB // 4
"""Assumed for activations, CUDA context and graphs: 1.25 GiB.

A recorded run of vLLM 0.19 (Llama-3.1-8B, one RTX 4090, steps of 2,048 tokens) left 1.15 GiB of its 90%
unexplained by weights and KV cache. Larger steps, more ranks and multimodal encoders take more.
"""

LARGEST_TP = 64


@dataclass(frozen=True)
class BudgetLine:
    """One line of a budget.

    Attributes:
        label: What it is.
        bytes: How much, on one GPU; negative where it takes from the budget.
        origin: Where the figure comes from, with the numbers put in.
    """

    label: str
    bytes: int
    origin: str


@dataclass(frozen=True)
class MemoryBudget:
    """Memory for the KV cache of one GPU.

    Attributes:
        lines: They add up to `bytes`.
    """

    lines: tuple[BudgetLine, ...]

    @property
    def bytes(self) -> int:
        """What is left for the cache."""
        return sum(line.bytes for line in self.lines)


@dataclass(frozen=True)
class Fit:
    """How many sequences a budget holds.

    Attributes:
        budget_bytes: Memory for the cache of one GPU.
        naive_bytes: A sequence reserved at its maximum length.
        paged_bytes: A sequence in whole blocks, in the mean.
        naive_sequences: ``budget_bytes // naive_bytes``, 1 or more.
        paged_sequences: ``budget_bytes // paged_bytes``, 1 or more.
        bytes_short: By how much the sequences that were measured exceed the budget, all together; 0 if they fit.
    """

    budget_bytes: int
    naive_bytes: int
    paged_bytes: float
    naive_sequences: int
    paged_sequences: int
    bytes_short: int

    @property
    def gain(self) -> float:
        """Paged sequences for each naive one."""
        return self.paged_sequences / self.naive_sequences


def given_budget(size: int, origin: str) -> MemoryBudget:
    """A budget that somebody knows already.

    Args:
        size: Bytes for the cache of one GPU.
        origin: Who says so.

    Raises:
        InputError: It is not above 0.
    """
    if size <= 0:
        raise InputError(f"budget is {size:,} bytes, expected more than 0")
    return MemoryBudget((BudgetLine("budget", size, origin),))


def gpu_budget(
    gpu: Gpu,
    shape: ModelShape,
    *,
    utilization: float = DEFAULT_UTILIZATION,
    tp: int = 1,
    weights_bytes: int | None = None,
    overhead_bytes: int | None = None,
) -> MemoryBudget:
    """What a GPU leaves for the cache: ``memory · utilization − weights / tp − overhead``.

    Args:
        gpu: The GPU; with tensor parallelism, each of them.
        shape: The model.
        utilization: The share of the GPU's memory that the server may take, above 0, at most 1.
        tp: Ranks of tensor parallelism; the weights are split evenly among them.
        weights_bytes: Weights of the whole model; those of `shape` if None.
        overhead_bytes: Activations, CUDA context and graphs of one GPU; `DEFAULT_OVERHEAD` if None.

    Raises:
        InputError: An argument is out of range, the weights are not known, or nothing is left; then the message
            names the smallest `tp` that leaves something.
    """
    if not 0 < utilization <= 1:
        raise InputError(f"GPU memory utilization is {utilization:g}, expected more than 0 and at most 1")
    check_tp(shape, tp)
    weights, origin = _weights(shape, weights_bytes)
    if overhead_bytes is not None and overhead_bytes < 0:
        raise InputError(f"overhead is {overhead_bytes:,} bytes, expected 0 or more")
    overhead = DEFAULT_OVERHEAD if overhead_bytes is None else overhead_bytes
    said = "assumed (--overhead-gib)" if overhead_bytes is None else "given"
    usable = math.floor(gpu.memory_bytes * utilization)
    budget = MemoryBudget(
        (
            BudgetLine("GPU memory", gpu.memory_bytes, f"{gpu.title}, by {gpu.memory_source}"),
            BudgetLine(
                "not used", usable - gpu.memory_bytes, f"× (1 − {utilization:g}), the rest of the utilization"
            ),
            BudgetLine("weights", -_share(weights, tp), origin if tp == 1 else f"{origin}; ÷ {tp} GPUs"),
            BudgetLine("overhead", -overhead, f"activations, context, graphs: {overhead / GIB:g} GiB {said}"),
        )
    )
    if budget.bytes <= 0:
        enough = _smallest_tp(shape, weights, usable - overhead)
        hint = f"--tp {enough} would fit" if enough else f"no --tp up to {LARGEST_TP} fits"
        raise InputError(
            f"{shape.name} is larger than {tp} × {gpu.title}: {_share(weights, tp) / GB:.2f} GB of weights and "
            f"{overhead / GB:.2f} GB overhead a GPU, {usable / GB:.2f} GB to use; {hint}"
        )
    return budget


def fit(budget_bytes: int, report: PoolReport) -> Fit:
    """How many sequences a budget holds: reserved at their maximum, and paged like those that were measured.

    Args:
        budget_bytes: Memory for the cache of one GPU.
        report: What `measure` found; its layout says what a sequence occupies.

    Raises:
        InputError: Not even one sequence of the maximum length fits.
    """
    naive = report.layout.contiguous_bytes(report.max_len)
    one_paged = report.layout.paged_bytes(report.max_len, report.block_size)
    if budget_bytes < max(naive, one_paged):
        longest = longest_sequence(budget_bytes, report.layout, report.block_size)
        hint = f"give --max-len {longest} or less, or more memory" if longest else "give more memory"
        raise InputError(
            f"the budget of {budget_bytes / GB:,.2f} GB is smaller than one sequence: {report.max_len:,} tokens "
            f"take {max(naive, one_paged) / GB:,.2f} GB; {hint}"
        )
    paged = report.paged.reserved_bytes
    return Fit(
        budget_bytes=budget_bytes,
        naive_bytes=naive,
        paged_bytes=paged / report.num_seqs,
        naive_sequences=budget_bytes // naive,
        paged_sequences=budget_bytes * report.num_seqs // paged,
        bytes_short=max(paged - budget_bytes, 0),
    )


def longest_sequence(budget_bytes: int, layout: CacheLayout, block_size: int) -> int:
    """Tokens of the longest sequence that a budget holds in whole blocks, up to 2^40; 0 if not even one block."""
    low, high = 0, 2**40 // block_size  # blocks
    while low < high:
        middle = (low + high + 1) // 2
        if layout.paged_bytes(middle * block_size, block_size) <= budget_bytes:
            low = middle
        else:
            high = middle - 1
    return low * block_size


def _weights(shape: ModelShape, given: int | None) -> tuple[int, str]:
    if given is not None:
        if given <= 0:
            raise InputError(f"weights are {given:,} bytes, expected more than 0")
        return given, f"{given / GIB:g} GiB given"
    if shape.weights is None:
        raise InputError(
            f"the weights of {shape.name} are not known: {shape.uncounted or 'its configuration does not say'}; "
            "give --weights-gib, the size of the whole model in GiB"
        )
    return shape.weights.bytes, shape.weights.formula


def _share(size: int, tp: int) -> int:
    return -(-size // tp)


def _smallest_tp(shape: ModelShape, weights: int, room: int) -> int | None:
    for tp in range(1, LARGEST_TP + 1):
        if shape.attention_heads % tp or _share(weights, tp) >= room:
            continue
        try:
            check_tp(shape, tp)
        except InputError:
            continue
        return tp
    return None
