"""The timeline for Perfetto: valid, without gaps, and what each sequence really did in each step."""

from __future__ import annotations

import itertools
import json
from bisect import bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from pagefault.report import write_chrome_trace
from report.truth import CASES, classic

if TYPE_CHECKING:
    from pathlib import Path

    from pagefault.report.events import RunLog
    from report.truth import Watcher

STEP_NS = 1_000_000


def traced(*runs: RunLog) -> list[dict[str, Any]]:
    parts: list[str] = []
    write_chrome_trace(runs, parts.append)
    events: list[dict[str, Any]] = json.loads("".join(parts))["traceEvents"]
    return events


def slices_of(events: list[dict[str, Any]]) -> dict[int, list[tuple[int, int, str]]]:
    tracks: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            start = round(event["ts"] * 1000)
            tracks[event["tid"]].append((start, start + round(event["dur"] * 1000), event["name"]))
    return tracks


@pytest.fixture(params=CASES, scope="module")
def played(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[RunLog, Watcher]:
    return CASES[request.param](tmp_path_factory.mktemp("trace") / "events.jsonl")


def test_a_track_has_no_gap_from_the_queue_to_the_end(played: tuple[RunLog, Watcher]) -> None:
    run, _ = played
    tracks = slices_of(traced(run))
    lives = {line.id: [line.t, 0] for line in run.lines if line.e == "queued"}
    for line in run.lines:
        if line.e == "finished":
            lives[line.id][1] = line.t
    assert tracks.keys() == lives.keys()
    for sequence, slices in tracks.items():
        assert [slices[0][0], slices[-1][1]] == lives[sequence]
        assert all(one[1] == other[0] for one, other in itertools.pairwise(slices))
        assert all(one[2] != other[2] for one, other in itertools.pairwise(slices))


def test_slices_say_what_each_sequence_did_in_each_step(played: tuple[RunLog, Watcher]) -> None:
    run, watcher = played
    tracks = slices_of(traced(run))
    starts = {sequence: [one[0] for one in slices] for sequence, slices in tracks.items()}

    def doing(sequence: int, time_ns: int) -> str:
        return tracks[sequence][bisect_right(starts[sequence], time_ns) - 1][2]

    seen = set()
    for line, truth in zip(run.steps(), watcher.steps, strict=True):
        middle = line.t - STEP_NS // 2
        for row, sequence in truth.running.items():
            right = "decode" if row in truth.decoding else "prefill" if row in truth.prefilling else "idle"
            right = "stalled" if row in truth.stalled else right
            assert doing(sequence, middle) == right, (line.n, row)
            seen.add(right)
    assert "decode" in seen


def test_counters_are_those_of_the_log(played: tuple[RunLog, Watcher]) -> None:
    run, _ = played
    counted: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for event in traced(run):
        if event["ph"] == "C":
            ((name, value),) = event["args"].items()
            counted[name].append((round(event["ts"] * 1000), value))
    for name, changes in counted.items():
        times = [time for time, _ in changes]
        assert times == sorted(times)
        assert all(one[1] != other[1] for one, other in itertools.pairwise(changes))
        for line in run.steps():
            value = changes[bisect_right(times, line.t - STEP_NS // 2) - 1][1]
            assert value == getattr(line, name), (name, line.n)


def test_preemptions_are_instants_with_an_arrow_to_who_they_were_for(tmp_path: Path) -> None:
    run, _ = CASES["prefix hits, recompute"](tmp_path / "events.jsonl")
    events = traced(run)
    instants = [event for event in events if event["ph"] == "i"]
    told = [
        (event["tid"], event["args"]["for"], event["args"]["frames"], event["args"]["lost tokens"])
        for event in instants
    ]
    logged = [
        (line.id, line.beneficiary, line.frames, line.lost) for line in run.lines if line.e == "preempted"
    ]
    assert told == logged
    assert logged
    begins = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert begins.keys() == ends.keys()
    assert {(begins[key]["tid"], ends[key]["tid"]) for key in begins} <= {pair[:2] for pair in told}


def test_runs_are_processes_and_sequences_are_named(tmp_path: Path) -> None:
    run, _ = classic(tmp_path / "events.jsonl", jobs=3, workers=2, pool_blocks=256)
    events = traced(run, run)
    names = [(event["pid"], event["args"]["name"]) for event in events if event["name"] == "process_name"]
    assert names == [(1, "watermark"), (2, "watermark")]
    tracks = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert tracks == {"sequence 0", "sequence 1", "sequence 2"}


def test_an_interrupted_run_ends_where_its_log_does(tmp_path: Path) -> None:
    run, _ = classic(tmp_path / "events.jsonl", jobs=20, workers=10, pool_blocks=300)
    run.lines = run.lines[: len(run.lines) // 2]
    assert max(stop for slices in slices_of(traced(run)).values() for _, stop, _ in slices) == run.end_ns
