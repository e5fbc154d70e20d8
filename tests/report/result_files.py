"""Result files for tests, made by the commands that users make them with."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from typer.testing import CliRunner

from pagefault.cli import console
from pagefault.cli.main import app

if TYPE_CHECKING:
    from collections.abc import Iterator

H200 = Path(__file__).parents[2] / "benchmarks" / "results" / "h200.csv"
QUICK = ("--jobs", "24", "--workers", "16", "--pool-blocks", "384")
SWEEP = ("sim", *QUICK, "--sweep", "watermark=0,0.1,0.3", "--json")
SEEDS = ("sim", *QUICK, "--seeds", "2", "--sweep", "watermark=0,0.2", "--json")
CALC = ("calc", "--json")
CALC_GPU = ("calc", "--model", "llama3.1-8b", "--gpu", "h200", "--json")


@cache
def output(*arguments: str) -> str:
    """What a command prints on stdout."""
    console.console.cache_clear()  # they hold the stream of the command before
    console.err.cache_clear()
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


@cache
def event_log() -> str:
    """The classic experiment's log: naive, paged without a watermark, paged with one."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ev.jsonl"
        output("sim", *QUICK, "--events", str(path))
        return path.read_text()


@cache
def replay() -> tuple[str, str]:
    """A replayed trace: the output and the event log."""
    with tempfile.TemporaryDirectory() as folder:
        trace, log = Path(folder) / "vidur.csv", Path(folder) / "ev.jsonl"
        lines = [f"{0.05 * i + 3 * (i > 50):.2f},{1000 + 10 * i},{1 + i % 30}" for i in range(80)]
        trace.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n" + "\n".join(lines) + "\n")
        server = ("--model", "llama3.1-8b", "--gpu", "h200", "--pool-blocks", "700")
        text = output("sim", "--trace", str(trace), *server, "--events", str(log), "--json")
        return text, log.read_text()


def bench_json(floor: bool = True) -> str:
    """The form of `bench --json`, with and without a floor; its figures are made up."""

    def times(middle: float) -> dict[str, float]:
        names = {"p20": 0.9, "p50": 1.0, "p80": 1.2, "mean": 1.0, "sd": 0.1, "min": 0.8}
        return {name: middle * share for name, share in names.items()}

    comparisons = [
        {
            "name": f"8x512 8/1x64 bf16 block {size}",
            "environment": {"gpu": "Some GPU" if floor else "CPU"},
            "latency_us": {
                "naive": times(10.0),
                "paged ordered": times(10.5),
                "paged shuffled": times(11.0 + 16 / size),
            },
            "floor_us": times(8.0) if floor else None,
        }
        for size in (8, 16, 32)
    ]
    return json.dumps({"command": "pagefault bench --json", "comparisons": comparisons, "serving": None})


def large_log(requests: int = 20_000, at_once: int = 100, steps: int = 20) -> Iterator[str]:
    """A log in which groups of requests come, decode for some steps, and go."""
    yield json.dumps(
        {
            "format": "pagefault-events",
            "version": 1,
            "about": {"command": "pagefault sim --trace large.csv", "model": "a model", "gpu": "a GPU"},
            "pool_blocks": 8192,
            "block_size": 64,
            "config": {"max_num_seqs": at_once},
        }
    )
    now = number = 0
    for first in range(0, requests, at_once):
        rows = range(at_once)
        for row in rows:
            yield json.dumps({"t": now, "e": "queued", "id": first + row, "prompt": 1, "output": steps})
            yield json.dumps({"t": now, "e": "admitted", "id": first + row, "row": row, "hit": 0})
        for step in range(steps):
            now, number = now + 10_000_000, number + 1
            line = {"t": now, "e": "step", "n": number, "prefill": 0, "decode": at_once, "stalled": 0}
            line |= {"running": at_once, "waiting": 0, "swapped": 0, "free": 8192 - at_once}
            changes: dict[str, object] = {}
            if step == 0:
                changes = {
                    "tables": [[row, 0, (first + row) % 8192] for row in rows],
                    "on": list(rows),
                    "lengths": [[row, 1] for row in rows],
                }
            yield json.dumps(line | changes)
            if step == 0:
                for row in rows:
                    yield json.dumps({"t": now, "e": "first_token", "id": first + row})
        for row in rows:
            yield json.dumps(
                {"t": now, "e": "finished", "id": first + row, "tokens": steps, "preemptions": 0}
            )
        now, number = now + 10_000_000, number + 1
        line = {"t": now, "e": "step", "n": number, "prefill": 0, "decode": 0, "stalled": 0, "running": 0}
        gone = {
            "tables": [[row, 0, -1] for row in rows],
            "off": list(rows),
            "lengths": [[row, 0] for row in rows],
        }
        yield json.dumps(line | {"waiting": 0, "swapped": 0, "free": 8192} | gone)
    yield json.dumps({"t": now, "e": "end", "complete": True, "steps": number})
