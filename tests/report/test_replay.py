"""What a log is replayed to is what the pager had, at every step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pagefault.errors import InputError
from pagefault.paging.frame_pool import CACHED, FREE, IN_FLIGHT, USED
from pagefault.report.events import Header, Line, RunLog
from pagefault.report.replay import NO_FRAME, Doing, Kind, Replay
from report.truth import CASES, Truth, Watcher


@pytest.fixture(scope="module", params=CASES)
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    name: str = request.param
    return name, *CASES[name](tmp_path_factory.mktemp("log") / "events.jsonl")


def check_tables(replay: Replay, truth: Truth) -> None:
    for row in range(len(truth.lengths)):
        expected = truth.table[row]
        if row >= replay.rows:
            assert (expected == NO_FRAME).all()
            continue
        found = replay.table(row)
        assert np.array_equal(found[: expected.size], expected[: found.size])
        assert (found[expected.size :] == NO_FRAME).all()
        assert (expected[found.size :] == NO_FRAME).all()
        assert replay.lengths[row] == truth.lengths[row]


def check_frames(replay: Replay, truth: Truth) -> None:
    pool = replay.pool()
    assert np.array_equal(pool.tables, truth.refs)
    assert np.array_equal(pool.kind == Kind.FREE, truth.state == FREE)
    assert np.array_equal(pool.kind == Kind.CACHED, truth.state == CACHED)
    assert np.array_equal(pool.kind == Kind.LEAVING, truth.state == IN_FLIGHT)
    assert np.array_equal(pool.kind == Kind.SHARED, truth.refs > 1)
    held = np.flatnonzero(truth.state == USED)
    assert np.array_equal(truth.table[pool.row[held], pool.page[held]], held)
    reserved = pool.page[held] * replay.block_size >= truth.lengths[pool.row[held]]
    assert np.array_equal(pool.kind[held] == Kind.RESERVED, reserved & (truth.refs[held] == 1))


def check_sequences(replay: Replay, truth: Truth) -> None:
    assert {row: int(replay.sequences[row]) for row in replay.running.tolist()} == truth.running
    assert np.flatnonzero(replay.doing() == Doing.DECODE).tolist() == truth.decoding
    assert np.flatnonzero(replay.doing() == Doing.PREFILL).tolist() == truth.prefilling
    stalled = np.flatnonzero(replay.doing() == Doing.STALLED).tolist()
    assert set(truth.stalled) <= set(stalled)


def test_every_step_is_the_truth(played: tuple[str, RunLog, Watcher]) -> None:
    _, run, watcher = played
    replay, faults = Replay(run), 0
    for truth in watcher.steps:
        assert replay.advance()
        assert replay.step is not None
        check_tables(replay, truth)
        check_frames(replay, truth)
        check_sequences(replay, truth)
        assert len(truth.running) == replay.step.running
        assert int((truth.state == FREE).sum() + (truth.state == CACHED).sum()) == replay.step.free
        faults += replay.given
        assert faults == truth.faults
    assert not replay.advance()


def test_the_cases_are_what_they_are_called(played: tuple[str, RunLog, Watcher]) -> None:
    """Each case meets what it is there for; otherwise the test above shows nothing."""
    name, run, watcher = played
    events = list(run.sequence_events())
    rows = [line.row for line in events if line.e in ("admitted", "resumed")]
    assert len(rows) > len(set(rows)), "rows are reused"
    hows = {line.how for line in events if line.e == "preempted"}
    assert hows == {
        "classic naive": set(),
        "classic paged, restarts": {"restart"},
        "prefix hits, recompute": {"recompute"},
        "prefix hits, swap": {"recompute", "swap"},
        "waiting first, oldest is the victim": {"recompute"},
        "reserved up to the longest output": set(),
    }.get(name)
    if "prefix" in name:
        assert any(line.hit for line in events if line.e == "admitted")
        assert any((truth.refs > 1).any() for truth in watcher.steps), "frames are shared"
        assert any((truth.state == CACHED).any() for truth in watcher.steps)
    if "swap" in name:
        assert any((truth.state == IN_FLIGHT).any() for truth in watcher.steps)


def made(*lines: Line, blocks: int = 4) -> RunLog:
    return RunLog(Header({"run": "made"}, blocks, 16, {}), list(lines))


def test_a_run_without_steps() -> None:
    replay = Replay(made())
    assert not replay.advance()
    pool = replay.pool()
    assert (pool.kind == Kind.FREE).all()
    assert replay.rows == 0


def test_a_pool_of_one_frame() -> None:
    replay = Replay(
        made(
            Line(0, "admitted", id=5, row=0),
            Line(9, "step", n=1, tables=[[0, 0, 0]], lengths=[[0, 3]]),
            Line(9, "finished", id=5),
            Line(12, "step", n=2, tables=[[0, 0, -1]], lengths=[[0, 0]]),
            blocks=1,
        )
    )
    assert replay.advance()
    assert (replay.pool().kind.tolist(), replay.sequences.tolist()) == ([Kind.HELD], [5])
    assert replay.advance()
    assert (replay.pool().kind.tolist(), replay.sequences.tolist()) == ([Kind.FREE], [-1])


@pytest.mark.parametrize(
    "line",
    [
        Line(9, "step", n=1, tables=[[7, 0, 0]]),
        Line(9, "step", n=1, lengths=[[7, 1]]),
        Line(9, "step", n=1, lengths=[[7]]),
        Line(9, "step", n=1, tables=[[0]]),
        Line(9, "step", n=1, tables=[[0, 0, 4]]),
        Line(9, "step", n=1, tables=[[0, -1, 3]]),
        Line(9, "step", n=1, tables=[[-1, 0, 3]]),
        Line(9, "step", n=1, on=[3]),
        Line(9, "step", n=1, cached=[400]),
        Line(9, "step", n=1, cached=[-2]),
        Line(9, "preempted", id=77, how="swap"),
        Line(9, "admitted", id=77),
    ],
)
def test_a_line_that_cannot_be_is_named(line: Line) -> None:
    replay = Replay(made(Line(0, "admitted", id=5, row=0), line))
    with pytest.raises(InputError, match=r"line at t = 9 of run 'made'.*the log is broken"):
        replay.advance()
