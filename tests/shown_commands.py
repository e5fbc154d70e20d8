"""The commands that a document shows, and what is wrong with them, found without running any."""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import re
import shlex
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from pagefault.capacity import find_dtype, find_gpu, load_model
from pagefault.cli.main import app
from pagefault.errors import PageFaultError
from pagefault.scheduling import SchedulerConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
PLACEHOLDER = re.compile(r"[A-Z][A-Z_]*|…")
PROGRAM = re.compile(r"(pagefault|make|pip install|python) |python -m \w+|(scripts|benchmarks)/\w+\.py")
SHORT = re.compile(r"(calc|trace|sim|bench|report|demo) -|--[a-z]")
CLI: Any = typer.main.get_command(app)
TYPES = {
    "int": int,
    "float": float,
    "Path": Path,
    "str": str,
    "files.target": Path,
    "files.count": int,
    "results_file": Path,
}


class Wrong(Exception):
    """A command that would not be understood, and why."""


def wrong_commands(text: str) -> list[str]:
    """What is wrong with the commands of a page, a line each."""
    found = []
    for command, typed in shown_commands(text):
        try:
            check(command, typed)
        except Wrong as error:
            found.append(f"{command}: {error}")
    return found


def shown_commands(text: str) -> Iterator[tuple[str, bool]]:
    """Every command of a page, and whether it is shown as it is typed: lines of a block, not words in prose."""
    for kind, body in BLOCK.findall(text):
        for line in body.splitlines() if kind in ("", "sh", "console") else ():
            command = line.removeprefix("$ ").split("  #")[0].strip()
            if line.startswith("$ ") if kind == "console" else PROGRAM.match(command + " "):
                yield command, True
    for span in SPAN.findall(BLOCK.sub("", text)):
        command = " ".join(span.split())
        if PROGRAM.match(command + " ") or SHORT.match(command):
            yield command, False


def check(command: str, typed: bool = True) -> None:
    """Parses a command as its program would.

    Prose may also name a program alone (``pagefault trace``), an option alone (``--tp N``) or the two without
    `pagefault` (``bench --from``).

    Raises:
        Wrong: What is not known, or missing.
    """
    words = shlex.split(re.split(r" [<>|] ", command)[0])
    match words:
        case ["pagefault", *rest] if not typed and len(rest) == 1 and rest[0] in CLI.commands:
            pass
        case ["pagefault", *rest]:
            check_pagefault(rest)
        case ["python", "-m", "pytest", *_]:
            pass
        case ["python", "-m", module, *rest]:
            check_script(Path(*module.split(".")).with_suffix(".py"), rest)
        case ["python", path, *rest]:
            check_script(Path(path), rest)
        case ["make", *rest]:
            check_targets(rest)
        case ["pip", "install", *rest]:
            check_extras(rest)
        case [path] if path.endswith(".py"):
            script(Path(path))
        case [name, *rest]:
            some = [CLI.commands[name]] if name in CLI.commands else list(CLI.commands.values())
            known = {option for one in some for parameter in one.params for option in parameter.opts}
            for option in [word for word in (name, *rest) if word.startswith("--")]:
                if option not in known:
                    raise Wrong(f"no command has the option {option}" if some[1:] else f"no option {option}")


def check_pagefault(words: Sequence[str]) -> None:
    """By the command's own parser; the values of choices by what the command would ask."""
    words = ["1" if word == "N" else word for word in words]
    # Typer brings a Click of its own or uses the one installed: its errors are known by what they can do.
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            name, command, rest = CLI.resolve_command(CLI.make_context("pagefault", words), words)
            values = command.make_context(name, rest).params
    except typer.Exit:  # --help
        return
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        raise Wrong(error.format_message()) from error
    for option, value in values.items():
        if option in CHOICES and isinstance(value, str) and not PLACEHOLDER.fullmatch(value):
            try:
                CHOICES[option](value)
            except PageFaultError as error:
                raise Wrong(str(error)) from error


def _scheduling(option: str) -> Callable[[str], object]:
    return lambda value: SchedulerConfig(**{option: value})  # type: ignore[arg-type]


CHOICES: dict[str, Callable[[str], object]] = {
    **{option: _scheduling(option) for option in ("admission", "victim", "preempt", "policy")},
    "kv_dtype": lambda value: value == "auto" or find_dtype(value),
    "gpu": find_gpu,
    "model": lambda value: value == "custom" or load_model(value),
}


def check_script(path: Path, words: Sequence[str]) -> None:
    """By an argparse parser like the script's; where it has none, an option must be a string of its source."""
    tree = script(path)
    parser = parser_of(tree)
    if parser is not None:
        if "--help" not in words:
            parser.parse_args(["1" if PLACEHOLDER.fullmatch(word) else word for word in words])
        return
    strings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    for word in words:
        if word.startswith("-") and word not in strings:
            raise Wrong(f"{path} has no option {word}")


@cache
def script(path: Path) -> ast.Module:
    """The source of a script or benchmark that can be run."""
    if not (ROOT / path).is_file():
        raise Wrong(f"there is no {path}")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    if not any(isinstance(node, ast.Constant) and node.value == "__main__" for node in ast.walk(tree)):
        raise Wrong(f"{path} is no program")
    return tree


class Parser(argparse.ArgumentParser):
    """One that raises where others exit."""

    def error(self, message: str) -> NoReturn:
        raise Wrong(message)


def parser_of(tree: ast.Module) -> Parser | None:
    """Made anew from the calls in the source: importing the benchmarks takes PyTorch, and seconds."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    if not any(isinstance(call.func, ast.Attribute) and call.func.attr == "ArgumentParser" for call in calls):
        return None
    parser = Parser(allow_abbrev=False, add_help=False)
    for call in calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument":
            options: dict[str, Any] = {}
            for keyword in call.keywords:
                if keyword.arg == "type":
                    options["type"] = TYPES[ast.unparse(keyword.value)]
                elif keyword.arg in ("action", "nargs", "choices", "required", "dest"):
                    options[keyword.arg] = ast.literal_eval(keyword.value)
            parser.add_argument(*map(ast.literal_eval, call.args), **options)
    return parser


def check_targets(words: Sequence[str]) -> None:
    """The targets of `make` are the Makefile's."""
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for word in words:
        if "=" not in word and word not in targets:
            raise Wrong(f"the Makefile has no target {word}")


def check_extras(words: Sequence[str]) -> None:
    """The extras in `pip install '.[gpu]'` are the project's."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extra in re.findall(r"(?:\.|pagefault)\[(\w+)\]", " ".join(words)):
        if extra not in project["optional-dependencies"]:
            raise Wrong(f"there is no extra {extra}")
