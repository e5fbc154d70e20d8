"""`pagefault sim` as a user types it."""

from __future__ import annotations

import json
import os
import re
import signal
import statistics
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
QUICK = ("--jobs", "30", "--workers", "12", "--pool-blocks", "512")
TINY = ("--jobs", "6", "--workers", "4", "--pool-blocks", "512")
SERVER = ("--model", "llama3.1-8b", "--gpu", "h200")

COMMAND = (sys.executable, "-m", "pagefault", "sim")

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
    assert "30 jobs, 12 at once, 512 blocks of 16 tokens, seed 42" in shown
    assert "× naive ticks preempted decoding live wait ms lost" in shown
    names = ("naive 1.00", "paged 0%", "paged 10%", "at 50 µs a tick")
    assert all(name in shown for name in names)


def test_the_watermark_cures_the_thrashing() -> None:
    naive, bare, kept = values("sim", *QUICK)["runs"]
    assert naive["live_peak"] <= 4  # 512 blocks hold 4 reservations of 128
    assert (naive["preemptions"], bare["leaked_frames"], kept["leaked_frames"]) == (0, 0, 0)
    assert bare["preemptions"] > kept["preemptions"]
    assert kept["throughput_vs_naive"] > bare["throughput_vs_naive"]
    assert naive["throughput_vs_naive"] == 1


@pytest.mark.parametrize("shares", ["0.1", "0,0.1"])
def test_a_sweep_marks_the_best(shares: str) -> None:
    runs = values("sim", *TINY, "--sweep", f"watermark={shares}")["runs"]
    assert [run["setup"]["watermark"] for run in runs[1:]] == [float(share) for share in shares.split(",")]
    best = max(runs, key=lambda run: run["throughput_vs_naive"])
    shown = text("sim", *TINY, "--sweep", f"watermark={shares}")
    name = "naive" if best is runs[0] else f"paged {100 * best['setup']['watermark']:g}%"
    assert f"{name} * {best['throughput_vs_naive']:.2f}" in shown
    assert shown.count("* ") == 2  # the row, and what the star means


def test_a_table_without_a_sweep_marks_nothing() -> None:
    assert "*" not in text("sim", *TINY)


def test_seeds_give_mean_and_spread() -> None:
    shown = text("sim", "--jobs", "3", "--seeds", "3")
    assert "3 seeds" in shown
    assert "× naive ± ticks" in shown
    assert "mean and standard deviation" in shown
    runs = values("sim", "--jobs", "3", "--seeds", "3")["runs"]
    assert [run["setup"]["seed"] for run in runs] == [42] * 3 + [1] * 3 + [2] * 3
    ratios = [run["throughput_vs_naive"] for run in runs if run["setup"]["watermark"] == 0.05]
    assert f"paged 5% {statistics.fmean(ratios):.2f} {statistics.stdev(ratios):.2f}" in shown
    assert all(run["throughput_vs_naive"] == 1 for run in runs[::3])


def test_other_victims_and_swap() -> None:
    *_, run = values("sim", *QUICK, "--victim", "newest", "--preempt", "swap")["runs"]
    assert (run["setup"]["victim"], run["setup"]["preempt"]) == ("newest", "swap")
    assert run["discarded_tokens"] == 0
    assert "victims newest, preempted by swap" in text(
        "sim", *TINY, "--victim", "newest", "--preempt", "swap"
    )


def test_calc_knows_it_by_the_name_of_the_write_up() -> None:
    """512 jobs there are, always; a pool for all of them makes it quick."""
    options = ("--pool-blocks", "40000", "--seed", "7", "--watermark", "0.1", "--workers", "512")
    shown = text("calc", "--sim", *options)
    assert shown == text("sim", *options)
    assert "512 jobs, 512 at once, 40000 blocks of 16 tokens, seed 7" in shown


def test_a_zero_was_given_and_is_no_default() -> None:
    options = ("--seed", "0", "--watermark", "0", "--pool-blocks", "66000", "--workers", "512")
    found = values("calc", "--sim", *options)
    assert [run["setup"]["watermark"] for run in found["runs"]] == [0, 0]  # naive, and paged once
    assert {run["setup"]["seed"] for run in found["runs"]} == {0}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--watermark", "0.1"), "--watermark is for --sim"),
        (("--workers", "3"), "--workers is for --sim"),
        (("--watermark", "0"), "--watermark is for --sim"),
        (("--sim", "--workers", "0"), "workers is 0; expected at least 1"),
        (("--sim", "--model", "llama3-8b"), "--model means nothing to the serving experiment"),
        (("--sim", "--seqs", "3"), "--seqs means nothing"),
        (("--sim", "--trace", "x.csv"), "--trace means nothing"),
        (("--sim", "--kv-dtype", "fp8"), "--kv-dtype means nothing"),
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
        (("--jobs", "1000000000000"), "expected at most 1,000,000"),
        (("--watermark", "1.0"), "watermark is 1.0; expected a share of the pool"),
        (("--watermark", "nan"), "watermark is nan"),
        (("--pool-blocks", "100"), "give pool_blocks 128 or more"),
        (("--pool-blocks", "1000000000000"), "more than can be simulated"),
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
        (("--tick-us", "inf"), "a tick of inf µs"),
        (("--seeds", "3", "--max-len", "2040"), "the longest job of seed 42 has 2045 tokens"),
        (("--host-blocks", "9"), "--host-blocks is for --preempt swap"),
        (("--preempt", "swap", "--host-blocks", "0"), "--host-blocks is 0; expected at least 1"),
        (("--requests", "0"), "--requests belongs to real traffic"),
        (("--no-prefix-caching",), "--no-prefix-caching belongs to real traffic"),
        (("--gpu", "h200"), "--gpu belongs to real traffic"),
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
    ("table", "message"),
    [
        ("tokens;step_us\n1;100\n", "expected the header tokens,step_us"),
        ("tokens,step_us\n1,100\n", "at least two rows"),
        ("tokens,step_us\n1,100\n9,inf\n", "table.csv:3: expected two numbers"),
        ("tokens,step_us\n1,100\n9,many\n", "table.csv:3: expected two numbers"),
        ("tokens,step_us\n1,100\n9,200\nkv,nan\n", "kv_ns >= 0"),
    ],
)
def test_a_broken_cost_table_is_named(trace: str, tmp_path: Path, table: str, message: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(table)
    told = error("sim", "--trace", trace, *SERVER, "--cost-table", str(path))
    assert message in told
    assert "table.csv" in told


def test_a_measured_table_gives_the_time_and_nothing_else_does(trace: str, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("tokens,step_us\n1,5000\n2000,5000\n")
    options = ("sim", "--trace", trace, *SERVER, "--cost-table", str(path))
    found = values(*options)
    assert found["tpot"]["mean"] == pytest.approx(0.005)
    assert "--step-us is part of what --cost-table measured" in error(*options, "--step-us", "5")
    assert "--preempt cheaper compares costs" in error(*options, "--preempt", "cheaper")


def test_lighter_weights_are_read_faster(trace: str) -> None:
    options = ("sim", "--trace", trace, *SERVER, "--pool-blocks", "2000")
    assert values(*options, "--weights-gib", "4")["tpot"]["p50"] < values(*options)["tpot"]["p50"]


@pytest.mark.parametrize("name", ["ttft", "tpot"])
def test_the_least_slo_that_is_named_is_accepted(trace: str, name: str) -> None:
    options = ("sim", "--trace", trace, *SERVER, f"--slo-{name}")
    told = re.search(r"takes ([0-9.]+) ms; give", error(*options, "0.5"))
    assert told is not None
    values(*options, told[1])


def test_a_prompt_that_may_be_cached_has_a_shorter_least_time(tmp_path: Path) -> None:
    path = tmp_path / "mooncake.jsonl"
    line = {"input_length": 8192, "output_length": 4, "hash_ids": list(range(16))}
    path.write_text("".join(json.dumps({"timestamp": 2000 * i, **line}) + "\n" for i in range(20)))
    found = values("sim", "--trace", str(path), *SERVER, "--slo-ttft", "20")
    assert found["good"] == 0.95  # all but the first, which alone takes longer
    assert "nobody can meet" in error(
        "sim", "--trace", str(path), *SERVER, "--slo-ttft", "20", "--no-prefix-caching"
    )


def test_where_nothing_can_be_served_nothing_is_written(trace: str, tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    told = error("sim", "--trace", trace, *SERVER, "--max-model-len", "500", "--events", str(log))
    assert "none of the 80 requests can ever be served" in told
    assert "raise it or cut the request" in told
    assert [file.name for file in tmp_path.iterdir()] == ["vidur.csv"]


def test_what_is_no_ordinary_file_is_not_replaced(trace: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert f"cannot write {pipe}" in error("sim", "--trace", trace, *SERVER, "--events", str(pipe))
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--trace needs --model"),
        (("--model", "llama3.1-8b"), "--trace needs --gpu"),
        ((*SERVER, "--workers", "3"), "--workers belongs to the classic experiment"),
        ((*SERVER, "--seed", "0"), "--seed belongs to the classic experiment"),
        ((*SERVER, "--pool-blocks", "1000000000000"), "more than can be simulated"),
        ((*SERVER, "--max-num-seqs", "1000000000"), "let fewer run at once"),
        ((*SERVER, "--step-us", "nan"), "--step-us is nan, expected a positive number"),
        ((*SERVER, "--sequence-us", "-1"), "--sequence-us is -1, expected a positive number"),
        ((*SERVER, "--weights-gib", "inf"), "--weights-gib is inf, expected a positive number"),
        ((*SERVER, "--overhead-gib", "nan"), "--overhead-gib is nan, expected a positive number"),
        ((*SERVER, "--bandwidth-efficiency", "1.5"), "bandwidth efficiency is 1.5; expected a share"),
        ((*SERVER, "--slo-ttft", "-3"), "an SLO of -3 ms for TTFT"),
        ((*SERVER, "--slo-ttft", "inf"), "an SLO of inf ms for TTFT"),
        ((*SERVER, "--slo-share", "0.5"), "--slo-share needs a promise to keep"),
        ((*SERVER, "--victim", "nobody"), "expected one of self, newest, oldest"),
        ((*SERVER, "--find-limit", "--slo-ttft", "300", "--scale", "2"), "--scale is about one run"),
        ((*SERVER, "--find-limit", "--slo-ttft", "300", "--events", "x"), "--events is about one run"),
        ((*SERVER, "--preempt", "swap", "--host-blocks", "0"), "--host-blocks is 0; expected at least 1"),
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


def test_a_message_is_one_line_on_stderr_and_exit_code_2() -> None:
    """The installed command; everything above asks for the message only."""
    run = subprocess.run([*COMMAND, "--workers", "0"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == "pagefault: error: workers is 0; expected at least 1\n"


def test_ctrl_c_in_the_experiment_prints_no_part_of_it() -> None:
    """The runs of nine seeds would take minutes; a part of them is no result."""
    with subprocess.Popen(
        [*COMMAND, "--seeds", "9", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        time.sleep(2)
        assert running.poll() is None, "the run ended by itself"
        os.kill(running.pid, signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, "")
    assert "interrupted" in err
    assert "leaked" not in err
    assert "Traceback" not in err


def test_ctrl_c_leaves_a_valid_partial_log(tmp_path: Path) -> None:
    """The run would take minutes; it is interrupted as soon as it has begun to write."""
    path, log = tmp_path / "long.csv", tmp_path / "events.jsonl"
    lines = [f"{0.2 * i:.1f},300,400" for i in range(20_000)]
    path.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n" + "\n".join(lines) + "\n")
    command = [*COMMAND, "--trace", str(path), *SERVER, "--events", str(log), "--json"]
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
