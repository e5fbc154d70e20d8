"""`pagefault sim` as a user types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from pagefault.cli import calc, console, sim
from pagefault.errors import PageFaultError
from pagefault.sim import EVENTS_VERSION

TRACES = Path(__file__).parents[3] / "shared" / "data" / "traces"
QUICK = ("--jobs", "60", "--workers", "24", "--pool-blocks", "1024")
SERVER = ("--model", "llama3.1-8b", "--gpu", "h200")

app = typer.Typer()
app.command("sim")(sim.sim)
app.command("calc")(calc.calc)


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """80 requests in 4 seconds, a prompt of 1,000 to 1,790 tokens each."""
    path = tmp_path / "vidur.csv"
    lines = [f"{0.05 * i:.2f},{1000 + 10 * i},{20 + i % 30}" for i in range(80)]
    path.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n" + "\n".join(lines) + "\n")
    return str(path)


def invoke(*arguments: str) -> Result:
    console.console.cache_clear()  # they hold the stream of the run before
    console.err.cache_clear()
    return CliRunner().invoke(app, list(arguments))


def text(*arguments: str) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return " ".join(result.stdout.split())


def values(*arguments: str) -> Any:
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


def error(*arguments: str) -> str:
    result = invoke(*arguments)
    assert isinstance(result.exception, PageFaultError), (result.output, result.exception)
    assert result.stdout == ""
    return str(result.exception)


# --- the classic experiment ---------------------------------------------------------------------------


def test_the_three_of_the_write_up_in_one_table() -> None:
    shown = text("sim", *QUICK, "--watermark", "0.1", "--tick-us", "50")
    assert "60 jobs, 24 at once, 1024 blocks of 16 tokens, seed 42" in shown
    assert "× naive ticks preempted decoding live wait ms lost" in shown
    names = ("naive 1.00", "paged 0%", "paged 10%", "at 50 µs a tick")
    assert all(name in shown for name in names)


def test_the_watermark_cures_the_thrashing() -> None:
    naive, bare, kept = values("sim", *QUICK)["runs"]
    assert naive["live_peak"] <= 8  # 1,024 blocks hold 8 reservations of 128
    assert (naive["preemptions"], bare["leaked_frames"], kept["leaked_frames"]) == (0, 0, 0)
    assert bare["preemptions"] > kept["preemptions"]
    assert kept["throughput_vs_naive"] > bare["throughput_vs_naive"]
    assert naive["throughput_vs_naive"] == 1


def test_a_sweep_marks_the_best() -> None:
    runs = values("sim", *QUICK, "--sweep", "watermark=0,0.1,0.3")["runs"]
    best = max(runs, key=lambda run: run["throughput_vs_naive"])
    shown = text("sim", *QUICK, "--sweep", "watermark=0,0.1,0.3")
    assert f"paged {100 * best['setup']['watermark']:g}% *" in shown
    assert shown.count("* ") == 2  # the row, and what the star means


def test_seeds_give_mean_and_spread() -> None:
    shown = text("sim", *QUICK, "--seeds", "3")
    assert "3 seeds" in shown
    assert "× naive ± ticks" in shown
    assert "mean and standard deviation" in shown
    runs = values("sim", *QUICK, "--seeds", "3")["runs"]
    assert [run["setup"]["seed"] for run in runs] == [42] * 3 + [1] * 3 + [2] * 3


def test_other_victims_and_swap() -> None:
    *_, run = values("sim", *QUICK, "--victim", "newest", "--preempt", "swap")["runs"]
    assert (run["setup"]["victim"], run["setup"]["preempt"]) == ("newest", "swap")
    assert run["discarded_tokens"] == 0
    assert "victims newest, preempted by swap" in text(
        "sim", *QUICK, "--victim", "newest", "--preempt", "swap"
    )


def test_calc_knows_it_by_the_name_of_the_write_up() -> None:
    options = ("--pool-blocks", "4000", "--seed", "7", "--watermark", "0.1", "--workers", "40")
    assert text("calc", "--sim", *options) == text("sim", *options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--watermark", "0.1"), "--watermark is for --sim"),
        (("--workers", "3"), "--workers is for --sim"),
        (("--sim", "--model", "llama3-8b"), "--model"),
        (("--sim", "--seqs", "3"), "--seqs"),
        (("--sim", "--trace", "x.csv"), "--trace"),
    ],
)
def test_calc_refuses_what_means_nothing_with_or_without_the_experiment(
    arguments: tuple[str, ...], message: str
) -> None:
    assert message in error("calc", *arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--workers", "0"), "workers is 0; expected at least 1"),
        (("--jobs", "-1"), "jobs is -1"),
        (("--watermark", "1.0"), "watermark is 1.0; expected a share of the pool"),
        (("--watermark", "nan"), "watermark is nan"),
        (("--pool-blocks", "100"), "give pool_blocks 128 or more"),
        (("--max-len", "100"), "the longest job of seed 42 has 2045 tokens"),
        (("--block-size", "12"), "12"),
        (("--victim", "nobody"), "expected one of self, newest, oldest"),
        (("--preempt", "cheaper"), "a tick has none"),
        (("--preempt", "kill"), "expected one of restart, recompute, swap"),
        (("--admission", "naive"), "the naive cache is always shown"),
        (("--sweep", "tick=1,2"), "expected watermark=0,0.02,0.05"),
        (("--sweep", "watermark=0,0.1", "--watermark", "0.2"), "give one of them"),
        (("--seed", "1", "--seeds", "2"), "give one of the two"),
        (("--seeds", "0"), "expected 1 to 1000"),
        (("--tick-us", "0"), "a tick of 0.0 µs"),
        (("--host-blocks", "9"), "--host-blocks is for --preempt swap"),
        (("--gpu", "h200"), "--gpu belongs to real traffic"),
        (("--events", "x.jsonl"), "--events belongs to real traffic"),
        (("--find-limit",), "--find-limit belongs to real traffic"),
    ],
)
def test_bad_input_of_the_experiment_is_one_message(arguments: tuple[str, ...], message: str) -> None:
    assert message in error("sim", *arguments)


# --- real traffic -------------------------------------------------------------------------------------


def test_a_trace_is_replayed_on_a_gpu(trace: str) -> None:
    shown = text("sim", "--trace", trace, *SERVER, "--slo-ttft", "500", "--slo-tpot", "50")
    for part in ("80 requests", "TTFT", "TPOT", "end to end", "goodput", "KV usage", "hit rate", "verdict"):
        assert part in shown


def test_json_of_a_replay(trace: str) -> None:
    found = values("sim", "--trace", trace, *SERVER, "--scale", "2")
    assert found["requests_in_trace"] == 80
    assert found["format"] == "vidur"
    assert found["scale"] == 2
    assert found["requests"] == 80
    assert found["ttft"]["p50"] > 0
    assert found["config"]["max_num_seqs"] == 256


def test_twice_the_rate_is_never_faster(trace: str) -> None:
    slow, fast = (values("sim", "--trace", trace, *SERVER, "--scale", scale) for scale in ("1", "4"))
    assert fast["ttft"]["mean"] > slow["ttft"]["mean"]
    assert fast["duration_s"] < slow["duration_s"]


def test_a_small_pool_preempts_and_says_so(trace: str) -> None:
    found = values(
        "sim", "--trace", trace, *SERVER, "--pool-blocks", "150", "--watermark", "0", "--scale", "20"
    )
    assert found["preemptions"] > 0
    assert 0 < found["recompute_tax"] < 1


def test_the_highest_rate_within_a_promise(trace: str) -> None:
    found = values("sim", "--trace", trace, *SERVER, "--find-limit", "--slo-ttft", "300")
    assert found["good"] >= 0.9
    above = values(
        "sim", "--trace", trace, *SERVER, "--slo-ttft", "300", "--scale", str(found["limit_scale"] * 1.2)
    )
    assert above["good"] < 0.9


def test_the_event_log_is_what_its_page_says(trace: str, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    text("sim", "--trace", trace, *SERVER, "--pool-blocks", "150", "--watermark", "0", "--events", str(path))
    first, *lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert (first["format"], first["version"]) == ("pagefault-events", EVENTS_VERSION)
    assert first["pool_blocks"] == 150
    assert first["about"]["model"] == "llama3.1-8b"
    assert lines[-1] == {"t": lines[-1]["t"], "e": "end", "complete": True, "steps": lines[-1]["steps"]}
    times = [line["t"] for line in lines]
    assert times == sorted(times)
    kinds = [line["e"] for line in lines]
    assert kinds.count("queued") == kinds.count("finished") == kinds.count("first_token") == 80
    assert kinds.count("step") == lines[-1]["steps"]
    assert [line["n"] for line in lines if line["e"] == "step"] == list(range(1, lines[-1]["steps"] + 1))
    assert kinds.count("preempted") == kinds.count("resumed") > 0
    page = (Path(__file__).parents[2] / "docs" / "events.md").read_text(encoding="utf-8")
    for line in lines:
        assert f"`{line['e']}`" in page
        assert all(f"`{key}`" in page for key in line)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--trace needs --model"),
        (("--model", "llama3.1-8b"), "--trace needs --gpu"),
        ((*SERVER, "--workers", "3"), "--workers belongs to the classic experiment"),
        ((*SERVER, "--pool-blocks", "5"), "smaller than the first prompt: 1,000 tokens fill 63 blocks"),
        ((*SERVER, "--watermark", "1"), "watermark is 1.0"),
        ((*SERVER, "--max-num-seqs", "0"), "max_num_seqs is 0"),
        ((*SERVER, "--requests", "0"), "--requests is 0"),
        ((*SERVER, "--scale", "0"), "expected a number above 0"),
        ((*SERVER, "--slo-ttft", "0.001"), "nobody can meet an SLO of 0.001 ms for TTFT"),
        ((*SERVER, "--find-limit"), "--find-limit needs a promise to keep"),
        ((*SERVER, "--tp", "3"), "give --tp a divisor of 32"),
        ((*SERVER, "--host-blocks", "9"), "--host-blocks is for --preempt swap or cheaper"),
        ((*SERVER, "--events", "/nowhere/events.jsonl"), "cannot write /nowhere/events.jsonl"),
        (
            ("--model", "gemma2-9b", "--gpu", "h200"),
            "gemma2-9b (model_type 'gemma2') needs more than one KV group",
        ),
        (("--model", "nothing", "--gpu", "h200"), "no model 'nothing'"),
        (("--model", "llama3.1-8b", "--gpu", "h900"), "did you mean h200"),
    ],
)
def test_bad_input_of_a_replay_is_one_message(trace: str, arguments: tuple[str, ...], message: str) -> None:
    assert message in error("sim", "--trace", trace, *arguments)


def test_a_broken_trace_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.csv"
    path.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n0,100,20\n1,minus,8\n")
    message = error("sim", "--trace", str(path), *SERVER, "--events", str(tmp_path / "events.jsonl"))
    assert "3" in message
    assert [file.name for file in tmp_path.iterdir()] == ["broken.csv"]


def test_ctrl_c_leaves_a_valid_partial_log(tmp_path: Path) -> None:
    """The run would take minutes; it is interrupted as soon as it has begun to write."""
    path, log = tmp_path / "long.csv", tmp_path / "events.jsonl"
    lines = [f"{0.2 * i:.1f},300,400" for i in range(20_000)]
    path.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n" + "\n".join(lines) + "\n")
    command = [sys.executable, "-c", "from pagefault.cli.main import run; run()", "sim", "--trace", str(path)]
    command += [*SERVER, "--events", str(log), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        deadline = time.monotonic() + 60
        while not any(file.stat().st_size > 100_000 for file in tmp_path.glob(".events*.tmp")):
            assert time.monotonic() < deadline, "the run did not begin to write"
            assert running.poll() is None, "the run ended by itself"
            time.sleep(0.05)
        os.kill(running.pid, signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "interrupted" in err
    assert "Traceback" not in err
    partial = json.loads(out)
    assert partial["complete"] is False
    read = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert read[-1]["e"] == "end"
    assert read[-1]["complete"] is False
    assert sorted(file.name for file in tmp_path.iterdir()) == ["events.jsonl", "long.csv"]


@pytest.mark.parametrize("name", ["azure_2023_code.csv", "mooncake_conversation.jsonl"])
def test_real_traces_are_replayed(name: str) -> None:
    path = TRACES / name
    if not path.exists():
        pytest.skip(f"{name} is not here")
    found = values("sim", "--trace", str(path), *SERVER, "--requests", "200")
    assert found["requests"] == found["finished"] == 200
    if name.startswith("mooncake"):
        assert found["hit_rate"] > 0
