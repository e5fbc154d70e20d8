"""Time the simulator: ``python -m benchmarks.replay TRACES --csv benchmarks/results/replay.csv``.

TRACES is the folder with the public traces. Each is replayed by the command that a user would type, on an H200 with
Llama-3.1-8B; the rows say how it went and how long that took. Other rows are the cost of a decode step, planned and
committed, for growing batches. What a run simulates is deterministic; the seconds are this machine's.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from benchmarks import files
from pagefault.paging import Pager
from pagefault.scheduling import Request, Scheduler, SchedulerConfig, StepResult

TRACES = ("azure_2023_code.csv", "mooncake_conversation.jsonl")
SERVER = ("--model", "llama3.1-8b", "--gpu", "h200")
BATCHES = (64, 256, 1024, 4096)
WARM_UP, TIMED = 20, 300
RUN = "from pagefault.cli.main import run; run()"


@dataclass(frozen=True)
class Row:
    """One measurement; what a kind of row does not have is empty.

    Attributes:
        what: A trace's name, or `decode step`.
        batch: Sequences that decode in the step.
        requests: Of the trace.
        steps: That were played.
        seconds: Wall time of the whole command, with start-up and reading.
        step_us: Median microseconds of a step; of a replay, the mean over its steps.
        end_s: Simulated seconds.
        running: Sequences that hold frames, mean.
        ttft_p50_s: And the next six: what the replay found.
    """

    what: str
    batch: int | str = ""
    requests: int | str = ""
    steps: int | str = ""
    seconds: float | str = ""
    step_us: float | str = ""
    end_s: float | str = ""
    running: float | str = ""
    ttft_p50_s: float | str = ""
    ttft_p99_s: float | str = ""
    tpot_p50_ms: float | str = ""
    kv_usage: float | str = ""
    hit_rate: float | str = ""
    preemptions: int | str = ""
    recompute_tax: float | str = ""


def replay(path: Path) -> Row:
    """A trace, as a user would replay it."""
    begin = time.perf_counter()
    command = [sys.executable, "-c", RUN, "sim", "--trace", str(path), *SERVER, "--json"]
    found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    seconds = time.perf_counter() - begin
    return Row(
        what=path.stem,
        requests=found["requests"],
        steps=found["steps"],
        seconds=round(seconds, 1),
        step_us=round(1e6 * seconds / found["steps"], 1),
        end_s=round(found["duration_s"], 3),
        running=round(found["running"], 2),
        ttft_p50_s=round(found["ttft"]["p50"], 4),
        ttft_p99_s=round(found["ttft"]["p99"], 4),
        tpot_p50_ms=round(1000 * found["tpot"]["p50"], 3),
        kv_usage=round(found["kv_usage"], 4),
        hit_rate=round(found["hit_rate"], 4),
        preemptions=found["preemptions"],
        recompute_tax=round(found["recompute_tax"], 5),
    )


def decode_step(batch: int) -> Row:
    """Plan and commit steps in which so many sequences decode a token each."""
    pager = Pager(batch * 64, 16, max_seqs=batch, max_seq_len=1024)
    config = SchedulerConfig(
        max_num_seqs=batch, max_num_batched_tokens=1 << 20, max_model_len=1024, watermark=0.0
    )
    scheduler = Scheduler(config, pager)
    for number in range(batch):
        scheduler.submit(Request(number, 100 + number % 17, 800), 0)
    times = []
    for step in range(WARM_UP + TIMED):
        begin = time.perf_counter()
        plan = scheduler.plan(step)
        scheduler.commit(StepResult(plan.step, step))
        times.append(time.perf_counter() - begin)
        assert step == 0 or len(plan.decode) == batch
    return Row(
        what="decode step",
        batch=batch,
        steps=TIMED,
        step_us=round(1e6 * statistics.median(times[WARM_UP:]), 1),
    )


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("traces", type=Path)
    parser.add_argument("--csv", type=files.target)
    options = parser.parse_args()
    if missing := [name for name in TRACES if not (options.traces / name).is_file()]:
        parser.error(
            f"{options.traces}: no file {missing[0]}; expected a folder with the traces {', '.join(TRACES)}"
        )
    rows = [*map(decode_step, BATCHES), *(replay(options.traces / name) for name in TRACES)]
    described = ["git", "describe", "--always", "--dirty"]
    commit = (
        subprocess.run(described, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
    )
    about = {"commit": commit, "python": platform.python_version(), "numpy": np.__version__}
    for row in rows:
        sys.stdout.write(f"{row}\n")
    if options.csv:
        columns = [*(field.name for field in fields(Row)), *about]
        files.write_rows(options.csv, columns, [asdict(row) | about for row in rows])


if __name__ == "__main__":
    main()
