"""The write-up's experiment comes out to the tick, and its shape is what the write-up found."""

from __future__ import annotations

import csv
import statistics
from collections import deque
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagefault.errors import InputError, PageFaultError
from pagefault.sim import ClassicOutcome, ClassicSetup, SimResult, run_classic
from pagefault.sim.simulator import GIVE_UP_AFTER

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROWS = Path(__file__).parents[2] / "benchmarks" / "results" / "serving.csv"

# watermark (None: naive), workers -> per seed: ticks, preemptions, mean decoding, × naive; then × in the mean of
# the seeds 42 and 1 to 19. DESIGN, section 5.
Column = tuple[int, int, float, float]
EXACT: dict[tuple[float | None, int], tuple[tuple[Column, Column], float]] = {
    (None, 128): (((7456, 0, 28.17, 1.0), (6831, 0, 27.37, 1.0)), 1.0),
    (0.0, 128): (((12605, 409, 32.15, 0.592), (7908, 237, 36.46, 0.864)), 0.85),
    (0.02, 128): (((5026, 72, 47.39, 1.483), (3871, 39, 53.22, 1.765)), 1.80),
    (0.05, 128): (((3836, 27, 57.75, 1.944), (3691, 22, 53.84, 1.851)), 1.94),
    (0.1, 128): (((3541, 15, 61.37, 2.106), (3537, 15, 55.27, 1.931)), 2.00),
    (0.3, 128): (((4399, 2, 48.01, 1.695), (3245, 0, 57.61, 2.105)), 2.03),
    (0.5, 128): (((4596, 0, 45.70, 1.622), (4450, 0, 42.01, 1.535)), 1.57),
    (0.0, 256): (((14466, 571, 31.28, 0.515), (9425, 441, 35.71, 0.725)), 0.72),
    (0.05, 256): (((4451, 108, 54.19, 1.675), (3779, 72, 54.70, 1.808)), 1.78),
}
SEEDS = (42, 7)


Outcomes = dict[tuple[int, float | None, int], ClassicOutcome]


@pytest.fixture(scope="module")
def outcomes() -> Outcomes:
    """Every run of the table, for both seeds; nothing is held when it is over."""
    found = {}
    for seed in SEEDS:
        for watermark, workers in EXACT:
            setup = ClassicSetup(
                seed=seed,
                workers=workers,
                admission="naive" if watermark is None else "watermark",
                watermark=watermark or 0.0,
            )
            outcome, result = run_classic(setup)
            assert (result.pager.used, result.pager.in_flight, outcome.leaked_frames) == (0, 0, 0)
            assert len(result.records) == setup.jobs
            found[seed, watermark, workers] = outcome
    return found


@pytest.mark.parametrize(("watermark", "workers"), EXACT)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_table_to_the_tick(
    outcomes: Outcomes,
    seed: int,
    watermark: float | None,
    workers: int,
) -> None:
    outcome, naive = outcomes[seed, watermark, workers], outcomes[seed, None, 128]
    ticks, preemptions, decoding, ratio = EXACT[watermark, workers][0][SEEDS.index(seed)]
    assert outcome.ticks == ticks
    assert outcome.preemptions == preemptions
    assert round(outcome.decoding, 2) == decoding
    assert round(naive.ticks / outcome.ticks, 3) == ratio
    assert outcome.leaked_frames == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_the_shape_of_the_write_up(outcomes: Outcomes, seed: int) -> None:
    naive = outcomes[seed, None, 128]
    assert naive.live_peak <= 32  # 4,096 blocks hold 32 reservations of 2,048 tokens
    assert naive.discarded_tokens == 0
    paged = [outcomes[seed, share, 128] for share in (0.0, 0.02, 0.05, 0.1, 0.3, 0.5)]
    assert all(outcome.live > naive.live for outcome in paged)
    assert all(outcome.live_peak > naive.live_peak for outcome in paged)
    preemptions = [outcome.preemptions for outcome in paged]
    assert preemptions == sorted(preemptions, reverse=True)
    assert preemptions[2] < preemptions[0] / 2
    assert all(outcome.admission_wait_ticks < naive.admission_wait_ticks for outcome in paged)


def test_the_same_run_again_is_the_same() -> None:
    setup = ClassicSetup(jobs=24, workers=12, pool_blocks=512, watermark=0.02)
    (first, result), (second, again) = run_classic(setup), run_classic(setup)
    assert first == second
    assert column(result, "end_ns") == column(again, "end_ns")
    assert column(result, "used_frames") == column(again, "used_frames")
    assert run_classic(replace(setup, seed=1))[0] != first


def test_the_recorded_rows_are_these_runs(outcomes: Outcomes) -> None:
    rows = classic_rows()
    for (seed, watermark, workers), outcome in outcomes.items():
        row, naive = rows[seed, watermark, workers], outcomes[seed, None, 128]
        assert (int(row["ticks"]), int(row["preemptions"])) == (outcome.ticks, outcome.preemptions)
        for name, value in (
            ("ratio", naive.ticks / outcome.ticks),
            ("decoding", outcome.decoding),
            ("live", outcome.live),
            ("wait_ticks", outcome.admission_wait_ticks),
            ("discarded_share", outcome.discarded_share),
        ):
            assert float(row[name]) == pytest.approx(value, abs=1e-4), name


def test_the_means_of_twenty_seeds() -> None:
    rows = classic_rows()
    seeds = sorted({seed for seed, *_ in rows})
    assert seeds == [*range(1, 20), 42]
    for (watermark, workers), (_, mean) in EXACT.items():
        ratios = [
            int(rows[seed, None, 128]["ticks"]) / int(rows[seed, watermark, workers]["ticks"])
            for seed in seeds
        ]
        assert round(statistics.fmean(ratios), 2) == mean
    naive = [float(rows[seed, None, 128]["decoding"]) for seed in seeds]
    assert round(statistics.fmean(naive), 1) == 27.7


def classic_rows() -> dict[tuple[int, float | None, int], dict[str, str]]:
    """What `python -m benchmarks.serving` recorded."""
    with ROWS.open(encoding="utf-8", newline="") as stream:
        return {
            (
                int(row["seed"]),
                None if row["admission"] == "naive" else float(row["watermark"]),
                int(row["workers"]),
            ): row
            for row in csv.DictReader(stream)
            if row["table"] == "classic"
        }


# --- held to a second, plain telling of the rule ------------------------------------------------------


class ShortJobs(ClassicSetup):
    """The experiment with jobs of 2 to `max_len` tokens, so that a run is over in no time."""

    def lengths(self) -> NDArray[np.int64]:
        return np.random.default_rng(self.seed).integers(2, self.max_len, self.jobs, endpoint=True)


@dataclass
class Job:
    """A job of the plain loop."""

    prompt: int
    length: int
    queued: int = 0
    waited: int | None = None
    tokens: int = 0
    frames: int = 0
    stalls: int = 0
    done: bool = False


def tick_loop(setup: ClassicSetup) -> tuple[int, int, float, float, float] | None:
    """DESIGN's text, word by word: ticks, preemptions, decoding, live and waiting (means); None: it never ends."""
    jobs = [Job(max(1, int(0.2 * length)), length) for length in setup.lengths().tolist()]
    coming, queue = iter(jobs), deque[Job]()
    queue.extend(islice(coming, setup.workers))
    live: list[Job] = []
    free, naive = setup.pool_blocks, setup.admission == "naive"
    gained, held, preemptions, tick, last_end = [], [], 0, 0, 0
    while queue or live:
        while queue:  # (a)
            need = -(-(setup.max_len if naive else queue[0].prompt) // setup.block_size)
            reserve = int(setup.watermark * setup.pool_blocks) if live and not naive else 0
            if need > free - reserve:
                break
            job = queue.popleft()
            job.waited = tick - job.queued if job.waited is None else job.waited
            job.tokens, job.frames, job.stalls = job.prompt, need, 0
            free -= need
            live.append(job)
        decoding, preempted = 0, []
        for job in live:  # (b)
            if job.tokens == job.frames * setup.block_size:
                if free:
                    free, job.frames, job.stalls = free - 1, job.frames + 1, 0
                else:
                    job.stalls += 1
                    if job.stalls == 49:
                        free, preemptions = free + job.frames, preemptions + 1
                        preempted.append(job)
                    continue
            job.tokens += 1
            decoding += 1
            job.done = job.tokens >= job.length
        live = [job for job in live if job not in preempted]
        gained.append(decoding)
        held.append(len(live))
        tick += 1
        queue.extend(preempted)
        for job in live:  # (c)
            if job.done:
                free += job.frames
                last_end = tick
                for following in islice(coming, 1):
                    following.queued = tick
                    queue.append(following)
        live = [job for job in live if not job.done]
        if tick - last_end > GIVE_UP_AFTER * setup.max_len:
            return None
    waits = [job.waited for job in jobs if job.waited is not None]
    return tick, preemptions, float(np.mean(gained)), float(np.mean(held)), float(np.mean(waits))


@settings(deadline=None, derandomize=True, max_examples=30)
@given(
    seed=st.integers(0, 10_000),
    jobs=st.integers(1, 40),
    workers=st.integers(1, 50),
    block_size=st.sampled_from([1, 4, 16]),
    sequences=st.integers(1, 6),
    admission=st.sampled_from(["naive", "watermark"]),
    watermark=st.sampled_from([0.0, 0.05, 0.1, 0.3, 0.9]),
)
def test_the_scheduler_plays_the_tick_loop(
    seed: int, jobs: int, workers: int, block_size: int, sequences: int, admission: str, watermark: float
) -> None:
    setup = ShortJobs(
        seed=seed,
        jobs=jobs,
        workers=workers,
        max_len=64,
        block_size=block_size,
        pool_blocks=sequences * 64 // block_size,
        admission=admission,  # type: ignore[arg-type]
        watermark=watermark,
    )
    told = tick_loop(setup)
    if told is None:
        with pytest.raises(PageFaultError, match="no request has ended in the last 1,280 steps"):
            run_classic(setup)
        return
    outcome, result = run_classic(setup)
    assert (outcome.ticks, outcome.preemptions) == told[:2]
    assert (outcome.decoding, outcome.live, outcome.admission_wait_ticks) == pytest.approx(told[2:])
    assert result.pager.used == 0


def test_a_run_that_would_never_end_is_given_up() -> None:
    """Both need the whole pool, both start with half of it, and both start over at the same time."""

    class Twins(ClassicSetup):
        def lengths(self) -> NDArray[np.int64]:
            return np.full(self.jobs, 64)

    twins = Twins(jobs=2, workers=2, max_len=64, block_size=4, pool_blocks=16)
    assert tick_loop(twins) is None
    with pytest.raises(PageFaultError, match="give a larger watermark or pool, fewer sequences at once"):
        run_classic(twins)
    alone, _ = run_classic(replace(twins, workers=1))
    assert (alone.preemptions, alone.ticks) == (0, 2 * (64 - 12))
    kept, _ = run_classic(replace(twins, preempt="recompute"))
    assert kept.discarded_tokens == 0


# --- bad input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"jobs": 0}, "jobs is 0; expected at least 1"),
        ({"jobs": 10**12}, "jobs is 1,000,000,000,000; expected at most 1,000,000"),
        ({"workers": 0}, "workers is 0; expected at least 1"),
        ({"pool_blocks": 127}, "smaller than one sequence of max_len 2048 tokens, 128 blocks"),
        ({"pool_blocks": 10**12}, "a pool of 1,000,000,000,000 blocks is more than can be simulated"),
        ({"host_blocks": 10**12}, "a pool of 1,000,000,000,000 blocks is more than can be simulated"),
        ({"host_blocks": -1}, "host_blocks is -1"),
        ({"jobs": 10**6, "workers": 10**6, "pool_blocks": 10**5, "max_len": 10**6}, "let fewer run at once"),
        ({"max_len": 100}, "the longest job of seed 42 has 2045 tokens"),
        ({"watermark": 1.0}, "watermark is 1.0"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_bad_setups_are_refused_before_anything_runs(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ClassicSetup(**setting)


def test_more_workers_than_jobs_are_as_many_as_jobs() -> None:
    short: dict[str, Any] = {"jobs": 5, "max_len": 64, "pool_blocks": 64}
    many, _ = run_classic(ShortJobs(workers=10**9, **short))
    few, _ = run_classic(ShortJobs(workers=5, **short))
    assert replace(many, setup=few.setup) == few


def test_an_interrupted_run_has_no_outcome() -> None:
    def press(ended: int, now_ns: int) -> None:
        if now_ns > 5_000_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_classic(ShortJobs(jobs=40, max_len=64, pool_blocks=64), press)


def column(result: SimResult, name: str) -> Any:
    return result.steps.column(name).tolist()
