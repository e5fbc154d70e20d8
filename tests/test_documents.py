"""What the documents show is what the commands print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PIECE = re.compile(r"^```python\n(.*?)^```\n(?:\n^```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
WITH_CODE = [page for page in PAGES if "```python" in page.read_text(encoding="utf-8")]
WITH_COMMANDS = [page for page in PAGES if "```console" in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: str(page.relative_to(ROOT)))
def test_shown_output_is_what_the_commands_print(page: Path) -> None:
    script = ROOT / "scripts" / "refresh_docs.py"
    command = [sys.executable, str(script), "--check", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


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


def typed_commands() -> Iterator[tuple[str, str]]:
    """Commands outside of console blocks, whose output is checked anyway: page, command."""
    for page in PAGES:
        text = re.sub(
            r"^```console\n.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
        )
        spans = re.findall(r"`(pagefault [a-z][^`]*)`", text)
        for block in re.findall(r"^```(?:sh)?\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
            spans += [line.split("  #")[0] for line in block.splitlines()]
        for span in spans:
            if re.match(r"(pagefault|python -m benchmarks\.\w+) ", span.strip() + " "):
                yield str(page.relative_to(ROOT)), " ".join(span.split())


@cache
def help_of(command: str) -> str:
    """What a command says of itself."""
    program = command.removeprefix("python -m ").split()
    module = ["pagefault", *program[1:]] if program[0] == "pagefault" else program
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    asked = [sys.executable, "-m", *module, "--help"]
    done = subprocess.run(asked, capture_output=True, text=True, check=True, cwd=ROOT, env=environment)
    return done.stdout


@pytest.mark.parametrize("where", sorted({command for _, command in typed_commands()}))
def test_commands_and_options_that_are_named_exist(where: str) -> None:
    words = where.split()
    program = words[:2] if words[0] == "pagefault" else words[:3]
    if words[0] == "python":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    shown = help_of(" ".join(program))
    for option in re.findall(r"(?<!\S)--[a-z][a-z-]*", where):
        assert re.search(rf"{option}\b", shown), f"{program} has no {option}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_results_follow_from_their_rows() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "results.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
