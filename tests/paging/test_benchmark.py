"""The benchmark runs, its sides agree with each other, and its files can be read back."""

from __future__ import annotations

import csv
import importlib.util
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "pager.py"


def test_benchmark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.spec_from_file_location("benchmark_pager", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    benchmark = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, benchmark)
    spec.loader.exec_module(benchmark)

    files = tmp_path / "rows.csv", tmp_path / "rows.jsonl"
    options = ["--steps", "16", "--batches", "8", "32", "--csv", str(files[0]), "--json", str(files[1])]
    assert benchmark.main(options) == 0

    with files[0].open(newline="") as file:
        rows = list(csv.DictReader(file))
    lines = [json.loads(line) for line in files[1].read_text().splitlines()]
    assert [row["case"] for row in rows] == [line["case"] for line in lines]
    assert {row["implementation"] for row in rows} == {"pagefault", "usual", "tight"}
    assert all(0 < line["p20_us"] <= line["p50_us"] <= line["p80_us"] for line in lines)
    assert all(line["numpy"] and line["commit"] and line["python"] for line in lines)
    printed = capsys.readouterr().out
    assert all(line["case"] in printed for line in lines)
