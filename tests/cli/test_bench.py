"""`pagefault bench` as a user types it."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner, Result

pytest.importorskip("torch", reason="PyTorch is not installed")

# what follows needs PyTorch
from pagefault import bench as room
from pagefault.cli import bench, console
from pagefault.errors import InputError, NeverFits

if TYPE_CHECKING:
    from pathlib import Path

app = typer.Typer()
app.command()(bench.bench)
QUICK = ("--seqs", "4", "--iters", "2", "--device", "cpu")


def invoke(*arguments: str) -> Result:
    console.console.cache_clear()  # they hold the stream of the run before
    console.err.cache_clear()
    return CliRunner().invoke(app, [*QUICK, *arguments])


def text(*arguments: str) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return " ".join(result.stdout.split())


def values(*arguments: str) -> Any:
    result = invoke("--json", *arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


def test_memory_checks_times_and_serving() -> None:
    shown = text("--jobs", "40", "--workers", "8", "--watermark", "0.1")
    assert "4 sequences" in shown
    assert "1/1 heads of 64, fp32, on CPU" in shown
    assert shown.count(" ok") == 5
    assert "paged / contiguous" in shown
    assert "their times are not the point" in shown
    assert "shuffled / ordered" in shown
    assert "40 jobs, 8 at once" in shown
    assert "paged 10%" in shown


def test_ordered_frames_only() -> None:
    shown = text("--shuffle-seed", "0", "--skip-sim")
    assert shown.count(" ok") == 3
    assert "shuffled" not in shown
    assert "jobs" not in shown


def test_json_is_one_object_and_nothing_else() -> None:
    found = values("--skip-sim", "--model", "llama3-8b", "--dtype", "fp16")
    (one,) = found["comparisons"]
    assert one["name"] == "4xmix 32/8x128 fp16 block 16"
    assert all(check["passed"] for check in one["checks"])
    assert one["latency_us"]["naive"]["p50"] > 0
    assert one["memory"]["naive"]["reserved_bytes"] == 4 * 2048 * 2 * 8 * 128 * 2
    assert found["serving"] is None
    assert one["floor_us"] is None


def test_a_sweep_of_block_sizes_and_a_results_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    shown = text("--skip-sim", "--sweep", "block-size=1,64", "--csv", str(path))
    assert "block reserved used naive µs paged µs slowdown scatter" in shown
    text("--skip-sim", "--csv", str(path))
    text("--skip-sim", "--csv", str(path))  # measured again: replaced
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 9
    assert {row["case"].split()[-1] for row in rows} == {"1", "64", "16"}
    assert [file.name for file in tmp_path.iterdir()] == ["rows.csv"]


def test_a_profile_is_a_timeline(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    text("--skip-sim", "--profile", str(path))
    names = {event.get("name") for event in json.loads(path.read_text(encoding="utf-8"))["traceEvents"]}
    assert {"naive", "paged ordered", "paged shuffled"} <= names


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--skip-sim", "--jobs", "3"), "--jobs is for it"),
        (("--model", "llama3-8b", "--heads", "4"), "--model says what --heads would say"),
        (("--model", "deepseek-v3"), "mla"),
        (("--model", "llama3-8b", "--from", "x"), "--from says what --model would say"),
        (("--from", "x"), "--from says what --seqs would say"),
        (("--from", "x", "--kv-heads", "2"), "--from says what --kv-heads would say"),
        (("--sweep", "heads=1,2"), "expected block-size=1,2,4"),
        (("--block-size", "12"), "12"),
        (("--workers", "0"), "workers is 0"),
        (("--csv", "/nowhere/rows.csv"), "cannot write"),
        (("--seqs", "0"), "seqs is 0"),
        (("--mean-len", "0"), "mean_len is 0"),
        (("--mean-len", "100", "--max-len", "10"), "max_len is 10, but the longest sequence has 100 tokens"),
        (("--max-len", "100"), "max_len is 100, but the longest sequence has"),
        (("--seqs", "9000"), "seqs is 9000; expected 1 to 8,192"),
        (("--seed", "99999999999999999999999"), "expected 0 to 9,223,372,036,854,775,807"),
        (("--iters", "99999999999"), "expected 2 to 1,000,000"),
        (("--sweep", "block-size=1,2", "--block-size", "3"), "--block-size is one size and --sweep many"),
        (("--csv", "same", "--profile", "same"), "--csv and --profile are both same"),
        (("--csv", "docs/images/pool.png"), "is no results file"),
        (("--csv", "x" * 300), "cannot write"),
        (("--watermark", "2"), "watermark"),
        (("--device", "cuda:9"), "expected cuda or cpu"),
    ],
)
def test_bad_input_is_one_message(arguments: tuple[str, ...], message: str) -> None:
    result = invoke(*arguments)
    assert isinstance(result.exception, InputError), (result.output, result.exception)
    assert message in str(result.exception)
    assert result.stdout == ""


def test_what_fits_no_memory_is_refused_before_it_is_made() -> None:
    result = invoke("--mean-len", "1000000000", "--kv-heads", "64", "--heads", "64")
    assert isinstance(result.exception, NeverFits), (result.output, result.exception)
    assert "values and caches take 524,288.0 GB" in str(result.exception)


def test_nothing_is_measured_that_would_be_thrown_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pagefault.bench.build", lambda *_: pytest.fail("it was measured"))
    for wrong in (("--csv", "README.md"), ("--csv", str(tmp_path / "a.csv"), "--jobs", "0")):
        result = invoke(*wrong)
        assert isinstance(result.exception, InputError), result.exception
    assert not list(tmp_path.iterdir())


def test_from_a_file_that_is_not_there() -> None:
    result = CliRunner().invoke(app, ["--device", "cpu", "--from", "/nowhere.safetensors"])
    assert isinstance(result.exception, InputError)
    assert "no file at /nowhere.safetensors; write one with scripts/export_kv.py" in str(result.exception)


def test_a_results_file_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    result = invoke("--skip-sim", "--csv", str(path))
    assert isinstance(result.exception, InputError)
    assert path.read_text() == "a,b\n1,2\n"


def test_a_failed_check_exits_with_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build = room.build

    def broken(*arguments: Any) -> room.Problem:
        problem = build(*arguments)
        cache, rows = problem.paged["paged shuffled"], problem.rows["paged shuffled"]
        cache.block_table[rows[0], 0] = cache.block_table[rows[1], 0]
        return problem

    monkeypatch.setattr(room, "build", broken)
    path = tmp_path / "rows.csv"
    monkeypatch.setattr(sys, "argv", ["pagefault", "bench", *QUICK, "--skip-sim", "--csv", str(path)])
    from pagefault.cli import main

    with pytest.raises(SystemExit) as ended:
        main.run()
    assert ended.value.code == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "checks failed: paged shuffled = naive" in said.err
    assert not path.exists()


def test_without_pytorch_it_says_what_to_install() -> None:
    code = (
        "import sys\n"
        "sys.modules['torch'] = None\n"
        "sys.argv = ['pagefault', 'bench']\n"
        "from pagefault.cli.main import run\n"
        "run()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "needs PyTorch; in PageFault's folder: pip install '.[gpu]'" in done.stderr
    assert "Traceback" not in done.stderr
