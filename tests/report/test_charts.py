"""What charts draw is what the files say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import vl_convert

from pagefault.report.bundle import VEGA_LITE
from pagefault.report.charts import apart, figure
from pagefault.report.extremes import evenly, extremes
from pagefault.report.kernel_charts import kernel_charts
from pagefault.report.loading import load
from pagefault.report.memory_charts import memory_charts
from pagefault.report.page import sections
from pagefault.report.run_charts import run_charts
from pagefault.report.runs import MOST_RUNS, DrawnRun, drawn_runs
from pagefault.report.serving_charts import serving_charts
from pagefault.report.static import chart_png, chart_svg, still
from pagefault.report.theme import DARK, LIGHT
from report.result_files import CALC, CALC_GPU, H200, SEEDS, SWEEP, bench_json, event_log, output, replay

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pagefault.report.charts import Chart
    from pagefault.report.results import Results


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("results")
    served, log = replay()
    texts = [
        output(*CALC),
        output(*CALC_GPU),
        output(*SWEEP),
        output(*SEEDS),
        served,
        bench_json(),
        event_log(),
        log,
    ]
    texts.append(bench_json(floor=False))
    for index, text in enumerate(texts):
        (folder / str(index)).write_text(text)
    return load([*(folder / str(index) for index in range(len(texts))), H200])


def all_charts(results: Results) -> list[Chart]:
    return [chart for section in sections(results) for chart in section.charts]


def rows_of(chart: Chart, panel: int = 0) -> list[dict[str, Any]]:
    values: list[dict[str, Any]] = chart.panels[panel]["data"]["values"]
    return values


def by_id(charts: list[Chart], id_: str) -> Chart:
    return next(chart for chart in charts if chart.id == id_)


def test_stored_and_wasted_add_up_to_reserved(everything: Results) -> None:
    memory = everything.memory[0]
    chart = by_id(memory_charts([memory]), "memory-stored")
    sums: dict[str, float] = {}
    for row in rows_of(chart):
        sums[row["cache"]] = sums.get(row["cache"], 0) + row["size"] * 1e6
    assert sums == pytest.approx({"naive": 33_554_432, "paged, block 16": 10_633_216}, rel=1e-5)
    stored = [row["size"] for row in rows_of(chart) if row["part"] == "stored"]
    assert stored == pytest.approx([10.496, 10.496])
    assert "3.2× less memory" in chart.title


def test_block_sizes_and_capacity(everything: Results) -> None:
    charts = memory_charts([everything.memory[0]])
    rows = rows_of(by_id(charts, "memory-block-size"))
    assert [row["size"] for row in rows] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert [row["size"] for row in rows if row["chosen"]] == [16]
    assert rows[-1]["wasted"] == pytest.approx(100 - 79.3, abs=0.05)  # the design's section 5
    assert "100 sequences at once in place of 32" in by_id(charts, "memory-capacity").title


def test_a_budget_adds_up(everything: Results) -> None:
    memory = everything.memory[1]
    chart = by_id(memory_charts([memory]), "memory-budget")
    assert sum(row["size"] for row in rows_of(chart)) == pytest.approx(memory.budget[0].bytes / 1e9, rel=1e-4)
    assert chart.title.startswith("llama3.1-8b: ")


@pytest.mark.parametrize("arguments", [SWEEP, SEEDS])
def test_the_marked_watermark_is_the_best(everything: Results, arguments: tuple[str, ...]) -> None:
    runs = json.loads(output(*arguments))["runs"]
    ratios: dict[float, list[float]] = {}
    for run in runs:
        if run["name"] != "naive":
            ratios.setdefault(run["setup"]["watermark"], []).append(run["throughput_vs_naive"])
    means = {mark: sum(values) / len(values) for mark, values in ratios.items()}
    best = max(means, key=lambda mark: means[mark])
    classic = everything.classic[(SWEEP, SEEDS).index(arguments)]
    chart = serving_charts([classic], [])[0]
    marked = [row for row in rows_of(chart) if row["says"]]
    assert [row["watermark"] for row in marked] == [100 * best]
    assert marked[0]["mean"] == figure(means[best])
    assert f"{100 * best:g}%" in chart.title
    for row in rows_of(chart):
        values = ratios[row["watermark"] / 100]
        assert (row["least"], row["most"]) == (figure(min(values)), figure(max(values)))


def test_latencies_of_a_log_are_those_of_the_summary(everything: Results) -> None:
    summary = json.loads(replay()[0])
    run = DrawnRun(everything.runs[-1])
    for name in ("ttft", "tpot"):
        times = getattr(run, name)
        for percentile in (50, 90, 99):
            assert np.percentile(times, percentile) == pytest.approx(
                summary[name][f"p{percentile}"], rel=1e-9
            )


def test_a_curve_says_how_many_had_waited_no_longer(everything: Results) -> None:
    run = DrawnRun(everything.runs[-1])
    rows = rows_of(by_id(run_charts([everything.runs[-1]]), "serving-ttft"))
    assert len(rows) == run.ttft.size == 80
    unit = 1e3 if rows[-1]["time"] > 2 * run.ttft.max() else 1
    for row in rows[::7]:
        waited = float((run.ttft * unit <= row["time"] * (1 + 1e-5)).mean())
        assert row["share"] == pytest.approx(100 * waited, abs=1e-3)


def test_lost_work_adds_up_to_the_log(everything: Results) -> None:
    chart = by_id(run_charts(everything.runs[:3]), "serving-preemptions")
    for run in everything.runs[:3]:
        lines = [line for line in run.lines if line.e == "preempted"]
        last = [row for row in rows_of(chart) if row["run"] == run.header.name][-1]
        assert (last["preemptions"], last["lost"]) == (len(lines), sum(line.lost for line in lines))
    assert "paged 0%" in chart.title


def test_states_are_the_steps(everything: Results) -> None:
    run = everything.runs[1]
    chart = by_id(run_charts([run]), "serving-states")
    columns = run.columns()
    rows = rows_of(chart)
    assert max(row["stalled"] for row in rows) == columns["stalled"].max()
    assert max(row["in the queue"] for row in rows) == columns["waiting"].max()
    assert str(columns["stalled"].max()) in chart.title


def test_a_pause_is_drawn_as_one(everything: Results) -> None:
    """The trace has none to serve for three seconds: the pool is empty there, and drawn so."""
    run = DrawnRun(everything.runs[-1])
    times, used = run.steps["t"], run.used
    gaps = np.flatnonzero(np.diff(times) > 2_000_000_000)
    assert gaps.size == 1
    assert used[gaps[0]] == used[gaps[0] + 1] == 0
    assert run.states["computing"][gaps[0]] == 0


def test_many_runs_are_thinned_and_it_says_so(everything: Results) -> None:
    runs = [everything.runs[index % 3] for index in range(20)]
    assert len(drawn_runs(runs)) == MOST_RUNS
    assert all(chart.thinned.startswith(f"{MOST_RUNS} of 20 runs are drawn.") for chart in run_charts(runs))


@pytest.mark.parametrize("count", [0, 1, 2, 50, 5_000])
@pytest.mark.parametrize("bins", [1, 7, 100])
def test_thinning_keeps_every_peak(count: int, bins: int) -> None:
    random = np.random.default_rng(count + bins)
    times = np.cumsum(random.integers(0, 5, count))
    columns = [random.integers(-100, 100, count), random.integers(0, 9, count)]
    kept = extremes(times, columns, bins)
    assert (np.diff(kept) > 0).all()
    assert kept.size <= 2 * bins * (1 + len(columns))
    if not count:
        return
    assert {0, count - 1} <= set(kept.tolist())
    span = max(int(times[-1] - times[0]), 1)
    bin_of = np.minimum((times - times[0]) * bins // span, bins - 1)
    for column in columns:
        for number in range(bins):
            inside, drawn = column[bin_of == number], column[kept][bin_of[kept] == number]
            if inside.size:
                assert (drawn.min(), drawn.max()) == (inside.min(), inside.max())
                assert (drawn[0], drawn[-1]) == (inside[0], inside[-1])


def test_even_choices() -> None:
    assert evenly(3, 5).tolist() == [0, 1, 2]
    assert evenly(100, 3).tolist() == [0, 50, 99]
    assert evenly(0, 3).tolist() == []


def test_kernels_are_the_rows(everything: Results) -> None:
    rows = [row for row in everything.measured if row.gpu == "NVIDIA H200"]
    charts = apart(kernel_charts(rows))
    latency = by_id(charts, "kernels-latency")
    wanted = {(row.case, row.implementation): row for row in rows}
    for drawn in rows_of(latency):
        row = wanted[drawn["case"], drawn["implementation"]]
        assert (drawn["p20"], drawn["p50"], drawn["p80"]) == (
            figure(row.p20 or row.p50),
            figure(row.p50),
            figure(row.p80 or row.p50),
        )
    sweep = next(chart for chart in charts if chart.title.startswith("32xmix 32/8x128 bf16"))
    assert sorted({row["size"] for row in rows_of(sweep)}) == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    floors = by_id(charts, "kernels-floor")
    assert all(0 < row["ratio"] <= 101 for row in rows_of(floors))


def test_rows_of_a_cpu_say_so(everything: Results) -> None:
    charts = kernel_charts([row for row in everything.measured if row.gpu == "CPU"])
    assert charts
    assert all(chart.caveat.startswith("Measured on a CPU") for chart in charts)
    assert not any(chart.id == "paging-floor" for chart in charts)


def test_ids_differ_and_name_files(everything: Results) -> None:
    ids = [chart.id for chart in all_charts(everything)]
    assert len(set(ids)) == len(ids)
    assert all(set(id_) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for id_ in ids)


def test_every_chart_says_what_made_it(everything: Results) -> None:
    for chart in all_charts(everything):
        assert chart.title
        assert chart.alt
        assert chart.table.rows
        assert all(len(row) == len(chart.table.columns) for row in chart.table.rows)
        assert chart.commands or any(source.endswith(".csv") for source in chart.sources), chart.id


def test_specifications_compile_without_warnings(
    everything: Results, capfd: pytest.CaptureFixture[str]
) -> None:
    for chart in all_charts(everything):
        for spec in (still(chart), *({**panel, "width": 400} for panel in chart.panels)):
            vl_convert.vegalite_to_vega(spec, vl_version=VEGA_LITE, show_warnings=True)
            assert capfd.readouterr().err == "", chart.id


def test_a_warning_would_be_seen(capfd: pytest.CaptureFixture[str]) -> None:
    spec = {
        "data": {"values": []},
        "mark": "bar",
        "encoding": {"x": {"field": "a", "type": "nominal", "scale": {"zero": 1}}},
    }
    vl_convert.vegalite_to_vega(spec, vl_version=VEGA_LITE, show_warnings=True)
    assert "WARN" in capfd.readouterr().err


def test_every_axis_that_measures_has_a_title(everything: Results) -> None:
    for chart in all_charts(everything):
        for panel in chart.panels:
            vertical = [encoding for name, encoding in axes(panel) if name == "y"]
            if any(encoding["type"] == "quantitative" for encoding in vertical):
                assert any(encoding.get("title") for encoding in vertical), chart.id
        assert any(encoding.get("title") for _, encoding in axes(chart.panels[-1])), chart.id


def axes(panel: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    views = [panel, *panel.get("layer", [])]
    for view in views:
        for name in ("x", "y"):
            encoding = view.get("encoding", {}).get(name)
            if encoding and "type" in encoding:
                yield name, encoding


def test_no_colour_stands_alone(everything: Results) -> None:
    """What a colour tells apart, a dash, a shape, a place or a legend's order tells too."""
    for chart in all_charts(everything):
        for panel in chart.panels:
            text = json.dumps(panel)
            if '"field": "run"' in text and '"color"' in text:
                assert '"strokeDash"' in text or '"yOffset"' in text or '"nominal"' in text, chart.id
            if '"field": "implementation"' in text:
                assert '"shape"' in text, chart.id


def contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("paper", [LIGHT, DARK])
def test_colours_stand_out_on_both_papers(paper: Any) -> None:
    from pagefault.report.charts import COLOURS

    assert all(contrast(colour, paper.bg) >= 2.9 for colour in COLOURS)
    for ground in (paper.bg, paper.panel):
        assert all(contrast(text, ground) >= 4.5 for text in (paper.fg, paper.muted, paper.accent))


def test_still_pictures(everything: Results) -> None:
    chart = serving_charts(everything.classic[:1], [])[0]
    svg = chart_svg(chart)
    assert svg == chart_svg(chart)
    assert chart.title.split()[0] in svg
    assert chart_png(chart).startswith(b"\x89PNG")


def test_an_empty_and_a_short_log(tmp_path: Path) -> None:
    head = event_log().split("\n")[0] + "\n"
    (tmp_path / "empty.jsonl").write_text(head)
    assert run_charts(load([tmp_path / "empty.jsonl"]).runs) == []
    step = {"t": 5, "e": "step", "n": 1, "decode": 1, "running": 1, "free": 4095}
    (tmp_path / "one.jsonl").write_text(head + json.dumps(step) + "\n")
    charts = run_charts(load([tmp_path / "one.jsonl"]).runs)
    assert [chart.id for chart in charts] == ["serving-states", "serving-kv-usage"]
    assert all("ends before its run did" in chart.caveat for chart in charts)
