"""`pagefault demo`: the main job, stage by stage, each by the command that a user would type, and a page of it all."""

from __future__ import annotations

import tempfile
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from pagefault.cli.console import as_command, console, dump_json, say

SWEEP = "watermark=0,0.02,0.05,0.1,0.3,0.5"


def demo(
    trace: Annotated[
        str | None, typer.Option(metavar="FILE", help="A real trace: sized and replayed as well.")
    ] = None,
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="DIR", help="Folder for the page of charts.")
    ] = "report",
) -> None:
    """Show what PageFault says: memory, a GPU's capacity, paged attention, serving; and draw it."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder)
        _memory(results)
        _attention(results)
        _serving(results)
        if trace is not None:
            _real_trace(trace, results)
        _page(results, out)


def _memory(results: Path) -> None:
    from pagefault.cli import calc

    _stage("Memory: what a contiguous cache reserves, and what a paged one does", "calc")
    calc.calc()
    with (
        (results / "memory.json").open("w") as stream,
        redirect_stdout(stream),
        as_command("pagefault calc --json"),
    ):
        calc.calc(as_json=True)
    arguments = "--model llama3-70b --budget-gb 80 --max-len 8192 --mean-len 2000"
    _stage("Capacity: how many requests 80 GB of cache hold", f"calc {arguments}")
    calc.calc(model="llama3-70b", budget_gb=80, max_len=8192, mean_len=2000)


def _attention(results: Path) -> None:
    if find_spec("torch") is None:
        from pagefault.cli import demo_oracle

        console().rule("Attention: through page tables, the same to the last bit", style="bold", align="left")
        say()
        demo_oracle.show()
        say("With PyTorch (pip install '.[gpu]') `pagefault bench` does this with the kernels.")
        say()
        return
    from pagefault.cli import bench

    command = "bench --skip-sim"
    _stage("Attention: through page tables, checked and timed", command)
    with as_command(f"pagefault {command}"):
        bench.bench(skip_sim=True, csv=str(results / "attention.csv"))
    say()


def _serving(results: Path) -> None:
    from pagefault.cli import sim_classic

    command = f"sim --sweep {SWEEP}"
    given = {"sweep": SWEEP, "events": str(results / "serving.jsonl")}
    _stage("Serving: paging alone thrashes, a watermark cures it", command)
    with as_command(f"pagefault {command} --json"):
        outcomes = sim_classic.experiment(given)
        sim_classic.show(outcomes, given)
        (results / "serving.json").write_text(dump_json(sim_classic.as_json(outcomes)))
    say()


def _real_trace(path: str, results: Path) -> None:
    from pagefault.cli import calc, sim
    from pagefault.cli import trace as trace_command

    _stage("Your traffic: what it asks for", f"trace {path}")
    trace_command.trace(path)
    model, gpu = "llama3.1-8b", "h200"
    options = f"--model {model} --gpu {gpu}"
    _stage("Your traffic: the memory it needs", f"calc --trace {path} {options}")
    calc.calc(trace=path, model=model, gpu=gpu)
    command = f"sim --trace {path} {options} --requests 1000"
    _stage("Your traffic: its first 1,000 requests, served", command)
    with as_command(f"pagefault {command}"):
        sim.sim(trace=path, requests=1000, model=model, gpu=gpu, events=str(results / "traffic.jsonl"))
    say()


def _page(results: Path, out: str) -> None:
    if find_spec("vl_convert") is None:
        say("With vl-convert (pip install '.[report]') `pagefault report` draws all this as one page.")
        return
    from pagefault.cli import report

    _stage("In pictures: one page, with the pool played back", f"report RESULTS… -o {out}")
    report.report([str(path) for path in sorted(results.iterdir())], out)
    say()
    say(f"Open {(Path(out) / report.PAGE).absolute()} in a browser.")


def _stage(title: str, command: str) -> None:
    console().rule(title, style="bold", align="left")
    say(f"$ pagefault {command}")
    say()
