"""Make docs/results.md, and the summary in the README, from the rows under benchmarks/results.

``python scripts/results.py [--check]``.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import kernel_section, serving_section  # noqa: E402

README = ROOT / "README.md"
BEGIN, END = "<!-- results: made by scripts/results.py -->\n", "<!-- end of results -->"
PAGE = ROOT / "docs" / "results.md"
HEAD = """# Results

Generated from rows by `python scripts/results.py`; no figure on this page is typed by hand. The rows are under
`benchmarks/results`.
"""


def page() -> str:
    """The whole page."""
    results = ROOT / "benchmarks" / "results"
    return "\n".join((HEAD, serving_section.section(results), kernel_section.section(results)))


def readme() -> str:
    """The README with its summary filled in anew."""
    results = ROOT / "benchmarks" / "results"
    before, rest = README.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    return (
        before
        + BEGIN
        + "\n"
        + kernel_section.summary(results)
        + serving_section.summary(results)
        + "\n"
        + END
        + after
    )


def main(arguments: list[str]) -> int:
    """Write the page, or with --check compare it."""
    stale = 0
    for path, made in ((PAGE, page()), (README, readme())):
        if path.exists() and path.read_text(encoding="utf-8") == made:
            continue
        if "--check" in arguments:
            stale += 1
            sys.stderr.write(f"{path.name} does not follow from its rows; run python scripts/results.py\n")
        else:
            path.write_text(made, encoding="utf-8")
    return int(stale > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
