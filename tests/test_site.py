"""The documents build as a site without a warning, with a page for every room that has public names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="MkDocs is not installed")
pytest.importorskip("mkdocstrings", reason="mkdocstrings is not installed")

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder


def test_public_names_are_in_the_reference(site: Path) -> None:
    import importlib

    for room in ("capacity", "workload", "paging", "scheduling", "sim", "reference", "report"):
        page = (site / "api" / room / "index.html").read_text(encoding="utf-8")
        for name in importlib.import_module(f"pagefault.{room}").__all__:
            assert f'id="pagefault.{room}.{name}"' in page, f"{room}.{name}"


def test_the_first_page_is_the_readme(site: Path) -> None:
    page = (site / "index.html").read_text(encoding="utf-8")
    assert "Virtual memory for an LLM" in page
    assert (site / "images" / "pool.png").exists()
    assert 'href="guides/sizing/"' in page
