from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from pagefault.cli import calc, console
from pagefault.errors import PageFaultError

TRACES = Path(__file__).parents[3] / "shared" / "data" / "traces"
CUSTOM = ("--model", "custom", "--layers", "32", "--kv-heads", "8", "--head-dim", "128")

app = typer.Typer()
app.command()(calc.calc)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "vidur.csv"
    path.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n0,100,20\n1,200,8\n2,3000,96\n")
    return path


def invoke(*arguments: str) -> Result:
    console.console.cache_clear()  # they hold the stream of the run before
    console.err.cache_clear()
    return CliRunner().invoke(app, list(arguments))


def text(*arguments: str) -> list[str]:
    result = invoke(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout.splitlines()


def words(*arguments: str) -> list[str]:
    """Lines with their blanks collapsed."""
    return [" ".join(line.split()) for line in text(*arguments)]


def flat(*arguments: str) -> str:
    """All words in one line, so that it does not matter where lines break."""
    return " ".join(words(*arguments))


def values(*arguments: str) -> Any:
    return json.loads("\n".join(text(*arguments, "--json")))


def error(*arguments: str) -> str:
    result = invoke(*arguments)
    assert isinstance(result.exception, PageFaultError), (result.output, result.exception)
    assert result.stdout == ""
    return str(result.exception)


def test_bare_shows_the_seeded_workload() -> None:
    lines = words()
    for expected in (
        "sequences 32 the seeded mix, seed 42",
        "block 8,192 B 16 tokens × 512 B",
        "pool 4,096 blocks = 65,536 tokens = 33.55 MB",
        "blocks used 1,298 Σ ⌈tokens ÷ 16⌉ over 32 sequences",
        "naive reserved 33.55 MB 32 × 2,048 tokens × 512 B = 33,554,432 B",
        "paged reserved 10.63 MB 1,298 blocks × 8,192 B = 10,633,216 B",
        "savings 3.16× 33,554,432 B ÷ 10,633,216 B",
        "naive utilization 31.3% 20,500 ÷ 65,536 tokens",
        "paged utilization 98.7% 20,500 ÷ 20,768 tokens",
        "fragmentation 268 tokens 20,768 − 20,500 tokens",
        "a sequence 8.38 tokens 268 ÷ 32; expected (16 − 1) ÷ 2 = 7.5",
        "naive capacity 32 sequences in the pool: 65,536 ÷ 2,048 tokens",
        "These 32 sequences fit at once: 1,298 of 4,096 blocks used.",
        "1 10.50 0.00 100.0% 2,048",
        "16 * 10.63 0.14 98.7% 128",
        "64 11.01 0.51 95.3% 32",
        "256 13.24 2.74 79.3% 8",
    ):
        assert expected in lines


def test_json_of_seed_42() -> None:
    found = values("--seed", "42")
    assert found["blocks_used"] == 1298
    assert found["pool_blocks"] == 4096
    assert found["block_size"] == 16
    assert found["num_seqs"] == 32
    assert found["paged"]["reserved_bytes"] == 10_633_216
    assert found["naive"]["reserved_bytes"] == 33_554_432
    assert found["savings"] == pytest.approx(33_554_432 / 10_633_216)
    assert found["paged"]["utilization"] == pytest.approx(20_500 / 20_768)
    assert found["naive"]["utilization"] == pytest.approx(20_500 / 65_536)
    assert found["fragmentation_tokens"] == 268
    assert found["fragmentation_tokens_per_seq"] == 8.375
    assert [row["block_size"] for row in found["sweep"]] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert set(found["sweep"][0]) == {
        "block_size",
        "reserved_bytes",
        "fragmentation_bytes",
        "utilization",
        "table_entries",
    }
    assert "budget_bytes" not in found


def test_seed_7() -> None:
    lines = words("--seed", "7")
    assert "blocks used 790 Σ ⌈tokens ÷ 16⌉ over 32 sequences" in lines
    assert any(line.startswith("paged reserved 6.47 MB") for line in lines)
    assert any(line.startswith("savings 5.18×") for line in lines)
    assert any(line.startswith("naive utilization 18.9%") for line in lines)
    assert any(line.startswith("paged utilization 98.1%") for line in lines)
    assert any(line.startswith("a sequence 7.34 tokens") for line in lines)


def test_options_of_the_workload() -> None:
    found = values(
        "--seqs", "4", "--seed", "1", "--block-size", "64", "--pool-blocks", "10", "--max-len", "4096"
    )
    assert (found["num_seqs"], found["block_size"], found["pool_blocks"], found["max_len"]) == (
        4,
        64,
        10,
        4096,
    )
    assert found["sweep"][-1]["table_entries"] == 16


def test_sequences_that_exceed_the_pool_are_told_plainly() -> None:
    assert "These 32 sequences do not fit at once: 298 blocks short." in words("--pool-blocks", "1000")
    assert values("--pool-blocks", "1000")["blocks_short"] == 298


def test_the_70b_example() -> None:
    arguments = ["--model", "llama3-70b", "--budget-gb", "80", "--max-len", "8192", "--mean-len", "2000"]
    found = values(*arguments)
    assert found["bytes_per_token"] == 327_680
    assert found["budget_bytes"] == 80 * 10**9
    assert (found["naive"]["sequences"], found["paged"]["sequences"]) == (29, 122)
    lines = words(*arguments)
    for expected in (
        "bytes a token 327,680 B 2 (K, V) × 80 layers × 8 KV heads × 128 × 2 B",
        "320.00 KiB stored as bfloat16",
        "naive sequences 29 80,000,000,000 B ÷ 2,684,354,560 B",
        "paged sequences 122 80,000,000,000 B ÷ 655,360,000 B",
        "gain 4.2× 122 ÷ 29",
    ):
        assert expected in lines
    assert "Configuration" not in lines  # a mean alone is no workload


def test_a_mean_with_a_number_of_sequences_is_a_workload() -> None:
    arguments = [*CUSTOM, "--budget-gb", "1", "--mean-len", "500"]
    assert "These 10 sequences fit at once: 320 of 476 blocks used." in words(*arguments, "--seqs", "10")
    assert "These 20 sequences do not fit at once: 164 blocks short." in words(*arguments, "--seqs", "20")


def test_a_gpu_shows_where_each_line_comes_from() -> None:
    arguments = [
        *CUSTOM,
        "--gpu",
        "rtx-4090",
        "--weights-gib",
        "15",
        "--overhead-gib",
        "1.5",
        "--mean-len",
        "500",
    ]
    shown = flat(*arguments)
    for expected in (
        "Memory for the KV cache of one GPU",
        "GPU memory 25.25 GB NVIDIA GeForce RTX 4090 24 GB, by CUDA device total",
        "not used −2.53 GB × (1 − 0.9), the rest of the utilization",
        "weights −16.11 GB 15 GiB given",
        "overhead −1.61 GB activations, context, graphs: 1.5 GiB given",
    ):
        assert expected in shown
    found = values(*arguments)
    assert found["budget_bytes"] == sum(line["bytes"] for line in found["budget"])
    assert found["pool_blocks"] == found["budget_bytes"] // (16 * 131_072)


def test_weights_are_split_and_heads_too() -> None:
    arguments = [*CUSTOM, "--gpu", "h100", "--weights-gib", "15", "--mean-len", "500"]
    one, four = values(*arguments), values(*arguments, "--tp", "4")
    assert four["bytes_per_token"] == one["bytes_per_token"] // 4
    assert four["budget"][2]["bytes"] == -15 * 2**30 // 4
    assert "Memory for the KV cache of each of 4 GPUs" in words(*arguments, "--tp", "4")


def test_a_pool_of_blocks_is_a_budget_too() -> None:
    found = values(*CUSTOM, "--pool-blocks", "2588")
    assert found["budget_bytes"] == 2588 * 16 * 131_072
    assert found["pool_blocks"] == 2588
    assert found["naive"]["capacity"] == found["naive"]["sequences"] == 41_408 // 2048


def test_a_model_alone_shows_a_token_and_a_sequence() -> None:
    lines = words(*CUSTOM)
    assert "bytes a token 131,072 B 2 (K, V) × 32 layers × 8 KV heads × 128 × 2 B" in lines
    assert "how many fit: give --budget-gb or --gpu" in lines
    found = values(*CUSTOM)
    assert found["budget_bytes"] is None
    assert found["paged"]["sequences"] is None
    assert found["naive"]["sequences"] is None
    assert found["naive"]["bytes_per_sequence"] == 2048 * 131_072


def test_scales_are_in_the_formula() -> None:
    assert "8 KV heads × (128 × 1 B + 2 B scale)" in flat(*CUSTOM, "--kv-dtype", "int8")
    assert values(*CUSTOM, "--kv-dtype", "int8")["bytes_per_token"] == 2 * 32 * 8 * 130


def test_the_maximum_defaults_to_the_model_s_context() -> None:
    assert values("--model", "llama3-70b")["max_len"] == 8192
    assert values(*CUSTOM)["max_len"] == 2048
    assert values(*CUSTOM, "--max-len", "9000")["max_len"] == 9000


def test_a_length_beyond_the_model_s_context_is_noted() -> None:
    assert (
        "note: 9,000 tokens are beyond the model's longest context of 8,192"
        in invoke("--model", "llama3-70b", "--max-len", "9000").stderr
    )


def test_a_trace_takes_the_place_of_the_mix(trace: Path) -> None:
    found = values("--trace", str(trace))
    assert found["num_seqs"] == 3
    assert found["tokens"] == 120 + 208 + 3096
    assert found["max_len"] == 3096
    assert found["blocks_used"] == 8 + 13 + 194
    assert values("--trace", str(trace), "--seqs", "2")["blocks_used"] == 8 + 13
    assert "sequences 2 the first of 3 requests of vidur.csv" in words("--trace", str(trace), "--seqs", "2")


def test_a_trace_with_a_model(trace: Path) -> None:
    found = values("--trace", str(trace), *CUSTOM, "--budget-gb", "2")
    assert found["paged"]["reserved_bytes"] == (8 + 13 + 194) * 16 * 131_072
    assert found["paged"]["sequences"] == 2 * 10**9 * 3 // found["paged"]["reserved_bytes"]
    assert found["naive"]["sequences"] == 2 * 10**9 // (3096 * 131_072)


def test_broken_lines_of_a_trace(trace: Path) -> None:
    with trace.open("a") as stream:
        stream.write("3,many,5\n")
    assert "vidur.csv:5: num_prefill_tokens: expected" in error("--trace", str(trace))
    result = invoke("--trace", str(trace), "--skip-bad", "--json")
    assert json.loads(result.stdout)["num_seqs"] == 3
    assert "1 broken line" in result.stderr


@pytest.mark.parametrize(
    ("name", "requests"), [("azure_2023_code.csv", 8819), ("mooncake_conversation.jsonl", 12_031)]
)
def test_real_traces(name: str, requests: int) -> None:
    if not (TRACES / name).exists():
        pytest.skip(f"needs ../shared/data/traces/{name}")
    found = values("--trace", str(TRACES / name))
    assert found["num_seqs"] == requests
    assert 1 < found["savings"] < found["max_len"] / found["mean_len"]
    assert abs(found["fragmentation_tokens_per_seq"] - 7.5) < 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--seqs 0", "--seqs is 0, expected 1 or more"),
        ("--seqs -3", "--seqs is -3, expected 1 or more"),
        ("--max-len 0", "--max-len is 0, expected"),
        ("--mean-len 0", "--mean-len is 0, expected"),
        ("--seed -1", "seed is -1, expected 0 to"),
        ("--block-size 0", "block size is 0, expected a power of two from 1 to 256 tokens"),
        ("--block-size 48", "block size is 48, expected a power of two"),
        ("--block-size 512", "block size is 512, expected a power of two"),
        ("--pool-blocks 0", "pool is 0 blocks"),
        (
            "--max-len 1000",
            "the seeded mix has sequences of up to 1,999 tokens, longer than the maximum of 1,000",
        ),
        (
            "--mean-len 3000",
            "a mean of 3,000 tokens (--mean-len) is longer than the maximum of 2,048 (the default)",
        ),
        ("--mean-len 9000 --max-len 8192 MODEL", "a mean of 9,000 tokens (--mean-len) is longer than"),
        ("--skip-bad", "--skip-bad is about a trace"),
        ("--trace absent.csv", "absent.csv"),
        ("--trace x --seed 3", "--trace and --seed both say how long"),
        ("--trace x --mean-len 3", "--trace and --mean-len both say how long"),
        ("--budget-gb 3", "--budget-gb needs a model"),
        ("--gpu h100", "--gpu needs a model"),
        ("--tp 2", "--tp is about a model"),
        ("--kv-dtype fp8", "--kv-dtype is about a model"),
        ("--layers 3", "--layers describes a model of your own"),
        ("--model llama3-70b --head-dim 3", "--head-dim describes a model of your own"),
        ("--model custom --layers 3", "--model custom needs --layers, --kv-heads and --head-dim"),
        ("MODEL --dtype-bytes 1 --kv-dtype fp8", "--dtype-bytes and --kv-dtype both say"),
        ("MODEL --kv-dtype fp9", "unknown dtype 'fp9'"),
        ("MODEL --gpu h100 --budget-gb 3", "--gpu and --budget-gb both say how much memory"),
        ("MODEL --pool-blocks 10 --budget-gb 3", "--budget-gb and --pool-blocks both say how much memory"),
        (
            "MODEL --budget-gb 3 --gpu-memory-utilization 0.8",
            "--gpu-memory-utilization is about a GPU's memory",
        ),
        ("MODEL --weights-gib 8", "--weights-gib is about a GPU's memory; give --gpu NAME"),
        ("MODEL --overhead-gib 8", "--overhead-gib is about a GPU's memory; give --gpu NAME"),
        ("MODEL --budget-gb 0", "budget is 0 bytes"),
        ("MODEL --budget-gb -1", "--budget-gb is -1, expected a positive number"),
        ("MODEL --budget-gb nan", "--budget-gb is nan, expected"),
        ("MODEL --budget-gb inf", "--budget-gb is inf, expected"),
        (
            "MODEL --budget-gb 0.1",
            "smaller than one sequence: 2,048 tokens take 0.27 GB; give --max-len 752 or less",
        ),
        ("MODEL --gpu h100", "give --weights-gib"),
        ("MODEL --gpu h1000 --weights-gib 8", "unknown GPU 'h1000'; did you mean"),
        (
            "MODEL --gpu h100 --weights-gib 8 --gpu-memory-utilization 0",
            "utilization is 0, expected more than 0",
        ),
        ("MODEL --gpu h100 --weights-gib 8 --gpu-memory-utilization 90", "utilization is 90, expected"),
        ("MODEL --gpu h100 --weights-gib 100", "custom is larger than 1 × NVIDIA H100"),
        ("MODEL --gpu h100 --weights-gib 100", "--tp 2 would fit"),
        ("MODEL --gpu h100 --weights-gib -1", "--weights-gib is -1, expected a positive number"),
        ("MODEL --tp 3", "tensor parallelism of 3 does not divide"),
        ("MODEL --tp 0", "tensor parallelism is 0"),
    ],
)
def test_bad_input(arguments: str, message: str) -> None:
    expanded = [word for given in arguments.split() for word in (CUSTOM if given == "MODEL" else [given])]
    assert message in error(*expanded)


def test_more_sequences_than_the_trace_has(trace: Path) -> None:
    assert "--seqs 4 is more than the 3 requests" in error("--trace", str(trace), "--seqs", "4")


def test_a_trace_longer_than_the_maximum(trace: Path) -> None:
    assert "1 of 3 sequences are longer than the maximum of 3,000 tokens" in error(
        "--trace", str(trace), "--max-len", "3000"
    )


def test_layers_that_disagree_have_no_pool_of_blocks(tmp_path: Path) -> None:
    config = {
        "model_type": "gemma2",
        "num_hidden_layers": 4,
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "vocab_size": 1000,
        "sliding_window": 1024,
        "max_position_embeddings": 8192,
        "torch_dtype": "bfloat16",
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    lines = words("--model", str(path), "--budget-gb", "1", "--mean-len", "4000")
    assert "full 1,024 B 2 (K, V) × 2 layers × 2 KV heads × 64 × 2 B" in lines
    assert "sliding 1,024 1,024 B 2 (K, V) × 2 layers × 2 KV heads × 64 × 2 B" in lines
    assert "bytes a token 2,048 B 1,024 + 1,024 B, while all layers grow" in lines
    assert "past the windows 1,024 B a token, once every window is full" in lines
    assert any(line.startswith("window ceiling 1.06 MB a sequence at most") for line in lines)
    found = values("--model", str(path), "--budget-gb", "1", "--mean-len", "4000")
    assert found["paged"]["bytes_per_sequence"] == 4000 * 1024 + 65 * 16 * 1024
    assert found["pool_blocks"] is None
    assert "--pool-blocks needs layers that all hold" in error("--model", str(path), "--pool-blocks", "10")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--model", "llama3-70b", "--tp", "16", "--gpu", "h100", "--kv-dtype", "int4", "--seqs", "1000"),
        (*CUSTOM, "--budget-gb", "500", "--max-len", "1000000", "--seqs", "100000"),
    ],
)
def test_text_fits_eighty_columns(arguments: tuple[str, ...]) -> None:
    assert max(map(len, text(*arguments))) <= 80


def test_an_encoding_without_signs_of_arithmetic() -> None:
    command = [sys.executable, "-m", "pagefault", "calc"]
    result = subprocess.run(command, capture_output=True, check=False, env={"PYTHONIOENCODING": "ascii"})
    assert result.returncode == 0, result.stderr
    assert b"3.16x  33,554,432 B / 10,633,216 B" in result.stdout


def test_an_error_is_one_line_and_code_2() -> None:
    command = [sys.executable, "-m", "pagefault", "calc", "--block-size", "48", "--json"]
    result = subprocess.run(command, capture_output=True, check=False, text=True)
    assert result.returncode == 2
    assert result.stdout == ""
    assert (
        result.stderr == "pagefault: error: block size is 48, expected a power of two from 1 to 256 tokens\n"
    )


BARE = """
import typer, numpy
app = typer.Typer()
@app.command()
def main(number: int = 1) -> None:
    pass
app()
"""


def test_it_takes_little_longer_than_its_libraries_take_to_load() -> None:
    """An idle machine runs `calc` in under half a second; on a busy one only the ratio can be told."""
    commands = {"bare": [sys.executable, "-c", BARE], "calc": [sys.executable, "-m", "pagefault", "calc"]}
    best = dict.fromkeys(commands, float("inf"))
    for _ in range(6):
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, capture_output=True, check=True)
            best[name] = min(best[name], time.perf_counter() - start)
        if best["calc"] < 0.5:
            return
    assert best["calc"] < 2 * best["bare"], best


def test_nothing_heavy_is_imported() -> None:
    script = (
        "import sys; sys.argv = ['pagefault', 'calc', '--json']\n"
        "from pagefault.cli.main import app\n"
        "app(standalone_mode=False)\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    loaded = set(done.stderr.split())
    assert loaded & {"numpy", "typer"} == {"numpy", "typer"}
    assert not loaded & {"torch", "triton", "transformers", "plotly", "pandas", "scipy"}
