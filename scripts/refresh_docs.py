"""Fill in what the commands in the documents print: ``python scripts/refresh_docs.py [--check] [FILE...]``.

Every fenced block marked ``console`` is a terminal: lines that begin with ``$ pagefault`` are run, one after another
in a scratch folder that stands where a checkout would, and what stands below each is replaced by what it printed
(stdout, then stderr). So no figure in a document is typed by hand. Blocks that need ``../shared`` are left alone where
it is absent. A line ``[...]`` stands for lines left out and is kept, with the lines after it found again in the output.
With ``--check`` nothing is written: exit 1 names the pages that are out of date.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CUT = "[...]"


def documents() -> list[Path]:
    """Every page that may have terminal blocks."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def run(command: str, folder: str) -> str:
    """What a command prints, with the installed `pagefault` and no terminal."""
    words = shlex.split(command)
    if words[0] != "pagefault":
        raise SystemExit(f"a console block may only run pagefault; got: {command}")
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pagefault", *words[1:]],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        check=False,
    )
    text = done.stdout + done.stderr
    return "".join(line.rstrip() + "\n" for line in text.splitlines())


def refreshed_page(page: str) -> str:
    """A page with the outputs of all its blocks filled in anew."""
    shared = ROOT.parent / "shared"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "checkout"
        folder.mkdir()
        if shared.exists():
            (Path(scratch) / "shared").symlink_to(shared)

        def fill(found: re.Match[str]) -> str:
            if "../shared" in found[1] and not shared.exists():
                return found[0]
            return "```console\n" + refreshed(found[1], str(folder)) + "```"

        return BLOCK.sub(fill, page)


def refreshed(body: str, folder: str) -> str:
    """A block with its outputs filled in anew."""
    made, shown = "", re.split(r"^(\$ .*\n)", body, flags=re.MULTILINE)
    for command, old in zip(shown[1::2], shown[2::2], strict=True):
        made += command + cut_like(old, run(command[2:].strip(), folder))
    return made


def cut_like(old: str, new: str) -> str:
    """The new output with the same parts left out as in the old one.

    A part that is kept is found again by its first line; the part has as many lines as before.
    """
    if CUT not in old:
        return new
    lines, made, at = new.splitlines(), [], 0
    for index, part in enumerate(old.split(CUT + "\n")):
        kept = part.splitlines()
        if index:
            made.append(CUT)
            if not kept:
                continue
            label = kept[0].split("  ")[0]
            found = [i for i in range(at, len(lines)) if lines[i].startswith(label)]
            if not found:
                raise SystemExit(f"nothing in the new output begins with {label!r}")
            at = found[0]
        made += lines[at : at + len(kept)]
        at += len(kept)
    return "".join(line + "\n" for line in made)


def main(arguments: list[str]) -> int:
    """Refresh, or with --check compare."""
    check = "--check" in arguments
    chosen = [Path(name).resolve() for name in arguments if name != "--check"] or documents()
    stale = 0
    for page in chosen:
        old = page.read_text(encoding="utf-8")
        new = refreshed_page(old)
        if new == old:
            continue
        stale += 1
        if check:
            sys.stderr.write(
                f"{page.relative_to(ROOT)} shows outdated output; run python scripts/refresh_docs.py\n"
            )
        else:
            page.write_text(new, encoding="utf-8")
            sys.stdout.write(f"refreshed {page.relative_to(ROOT)}\n")
    return int(check and stale > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
