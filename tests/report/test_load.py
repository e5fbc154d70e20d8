"""Every kind of file is recognised, and what is none is refused in words that help."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pagefault.errors import InputError
from pagefault.report.loading import load
from report.result_files import CALC, CALC_GPU, H200, SEEDS, SWEEP, bench_json, event_log, output, replay

if TYPE_CHECKING:
    from pathlib import Path

ROW = "64x4096,pagefault,249.9,250.2,251.2,,,,1073741824,0.9479,0.00225,,,NVIDIA H200,1,2,3,abc"
COLUMNS = "case,implementation,p20,p50,p80,mean,sd,min,kv_bytes,ratio,error,note,version,gpu,driver,torch,triton,commit"


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_all_kinds_in_any_order(tmp_path: Path) -> None:
    served, log = replay()
    files = [
        write(tmp_path / "a", event_log()),
        write(tmp_path / "b", output(*CALC)),
        H200,
        write(tmp_path / "c", output(*SWEEP)),
        write(tmp_path / "d", served),
        write(tmp_path / "e", bench_json()),
        write(tmp_path / "f", output(*CALC_GPU)),
        write(tmp_path / "g", output(*SEEDS)),
        write(tmp_path / "h", log),
    ]
    found = load(files)
    assert [each.source for each in found.memory] == ["b", "f"]
    assert [each.source for each in found.classic] == ["c", "g"]
    assert found.served[0].gpu == "h200"
    assert {row.source for row in found.measured} == {"h200.csv", "e"}
    assert [run.header.name for run in found.runs] == ["naive", "paged 0%", "paged 5%", "llama3.1-8b on h200"]
    turned = load(reversed(files))
    assert {each.source for each in turned.memory} == {"b", "f"}
    assert len(turned.measured) == len(found.measured)


def test_figures_are_those_of_the_file(tmp_path: Path) -> None:
    found = load([write(tmp_path / "calc.json", output(*CALC))]).memory[0]
    # The figures of the design's section 5.
    assert (found.paged.reserved_bytes, found.naive.reserved_bytes) == (10_633_216, 33_554_432)
    assert (found.naive.holds, found.paged.holds) == (32, 100)
    assert found.paged.stored_bytes == pytest.approx(20_500 * 512)


def test_rows_with_and_without_the_command(tmp_path: Path) -> None:
    old = load([write(tmp_path / "old.csv", f"{COLUMNS}\n{ROW}\n")]).measured[0]
    text = f"{COLUMNS},command\n{ROW},\n{ROW.replace('pagefault', 'floor')},pagefault bench --csv x\n"
    new = load([write(tmp_path / "new.csv", text)]).measured
    assert (old.command, new[0].command, new[1].command) == ("", "", "pagefault bench --csv x")
    assert (old.p50, old.p20, old.ratio) == (250.2, 249.9, 0.9479)


def test_what_is_measured_again_replaces(tmp_path: Path) -> None:
    first = write(tmp_path / "1.csv", f"{COLUMNS}\n{ROW}\n")
    second = write(tmp_path / "2.csv", f"{COLUMNS}\n{ROW.replace('250.2', '99.5')}\n")
    assert [row.p50 for row in load([first, second]).measured] == [99.5]


def test_a_file_given_twice_counts_once(tmp_path: Path) -> None:
    path = write(tmp_path / "calc.json", output(*CALC))
    assert len(load([path, path]).memory) == 1


def test_runs_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    served = replay()[1]
    files = [write(tmp_path / f"{name}.jsonl", served) for name in ("low", "high")]
    assert [run.header.name for run in load(files).runs] == [
        "llama3.1-8b on h200 (low)",
        "llama3.1-8b on h200 (high)",
    ]
    header, *rest = event_log().split("\n", 1)
    other = json.loads(header)
    other["about"]["seed"] = 7
    twice = write(tmp_path / "twice.jsonl", event_log() + json.dumps(other) + "\n" + rest[0])
    names = [run.header.name for run in load([twice]).runs]
    assert len(set(names)) == len(names)
    assert "naive, seed 42" in names
    assert "naive, seed 7" in names


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is empty"),
        ("   \n", "is empty"),
        ("hello", "begins with 'hello'"),
        ('{"ticks": 3', "no whole JSON object"),
        ('{"ticks": 3} trailing', "no whole JSON object"),
        ("[1, 2]", "no result that is known"),
        ('{"requests": 3, "format": "azure"}', "its keys: format, requests"),
        ('{"experiment": "classic", "runs": []}', "no runs"),
        ('{"experiment": "classic", "runs": [{"name": "naive"}]}', "another version"),
        ('{"comparisons": [{"name": "x"}]}', "another version"),
        ('{"paged": 1, "naive": 2, "sweep": []}', "another version"),
        (f"{COLUMNS}\n", "has no rows"),
        (f"{COLUMNS}\n{ROW.replace('250.2', 'fast')}\n", ":2: p50 is 'fast'"),
        (f"{COLUMNS}\n{ROW.replace('250.2', '')}\n", ":2: p50 is ''"),
        (f"{COLUMNS}\n{ROW.replace('250.2', '-1')}\n", ":2: p50 is '-1'"),
        (f"{COLUMNS}\n{ROW.replace('250.2', 'nan')}\n", ":2: p50 is 'nan'"),
        ("table,seed,ticks\nclassic,42,1\n", "begins with 'table,seed,ticks'"),
        ('{"format":"pagefault-events","version":99}\n', "version 99"),
    ],
)
def test_other_content_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    path = write(tmp_path / "file", text)
    with pytest.raises(InputError) as caught:
        load([path])
    assert str(path) in str(caught.value)
    assert complaint in str(caught.value)


def test_a_log_that_was_cut_off_names_the_line(tmp_path: Path) -> None:
    text = event_log()
    path = write(tmp_path / "cut.jsonl", text[: len(text) // 2])
    with pytest.raises(InputError, match=r"cut\.jsonl:\d+: .*cut off"):
        load([path])


def test_no_file_a_folder_a_missing_and_a_binary_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no results were given"):
        load([])
    with pytest.raises(InputError, match="is a folder"):
        load([tmp_path])
    with pytest.raises(InputError, match="No such file"):
        load([tmp_path / "missing.json"])
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(InputError, match="is no text"):
        load([tmp_path / "picture.png"])
