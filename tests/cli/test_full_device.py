"""A device that is full, a file that may not grow: one message, exit code 2, nothing half-written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = (sys.executable, "-m", "pagefault")
FULL = Path("/dev/full")

no_full_device = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


@no_full_device
@pytest.mark.parametrize("arguments", [["calc"], ["calc", "--json"], ["sim", "--json"], ["--version"]])
def test_a_result_that_stdout_cannot_take_is_told(arguments: list[str]) -> None:
    with FULL.open("w") as full:
        done = subprocess.run(
            [*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "pagefault: error: cannot write: No space left on device; free some space or write to another device"
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("option", ["--events", "--trace-out"])
def test_a_file_that_may_not_grow_is_told_and_leaves_nothing(option: str, tmp_path: Path) -> None:
    resource = pytest.importorskip("resource", reason="this system has no limit on a file's size")
    out = tmp_path / "log"
    done = subprocess.run(
        [*COMMAND, "sim", option, str(out)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )
    assert done.returncode == 2
    what = f" {out}" if option == "--events" else ""  # the other's log is a temporary file
    assert done.stderr.splitlines()[-1] == (
        f"pagefault: error: cannot write{what}: File too large; free some space or write to another device"
    )
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
