"""What the documents show is what the commands print."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import pytest

import pagefault
from scripts import refresh_docs
from shown_commands import wrong_commands

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BESIDE = [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
PIECE = re.compile(r"^```python\n(.*?)^```\n(?:\n^```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
WITH_CODE = [page for page in PAGES if "```python" in page.read_text(encoding="utf-8")]
WITH_COMMANDS = [page for page in PAGES if "```console" in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: str(page.relative_to(ROOT)))
def test_shown_output_is_what_the_commands_print(page: Path) -> None:
    shown = page.read_text(encoding="utf-8")
    assert refresh_docs.refreshed_page(shown) == shown, "run python scripts/refresh_docs.py"


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_runs_and_prints_what_is_shown(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All of a page's Python, in order, in one namespace; a `text` block right below is what it prints."""
    space: dict[str, Any] = {}
    for code, printed in PIECE.findall(page.read_text(encoding="utf-8")):
        if "import torch" in code:
            pytest.importorskip("torch", reason="PyTorch is not installed")
        exec(compile(code, str(page), "exec"), space)
        shown = capsys.readouterr().out
        assert not printed or shown == printed
    for name in ("pager", "cache"):
        if name in space:
            getattr(space[name], "pager", space[name]).check()


def test_an_engine_on_the_pager_fits_on_a_page() -> None:
    engine, _ = PIECE.findall((ROOT / "docs" / "guides" / "pager.md").read_text(encoding="utf-8"))[0]
    assert len(engine.splitlines()) < 40


@pytest.mark.parametrize("page", [*PAGES, *BESIDE], ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_that_are_shown_would_be_understood(page: Path) -> None:
    assert wrong_commands(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("```\npagefault clac --json\n```\n", "No such command 'clac'"),
        ("```console\n$ pagefault sim --sweeps x\n```\n", "No such option"),
        ("`pagefault calc --seqs many`", "valid integer"),
        ("`pagefault sim --events`", "requires an argument"),
        ("```sh\npagefault trace\n```\n", "(?i)missing argument"),
        ("`pagefault calc trace.csv`", "unexpected extra argument"),
        ("`pagefault sim --victim youngest`", "victim is 'youngest'; expected one of self, newest"),
        ("`pagefault calc --kv-dtype fp7`", "fp7"),
        ("`pagefault calc --gpu h300 --model NAME`", "h300"),
        ("`sim --csv`", "no option --csv"),
        ("`--slo-tpft 200`", "no command has the option --slo-tpft"),
        ("`python -m benchmarks.atention`", "there is no benchmarks/atention.py"),
        ("`python -m benchmarks.cases`", "benchmarks/cases.py is no program"),
        ("`scripts/export.py`", "there is no scripts/export.py"),
        ("`python -m benchmarks.prefill --cvs rows.csv`", "unrecognized arguments: --cvs"),
        ("`python -m benchmarks.prefill --rounds few`", "invalid int value: 'few'"),
        ("`python -m benchmarks.replay --csv rows.csv`", "required: traces"),
        ("`python scripts/results.py --chekc`", "no option --chekc"),
        ("`make demos`", "no target demos"),
        ("`pip install '.[gpus]'`", "no extra gpus"),
    ],
)
def test_commands_that_would_not_be_understood_are_found(text: str, why: str) -> None:
    (found,) = wrong_commands(text)
    assert re.search(why, found), found


def test_output_that_no_command_printed_is_found() -> None:
    page = "```console\n$ pagefault --version\npagefault 0.0.0\n```\n"
    assert refresh_docs.refreshed_page(page) == page.replace("0.0.0", pagefault.__version__)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_results_follow_from_their_rows() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from scripts import results

    assert results.main(["--check"]) == 0


@pytest.mark.parametrize("name", ["h200.csv", "h200-again.csv"])
def test_the_rows_of_a_case_are_of_one_run(name: str) -> None:
    rows = csv.DictReader((ROOT / "benchmarks/results" / name).read_text(encoding="utf-8").splitlines())
    runs: dict[str, set[tuple[str, str]]] = {}
    for row in rows:
        runs.setdefault(row["case"], set()).add((row["commit"], row["command"]))
    assert runs
    assert all(len(run) == 1 for run in runs.values()), runs
