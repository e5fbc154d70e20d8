"""Builds the app and turns errors into exit codes."""

from __future__ import annotations

import gc
import os
import sys
from typing import Annotated

import typer

from pagefault import __version__
from pagefault.cli import bench, calc, demo, report, sim, trace
from pagefault.cli.console import full_message, is_full
from pagefault.errors import CheckFailed, PageFaultError

app = typer.Typer(
    name="pagefault",
    help="Virtual memory for an LLM's KV cache: size it, simulate it, measure it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"pagefault {__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


app.command("bench")(bench.bench)
app.command("calc")(calc.calc)
app.command("demo")(demo.demo)
app.command("report")(report.report)
app.command("sim")(sim.sim)
app.command("trace")(trace.trace)


def run() -> None:
    """The console script: 0 success, 1 a check failed, 2 bad input, 130 interrupted."""
    # What is loaded stays, and a simulation makes objects but hardly a cycle: looking for cycles as often as Python
    # does by default costs it a twentieth of its time.
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # here, where what goes wrong can still be told
    except PageFaultError as error:
        sys.stderr.write(f"pagefault: error: {' '.join(str(error).split())}\n")
        sys.exit(1 if isinstance(error, CheckFailed) else 2)
    except KeyboardInterrupt:
        sys.stderr.write("pagefault: interrupted\n")
        sys.exit(130)
    except BrokenPipeError:  # the reader (`head`, say) has gone: nothing left to tell it
        _drop_stdout()
        sys.exit(141)
    except OSError as error:
        if not is_full(error):
            raise
        _drop_stdout()
        sys.stderr.write(f"pagefault: error: cannot write: {full_message(error)}\n")
        sys.exit(2)


def _drop_stdout() -> None:
    """Lead stdout nowhere: what it still holds would fail again when Python exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
