"""For `mkdocs build`: the pages that lie beside `docs/` and the reference pages, which nobody writes by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).resolve().parents[1]
BESIDE = {"README.md": "index.md", "CONTRIBUTING.md": "CONTRIBUTING.md", "CHANGELOG.md": "CHANGELOG.md"}
ROOMS = (
    "capacity", "workload", "paging", "scheduling", "sim", "attention", "cache", "bench", "reference", "report",
    "errors",
)  # fmt: skip


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds them; links into `docs/` are links to neighbours there."""
    for source, target in BESIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, target, content=text))
    for room in ROOMS:
        page = f"# pagefault.{room}\n\n::: pagefault.{room}\n"
        files.append(File.generated(config, f"api/{room}.md", content=page))
    return files
