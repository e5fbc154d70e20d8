"""`pagefault sim --events` and `--trace-out` as a user types them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner, Result

from pagefault.cli import console, sim
from pagefault.errors import InputError
from pagefault.report import read_events

if TYPE_CHECKING:
    from pathlib import Path

QUICK = ("--jobs", "30", "--workers", "12", "--pool-blocks", "512")
SERVER = ("--model", "llama3.1-8b", "--gpu", "h200")

app = typer.Typer()
app.command("sim")(sim.sim)


@app.callback()
def several() -> None:
    """So that `sim` is typed."""


def invoke(*arguments: str) -> Result:
    console.console.cache_clear()
    console.err.cache_clear()
    return CliRunner().invoke(app, ["sim", *arguments])


def processes(path: Path) -> dict[int, str]:
    events: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}


def test_the_classic_experiment_is_logged_run_by_run(tmp_path: Path) -> None:
    log, trace = tmp_path / "events.jsonl", tmp_path / "trace.json"
    result = invoke(*QUICK, "--watermark", "0.1", "--events", str(log), "--trace-out", str(trace))
    assert result.exit_code == 0, (result.output, result.exception)
    runs = read_events(log)
    assert [run.header.name for run in runs] == ["naive", "paged 0%", "paged 10%"]
    assert all(run.complete for run in runs)
    assert {line.id for line in runs[0].lines if line.e == "finished"} == set(range(30))
    assert processes(trace) == {1: "naive", 2: "paged 0%", 3: "paged 10%"}
    assert sorted(file.name for file in tmp_path.iterdir()) == ["events.jsonl", "trace.json"]


def test_a_timeline_needs_no_log(tmp_path: Path) -> None:
    requests, trace = tmp_path / "requests.csv", tmp_path / "trace.json"
    lines = [f"{0.05 * i:.2f},{1000 + 10 * i},{20 + i % 30}" for i in range(20)]
    requests.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n" + "\n".join(lines) + "\n")
    result = invoke("--trace", str(requests), *SERVER, "--trace-out", str(trace))
    assert result.exit_code == 0, (result.output, result.exception)
    assert list(processes(trace).values()) == ["llama3.1-8b on h200"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["requests.csv", "trace.json"]


@pytest.mark.parametrize("option", ["--events", "--trace-out"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_runs(tmp_path: Path, option: str) -> None:
    result = invoke(*QUICK, option, str(tmp_path / "nowhere" / "file"))
    assert isinstance(result.exception, InputError)
    assert "give a file in an existing folder" in str(result.exception)
    assert result.stdout == ""


def test_a_run_that_is_given_up_leaves_no_file(tmp_path: Path) -> None:
    small = ("--seed", "126", "--jobs", "8", "--workers", "8", "--pool-blocks", "8", "--max-len", "128")
    result = invoke(*small, "--trace-out", str(tmp_path / "trace.json"))
    assert "they take each other's frames" in str(result.exception)
    assert list(tmp_path.iterdir()) == []
