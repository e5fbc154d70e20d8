"""What the documents show is what the commands print."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_COMMANDS = [page for page in PAGES if "```console" in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: str(page.relative_to(ROOT)))
def test_shown_output_is_what_the_commands_print(page: Path) -> None:
    script = ROOT / "scripts" / "refresh_docs.py"
    command = [sys.executable, str(script), "--check", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_code_in_the_readme_runs() -> None:
    pager_example, attention_example = re.findall(
        r"^```python\n(.*?)^```$", PAGES[0].read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    space: dict[str, Any] = {}
    exec(pager_example, space)
    space["pager"].check()
    assert space["pager"].free_frames == space["pager"].num_blocks
    pytest.importorskip("torch", reason="PyTorch is not installed")
    exec(attention_example, space)
    space["cache"].pager.check()
    assert space["out"].shape == (2, 32, 128)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_results_follow_from_their_rows() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "results.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
