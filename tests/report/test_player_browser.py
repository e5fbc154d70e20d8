"""The player in a real browser: what it shows is what the log says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pagefault.report.colours import PALETTE
from pagefault.report.pool_playback import playback
from pagefault.report.replay import Kind, Replay
from report.browser import DESKTOP, PHONE, chromium, fits_its_width, opened
from report.minimal_page import write_page
from report.truth import classic, conversations, served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pagefault.report.events import RunLog

__all__ = ["chromium"]

SMALL: dict[str, Any] = {"jobs": 24, "workers": 16, "pool_blocks": 384, "seed": 7}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[RunLog]:
    """Naive, a run between, and paged with restarts, on the same jobs."""
    folder = tmp_path_factory.mktemp("logs")
    return [
        classic(folder / "naive.jsonl", admission="naive", **SMALL)[0],
        classic(folder / "between.jsonl", watermark=0.3, **SMALL)[0],
        classic(folder / "paged.jsonl", watermark=0.0, **SMALL)[0],
    ]


@pytest.fixture(scope="module")
def file(runs: list[RunLog], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(tmp_path_factory.mktemp("page") / "pool.html", runs)


@pytest.fixture
def page(chromium: Any, file: Path) -> Iterator[Any]:
    with opened(chromium, file) as page:
        ready(page)
        yield page


def ready(page: Any, panes: int = 2) -> None:
    page.wait_for_function(f"document.querySelectorAll('.pool-pane[data-instant]').length === {panes}")


def move(page: Any, time: int) -> None:
    """As a person's drag does it."""
    page.eval_on_selector(
        ".pool-slider",
        "(slider, time) => { slider.value = time; slider.dispatchEvent(new Event('input', {bubbles: true})); }",
        time,
    )


def replayed(run: RunLog, number: int) -> Replay:
    """The run at the step of that number."""
    replay = Replay(run)
    while replay.advance():
        if replay.step is not None and replay.step.n == number:
            return replay
    raise AssertionError(f"no step {number}")


def pane(page: Any, index: int) -> Any:
    return page.locator(".pool-pane").nth(index)


def step_of(page: Any, index: int) -> int:
    return int(pane(page, index).get_attribute("data-step"))


def at_cell(page: Any, index: int, cell: int, cells: int = 384) -> dict[str, float]:
    """Where the middle of a cell is on the canvas, CSS pixels."""
    box = pane(page, index).locator(".pool-canvas").bounding_box()
    across = page.evaluate(f"document.querySelector('#pool').player.panes[{index}].track.across")
    lines = -(-cells // across)
    return {
        "x": (cell % across + 0.5) * box["width"] / across,
        "y": (cell // across + 0.5) * box["height"] / lines,
    }


def said_about(page: Any, index: int, cell: int) -> str:
    pane(page, index).locator(".pool-canvas").hover(position=at_cell(page, index, cell))
    text: str = pane(page, index).locator(".pool-says").inner_text()
    return text


def expected(replay: Replay, frame: int) -> str:
    pool = replay.pool()
    if pool.kind[frame] == Kind.FREE:
        return f"Frame {frame}: free"
    row, page = int(pool.row[frame]), int(pool.page[frame])
    stored = min(16, max(0, int(replay.lengths[row]) - 16 * page))
    filled = f"{stored} of 16 stored" if stored else "reserved, no token yet"
    tokens = f"tokens {16 * page:,} to {16 * page + 15:,}"
    return f"Frame {frame}: sequence {replay.sequences[row]}, page {page}, {tokens}, {filled}"


PIXEL = """(canvas, at) => {
  const copy = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, -Math.floor(at.x * devicePixelRatio), -Math.floor(at.y * devicePixelRatio));
  return [...copy.getImageData(0, 0, 1, 1).data];
}"""

FRAMES = [0, 1, 130, 255, 300, 383]


def test_the_slider_moves_both_pools_to_the_same_time(page: Any, runs: list[RunLog]) -> None:
    tracks = playback(runs).tracks
    first, last = (tracks[index].times for index in (0, 2))
    for time in (int(last[40]), int(first[300]), int(last[-1])):
        move(page, time)
        for index, track in ((0, tracks[0]), (1, tracks[2])):
            instant = int((track.times <= time).sum()) - 1
            assert step_of(page, index) == track.numbers[instant]


def test_a_cell_has_its_sequences_colour(page: Any, runs: list[RunLog]) -> None:
    data = playback(runs).as_json()
    colours = dict(zip(data["sequences"], data["colours"], strict=True))
    seen = set()
    for time in (runs[2].end_ns // 5, runs[2].end_ns // 2):
        move(page, time)
        for index, run in ((0, runs[0]), (1, runs[2])):
            replay = replayed(run, step_of(page, index))
            pool = replay.pool()
            for frame in FRAMES:
                pixel = pane(page, index).locator(".pool-canvas").evaluate(PIXEL, at_cell(page, index, frame))
                shown = "#" + "".join(f"{value:02x}" for value in pixel[:3])
                kind = Kind(int(pool.kind[frame]))
                full = (pool.page[frame] + 1) * 16 <= replay.lengths[pool.row[frame]]
                if kind == Kind.HELD and full:
                    assert (shown, pixel[3]) == (
                        PALETTE[colours[int(replay.sequences[pool.row[frame]])]],
                        255,
                    )
                    seen.add(shown)
                elif kind == Kind.FREE:
                    assert pixel[3] == 0
                elif kind == Kind.RESERVED:
                    assert 0 < pixel[3] < 128
    assert len(seen) > 3


def test_hovering_names_the_owner_in_both_pools(page: Any, runs: list[RunLog]) -> None:
    kinds = set()
    for time in (runs[2].end_ns // 9, runs[2].end_ns // 2, runs[2].end_ns):
        move(page, time)
        for index, run in ((0, runs[0]), (1, runs[2])):
            replay = replayed(run, step_of(page, index))
            for frame in FRAMES:
                assert said_about(page, index, frame) == expected(replay, frame)
                kinds.add(Kind(int(replay.pool().kind[frame])))
    assert kinds == {Kind.FREE, Kind.HELD, Kind.RESERVED}


def test_hovering_lights_up_the_sequence_in_both_runs_and_leaving_ends_it(
    page: Any, runs: list[RunLog]
) -> None:
    move(page, runs[2].end_ns // 9)
    replay = replayed(runs[0], step_of(page, 0))
    sequence = int(replay.sequences[replay.pool().row[0]])
    said_about(page, 0, 0)
    assert page.locator("#pool").get_attribute("data-chosen") == str(sequence)
    marked = page.locator(".pool-mine")
    assert {row.get_attribute("data-id") for row in marked.all()} == {str(sequence)}
    for row in marked.all():
        assert row.evaluate("row => row.offsetTop - row.closest('.pool-list').scrollTop") >= 0
    page.mouse.move(5, 5)
    assert page.locator("#pool").get_attribute("data-chosen") == ""
    assert marked.count() == 0


def test_a_tap_names_the_owner_too(chromium: Any, file: Path, runs: list[RunLog]) -> None:
    with opened(chromium, file, PHONE, has_touch=True) as page:
        ready(page)
        move(page, runs[2].end_ns // 9)
        pane(page, 0).locator(".pool-canvas").tap(position=at_cell(page, 0, 130))
        replay = replayed(runs[0], step_of(page, 0))
        assert pane(page, 0).locator(".pool-says").inner_text() == expected(replay, 130)


def test_the_list_is_who_runs(page: Any, runs: list[RunLog]) -> None:
    move(page, runs[2].end_ns // 2)
    replay = replayed(runs[2], step_of(page, 1))
    pages = [int((replay.table(row) >= 0).sum()) for row in range(replay.rows)]
    names = ["", "prefill", "decode", "stalled"]
    wanted = sorted(
        (int(replay.sequences[row]), int(replay.lengths[row]), pages[row], names[replay.doing()[row]])
        for row in replay.running.tolist()
    )
    shown = [row.locator("td").all_inner_texts() for row in pane(page, 1).locator("tbody tr").all()]
    assert shown == [[str(one), f"{tokens:,}", f"{held:,}", does] for one, tokens, held, does in wanted]
    assert replay.step is not None
    facts = pane(page, 1).locator(".pool-facts").inner_text().split("\n")
    assert facts[facts.index("queue") + 1] == str(replay.step.waiting)


def test_the_keyboard_plays_steps_and_goes_to_the_ends(page: Any, runs: list[RunLog]) -> None:
    tracks = playback(runs).tracks
    times = sorted({*tracks[0].times.tolist(), *tracks[2].times.tolist()})
    slider = page.locator(".pool-slider")
    slider.focus()

    def now() -> float:
        return float(page.locator("#pool").get_attribute("data-time"))

    slider.press("End")
    assert now() == times[-1]
    slider.press("ArrowLeft")
    assert now() == times[-2]
    slider.press("Home")
    assert now() == times[0]
    slider.press("ArrowRight")
    slider.press("ArrowRight")
    assert now() == times[2]
    assert slider.get_attribute("aria-valuetext") == page.locator(".pool-time").inner_text()
    slider.press(" ")
    play = page.locator("[data-do=play]")
    assert play.inner_text() == "Pause"
    page.wait_for_function(f"Number(document.querySelector('#pool').dataset.time) > {times[6]}")
    slider.press(" ")
    stopped = now()
    assert play.inner_text() == "Play"
    page.wait_for_timeout(120)
    assert now() == stopped


def test_the_buttons_work_and_playing_ends_at_the_end(page: Any, runs: list[RunLog]) -> None:
    end = max(runs[0].end_ns, runs[2].end_ns)
    tracks = playback(runs).tracks
    page.click("[data-do=on]")
    after_one = float(page.locator("#pool").get_attribute("data-time"))
    assert after_one in {*tracks[0].times.tolist(), *tracks[2].times.tolist()}
    page.click("[data-do=on]")
    page.click("[data-do=back]")
    assert float(page.locator("#pool").get_attribute("data-time")) == after_one
    move(page, int(end * 0.995))
    page.select_option("[data-do=speed]", "4")
    page.click("[data-do=play]")
    page.wait_for_function(f"Number(document.querySelector('#pool').dataset.time) === {end}")
    page.wait_for_function("document.querySelector('[data-do=play]').textContent === 'Play'")


def test_a_cursor_of_the_keyboard_names_owners_too(page: Any, runs: list[RunLog]) -> None:
    move(page, runs[2].end_ns // 2)
    replay = replayed(runs[2], step_of(page, 1))
    canvas, says = pane(page, 1).locator(".pool-canvas"), pane(page, 1).locator(".pool-says")
    page.locator(".pool-slider").focus()
    canvas.focus()
    canvas.press("Home")
    assert says.inner_text() == expected(replay, 0)
    across = page.evaluate("document.querySelector('#pool').player.panes[1].track.across")
    for key, frame in (
        ("ArrowRight", 1),
        ("ArrowDown", 1 + across),
        ("ArrowUp", 1),
        ("ArrowUp", 1),
        ("End", 383),
    ):
        canvas.press(key)
        assert says.inner_text() == expected(replay, frame)
    assert pane(page, 1).locator(".pool-cursor").is_visible()
    canvas.press("Escape")
    assert "Point at a frame" in says.inner_text()


def test_the_pool_is_described_and_the_description_keeps_up(page: Any, runs: list[RunLog]) -> None:
    described = []
    for time in (0, runs[2].end_ns // 2):
        move(page, time)
        replay = replayed(runs[0], step_of(page, 0))
        label = pane(page, 0).locator(".pool-canvas").get_attribute("aria-label")
        kinds = replay.pool().kind.tolist()
        assert label.startswith("Pool of naive at ")
        assert f"{kinds.count(Kind.HELD)} held" in label
        assert f"{kinds.count(Kind.RESERVED)} reserved" in label
        described.append(label)
    assert described[0] != described[1]


def test_a_preemption_is_named_and_shown(page: Any, runs: list[RunLog]) -> None:
    lost = [line for line in runs[2].lines if line.e == "preempted"]
    assert lost
    move(page, 0)
    page.click("[data-do=after]")
    said = page.locator(".pool-lane-says").inner_text()
    frames = f"{lost[0].frames} frame" + "s" * (lost[0].frames != 1)
    assert f"sequence {lost[0].id} gave up its own {frames}" in said
    assert "(restart, " in said
    assert not pane(page, 1).locator(f"tbody tr[data-id='{lost[0].id}']").count()
    span = float(page.locator(".pool-slider").get_attribute("max"))
    canvas = page.locator(".pool-lane canvas").nth(1)
    box = canvas.bounding_box()
    canvas.hover(position={"x": lost[-1].t / span * box["width"], "y": box["height"] - 4})
    assert f"sequence {lost[-1].id} " in page.locator(".pool-lane-says").inner_text()
    canvas.click(position={"x": box["width"] / 4, "y": 8})
    assert float(page.locator("#pool").get_attribute("data-time")) == pytest.approx(span / 4, rel=0.02)


def test_a_run_that_is_over_says_when_it_ended(page: Any, runs: list[RunLog]) -> None:
    ended = min((0, 2), key=lambda index: runs[index].end_ns)
    move(page, max(runs[0].end_ns, runs[2].end_ns))
    over = pane(page, 0 if ended == 0 else 1)
    assert "pool-over" in over.get_attribute("class")
    assert f"ended at {runs[ended].end_ns / 1e9:.4f} s" in over.locator(".pool-status").inner_text()


def test_another_run_can_be_chosen(page: Any, runs: list[RunLog]) -> None:
    assert [pane(page, index).get_attribute("data-run") for index in (0, 1)] == ["naive", "watermark"]
    pane(page, 0).locator("select").select_option("1")
    move(page, runs[1].end_ns // 2)
    page.wait_for_function("document.querySelector('.pool-pane').dataset.run === 'watermark'")
    ready(page)
    replay = replayed(runs[1], step_of(page, 0))
    assert said_about(page, 0, 200) == expected(replay, 200)


@pytest.mark.parametrize(("size", "dark"), [(DESKTOP, False), (DESKTOP, True), (PHONE, False), (PHONE, True)])
def test_it_fits_and_follows_the_theme(chromium: Any, file: Path, size: tuple[int, int], dark: bool) -> None:
    def corner(page: Any) -> str:
        text: str = page.evaluate(
            "document.querySelector('#pool').player.paint.line + getComputedStyle(document.body).backgroundColor"
        )
        return text

    with opened(chromium, file, size, dark) as page:
        ready(page)
        assert fits_its_width(page)
        before = corner(page)
        page.evaluate(f"document.documentElement.dataset.theme = '{'light' if dark else 'dark'}'")
        if not dark:
            page.wait_for_function("document.querySelector('#pool').player.paint.line === '#333c47'")
            assert corner(page) != before
        page.emulate_media(color_scheme="light" if dark else "dark")
        page.evaluate("delete document.documentElement.dataset.theme")
        line = "#d1d9e0" if dark else "#333c47"
        page.wait_for_function(f"document.querySelector('#pool').player.paint.line === '{line}'")
        page.set_viewport_size({"width": 700, "height": 800})
        page.wait_for_timeout(100)
        assert fits_its_width(page)


def test_reduced_motion_plays_in_still_pictures(chromium: Any, file: Path) -> None:
    with opened(chromium, file, reduced_motion="reduce") as page:
        ready(page)
        times = page.evaluate(
            """async () => {
              const seen = new Set(), pool = document.querySelector("#pool");
              pool.querySelector("[data-do=play]").click();
              const start = performance.now();
              while (performance.now() - start < 1300) {
                seen.add(pool.dataset.time);
                await new Promise(requestAnimationFrame);
              }
              return [...seen];
            }"""
        )
        assert 2 <= len(times) <= 4


def test_shared_cached_and_leaving_frames_are_told(chromium: Any, tmp_path: Path) -> None:
    run, _ = served(
        tmp_path / "events.jsonl",
        conversations(60, 3),
        host_blocks=12,
        preempt="swap",
        max_num_batched_tokens=256,
        max_num_seqs=12,
        watermark=0.0,
    )
    wanted = {Kind.SHARED: "shared by ", Kind.CACHED: ": cached: ", Kind.LEAVING: ": on its way to the host"}
    shown = playback([run]).tracks[0].numbers.tolist()
    with opened(chromium, write_page(tmp_path / "pool.html", [run])) as page:
        ready(page, panes=1)
        assert page.locator(".pool-pane select").is_hidden()
        assert {*page.locator(".pool-legend li").all_inner_texts()} >= {
            "shared by sequences", "cached for a later hit", "on its way to the host", "free"
        }  # fmt: skip
        replay = Replay(run)
        while wanted and replay.advance():
            pool = replay.pool()
            assert replay.step is not None
            if replay.step.n not in shown:
                continue
            for kind in set(wanted) & {Kind(kind) for kind in pool.kind.tolist()}:
                frame = int((pool.kind == kind).argmax())
                move(page, replay.step.t)
                pane(page, 0).locator(".pool-canvas").hover(position=at_cell(page, 0, frame, 40))
                said = pane(page, 0).locator(".pool-says").inner_text()
                assert wanted.pop(kind) in said
                if kind == Kind.SHARED:
                    rows = pool.entries.rows[pool.entries.frames == frame]
                    names = ", ".join(str(one) for one in sorted(replay.sequences[rows].tolist()))
                    assert f"shared by {rows.size} sequences ({names})" in said
        assert not wanted
