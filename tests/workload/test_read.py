"""Every format as its publisher writes it, and the shapes that files come in."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagefault.workload import FORMATS, Trace, read_trace, summarize
from pagefault.workload import lines as lines_module

if TYPE_CHECKING:
    from collections.abc import Callable

TRACES = Path(__file__).parents[3] / "shared" / "data" / "traces"

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
"""
AZURE_2024 = """TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:00.009930+00:00,2162,5
2024-05-10 00:00:01+00:00,2399,6
2024-05-10 02:00:02.5+02:00,76,15
"""
MOONCAKE = """{"timestamp": 0, "input_length": 513, "output_length": 500, "hash_ids": [0, 1]}
{"timestamp": 27482, "input_length": 512, "output_length": 4, "hash_ids": [0]}
"""
BAILIAN = """{"chat_id": 0, "parent_chat_id": -1, "timestamp": 61.114, "input_length": 17, \
"output_length": 3, \
"type": "text", "turn": 1, "hash_ids": [1, 2]}
{"chat_id": 7, "parent_chat_id": 0, "timestamp": 62, "input_length": 33, "output_length": 4, \
"type": "search", "turn": 2, "hash_ids": [1, 3, 4]}
{"chat_id": 8, "parent_chat_id": -1, "timestamp": 63.5, "input_length": 1, "output_length": 5, \
"type": "file", "turn": 1, "hash_ids": [9]}
"""
BURSTGPT = """Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
19440110.0,1722ac82-0a46,43,GPT-4,906,446,1352,Conversation log
19440161.25,,2,ChatGPT,36,0,36,API log
19440192.5,,8,GPT-4,1779,123,1902,API log
19440254.0,1722ac82-0a46,3,ChatGPT,935,178,1113,Conversation log
"""
BURSTGPT_1 = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,230,1317,Conversation log
"""
LLMSERVINGSIM = '{"input_toks": 2358, "output_toks": 531, "arrival_time_ns": 46926808}\n'
VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,4808,10\n199.96150599999999,161,11\n"
VIDUR_LENGTHS = "num_prefill_tokens,num_decode_tokens,pd_ratio\n3772,54,69.8518\n11,2,5.5\n"


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str | bytes], Path]:
    def write_file(content: str | bytes) -> Path:
        path = tmp_path / "trace"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


def rows(trace: Trace) -> list[tuple[int, int, int]]:
    made = trace.workload
    columns = (made.arrival_ns.tolist(), made.prompt_tokens.tolist(), made.output_tokens.tolist())
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("azure", AZURE, [(0, 4808, 10), (52_000_000, 3180, 8)]),
        ("azure", AZURE_2024, [(0, 2162, 5), (990_070_000, 2399, 6), (2_490_070_000, 76, 15)]),
        ("mooncake", MOONCAKE, [(0, 513, 500), (27_482_000_000, 512, 4)]),
        ("bailian", BAILIAN, [(61_114_000_000, 17, 3), (62_000_000_000, 33, 4), (63_500_000_000, 1, 5)]),
        ("burstgpt", BURSTGPT, [(0, 906, 446), (82_500_000_000, 1779, 123), (144_000_000_000, 935, 178)]),
        ("burstgpt", BURSTGPT_1, [(0, 472, 18), (40_000_000_000, 1087, 230)]),
        ("llmservingsim", LLMSERVINGSIM, [(46_926_808, 2358, 531)]),
        ("vidur", VIDUR, [(0, 4808, 10), (199_961_506_000, 161, 11)]),
        ("vidur", VIDUR_LENGTHS, [(0, 3772, 54), (0, 11, 2)]),
    ],
)
def test_formats(
    write: Callable[[str], Path], name: str, text: str, expected: list[tuple[int, int, int]]
) -> None:
    trace = read_trace(write(text))
    assert trace.format.name == name
    assert rows(trace) == expected
    assert trace.bad_lines == 0


def test_every_format_has_a_case_above() -> None:
    marks = test_formats.pytestmark[0].args[1]  # type: ignore[attr-defined]
    assert {known.name for known in FORMATS} == {case[0] for case in marks}


def test_hashes_are_kept_by_request(write: Callable[[str], Path]) -> None:
    made = read_trace(write(BAILIAN)).workload
    assert made.hash_tokens == 16
    assert made.hash_offsets is not None
    assert made.hash_ids is not None
    assert made.hash_offsets.tolist() == [0, 2, 5, 6]
    assert made.hash_ids.tolist() == [1, 2, 1, 3, 4, 9]


def test_sessions_are_numbered(write: Callable[[str], Path]) -> None:
    for text, expected in ((BAILIAN, [0, 0, 1]), (BURSTGPT, [0, -1, 0])):
        session = read_trace(write(text)).workload.session
        assert session is not None
        assert session.tolist() == expected
    assert read_trace(write(AZURE)).workload.session is None


def test_failed_requests_are_left_out_and_said(write: Callable[[str], Path]) -> None:
    trace = read_trace(write(BURSTGPT))
    assert trace.failed == 1
    assert trace.notes == ("1 failed request (0 output tokens) left out",)


def test_failed_requests_take_their_hashes_along(write: Callable[[str], Path]) -> None:
    made = read_trace(write(BAILIAN.replace('"output_length": 3', '"output_length": 0'))).workload
    assert made.hash_ids is not None
    assert made.hash_ids.tolist() == [1, 3, 4, 9]


def test_a_trace_without_arrivals_says_so(write: Callable[[str], Path]) -> None:
    trace = read_trace(write(VIDUR_LENGTHS))
    assert not trace.has_arrivals
    assert trace.notes == ("no arrival times in the file: all requests arrive at 0",)


def test_out_of_order_is_sorted_stably_and_said(write: Callable[[str], Path]) -> None:
    lines = [
        {
            "timestamp": time,
            "input_length": 512 * blocks,
            "output_length": blocks,
            "hash_ids": [time] * blocks,
        }
        for time, blocks in ((5, 1), (3, 2), (5, 3), (0, 4), (3, 5))
    ]
    trace = read_trace(write("\n".join(map(json.dumps, lines))))
    assert trace.workload.output_tokens.tolist() == [4, 2, 5, 1, 3]
    assert trace.workload.hash_ids is not None
    assert trace.workload.hash_ids.tolist() == [0] * 4 + [3] * 7 + [5] * 4
    assert trace.out_of_order == 2
    assert trace.notes == (
        "timestamps out of order: 2 requests earlier than the one before; sorted by arrival",
    )


def test_an_absolute_clock_begins_with_the_earliest(write: Callable[[str], Path]) -> None:
    text = BURSTGPT_1.replace("5,", "50,", 1)
    assert rows(read_trace(write(text))) == [(0, 1087, 230), (5_000_000_000, 472, 18)]


@pytest.mark.parametrize("text", [AZURE, MOONCAKE])
@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.rstrip(b"\n"),
        lambda data: data.replace(b"\n", b"\r\n").removesuffix(b"\n"),
        lambda data: b"\n \n" + data.replace(b"\n", b"\n\n") + b"\n",
        gzip.compress,
        lambda data: gzip.compress(data[:20]) + gzip.compress(data[20:]),
    ],
    ids=["crlf", "bom", "no-final-newline", "cut-crlf", "blank-lines", "gzip", "gzip-members"],
)
def test_shapes_of_files(write: Callable[[bytes], Path], text: str, change: Callable[[bytes], bytes]) -> None:
    trace = read_trace(write(change(text.encode())))
    assert rows(trace) == rows(read_trace(write(text.encode())))
    assert trace.notes == ()


def test_columns_are_found_by_name(write: Callable[[str], Path]) -> None:
    text = "NumImages, GeneratedTokens ,TIMESTAMP,ContextTokens\n2, 10 ,2024-10-15 00:00:00,900\n"
    assert rows(read_trace(write(text))) == [(0, 900, 10)]


@pytest.mark.parametrize("data", [AZURE.encode(), gzip.compress(AZURE.encode())])
def test_stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    trace = read_trace("-")
    assert trace.source == "<stdin>"
    assert len(trace.workload) == 2


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.integers(1, 200), st.lists(st.integers(1, 9999), min_size=1, max_size=40))
def test_chunks_cut_anywhere(tmp_path_factory: pytest.TempPathFactory, size: int, prompts: list[int]) -> None:
    path = tmp_path_factory.mktemp("chunks") / "trace.csv"
    body = "".join(f"{at},{prompt},1\r\n" for at, prompt in enumerate(prompts))
    path.write_bytes(f"arrived_at,num_prefill_tokens,num_decode_tokens\r\n{body}".encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "CHUNK_BYTES", size)
        trace = read_trace(path)
    assert trace.workload.prompt_tokens.tolist() == prompts
    assert trace.workload.arrival_ns.tolist() == [at * 10**9 for at in range(len(prompts))]


def test_progress_counts_to_the_end(write: Callable[[bytes], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "CHUNK_BYTES", 1000)
    data = (VIDUR + "1,2,3\n" * 2000).encode()
    for content in (data, gzip.compress(data)):
        seen: list[tuple[int, int, int]] = []
        read_trace(write(content), progress=lambda *state, seen=seen: seen.append(state))
        assert len(seen) > 5
        assert seen == sorted(seen)
        assert seen[-1] == (len(content), len(content), 2002)


def test_large_times_keep_their_digits(write: Callable[[str], Path]) -> None:
    text = '{"input_toks": 1, "output_toks": 1, "arrival_time_ns": 1700000000123456789}'
    assert read_trace(write(text)).workload.arrival_ns.tolist() == [1_700_000_000_123_456_789]


def shared(name: str) -> Path:
    path = TRACES / name
    if not path.exists():
        pytest.skip(f"{path} is not here")
    return path


def test_the_real_azure_trace() -> None:
    trace = read_trace(shared("azure_2023_code.csv"))
    assert len(trace.workload) == 8819
    assert trace.notes == ()
    assert trace.workload.duration_ns == 3_435_948_056_000  # 18:17:03.9799600 to 19:14:19.9280160


def test_the_real_mooncake_trace() -> None:
    path = shared("mooncake_conversation.jsonl")
    trace = read_trace(path)
    assert len(trace.workload) == 12_031
    assert trace.notes == ()
    known: set[int] = set()
    blocks = seen = 0
    for line in path.read_text().splitlines():
        ids = json.loads(line)["hash_ids"]
        blocks += len(ids)
        seen += sum(one in known for one in ids)
        known.update(ids)
    reuse = summarize(trace.workload).reuse
    assert reuse is not None
    assert (reuse.blocks, reuse.seen) == (blocks, seen)


def test_the_real_sharegpt_lengths() -> None:
    trace = read_trace(shared("sharegpt_300_lengths.jsonl"))
    assert len(trace.workload) == 300
    assert np.all(trace.workload.output_tokens > 0)


def test_a_path_like_is_a_path(write: Callable[[str], Path]) -> None:
    path = write(AZURE)
    assert read_trace(os.fspath(path)).source == read_trace(path).source
