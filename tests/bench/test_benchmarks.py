"""The benchmarks that need a GPU say so in a line, and name what they do not know or find."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks import files

if TYPE_CHECKING:
    from collections.abc import Iterator

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

WRONG = [
    ("attention", ["--cases", "64x4096,nope"], "no case 'nope'"),
    ("tune_decode", ["--cases", "nope"], "no case 'nope'"),
    ("counters", ["--case", "nope"], "no case 'nope'"),
    ("counters", ["--read", "nowhere.txt", "--csv", "rows.csv"], "--read nowhere.txt"),
    ("timeline", ["nowhere.json"], "nowhere.json: no such file"),
    ("real_server", ["nowhere"], "nowhere: expected a folder"),
    ("replay", ["nowhere"], "nowhere: no file"),
    (
        "real_server",
        ["docs"],
        "expected a folder with a recorded run: requests.jsonl, timeseries.csv, meta.json",
    ),
    ("timeline", ["README.md"], "README.md is no timeline"),
    ("counters", ["--csv", "rows.csv"], "--csv is for the rows of --read"),
    ("counters", ["--read", "README.md", "--case", "64x4096"], "--case says what to run"),
    ("counters", ["--read", "README.md", "--csv", "rows.csv"], "--read README.md: expected the line"),
    ("attention", ["--csv", "README.md"], "README.md: the file has the columns"),
    ("prefill", ["--csv", "docs/images/pool.png"], "is no results file"),
    ("serving", ["--processes", "0"], "expected a whole number of at least 1, given 0"),
    ("pager", ["--steps", "-1"], "expected a whole number of at least 1, given -1"),
    *(
        (name, [option, path], f"cannot write {path}")
        for name, option in (
            ("attention", "--csv"),
            ("counters", "--csv"),
            ("pager", "--json"),
            ("prefill", "--csv"),
            ("serving", "--csv"),
            ("tune_decode", "--out"),
        )
        for path in ("/nowhere/rows.csv", "docs")
    ),
]
WITHOUT_GPU: list[tuple[str, list[str], str]] = [
    (name, [], "needs a CUDA GPU") for name in ("attention", "tune_decode", "counters", "prefill")
]


@pytest.mark.parametrize(("name", "arguments", "message"), [*WRONG, *WITHOUT_GPU])
def test_one_line_and_exit_code_2(
    name: str, arguments: list[str], message: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(Path(__file__).parents[2])
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"benchmarks.{name}").main()
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_rows_are_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    columns = ["case", "p50", "note"]
    files.write_rows(path, columns, [{"case": "a", "p50": 1.5}, {"case": "b", "note": "x, y"}])
    assert path.read_text() == 'case,p50,note\na,1.5,\nb,,"x, y"\n'

    def broken() -> Iterator[dict[str, str]]:
        yield {"case": "c"}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.write_rows(path, columns, broken())
    assert [one.name for one in tmp_path.iterdir()] == ["rows.csv"]
    assert "a,1.5" in path.read_text()


@pytest.mark.parametrize("name", ["attention", "prefill", "tune_decode", "counters"])
def test_without_pytorch_there_is_a_line_too(name: str) -> None:
    hidden = "import sys; from importlib import util; found = util.find_spec; "
    hidden += "util.find_spec = lambda name, *more: None if name == 'torch' else found(name, *more); "
    command = [sys.executable, "-c", f"{hidden}import benchmarks.{name}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 2
    assert done.stderr == "this benchmark needs PyTorch: pip install '.[gpu]' in the checkout\n"
