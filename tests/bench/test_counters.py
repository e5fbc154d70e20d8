"""What Nsight Compute prints, turned into rows."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from benchmarks.counters import METRICS, WHERE, rows

KERNELS = [
    ("read_floor", "240,096"), ("read_floor", "236,800"), ("read_floor", "240,128"), ("decode_heads", "246,688"),
    ("combine", "4,704"), ("decode_heads", "243,000"), ("combine", "4,700"), ("cudnn_sdpa(Params)", "239,000"),
]  # fmt: skip


def printed() -> str:
    lines = [
        WHERE + '{"gpu": "NVIDIA H200", "commit": "abc"}',
        "==PROF== Connected to process 855",
        '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"',
    ]
    for number, (kernel, time) in enumerate(KERNELS):
        for metric in METRICS:
            value = time if metric.startswith("gpu__time") else "1,234.5"
            lines.append(f'"{number}","{kernel}","{metric}","","{value}"')
    return "\n".join([*lines, "==PROF== Disconnected"])


def test_a_row_a_kernel_and_the_fastest_floor() -> None:
    found = rows("64x4096", printed())
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
    with pytest.raises(ValueError, match="no line that begins with 'measured on: '"):
        rows("64x4096", printed().partition("\n")[2])
