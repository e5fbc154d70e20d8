"""The simulator against a recorded run of a real server: vLLM 0.19, Llama-3.1-8B, one RTX 4090.

Nothing is fitted: the pool, the token budget and the scheduler are the server's own settings, the efficiencies are
the defaults, which a large read and a large matrix product reach on any GPU of the last generations.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from pagefault.capacity import find_gpu, load_model
from pagefault.scheduling import SchedulerConfig
from pagefault.sim import RooflineCost, ServingSetup, ServingSummary, SimResult, serve
from pagefault.workload import Workload

SHARED = Path(__file__).parents[3] / "shared" / "data"
RUN = SHARED / "vllm-0.19-rtx4090"
BLOCKS = 2588

pytestmark = pytest.mark.skipif(not RUN.exists(), reason=f"{RUN.name}: the recorded run is not there")


@dataclass
class Recorded:
    """The measured run; seconds from the first request's arrival."""

    workload: Workload
    ttft: np.ndarray
    e2e: np.ndarray
    end: float
    running: np.ndarray
    kv_usage: np.ndarray


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    lines = [json.loads(line) for line in (RUN / "requests.jsonl").read_text().splitlines()]
    lines.sort(key=lambda line: line["queued_ts"])
    start = lines[0]["queued_ts"]
    queued = np.array([line["queued_ts"] - start for line in lines])
    last = np.array([line["last_token_ts"] - start for line in lines])
    series = np.genfromtxt(RUN / "timeseries.csv", delimiter=",", names=True)
    return Recorded(
        workload=Workload(
            np.rint(queued * 1e9).astype(np.int64),
            np.array([line["input_toks"] for line in lines]),
            np.array([line["output_toks"] for line in lines]),
        ),
        ttft=np.array([line["first_token_ts"] - start for line in lines]) - queued,
        e2e=last - queued,
        end=float(last.max()),
        running=series["running"],
        kv_usage=series["kv_cache_pct"] / 100,
    )


@pytest.fixture(scope="module")
def simulated(recorded: Recorded) -> tuple[SimResult, ServingSummary]:
    settings = json.loads((RUN / "meta.json").read_text())["resolved_config"]["scheduler_config"]
    model = load_model(str(SHARED / "model_configs" / "llama-3.1-8b-instruct.json"))
    config = SchedulerConfig(
        max_num_seqs=settings["max_num_seqs"],
        max_num_batched_tokens=settings["max_num_batched_tokens"],
        max_model_len=32_768,
        reserve_full_prompt=settings["scheduler_reserve_full_isl"],
        watermark=0.0,  # vLLM 1 has none
    )
    setup = ServingSetup(
        config=config,
        pool_blocks=BLOCKS,
        make_cost=lambda: RooflineCost(model, find_gpu("rtx-4090"), 16),
    )
    return serve(recorded.workload, setup)


def sampled(result: SimResult, name: str, seconds: int) -> np.ndarray:
    """A quantity once a second, as the server's own log has it."""
    ends = result.steps.column("end_ns")
    at = np.searchsorted(ends, np.arange(1, seconds + 1) * 1e9, side="right") - 1
    return result.steps.column(name)[at]


def test_the_recording_is_the_published_one(recorded: Recorded) -> None:
    assert len(recorded.workload) == 300
    assert recorded.end == pytest.approx(183.6, abs=0.05)
    assert recorded.ttft.mean() == pytest.approx(65.5, abs=0.05)
    assert recorded.e2e.mean() == pytest.approx(86.6, abs=0.05)
    assert recorded.running.mean() == pytest.approx(32.3, abs=0.05)
    assert recorded.kv_usage.mean() == pytest.approx(0.927, abs=0.0005)


def test_end_and_mean_latencies_are_within_5_percent(
    recorded: Recorded, simulated: tuple[SimResult, ServingSummary]
) -> None:
    result, summary = simulated
    assert summary.finished == 300
    assert result.end_ns / 1e9 == pytest.approx(recorded.end, rel=0.05)
    assert summary.ttft.mean == pytest.approx(recorded.ttft.mean(), rel=0.05)
    assert summary.e2e.mean == pytest.approx(recorded.e2e.mean(), rel=0.05)


def test_mean_running_is_within_2_percent(
    recorded: Recorded, simulated: tuple[SimResult, ServingSummary]
) -> None:
    running = sampled(simulated[0], "running", len(recorded.running))
    assert running.mean() == pytest.approx(recorded.running.mean(), rel=0.02)


def test_kv_usage_is_within_2_points(recorded: Recorded, simulated: tuple[SimResult, ServingSummary]) -> None:
    usage = sampled(simulated[0], "used_frames", len(recorded.kv_usage)) / BLOCKS
    assert usage.mean() == pytest.approx(recorded.kv_usage.mean(), abs=0.02)


def test_requests_are_within_10_percent_in_the_median(
    recorded: Recorded, simulated: tuple[SimResult, ServingSummary]
) -> None:
    records = simulated[0].records
    e2e = np.array([record.finished_ns - record.queued_ns for record in records if record.finished_ns]) / 1e9
    errors = np.abs(e2e - recorded.e2e) / recorded.e2e
    assert np.median(errors) < 0.10


def test_preempted_work_is_found_again_but_is_no_fresh_hit(
    simulated: tuple[SimResult, ServingSummary],
) -> None:
    result, summary = simulated
    assert summary.preemptions > 0
    assert result.pager.repeated_hit_tokens > 0
    assert result.pager.hit_tokens == 0
    assert summary.hit_rate == 0
