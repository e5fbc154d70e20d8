"""What there is to say about a workload in a few numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pagefault.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pagefault.workload.requests import Workload


@dataclass(frozen=True)
class Distribution:
    """Token counts of all requests in nine numbers and a histogram.

    Percentiles are interpolated linearly between the two nearest requests.

    Attributes:
        histogram: (lower bound, requests) of bins from each power of two up to the next, in tokens; from the
            first bin that is not empty to the last.
    """

    min: int
    p25: float
    p50: float
    p75: float
    p90: float
    p95: float
    p99: float
    max: int
    mean: float
    histogram: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Reuse:
    """How much of the prompts had been seen before: the hit rate of a cache that never evicts.

    Attributes:
        hash_tokens: Tokens a block.
        blocks: Prompt blocks of all requests, partly filled last ones among them.
        seen: Blocks whose id had come up before, in order of arrival.
        share: ``seen / blocks``.
    """

    hash_tokens: int
    blocks: int
    seen: int
    share: float


@dataclass(frozen=True)
class WorkloadSummary:
    """What `pagefault trace` prints.

    Attributes:
        requests: How many.
        duration_s: From the first arrival to the last.
        requests_per_s: Requests by that duration; None where all arrive at one instant.
        prompt_tokens_per_s: The same for prompt tokens.
        output_tokens_per_s: The same for output tokens.
        prompt: Prompt lengths.
        output: Output lengths.
        conversations: Conversations with more than one request counted once; None where not known.
        reuse: None without block ids.
    """

    requests: int
    duration_s: float
    requests_per_s: float | None
    prompt_tokens_per_s: float | None
    output_tokens_per_s: float | None
    prompt: Distribution
    output: Distribution
    conversations: int | None
    reuse: Reuse | None


def summarize(workload: Workload) -> WorkloadSummary:
    """Rates, length distributions and block reuse of a workload.

    Raises:
        InputError: It has no requests.
    """
    if not len(workload):
        raise InputError("the workload has no requests; there is nothing to summarize")
    seconds = workload.duration_ns / 1e9

    def rate(amount: int) -> float | None:
        return amount / seconds if seconds else None

    return WorkloadSummary(
        requests=len(workload),
        duration_s=seconds,
        requests_per_s=rate(len(workload)),
        prompt_tokens_per_s=rate(int(workload.prompt_tokens.sum())),
        output_tokens_per_s=rate(int(workload.output_tokens.sum())),
        prompt=distribution(workload.prompt_tokens),
        output=distribution(workload.output_tokens),
        conversations=_conversations(workload.session),
        reuse=_reuse(workload),
    )


def distribution(tokens: NDArray[np.int64]) -> Distribution:
    """Nine numbers and a histogram of int64 ``[n]`` token counts, n and all counts 1 or more."""
    quantiles = np.percentile(tokens, [25, 50, 75, 90, 95, 99])
    p25, p50, p75, p90, p95, p99 = (float(value) for value in quantiles)
    exponents = np.frexp(tokens)[1] - 1  # exact: floor(log2) of what a float64 holds
    lowest = int(exponents.min())
    counts = np.bincount(exponents - lowest)
    return Distribution(
        min=int(tokens.min()),
        p25=p25,
        p50=p50,
        p75=p75,
        p90=p90,
        p95=p95,
        p99=p99,
        max=int(tokens.max()),
        mean=float(tokens.mean()),
        histogram=tuple((1 << (lowest + index), int(count)) for index, count in enumerate(counts)),
    )


def _conversations(session: NDArray[np.int64] | None) -> int | None:
    if session is None:
        return None
    return int(np.unique(session[session >= 0]).size)


def _reuse(workload: Workload) -> Reuse | None:
    if workload.hash_ids is None:
        return None
    # Every id is new exactly once, whatever the order: what is not, had been seen before.
    blocks = len(workload.hash_ids)
    seen = blocks - _distinct(workload.hash_ids)
    return Reuse(hash_tokens=workload.hash_tokens, blocks=blocks, seen=seen, share=seen / blocks)


def _distinct(ids: NDArray[np.int64]) -> int:
    """How many different values; without sorting where they are dense, as they are in published traces."""
    low, high = int(ids.min()), int(ids.max())
    if high - low > 8 * len(ids):
        return int(np.unique(ids).size)
    present = np.zeros(high - low + 1, dtype=np.bool_)
    present[ids - low] = True
    return int(np.count_nonzero(present))
