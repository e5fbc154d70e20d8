from __future__ import annotations

import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagefault.errors import InputError
from pagefault.workload import Workload, summarize


def of(prompts: list[int], arrivals: list[int] | None = None, **more: object) -> Workload:
    arrival = np.array(arrivals or [0] * len(prompts))
    return Workload(arrival, np.array(prompts), np.array(prompts), **more)  # type: ignore[arg-type]


@settings(deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 100_000), min_size=2, max_size=60))
def test_lengths_agree_with_the_standard_library(prompts: list[int]) -> None:
    spread = summarize(of(prompts)).prompt
    assert (spread.min, spread.max) == (min(prompts), max(prompts))
    assert spread.mean == pytest.approx(statistics.fmean(prompts))
    cuts = statistics.quantiles(prompts, n=100, method="inclusive")
    found = (spread.p25, spread.p50, spread.p75, spread.p90, spread.p95, spread.p99)
    assert found == pytest.approx([cuts[percent - 1] for percent in (25, 50, 75, 90, 95, 99)])
    for low, count in spread.histogram:
        assert count == sum(low <= prompt < 2 * low for prompt in prompts)
    assert sum(count for _, count in spread.histogram) == len(prompts)
    assert spread.histogram[0][1] > 0
    assert spread.histogram[-1][1] > 0


def test_rates() -> None:
    summary = summarize(of([10, 20, 30], [0, 10**9, 4 * 10**9]))
    assert summary.duration_s == 4
    assert summary.requests_per_s == 0.75
    assert summary.prompt_tokens_per_s == summary.output_tokens_per_s == 15
    assert summary.conversations is None
    assert summary.reuse is None


def test_no_rate_without_time() -> None:
    assert summarize(of([1, 2])).requests_per_s is None


@settings(deadline=None, derandomize=True)
@given(st.lists(st.one_of(st.integers(0, 5), st.integers(-(2**62), 2**62)), min_size=1, max_size=40))
def test_blocks_seen_before(ids: list[int]) -> None:
    offsets, values = np.arange(len(ids) + 1), np.array(ids)
    made = of([16] * len(ids), hash_offsets=offsets, hash_ids=values, hash_tokens=16)
    reuse = summarize(made).reuse
    assert reuse is not None
    assert reuse.seen == sum(one in ids[:at] for at, one in enumerate(ids))
    assert reuse.share == reuse.seen / len(ids)


def test_conversations_are_counted() -> None:
    assert summarize(of([1, 1, 1, 1], session=np.array([0, -1, 0, 1]))).conversations == 2


def test_nothing_to_summarize() -> None:
    with pytest.raises(InputError, match="no requests"):
        summarize(of([1]).head(0))
