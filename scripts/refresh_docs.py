"""Fill in what the commands in the documents print: ``python scripts/refresh_docs.py [--check] [FILE...]``.

Every fenced block marked ``console`` is a terminal: lines that begin with ``$ pagefault`` are run, one after another
in a scratch folder that stands where a checkout would, and what stands below each is replaced by what it printed
(stdout, then stderr). So no figure in a document is typed by hand. Blocks that need ``../shared`` are left alone where
it is absent. A line ``[...]`` stands for lines left out and is kept, with the lines after it found again in the output.
With ``--check`` nothing is written: exit 1 names the pages that are out of date.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import re
import shlex
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from pagefault import sim
from pagefault.cli import console, main
from pagefault.sim import run_classic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pagefault.sim import ClassicOutcome, ClassicSetup, Observer, SimResult

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CUT = "[...]"
played: dict[ClassicSetup, tuple[ClassicOutcome, SimResult]] = {}


def documents() -> list[Path]:
    """Every page that may have terminal blocks."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def run(command: str, folder: str) -> str:
    """What a command prints, in this process and without a terminal.

    Raises:
        KeyboardInterrupt: It was interrupted: what it printed is no output.
    """
    words = shlex.split(command)
    if words[0] != "pagefault":
        raise SystemExit(f"a console block may only run pagefault; got: {command}")
    out, err, code = io.StringIO(), io.StringIO(), None
    collecting = gc.get_threshold()
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "argv", words),
        mock.patch.dict(os.environ, {"COLUMNS": "80", "NO_COLOR": "1"}),
        mock.patch.object(sim, "run_classic", run_once),
    ):
        forget_consoles()
        try:
            main.run()
        except SystemExit as end:
            code = end.code
        finally:  # what the command line does to a process that is its own
            forget_consoles()
            gc.unfreeze()
            gc.set_threshold(*collecting)
    if code == 130:
        raise KeyboardInterrupt
    return "".join(line.rstrip() + "\n" for line in (out.getvalue() + err.getvalue()).splitlines())


def forget_consoles() -> None:
    """The next one is on the stdout and stderr of that moment."""
    console.console.cache_clear()
    console.err.cache_clear()


def run_once(
    setup: ClassicSetup,
    progress: Callable[[int, int], None] | None = None,
    observers: Sequence[Observer] = (),
) -> tuple[ClassicOutcome, SimResult]:
    """`run_classic`, but a run that another command had too is not played again: pages show the same ones."""
    if observers:
        return run_classic(setup, progress, observers)
    if setup not in played:
        played[setup] = run_classic(setup, progress)
    return played[setup]


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


def refresh(arguments: list[str]) -> int:
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
    sys.exit(refresh(sys.argv[1:]))
