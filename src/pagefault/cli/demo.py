"""`pagefault demo`: the main job, stage by stage, each by the command that a user would type."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated

import typer

from pagefault.cli.console import console, say


def demo(
    trace: Annotated[
        str | None, typer.Option(metavar="FILE", help="A real trace: sized and replayed as well.")
    ] = None,
) -> None:
    """Show what PageFault says: memory, a GPU's capacity, paged attention, serving."""
    from pagefault.cli import calc, sim

    _stage("Memory: what a contiguous cache reserves, and what a paged one does", "calc")
    calc.calc()
    arguments = "--model llama3-70b --budget-gb 80 --max-len 8192 --mean-len 2000"
    _stage("Capacity: how many requests 80 GB of cache hold", f"calc {arguments}")
    calc.calc(model="llama3-70b", budget_gb=80, max_len=8192, mean_len=2000)
    _attention()
    _stage("Serving: paging alone thrashes, a watermark cures it", "sim")
    sim.sim()
    if trace is not None:
        _real_trace(trace)


def _attention() -> None:
    if find_spec("torch") is None:
        from pagefault.cli import demo_oracle

        console().rule("Attention: through page tables, the same to the last bit", style="bold", align="left")
        say()
        demo_oracle.show()
        say("With PyTorch (pip install 'pagefault[gpu]') `pagefault bench` does this with the kernels.")
        say()
        return
    from pagefault.cli import bench

    _stage("Attention: through page tables, checked and timed", "bench --skip-sim")
    bench.bench(skip_sim=True)
    say()


def _real_trace(path: str) -> None:
    from pagefault.cli import calc, sim
    from pagefault.cli import trace as trace_command

    _stage("Your traffic: what it asks for", f"trace {path}")
    trace_command.trace(path)
    model, gpu = "llama3.1-8b", "h200"
    options = f"--model {model} --gpu {gpu}"
    _stage("Your traffic: the memory it needs", f"calc --trace {path} {options}")
    calc.calc(trace=path, model=model, gpu=gpu)
    _stage("Your traffic: its first 1,000 requests, served", f"sim --trace {path} {options} --requests 1000")
    sim.sim(trace=path, requests=1000, model=model, gpu=gpu)


def _stage(title: str, command: str) -> None:
    console().rule(title, style="bold", align="left")
    say(f"$ pagefault {command}")
    say()
