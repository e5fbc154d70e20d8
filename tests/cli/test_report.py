"""`pagefault report` as a user types it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner, Result

from pagefault.cli import console
from pagefault.cli.main import app
from pagefault.errors import InputError, MissingExtra
from report.result_files import CALC, SWEEP, large_log, output

if TYPE_CHECKING:
    from pathlib import Path


def invoke(*arguments: str) -> Result:
    console.console.cache_clear()  # they hold the stream of the run before
    console.err.cache_clear()
    return CliRunner().invoke(app, ["report", *arguments])


@pytest.fixture
def calc(tmp_path: Path) -> str:
    path = tmp_path / "calc.json"
    path.write_text(output(*CALC))
    return str(path)


def test_it_writes_a_page_and_says_what_is_in_it(calc: str, tmp_path: Path) -> None:
    (tmp_path / "sweep.json").write_text(output(*SWEEP))
    result = invoke(
        calc, str(tmp_path / "sweep.json"), "-o", str(tmp_path / "new" / "site"), "--title", "Mine <3"
    )
    assert result.exit_code == 0, result.output
    folder = tmp_path / "new" / "site"
    assert [path.name for path in folder.iterdir()] == ["index.html"]
    assert "<h1>Mine &lt;3</h1>" in (folder / "index.html").read_text()
    assert str(folder / "index.html") in result.stdout.splitlines()[0]
    assert "1 calculation, 1 experiment" in result.stdout
    assert "3.2× less memory" in result.stdout
    assert all(len(line) <= 80 for line in result.stdout.splitlines()[1:])


def test_the_folder_is_called_report(calc: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert invoke(calc).exit_code == 0
    assert (tmp_path / "report" / "index.html").is_file()


def test_static_pictures_lie_beside_the_page(calc: str, tmp_path: Path) -> None:
    result = invoke(calc, "-o", str(tmp_path / "out"), "--static")
    assert result.exit_code == 0, result.output
    names = {path.name for path in (tmp_path / "out").iterdir()}
    charts = ("memory-stored", "memory-block-size", "memory-capacity")
    assert names == {"index.html", *(f"{chart}.{kind}" for chart in charts for kind in ("svg", "png"))}
    assert (tmp_path / "out" / "memory-stored.svg").read_text().startswith("<svg")
    assert "6 pictures" in result.stdout


def test_thinning_is_a_note(tmp_path: Path) -> None:
    log = tmp_path / "ev.jsonl"
    log.write_text("\n".join(large_log(2_000)) + "\n")
    result = invoke(str(log), "-o", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    assert "thinned for drawing" in result.stderr
    assert "thinned" not in result.stdout
    assert "The pool over time: a model on a GPU" in result.stdout


def test_without_a_file_it_says_what_is_missing() -> None:
    result = invoke()
    assert result.exit_code == 2
    assert "RESULTS" in result.output


@pytest.mark.parametrize(
    ("text", "complaint"),
    [(None, "No such file"), ("{", "no whole JSON object"), ("a,b\n1,2\n", "no result that is known")],
)
def test_a_bad_file_leaves_nothing_behind(
    calc: str, tmp_path: Path, text: str | None, complaint: str
) -> None:
    path = tmp_path / "bad"
    if text is not None:
        path.write_text(text)
    result = invoke(calc, str(path), "-o", str(tmp_path / "out"))
    assert isinstance(result.exception, InputError)
    assert str(path) in str(result.exception)
    assert complaint in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_one(calc: str, tmp_path: Path) -> None:
    result = invoke(calc, "-o", calc)
    assert isinstance(result.exception, InputError)
    assert "is no folder" in str(result.exception)
    result = invoke(calc, "-o", f"{calc}/below")
    assert isinstance(result.exception, InputError)
    assert "cannot write to" in str(result.exception)
    result = invoke(calc, "-o", "")
    assert isinstance(result.exception, InputError)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_that_may_not_be_written(calc: str, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    result = invoke(calc, "-o", str(tmp_path / "locked" / "out"))
    assert isinstance(result.exception, InputError)
    assert "may be written to" in str(result.exception)


def test_without_vl_convert_it_says_what_to_install(
    calc: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    result = invoke(calc, "-o", str(tmp_path / "out"))
    assert isinstance(result.exception, MissingExtra)
    assert "pip install '.[report]'" in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_help_names_the_kinds() -> None:
    text = " ".join(invoke("--help").stdout.split())
    for part in ("--static", "--title", "-o", "--events", "--json", "--csv"):
        assert part in text
