"""The house holds together: rooms import only what their arrows allow, and this test can fail."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import pagefault

SOURCE = Path(pagefault.__file__).parent

# The twin of the table in docs/architecture.md.
ARROWS: dict[str, set[str]] = {
    "errors": set(),
    "capacity": set(),
    "workload": set(),
    "reference": set(),
    "paging": set(),
    "scheduling": {"paging"},
    "sim": {"scheduling", "paging", "workload", "capacity"},
    "kernels": set(),
    "attention": {"kernels"},
    "cache": {"paging", "attention"},
    "bench": {"cache", "attention", "reference", "sim", "workload", "capacity"},
    "report": set(),
    "cli": {"*"},
}
HEAVY = {"torch", "triton"}
NO_HEAVY = {"errors", "capacity", "workload", "reference", "paging", "scheduling", "sim", "report"}
CLOCKS = {"time", "datetime", "sched", "asyncio"}
FILES = {"io", "os", "pathlib", "shutil", "socket", "subprocess", "tempfile", "sys", "logging"}
FORBIDDEN: dict[str, set[str]] = {
    **{room: set(HEAVY) for room in NO_HEAVY},
    "kernels": {"torch", "numpy"},
}
for _room in ("paging", "scheduling"):
    FORBIDDEN[_room] |= CLOCKS | FILES
FORBIDDEN["sim"] |= {"time", "datetime"}

ROOMS = sorted(
    path.stem if path.is_file() else path.name
    for path in SOURCE.iterdir()
    if (path.suffix == ".py" and not path.name.startswith("__")) or (path / "__init__.py").exists()
)


def files_of(room: str, source: Path) -> list[Path]:
    folder = source / room
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [source / f"{room}.py"]


def type_checking_only(tree: ast.AST) -> set[ast.AST]:
    """Nodes under `if TYPE_CHECKING:`: arrows count there too, but nothing is loaded."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            found.update(child for statement in node.body for child in ast.walk(statement))
    return found


def violations(room: str, source: Path = SOURCE) -> list[str]:
    """Every import statement, print or exit in a room that its arrows do not allow."""
    found = []
    allowed = ARROWS[room] | {room, "errors"}
    for path in files_of(room, source):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        unloaded = type_checking_only(tree)
        for node in ast.walk(tree):
            names: list[str] = []
            line = getattr(node, "lineno", 0)
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}:{line}: relative import"
                names = [node.module or ""]
                if node.module == "pagefault":
                    names = [f"pagefault.{alias.name}" for alias in node.names]
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and room != "cli"
                and node.func.id in {"print", "exit", "input"}
            ):
                found.append(f"{path.name}:{line}: calls {node.func.id}()")
            for name in names:
                top, _, rest = name.partition(".")
                target = rest.split(".")[0]
                if top == "pagefault":
                    if (
                        target
                        and "*" not in allowed
                        and target not in allowed
                        and not target.startswith("__")
                    ):
                        found.append(f"{path.name}:{line}: {room} must not import {target}")
                elif top in FORBIDDEN.get(room, set()) and node not in unloaded:
                    found.append(f"{path.name}:{line}: {room} must not touch {top}")
    return found


IMPORT_ALL = """
import importlib, pkgutil, sys
room, blocked = sys.argv[1], set(sys.argv[2].split(","))
sys.path.insert(0, sys.argv[3])

class Blocker:
    def find_spec(self, name, path=None, target=None):
        parts = name.split(".")
        if parts[0] in blocked or ".".join(parts[:2]) in blocked:
            raise ImportError(f"blocked: {name}")

sys.meta_path.insert(0, Blocker())
module = importlib.import_module(f"pagefault.{room}")
for found in pkgutil.walk_packages(getattr(module, "__path__", []), module.__name__ + "."):
    importlib.import_module(found.name)
"""


def import_alone(room: str, source: Path = SOURCE) -> subprocess.CompletedProcess[str]:
    """Import every module of a room in a fresh interpreter where what it may not touch cannot be had."""
    blocked = {f"pagefault.{other}" for other in ARROWS if other not in ARROWS[room] | {room, "errors"}}
    if "*" in ARROWS[room]:
        blocked = set()
    blocked |= FORBIDDEN.get(room, set()) & (HEAVY | {"numpy"})  # the rest is loaded by Python itself
    command = [sys.executable, "-c", IMPORT_ALL, room, ",".join(sorted(blocked)), str(source.parent)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_room_has_its_arrows() -> None:
    assert set(ROOMS) <= set(ARROWS), "a new room is a design decision: add its arrows here and in the docs"


def test_the_documents_know_every_room() -> None:
    text = (SOURCE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert [room for room in ARROWS if f"| `{room}` |" not in text] == []


@pytest.mark.parametrize("room", ROOMS)
def test_arrows(room: str) -> None:
    assert violations(room) == []


@pytest.mark.parametrize(
    "room", [room for room in ROOMS if room not in {"kernels", "attention", "cache", "bench"}]
)
def test_room_stands_alone(room: str) -> None:
    done = import_alone(room)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("room", "line", "complaint"),
    [
        ("paging", "import torch", "paging must not touch torch"),
        ("paging", "from time import monotonic", "paging must not touch time"),
        ("paging", "from pagefault.scheduling import Scheduler", "paging must not import scheduling"),
        ("capacity", "from pagefault import workload", "capacity must not import workload"),
        ("workload", "def f():\n    import triton", "workload must not touch triton"),
        ("errors", "print('hello')", "calls print()"),
    ],
)
def test_a_planted_import_is_seen(tmp_path: Path, room: str, line: str, complaint: str) -> None:
    room_folder = tmp_path / "pagefault" / room
    room_folder.mkdir(parents=True)
    (room_folder / "__init__.py").write_text(line + "\n")
    assert any(complaint in found for found in violations(room, tmp_path / "pagefault"))


def test_a_planted_import_does_not_load(tmp_path: Path) -> None:
    room = tmp_path / "pagefault" / "workload"
    room.mkdir(parents=True)
    (tmp_path / "pagefault" / "__init__.py").touch()
    (room / "__init__.py").write_text("import torch\n")
    done = import_alone("workload", tmp_path / "pagefault")
    assert done.returncode != 0
    assert "blocked: torch" in done.stderr


def test_the_top_of_the_package_is_free() -> None:
    code = "import sys, pagefault; print(sorted({'numpy', 'torch', 'typer', 'rich'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_export_resolves() -> None:
    for name in pagefault.__all__:
        assert getattr(pagefault, name) is not None
