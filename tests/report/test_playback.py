"""Thinning keeps what it promises, and what the page reads is what the log says."""

from __future__ import annotations

import base64
import json
import zlib
from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagefault.report.colours import PALETTE, choose_colours
from pagefault.report.events import Header, Line, RunLog
from pagefault.report.player import player_section
from pagefault.report.pool_playback import FIRST_GROUP, NAMED_SHARERS, Nobody, Track, playback
from pagefault.report.replay import NOBODY, Kind, Mentions, PoolState, Replay
from pagefault.report.thinning import Cells, instants
from report.truth import classic, conversations, served

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def shared_run(tmp_path_factory: pytest.TempPathFactory) -> RunLog:
    """Prefix hits, shared and cached frames, swapping: all kinds of frames."""
    path = tmp_path_factory.mktemp("log") / "events.jsonl"
    return served(
        path,
        conversations(60, 3),
        host_blocks=12,
        preempt="swap",
        max_num_batched_tokens=256,
        max_num_seqs=12,
        watermark=0.0,
    )[0]


# --- instants ---------------------------------------------------------------------------------------

steps = st.lists(st.integers(1, 10**9), min_size=1, max_size=300).map(lambda gaps: np.cumsum(gaps))


@given(steps, st.sets(st.integers(0, 299)), st.integers(2, 60))
def test_instants_are_few_and_have_both_ends(times: Any, preferred: set[int], most: int) -> None:
    wanted = np.array(sorted(step for step in preferred if step < times.size), np.int64)
    shown = instants(times, wanted, most)
    assert shown.size == min(most, times.size)
    assert (np.diff(shown) > 0).all()
    assert (shown[0], shown[-1]) == (0, times.size - 1)
    if wanted.size <= most // 2 - 2:
        assert np.isin(wanted, shown).all()


def test_a_pause_in_a_run_takes_no_places() -> None:
    times = np.r_[np.arange(1, 1001), 10**6 + np.arange(1000)]
    shown = instants(times, np.empty(0, np.int64), 100)
    assert shown.size == 100
    assert 30 < (shown < 1000).sum() < 70


# --- cells ------------------------------------------------------------------------------------------


def pool_of(kinds: list[int], rows: list[int]) -> PoolState:
    nothing = np.zeros(len(kinds), np.int32)
    entries = Mentions(*(np.empty(0, np.int64) for _ in range(3)))
    with_row = np.array([row if kind in (2, 3, 4) else NOBODY for kind, row in zip(kinds, rows, strict=True)])
    return PoolState(np.array(kinds, np.uint8), with_row.astype(np.int32), nothing, nothing, entries)


@given(st.lists(st.tuples(st.sampled_from(list(Kind)), st.integers(0, 3)), min_size=1), st.integers(1, 40))
def test_a_cell_shows_what_most_of_its_frames_are(frames: list[tuple[int, int]], most: int) -> None:
    pool = pool_of([int(kind) for kind, _ in frames], [row for _, row in frames])
    cells = Cells(len(frames), most)
    shown = cells.representatives(pool)
    assert cells.count <= most
    assert shown.size == cells.count
    sorts = [
        (kind, NOBODY if kind == Kind.SHARED else row)
        for kind, row in zip(pool.kind.tolist(), pool.row.tolist(), strict=True)
    ]
    for cell, frame in enumerate(shown.tolist()):
        inside = range(cell * cells.per, min((cell + 1) * cells.per, len(frames)))
        counted = Counter(sorts[at] for at in inside)
        most_frequent = {sort for sort, times in counted.items() if times == max(counted.values())}
        assert frame == next(at for at in inside if sorts[at] in most_frequent)


def test_a_pool_of_sixty_thousand_frames_becomes_four_thousand_cells() -> None:
    cells = Cells(60_000, 4096)
    assert (cells.per, cells.count) == (15, 4000)


# --- what the page reads ----------------------------------------------------------------------------


def unpack(track: dict[str, Any]) -> dict[str, Any]:
    """The columns, read as the player's script reads them."""
    numbers = np.frombuffer(zlib.decompress(base64.b64decode(track["data"])), "<i4")
    columns, at = {}, 0
    for name in track["columns"]:
        width = track["cells"] if name in ("owner", "page") else track["rows"]
        size = track["instants"] * width
        columns[name] = np.cumsum(numbers[at : at + size].reshape(-1, width), 0, np.int32)
        at += size
    assert at == numbers.size
    return columns


def test_every_instant_is_what_the_replay_says(shared_run: RunLog) -> None:
    track = playback([shared_run], most_instants=150).as_json()["runs"][0]
    columns = unpack(track)
    shown = {number: index for index, number in enumerate(track["numbers"])}
    assert len(shown) == 150
    replay, seen = Replay(shared_run), set()
    while replay.advance():
        assert replay.step is not None
        index = shown.get(replay.step.n)
        if index is None:
            continue
        pool = replay.pool()
        stored = 0
        for frame, owner in enumerate(columns["owner"][index].tolist()):
            kind = Kind(int(pool.kind[frame]))
            seen.add(kind)
            sharers = sorted(replay.sequences[pool.entries.rows[pool.entries.frames == frame]].tolist())
            if kind in (Kind.HELD, Kind.RESERVED):
                assert [owner] == sharers
            elif kind == Kind.SHARED:
                assert track["groups"][FIRST_GROUP - owner] == [len(sharers), *sharers[:NAMED_SHARERS]]
            else:
                assert owner == {
                    Kind.FREE: Nobody.FREE, Kind.CACHED: Nobody.CACHED, Kind.LEAVING: Nobody.LEAVING
                }[kind]  # fmt: skip
            if sharers:
                page = int(columns["page"][index][frame])
                stored += min(16, max(0, int(replay.lengths[pool.row[frame]]) - 16 * page))
        assert stored == track["stored"][index]
        assert columns["sequence"][index].tolist() == replay.sequences.tolist()
        assert columns["doing"][index].tolist() == replay.doing().tolist()
        assert (track["waiting"][index], track["free"][index]) == (replay.step.waiting, replay.step.free)
    assert {Kind[name.upper()] for name in track["kinds"]} == seen
    assert {Kind.SHARED, Kind.CACHED, Kind.LEAVING} <= seen


def test_steps_with_preemptions_are_preferred_and_all_frames_given_are_counted(shared_run: RunLog) -> None:
    track = playback([shared_run], most_instants=400).tracks[0]
    preempted = [line for line in shared_run.lines if line.e == "preempted"]
    assert track.preemptions == preempted
    ends = np.array([line.t for line in shared_run.steps()])
    for line in preempted:
        assert ends[ends > line.t][0] in track.times
    replay, given_pages = Replay(shared_run), 0
    while replay.advance():
        given_pages += replay.given
    assert track.given.sum() == given_pages


def test_what_was_left_out_is_said(shared_run: RunLog) -> None:
    assert playback([shared_run], most_instants=10**6).thinned == ""
    said = playback([shared_run], most_instants=50, most_cells=10).thinned
    assert said.startswith("Thinned for drawing: 50 of ")
    assert "cells of 4 frames that show what most of them are" in said


def test_a_page_states_it_and_its_data_cannot_end_the_script(shared_run: RunLog) -> None:
    header = Header({"run": "</script><b>"}, 40, 16, {})
    section = player_section([RunLog(header, shared_run.lines, True), shared_run])
    assert section.count("</script>") == 1
    assert "<b>" not in section
    assert "Thinned for drawing: &lt;/script&gt;" in section
    data = section.split('class="pool-data">')[1].split("</script>")[0]
    assert [run["name"] for run in json.loads(data)["runs"]] == ["</script><b>", "served"]


def test_a_log_without_steps_has_no_section() -> None:
    assert player_section([RunLog(Header({"run": "none"}, 4, 16, {}), [Line(0, "queued", id=1)])]) == ""
    assert player_section([]) == ""


def test_one_step_and_one_frame() -> None:
    lines = [Line(0, "admitted", id=9, row=0), Line(5, "step", n=1, tables=[[0, 0, 0]], lengths=[[0, 3]])]
    track = playback([RunLog(Header({"run": "tiny"}, 1, 16, {}), lines)]).as_json()["runs"][0]
    columns = unpack(track)
    assert (columns["owner"].tolist(), columns["tokens"].tolist()) == ([[9]], [[3]])


def test_a_large_thinned_run_is_a_few_hundred_kilobytes() -> None:
    """60,000 frames, 700 steps, everything replaced again and again."""
    lines = [Line(0, "admitted", id=0, row=0)]
    for step in range(700):
        start = 600 * step % 60_000
        lines.append(
            Line(
                step + 1,
                "step",
                n=step,
                tables=[[0, start, *range(start, start + 600)]],
                lengths=[[0, 16 * (step + 1)]],
            )
        )
    played = playback([RunLog(Header({"run": "large"}, 60_000, 16, {}), lines)])
    assert played.tracks[0].shown.size == 600
    assert len(json.dumps(played.as_json())) < 500_000


# --- colours ----------------------------------------------------------------------------------------


def test_neighbours_of_the_naive_cache_have_other_colours_and_a_sequence_has_one(tmp_path: Path) -> None:
    setup: dict[str, Any] = {"jobs": 24, "workers": 24, "pool_blocks": 1024, "seed": 7}
    tracks: list[Track] = playback(
        [
            classic(tmp_path / "naive.jsonl", admission="naive", **setup)[0],
            classic(tmp_path / "paged.jsonl", watermark=0.1, **setup)[0],
        ]
    ).tracks
    colours = choose_colours(track.columns["owner"] for track in tracks)
    assert set(colours) == set(range(24))
    owner = tracks[0].columns["owner"]
    for one, other in ((owner[:, :-1], owner[:, 1:]), (owner[:, :-32], owner[:, 32:])):
        apart = (one >= 0) & (other >= 0) & (one != other)
        assert apart.any()
        for a, b in {*zip(one[apart].tolist(), other[apart].tolist(), strict=True)}:
            assert colours[a] != colours[b]


@settings(max_examples=30)
@given(st.integers(1, 200), st.integers(0, 40))
def test_every_sequence_has_a_colour(cells: int, sequences: int) -> None:
    owner = np.random.default_rng(cells).integers(-3, sequences + 1, (5, cells)).astype(np.int32)
    colours = choose_colours([owner])
    assert set(colours) == set(np.unique(owner[owner >= 0]).tolist())
    assert set(colours.values()) <= set(range(len(PALETTE)))


# Machado, Oliveira and Fernandes 2009, severity 1, for linear RGB; then Ottosson's OKLab.
SIGHT = {
    "normal": np.eye(3),
    "no red cones": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "no green cones": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "no blue cones": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
TO_CONES = [
    [0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
]
TO_LAB = [
    [0.2104542553, 0.7936177850, -0.0040720468],
    [1.9779984951, -2.4285922050, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.8086757660],
]


@pytest.mark.parametrize("sight", SIGHT)
def test_the_palette_can_be_told_apart(sight: str) -> None:
    """No two colours are closer than the closest two of Okabe and Ito's palette, 0.076."""
    values = np.array([[int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)] for colour in PALETTE])
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    seen = (linear @ np.array(SIGHT[sight]).T).clip(0, 1)
    lab = np.cbrt(seen @ np.array(TO_CONES).T) @ np.array(TO_LAB).T
    assert min(float(np.linalg.norm(a - b)) for a, b in combinations(lab, 2)) > 0.07
