"""Make docs/results.md from the rows under benchmarks/results: ``python scripts/results.py [--check]``."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import kernel_section, serving_section  # noqa: E402

PAGE = ROOT / "docs" / "results.md"
HEAD = """# Results

Generated from rows by `python scripts/results.py`; no figure on this page is typed by hand. The rows are under
`benchmarks/results`.
"""


def page() -> str:
    """The whole page."""
    results = ROOT / "benchmarks" / "results"
    return "\n".join((HEAD, serving_section.section(results), kernel_section.section(results)))


def main(arguments: list[str]) -> int:
    """Write the page, or with --check compare it."""
    made = page()
    if "--check" in arguments:
        stale = not PAGE.exists() or PAGE.read_text(encoding="utf-8") != made
        if stale:
            sys.stderr.write("docs/results.md does not follow from its rows; run python scripts/results.py\n")
        return int(stale)
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
