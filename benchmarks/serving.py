"""Measure what admission, victims and swapping do to serving: ``python -m benchmarks.serving [--csv FILE]``.

Every run is deterministic, so the rows depend on the code and not on the machine; only `seconds` does. The rows are
what docs/results.md is made from.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, fields, replace

from benchmarks import files
from pagefault.sim import ClassicSetup, run_classic

WATERMARKS = (0.0, 0.02, 0.05, 0.1, 0.3, 0.5)
CLASSIC_SEEDS = (42, *range(1, 20))
ROADMAP_SEEDS = (42, 7, 1, 2, 3)
POLICIES = (
    ("self", "restart"),
    ("newest", "restart"),
    ("oldest", "restart"),
    ("most_frames", "restart"),
    ("fewest_tokens", "restart"),
    ("newest", "recompute"),
    ("newest", "swap"),
    ("fewest_tokens", "swap"),
)


@dataclass(frozen=True)
class Row:
    """One run. `ratio` is throughput over the naive cache of the same seed."""

    table: str
    seed: int
    workers: int
    admission: str
    watermark: float
    victim: str
    preempt: str
    ticks: int
    ratio: float
    preemptions: int
    decoding: float
    live: float
    wait_ticks: float
    discarded_share: float
    seconds: float


def setups() -> list[tuple[str, ClassicSetup]]:
    """Every run of every table."""
    found: list[tuple[str, ClassicSetup]] = []
    for seed in CLASSIC_SEEDS:
        base = ClassicSetup(seed=seed)
        found += [("classic", replace(base, admission="naive"))]
        found += [("classic", replace(base, watermark=share)) for share in WATERMARKS]
        found += [("classic", replace(base, workers=256, watermark=share)) for share in (0.0, 0.05)]
    for seed in ROADMAP_SEEDS:
        for victim, preempt in POLICIES:
            host = ClassicSetup.pool_blocks if preempt == "swap" else 0
            base = ClassicSetup(seed=seed, victim=victim, preempt=preempt, host_blocks=host)  # type: ignore[arg-type]
            found += [("roadmap", replace(base, watermark=share)) for share in WATERMARKS]
    return found


def measure(job: tuple[str, ClassicSetup]) -> Row:
    """Run one of them; its ratio is filled in later."""
    table, setup = job
    start = time.perf_counter()
    outcome, _ = run_classic(setup)
    return Row(
        table=table,
        seed=setup.seed,
        workers=setup.workers,
        admission=setup.admission,
        watermark=setup.watermark,
        victim=setup.victim,
        preempt=setup.preempt,
        ticks=outcome.ticks,
        ratio=0.0,
        preemptions=outcome.preemptions,
        decoding=round(outcome.decoding, 4),
        live=round(outcome.live, 4),
        wait_ticks=round(outcome.admission_wait_ticks, 4),
        discarded_share=round(outcome.discarded_share, 5),
        seconds=round(time.perf_counter() - start, 2),
    )


def main() -> None:
    """Run everything and write the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--csv", type=files.target, default="benchmarks/results/serving.csv")
    parser.add_argument("--processes", type=files.count, default=2)
    arguments = parser.parse_args()
    jobs = setups()
    rows: list[Row] = []
    with ProcessPoolExecutor(arguments.processes) as pool:
        for row in pool.map(measure, jobs):
            rows.append(row)
            sys.stderr.write(f"\r{len(rows)} of {len(jobs)} runs")
    sys.stderr.write("\n")
    naive = {row.seed: row.ticks for row in rows if row.admission == "naive"}
    rows = [replace(row, ratio=round(naive[row.seed] / row.ticks, 5)) for row in rows]
    files.write_rows(arguments.csv, [field.name for field in fields(Row)], map(asdict, rows))


if __name__ == "__main__":
    main()
