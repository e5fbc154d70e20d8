"""The simulator against a recorded run of a real server, with nothing fitted: see benchmarks/real_server.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.real_server import Recording, Row, compare, read_recording, replay
from pagefault.sim import ServingSummary, SimResult

RUN = Path(__file__).parents[3] / "shared" / "data" / "vllm-0.19-rtx4090"

pytestmark = pytest.mark.skipif(not RUN.exists(), reason=f"{RUN.name}: the recorded run is not there")

Played = tuple[SimResult, ServingSummary]


@pytest.fixture(scope="module")
def recorded() -> Recording:
    return read_recording(RUN)


@pytest.fixture(scope="module")
def played(recorded: Recording) -> Played:
    return replay(recorded)


@pytest.fixture(scope="module")
def rows(recorded: Recording, played: Played) -> dict[str, Row]:
    return {row.quantity: row for row in compare(recorded, *played)}


def test_the_recording_is_the_published_one(rows: dict[str, Row], recorded: Recording) -> None:
    assert len(recorded.workload) == 300
    assert rows["end of the run"].measured == pytest.approx(183.6, abs=0.05)
    assert rows["mean TTFT"].measured == pytest.approx(65.5, abs=0.05)
    assert rows["mean end to end"].measured == pytest.approx(86.6, abs=0.05)
    assert rows["mean running"].measured == pytest.approx(32.3, abs=0.05)
    assert rows["mean KV usage"].measured == pytest.approx(0.927, abs=0.0005)


@pytest.mark.parametrize(
    ("quantity", "most"),
    [
        ("end of the run", 0.05),
        ("mean TTFT", 0.05),
        ("mean end to end", 0.05),
        ("mean running", 0.02),
        ("mean KV usage", 0.02),
        ("end to end of a request, median error", 0.10),
    ],
)
def test_the_simulation_is_close(rows: dict[str, Row], quantity: str, most: float) -> None:
    assert abs(rows[quantity].error) < most


def test_everybody_is_served(played: Played) -> None:
    assert played[1].finished == 300


def test_preempted_work_is_found_again_but_is_no_fresh_hit(played: Played) -> None:
    result, summary = played
    assert summary.preemptions > 0
    assert result.pager.repeated_hit_tokens > 0
    assert result.pager.hit_tokens == 0
    assert summary.hit_rate == 0
