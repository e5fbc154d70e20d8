from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from pagefault.cli import console, trace
from pagefault.errors import TraceError

TRACES = Path(__file__).parents[3] / "shared" / "data" / "traces"
VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens\n0,100,7\n2,300,9\n1,200,8\n4,5,0\n"

app = typer.Typer()
app.command()(trace.trace)


@pytest.fixture(autouse=True)
def fresh_consoles() -> None:
    """They hold the stream of the run before."""
    console.console.cache_clear()
    console.err.cache_clear()


@pytest.fixture
def vidur(tmp_path: Path) -> Path:
    path = tmp_path / "vidur.csv"
    path.write_text(VIDUR)
    return path


def pagefault(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "pagefault", "trace", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, check=False)


def test_text(vidur: Path) -> None:
    result = CliRunner().invoke(app, [str(vidur)])
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    for expected in (
        f"{vidur}: Vidur trace",
        "requests 3",
        "left out 1 with 0 output tokens (failed)",
        "duration 2.0 s",
        "rate 1.50 requests/s",
        "p50 200 8",
        "mean 200 8",
        "≥ 64 1 █████████████ 0",
    ):
        assert expected in lines
    assert "note: 1 failed request (0 output tokens) left out" in result.stderr
    assert "note: timestamps out of order: 1 request earlier" in result.stderr


def test_json_is_one_object_and_nothing_else(vidur: Path) -> None:
    result = CliRunner().invoke(app, [str(vidur), "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["format"] == "vidur"
    assert found["requests"] == 3
    assert found["duration_s"] == 2
    assert found["prompt_tokens"]["p50"] == 200
    assert found["prompt_tokens"]["histogram"][0] == {"from": 64, "requests": 1}
    assert (found["failed_requests"], found["bad_lines"], found["out_of_order"]) == (1, 0, 1)
    assert len(found["notes"]) == 2


def test_skip_bad(vidur: Path) -> None:
    vidur.write_text(VIDUR + "x,1,1\n")
    assert isinstance(CliRunner().invoke(app, [str(vidur)]).exception, TraceError)
    result = CliRunner().invoke(app, [str(vidur), "--skip-bad"])
    assert result.exit_code == 0
    assert "broken lines   1 skipped" in result.stdout
    assert "vidur.csv:6: arrived_at: expected seconds" in result.stderr


def test_no_rate_for_a_trace_without_arrivals(vidur: Path) -> None:
    vidur.write_text("num_prefill_tokens,num_decode_tokens\n1,1\n")
    result = CliRunner().invoke(app, [str(vidur)])
    assert "none: all arrive at the same time" in result.stdout
    assert "no arrival times in the file" in result.stderr


@pytest.mark.parametrize("count", [1, 1_234_567])
def test_every_line_fits(count: int, capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    from pagefault.workload import Workload, summarize

    lengths = np.full(count, 99_999_999)
    made = Workload(np.arange(count), lengths, lengths)
    for ascii_only in (False, True):
        for line in trace._histogram(summarize(made), ascii_only=ascii_only):
            assert len(line) <= 80
            assert not ascii_only or line.isascii()


@pytest.mark.parametrize(
    "name", ["azure_2023_code.csv", "mooncake_conversation.jsonl", "sharegpt_300_lengths.jsonl"]
)
def test_real_traces_fit_the_terminal(name: str) -> None:
    if not (TRACES / name).exists():
        pytest.skip(f"{TRACES / name} is not here")
    result = CliRunner().invoke(app, [str(TRACES / name)])
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_as_typed_from_a_pipe() -> None:
    done = pagefault("-", "--json", stdin=gzip.compress(VIDUR.encode()))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["file"] == "<stdin>"
    assert b"note: " in done.stderr


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "there is no such file"),
        ("", "is empty"),
        ("a,b\n1,2\n", "not the beginning of a known trace: 'a,b'"),
        (VIDUR + "1,2\n", ":6: expected 3 fields"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path: Path, content: str | None, expected: str) -> None:
    path = tmp_path / "bad.csv"
    if content is not None:
        path.write_text(content)
    done = pagefault(str(path), "--json")
    assert done.returncode == 2
    assert done.stdout == b""
    error = done.stderr.decode()
    assert error.count("\n") == 1
    assert error.startswith("pagefault: error: ")
    assert expected in error
