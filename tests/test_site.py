"""The documents build as a site without a warning, with every public name and every list in it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="MkDocs is not installed")
pytest.importorskip("mkdocstrings", reason="mkdocstrings is not installed")

import markdown  # type: ignore[import-untyped]  # MkDocs brings it

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "pagefault"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder


def public_names(source: str) -> set[str]:
    """What a room offers, read off its source: `__all__`, or (errors) its classes."""
    tree = ast.parse(source)
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return {node.name for node in tree.body if isinstance(node, ast.ClassDef) and node.name[0] != "_"}


OFFERED = {
    path.parent.name if path.name == "__init__.py" else path.stem: public_names(path.read_text("utf-8"))
    for path in (*SOURCE.glob("*/__init__.py"), *SOURCE.glob("[!_]*.py"))
}
ROOMS = sorted(room for room, names in OFFERED.items() if names)


def test_rooms_with_public_names_are_found_without_pytorch() -> None:
    assert {"attention", "bench", "cache", "errors"} < set(ROOMS)
    assert set(OFFERED) - set(ROOMS) == {"cli", "kernels"}, "rooms that offer commands, or nothing"
    assert public_names("class Seen: ...\nclass _Hidden: ...\n") == {"Seen"}
    assert public_names("__all__ = ['one']\nclass Two: ...\n") == {"one"}


@pytest.mark.parametrize("room", ROOMS)
def test_public_names_are_in_the_reference(site: Path, room: str) -> None:
    page = (site / "api" / room / "index.html").read_text(encoding="utf-8")
    assert [name for name in OFFERED[room] if f'id="pagefault.{room}.{name}"' not in page] == []


def lost_items(page: str) -> list[str]:
    """Lines of a rendered page that were meant as items of a list: Markdown wants a blank line before the first."""
    prose = re.sub(r"<pre.*?</pre>|</?(?:p|li|code|em|strong)\b[^>]*>", "", page, flags=re.DOTALL)
    return re.findall(r"^(?:[-*+]|\d+\.) .*", prose, re.MULTILINE)


def test_lists_are_rendered_as_lists(site: Path) -> None:
    lost = {
        str(page.relative_to(site)): items
        for page in site.rglob("*.html")
        if (items := lost_items(page.read_text(encoding="utf-8")))
    }
    assert lost == {}


@pytest.mark.parametrize("item", ["- an item", "* an item", "1. an item"])
def test_a_list_that_is_not_rendered_is_found(item: str) -> None:
    assert lost_items(markdown.markdown(f"Text.\n{item}\n")) == [item]
    assert lost_items(markdown.markdown(f"Text.\n\n{item}\n\n    {item}\n")) == []


def test_the_first_page_is_the_readme(site: Path) -> None:
    page = (site / "index.html").read_text(encoding="utf-8")
    assert "Virtual memory for an LLM" in page
    assert (site / "images" / "pool.png").exists()
    assert 'href="guides/sizing/"' in page
