"""`pagefault sim --live`: what is drawn, and when; and the command in a terminal."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from io import StringIO
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from pagefault.cli import console, sim
from pagefault.cli.sim_live import POOL_ROWS, LiveView, live_views
from pagefault.errors import InputError
from pagefault.sim import ClassicSetup, run_classic

SETUP = ClassicSetup(jobs=40, workers=30, pool_blocks=384, watermark=0.0, seed=7)
LINES = POOL_ROWS + 4


class Clock:
    """Goes on by a fixed time whenever somebody looks."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.now = seconds, 0.0

    def __call__(self) -> float:
        self.now += self.seconds
        return self.now


def pictures(setup: ClassicSetup, seconds: float) -> list[str]:
    drawn: list[str] = []
    view = LiveView(lambda text: drawn.append(text.plain), "paged 0%", setup.jobs, Clock(seconds))
    run_classic(setup, observers=[view])
    return drawn


def test_every_picture_is_as_tall_as_the_first_and_fits_80_columns() -> None:
    drawn = pictures(SETUP, 1.0)
    assert len(drawn) > 100
    assert {picture.count("\n") for picture in drawn} == {LINES}
    assert max(len(line) for picture in drawn for line in picture.splitlines()) <= 80


def test_it_says_what_the_run_does() -> None:
    drawn = pictures(SETUP, 1.0)
    assert "paged 0%" in drawn[0]
    assert "0 of 40 ended" in drawn[0]
    ended = [int(re.search(r"(\d+) of 40 ended", picture)[1]) for picture in drawn]  # type: ignore[index]
    assert ended == sorted(ended)
    assert ended[-1] > 35
    assert any(re.search(r"stalled +[1-9]", picture) for picture in drawn)
    outcome, _ = run_classic(SETUP)
    assert f"preempted {outcome.preemptions}" in drawn[-1]
    full = next(picture for picture in drawn if "100.0% used" in picture)
    assert full.count("█") > 350  # a cell a frame


def test_cached_frames_are_told_from_free_and_used_ones() -> None:
    from pagefault.scheduling import SchedulerConfig
    from pagefault.sim import ConstantCost, ServingSetup, serve
    from report.truth import conversations

    drawn: list[str] = []
    view = LiveView(lambda text: drawn.append(text.plain), "served", 40, Clock(1.0))
    config = SchedulerConfig(max_model_len=640)
    setup = ServingSetup(config=config, pool_blocks=40, make_cost=lambda: ConstantCost(1_000_000))
    serve(conversations(40, 1), setup, observers=[view])
    pools = ["".join(picture.splitlines()[1 : 1 + POOL_ROWS]) for picture in drawn]
    assert {len(pool) for pool in pools} == {40}
    assert set("".join(pools)) == {"·", "c", "█"}


def test_a_fast_run_is_drawn_ten_times_a_second_at_most() -> None:
    assert len(pictures(SETUP, 0.001)) < len(pictures(SETUP, 1.0)) / 50


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}])
def test_it_is_drawn_in_place_and_gone_at_the_end(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stream = StringIO()
    on = Console(file=stream, force_terminal=True, width=80, highlight=False)
    with live_views({"live": True}, on) as views:
        run_classic(SETUP, observers=views("paged 0%", SETUP.jobs))
    shown = stream.getvalue()
    assert "paged 0%" in shown
    assert "\x1b[2K" in shown  # lines are erased
    assert ("\x1b[36m" in shown) == (not environment)


def test_nothing_is_made_without_the_option() -> None:
    with live_views({}) as views:
        assert views("paged 0%", 1) == []


def typed(*arguments: str) -> Any:
    app = typer.Typer()
    app.command()(sim.sim)
    console.console.cache_clear()
    return CliRunner().invoke(app, arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("--live",), "draws in a terminal"), (("--live", "--json"), "give one of them")],
)
def test_where_it_cannot_be_drawn_nothing_runs(arguments: tuple[str, ...], message: str) -> None:
    result = typed("--jobs", "5", *arguments)
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)
    assert result.stdout == ""


def test_the_command_in_a_terminal() -> None:
    pty = pytest.importorskip("pty", reason="there are no pseudo-terminals here")
    here, there = pty.openpty()
    command = [sys.executable, "-m", "pagefault", "sim", "--jobs", "30", "--workers", "12", "--live"]
    environment = {**os.environ, "COLUMNS": "80", "LINES": "40", "TERM": "xterm"}
    with subprocess.Popen(command, stdout=there, stderr=there, env=environment) as process:
        os.close(there)
        shown = b""
        while True:
            try:
                part = os.read(here, 65536)
            except OSError:  # how Linux says that the other end is closed
                break
            if not part:
                break
            shown += part
    os.close(here)
    text = shown.decode()
    assert process.returncode == 0, text
    assert "of 30 ended" in text
    assert "× naive" in text.rsplit("\x1b[2K", 1)[1]  # the table, after the view has gone
