"""What is wrong with a trace is said in one line: where, what was expected, what was there."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from pagefault.errors import TraceError
from pagefault.workload import lines as lines_module
from pagefault.workload import read_trace

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens\n"
MOONCAKE = '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}\n'
GOOD_AZURE = "2023-11-16 18:17:03.9799600,4808,10\n"
WHEN = "2023-11-16 18:17:03"

A_COUNT = "expected a whole number of tokens"
A_TIME = "expected a time as in 2023-11-16 18:17:03.9799600"
AN_OBJECT = "expected a JSON object with timestamp, input_length, output_length, hash_ids"


def complaint(path: Path, skip_bad: bool = False) -> str:
    with pytest.raises(TraceError) as caught:
        read_trace(path, skip_bad=skip_bad)
    message = str(caught.value)
    assert "\n" not in message
    return message


def write(tmp_path: Path, content: str | bytes) -> Path:
    path = tmp_path / "bad.trace"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def mooncake(**changes: object) -> str:
    return json.dumps(json.loads(MOONCAKE) | changes)


# name: (good lines before, the bad line, what the message must say after the line number)
BAD_LINES: dict[str, tuple[str, str | bytes, str]] = {
    "few fields": (
        AZURE,
        f"{WHEN},4808",
        "expected 3 fields (TIMESTAMP,ContextTokens,GeneratedTokens), found 2",
    ),
    "many fields": (AZURE, f"{WHEN},4808,10,11", f"found 4: '{WHEN},4808,10,11'"),
    "not a number": (AZURE, f"{WHEN},many,10", f"ContextTokens: {A_COUNT}, found 'many'"),
    "negative": (AZURE, f"{WHEN},-5,10", f"ContextTokens: {A_COUNT}, found '-5'"),
    "fraction": (AZURE, f"{WHEN},5,10.5", f"GeneratedTokens: {A_COUNT}, found '10.5'"),
    "underscore": (AZURE, f"{WHEN},5,1_0", f"GeneratedTokens: {A_COUNT}, found '1_0'"),
    "other digits": (AZURE, f"{WHEN},٣,10", f"ContextTokens: {A_COUNT}, found '٣'"),
    "empty cell": (AZURE, f"{WHEN},,10", f"ContextTokens: {A_COUNT}, found ''"),
    "no prompt": (AZURE, f"{WHEN},0,10", "ContextTokens: expected 1 to 100,000,000, found 0"),
    "absurd": (AZURE, f"{WHEN},5,100000001", "GeneratedTokens: expected 0 to 100,000,000, found 100000001"),
    "beyond int64": (AZURE, f"{WHEN},{10**30},1", f"ContextTokens: {A_COUNT}, found '1000"),
    "no time": (AZURE, "yesterday,5,10", f"TIMESTAMP: {A_TIME}, found 'yesterday'"),
    "no such month": (AZURE, "2023-13-16 18:17:03,5,10", f"TIMESTAMP: {A_TIME}, found '2023-13-16"),
    "no such hour": (AZURE, "2023-11-16 25:17:03,5,10", f"TIMESTAMP: {A_TIME}, found '2023-11-16 25"),
    "year 9999": (AZURE, "9999-11-16 18:17:03,5,10", f"TIMESTAMP: {A_TIME}, found '9999"),
    "open quote": (AZURE, f'"{WHEN},5,10', "expected comma-separated fields"),
    "not utf-8": (
        AZURE,
        f"{WHEN},5".encode() + b"\xff,10",
        "expected UTF-8 text, found byte 0xff at position 22",
    ),
    "nan": (VIDUR, "nan,5,10", "arrived_at: expected 0 to 3,153,600,000, found nan"),
    "infinite": (VIDUR, "inf,5,10", "arrived_at: expected 0 to 3,153,600,000, found inf"),
    "before zero": (VIDUR, "-1.5,5,10", "arrived_at: expected 0 to 3,153,600,000, found -1.5"),
    "no seconds": (
        VIDUR,
        "soon,5,10",
        "arrived_at: expected seconds, could not convert string to float: 'soon'",
    ),
    "no json": (MOONCAKE, "timestamp 0", f"{AN_OBJECT}: JSON is malformed"),
    "cut json": (MOONCAKE, MOONCAKE[:20], f"{AN_OBJECT}: Input data was truncated"),
    "json array": (MOONCAKE, "[1, 2]", f"{AN_OBJECT}: Expected object, got array"),
    "missing key": (MOONCAKE, '{"timestamp": 0}', f"{AN_OBJECT}: Object missing required field input_length"),
    "text": (MOONCAKE, mooncake(input_length="600"), "input_length: expected int, got str"),
    "json fraction": (MOONCAKE, mooncake(input_length=600.5), "input_length: expected int, got float"),
    "null": (MOONCAKE, mooncake(input_length=None), "input_length: expected int, got null"),
    "json nan": (MOONCAKE, mooncake(timestamp=float("nan")), f"{AN_OBJECT}: JSON is malformed"),
    "early": (MOONCAKE, mooncake(timestamp=-3), "timestamp: expected 0 to 3,153,600,000,000, found -3"),
    "late": (MOONCAKE, mooncake(timestamp=2**65), "timestamp: expected 0 to 3,153,600,000,000, found 3"),
    "negative prompt": (
        MOONCAKE,
        mooncake(input_length=-6),
        "input_length: expected 0 to 100,000,000, found -6",
    ),
    "negative output": (
        MOONCAKE,
        mooncake(output_length=-5),
        "output_length: expected 0 to 100,000,000, found -5",
    ),
    "huge prompt": (MOONCAKE, mooncake(input_length=2**63), "input_length: expected numbers below 2^63"),
    "few ids": (
        MOONCAKE,
        mooncake(hash_ids=[0]),
        "hash_ids: expected 2 ids (input_length 600 in blocks of 512 tokens), found 1",
    ),
    "many ids": (MOONCAKE, mooncake(hash_ids=[0, 1, 2]), "hash_ids: expected 2 ids"),
    "huge id": (MOONCAKE, mooncake(hash_ids=[0, 2**63]), "hash_ids: expected numbers below 2^63, found 9223"),
    "text for an id": (MOONCAKE, mooncake(hash_ids=[0, "1"]), "hash_ids[1]: expected int, got str"),
    "json not utf-8": (MOONCAKE, MOONCAKE[:-2].encode() + b', "x": "\xff"}', "expected UTF-8 text"),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_broken_line_in_the_middle(tmp_path: Path, name: str) -> None:
    before, line, expected = BAD_LINES[name]
    good = {AZURE: GOOD_AZURE, VIDUR: "1,2,3\n", MOONCAKE: MOONCAKE}[before]
    broken = line if isinstance(line, bytes) else line.encode()
    path = write(tmp_path, (before + good * 6).encode() + broken + b"\n" + good.encode() * 9)
    message = complaint(path)
    assert message.startswith(f"{path}:8: ")
    assert expected in message
    assert "--skip-bad" in message

    trace = read_trace(path, skip_bad=True)
    assert trace.bad_lines == 1
    assert len(trace.workload) == (16 if before == MOONCAKE else 15)
    assert trace.first_bad.startswith(f"{path}:8: ")
    assert trace.notes[0].startswith("1 broken line skipped; the first: ")


def test_the_earliest_broken_line_is_named_wherever_chunks_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, VIDUR + "1,2,3\n" * 50 + "\n1,2\n" + "1,2,3\n" * 50 + "1,x,3\n")
    for size in (1 << 20, 100, 7):
        monkeypatch.setattr(lines_module, "CHUNK_BYTES", size)
        assert complaint(path).startswith(f"{path}:53: ")
        assert read_trace(path, skip_bad=True).bad_lines == 2


def test_skip_bad_needs_something_left(tmp_path: Path) -> None:
    message = complaint(write(tmp_path, VIDUR + "x,1,1\n" * 20), skip_bad=True)
    assert "none of its 20 lines could be read; the first: " in message
    assert ":2: arrived_at: expected seconds" in message


def test_a_broken_first_object_is_its_own_line(tmp_path: Path) -> None:
    path = write(tmp_path, '{"timestamp": 0, "inp\n' + MOONCAKE)
    assert complaint(path).startswith(f"{path}:1: expected a JSON object")
    assert len(read_trace(path, skip_bad=True).workload) == 1


def test_missing_file(tmp_path: Path) -> None:
    assert "no such file" in complaint(tmp_path / "nowhere.csv")


def test_folder(tmp_path: Path) -> None:
    assert "is a folder" in complaint(tmp_path)


def test_impossible_path() -> None:
    assert "cannot open" in complaint(Path("a\0b"))


@pytest.mark.parametrize("content", [b"", b"\n\n  \n", b"\xef\xbb\xbf", gzip.compress(b"")])
def test_empty(tmp_path: Path, content: bytes) -> None:
    assert "is empty; expected a trace, one of: Azure" in complaint(write(tmp_path, content))


@pytest.mark.parametrize("content", [AZURE, AZURE + "\n\n", AZURE.rstrip("\n")])
def test_header_only(tmp_path: Path, content: str) -> None:
    assert "no request in it" in complaint(write(tmp_path, content))


def test_only_failed_requests(tmp_path: Path) -> None:
    message = complaint(write(tmp_path, VIDUR + "1,2,0\n"))
    assert "no request left: 1 with 0 output tokens (num_decode_tokens), 0 broken lines" in message


@pytest.mark.parametrize(
    "header",
    [
        "time,prompt,output",
        '{"prompt": 1}',
        "{",
        "[{}]",
        "TIMESTAMP;ContextTokens;GeneratedTokens",
        '"open',
        "\x00\x01",
        "{" * 50_000,
    ],
)
def test_unknown_header(tmp_path: Path, header: str) -> None:
    path = write(tmp_path, f"\n{header}\n1,2,3\n")
    message = complaint(path)
    assert message.startswith(f"{path}:2: not the beginning of a known trace: {repr(header[:100])[:-1]}")
    assert "Azure LLM inference trace (csv: TIMESTAMP, ContextTokens, GeneratedTokens)" in message
    assert "Mooncake trace (jsonl: timestamp, input_length, output_length, hash_ids)" in message
    assert len(message) < 1000


def test_binary_file(tmp_path: Path) -> None:
    assert "'\\\\xff\\\\xfe" in complaint(write(tmp_path, b"\xff\xfe\x00A\n"))


def test_truncated_gzip(tmp_path: Path) -> None:
    whole = gzip.compress((VIDUR + "".join(f"{at},2,3\n" for at in range(5000))).encode())
    for cut in (2, 15, len(whole) // 2, len(whole) - 4):
        assert "broken gzip data" in complaint(write(tmp_path, whole[:cut]))


def test_damaged_gzip(tmp_path: Path) -> None:
    whole = bytearray(gzip.compress((VIDUR + "1,2,3\n" * 5000).encode()))
    for at in (len(whole) // 2, len(whole) - 6):  # in the data, in the checksum
        damaged = bytearray(whole)
        damaged[at] ^= 0xFF
        assert "broken gzip data" in complaint(write(tmp_path, bytes(damaged)))


def test_an_endless_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "MAX_LINE_BYTES", 3 << 20)
    assert "found one of over 3 MiB" in complaint(write(tmp_path, b"x" * (5 << 20)))


def test_closed_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert "<stdin>: it is closed" in complaint(Path("-"))
