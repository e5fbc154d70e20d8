"""The comparison is right, notices what is wrong, and writes rows."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

# ruff: noqa: E402  # what follows needs PyTorch
from pagefault.bench import (
    BenchSetup,
    Timing,
    build,
    environment,
    model_options,
    profile,
    require,
    rows_as_csv,
    run,
    run_checks,
    time_calls,
)
from pagefault.bench.problem import SHUFFLED
from pagefault.capacity import load_model
from pagefault.errors import CheckFailed, InputError

GPU = (pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"))
DEVICES = ["cpu", pytest.param("cuda", marks=GPU)]
SMALL = BenchSetup(seqs=6, heads=4, kv_heads=2, head_dim=64, dtype="fp16", iters=2)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16", "fp8"])
def test_every_dtype_passes_its_checks_in_every_layout(device: str, dtype: str) -> None:
    setup = replace(SMALL, dtype=dtype, device=device)
    report = run(build(setup))
    assert len(report.checks) == 5
    assert all(check.passed for check in report.checks)
    assert set(report.timings) == {"naive", "paged ordered", "paged shuffled"}
    assert report.memory.tokens == setup.lengths.sum()
    assert report.slowdown > 0
    assert report.scattering is not None
    assert (report.floor is not None) == (device == "cuda")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("block_size", [1, 256])
def test_block_sizes_at_the_ends(device: str, block_size: int) -> None:
    report = run(build(replace(SMALL, device=device, block_size=block_size)))
    assert all(check.passed for check in report.checks)


@pytest.mark.parametrize("device", DEVICES)
def test_a_broken_table_entry_is_noticed(device: str) -> None:
    problem = build(replace(SMALL, device=device))
    assert all(check.passed for check in run_checks(problem))
    cache = problem.paged[SHUFFLED]
    row, other = problem.rows[SHUFFLED][:2]
    cache.block_table[row, 0] = cache.block_table[other, 0]
    failed = {check.what for check in run_checks(problem) if not check.passed}
    assert failed == {"paged shuffled = naive", "paged shuffled reads back"}
    with pytest.raises(CheckFailed, match="2 of 5 checks failed: paged shuffled = naive: error"):
        run(problem)


def test_a_wrong_kernel_and_nan_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = build(SMALL)
    problem.naive.memory[0, 1, 3, 0, 0, 0] = float("nan")
    failed = {check.what for check in run_checks(problem) if not check.passed}
    assert "naive = oracle, every sequence" in failed
    assert "paged ordered reads back" in failed
    problem = build(SMALL)
    monkeypatch.setattr("pagefault.bench.checks.oracle", lambda _: torch.zeros(6, 4, 64))
    with pytest.raises(CheckFailed, match="naive = oracle"):
        require(run_checks(problem))


def test_frames_are_scattered_over_the_whole_pool_and_ordered_ones_are_not() -> None:
    problem = build(BenchSetup())

    def frames(name: str) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        pager = problem.paged[name].pager
        return np.concatenate([pager.block_table[row, : pager.pages[row]] for row in problem.rows[name]])

    ordered, shuffled = frames("paged ordered"), frames("paged shuffled")
    assert (np.diff(ordered) == 1).all()
    blocks = 1298  # seed 42
    assert sorted(shuffled.tolist()) == list(range(blocks))
    # A random permutation's neighbours are a third of the pool apart in the mean.
    assert 0.9 < np.abs(np.diff(shuffled)).mean() / (blocks / 3) < 1.1
    assert "paged shuffled" not in build(replace(SMALL, shuffle_seed=0)).paged


def test_one_comparison_gives_the_same_tensors_again() -> None:
    one, other = build(SMALL), build(SMALL)
    assert torch.equal(one.tokens[0].k, other.tokens[0].k)
    assert torch.equal(one.paged[SHUFFLED].block_table, other.paged[SHUFFLED].block_table)


def test_rows_are_added_and_replaced() -> None:
    report = run(build(SMALL))
    text = rows_as_csv(report.rows)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["implementation"] for row in rows] == ["naive", "paged ordered", "paged shuffled"]
    assert rows[0]["case"] == "6xmix 4/2x64 fp16 block 16"
    assert float(rows[0]["p50"]) == pytest.approx(report.timings["naive"].p50, abs=1e-3)
    assert rows_as_csv(report.rows, before=text) == text
    other = run(build(replace(SMALL, block_size=32)))
    both = list(csv.DictReader(io.StringIO(rows_as_csv(other.rows, before=text))))
    assert len(both) == 6
    with pytest.raises(InputError, match="the file has the columns a, b; expected those of a results file"):
        rows_as_csv(report.rows, before="a,b\n1,2\n")


def test_times_are_those_of_the_rounds() -> None:
    timing = Timing.of([4.0, 1.0, 2.0, 3.0, 5.0])
    assert (timing.min, timing.p50, timing.mean) == (1.0, 3.0, 3.0)
    assert timing.p20 < timing.p50 < timing.p80
    calls: list[int] = []
    timed = time_calls({"a": [lambda: calls.append(0)] * 3}, 4, torch.device("cpu"))
    assert len(calls) == 3 * (4 + 1)  # and a round to warm up
    assert timed["a"].p50 > 0


def test_a_model_says_heads_and_dtype() -> None:
    assert model_options(load_model("llama3-8b")) == {
        "heads": 32,
        "kv_heads": 8,
        "head_dim": 128,
        "dtype": "bf16",
    }
    assert model_options(load_model("gemma2-9b"))["head_dim"] == 256
    with pytest.raises(InputError, match="deepseek-v3 stores 61 mla layers"):
        model_options(load_model("deepseek-v3"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"seqs": 0}, "seqs is 0; expected 1 to 8,192"),
        ({"iters": 1}, "iters is 1; expected 2 to 1,000,000"),
        ({"block_size": 24}, "24"),
        ({"dtype": "int8"}, "dtype is 'int8'; expected one of fp32, fp16, bf16, fp8"),
        ({"heads": 6, "kv_heads": 4}, "multiple of the 4 KV heads"),
        ({"tolerance": 0.0}, "tolerance is 0.0"),
        ({"device": "tpu"}, "expected cuda or cpu"),
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        BenchSetup(**wrong)  # type: ignore[arg-type]


def test_the_environment_is_told() -> None:
    where = environment(torch.device("cpu"), "pagefault bench")
    assert where.gpu == "CPU"
    assert where.torch == torch.__version__
    assert where.commit
    assert where.command == "pagefault bench"


@pytest.mark.parametrize("device", DEVICES)
def test_a_profile_names_the_stages(device: str) -> None:
    names = {event.key for event in profile(build(replace(SMALL, device=device))).key_averages()}
    assert {"naive", "paged ordered", "paged shuffled"} <= names
