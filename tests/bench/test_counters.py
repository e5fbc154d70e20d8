"""What Nsight Compute prints, turned into rows."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

# what follows needs PyTorch
from benchmarks.counters import COLUMNS, METRICS, WHERE, add, rows
from pagefault.bench import Environment
from pagefault.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

HERE = Environment("NVIDIA H200", "580", "2.11", "3.6", "abc", "a command")

KERNELS = [
    ("read_floor", "240,096"), ("read_floor", "236,800"), ("read_floor", "240,128"), ("decode_heads", "246,688"),
    ("combine", "4,704"), ("decode_heads", "243,000"), ("combine", "4,700"), ("cudnn_sdpa(Params)", "239,000"),
]  # fmt: skip


def printed() -> str:
    lines = [
        WHERE + json.dumps({"case": "64x4096", **asdict(HERE)}),
        "==PROF== Connected to process 855",
        '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"',
    ]
    for number, (kernel, time) in enumerate(KERNELS):
        for metric in METRICS:
            value = time if metric.startswith("gpu__time") else "1,234.5"
            lines.append(f'"{number}","{kernel}","{metric}","","{value}"')
    return "\n".join([*lines, "==PROF== Disconnected"])


def test_a_row_a_kernel_and_the_fastest_floor() -> None:
    found = rows(printed())
    assert [(row["implementation"], row["kernel"], row["time_ns"]) for row in found] == [
        ("floor", "read_floor", "236800"),
        ("pagefault", "decode_heads", "246688"),
        ("pagefault", "combine", "4704"),
        ("pagefault contiguous", "decode_heads", "243000"),
        ("pagefault contiguous", "combine", "4700"),
        ("sdpa cudnn", "cudnn_sdpa", "239000"),
    ]
    assert {row["cycles"] for row in found} == {"1234.5"}
    assert all(set(METRICS.values()) <= set(row) and row["gpu"] == "NVIDIA H200" for row in found)
    assert {row["commit"] for row in found} == {"abc"}


def test_counters_say_where_they_were_read() -> None:
    with pytest.raises(InputError, match="expected the line 'measured on: '"):
        rows(printed().partition("\n")[2])


@pytest.mark.parametrize(
    "wrong",
    [
        ("measured on: {", "measured on: ["),
        ("Metric Value", "Value"),
        ("gpu__time_duration.sum", "another.counter"),
        ("read_floor", ""),
    ],
)
def test_what_is_no_such_file_is_refused(wrong: tuple[str, str]) -> None:
    text = printed().replace(*wrong) if wrong[1] else printed().splitlines()[0]
    with pytest.raises(InputError, match="expected the"):
        rows(text)


def test_rows_take_the_place_of_those_of_their_case_alone(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    add(path, rows(printed()))
    add(path, rows(printed().replace('"64x4096"', '"1x8192"')))
    before = path.read_text()
    assert before.startswith(",".join(COLUMNS))
    add(path, rows(printed().replace('"64x4096"', '"1x8192"')))
    assert path.read_text() == before
    path.write_text("case,p50\n64x4096,1\n")
    with pytest.raises(InputError, match="other columns"):
        add(path, rows(printed()))
    assert path.read_text() == "case,p50\n64x4096,1\n"
