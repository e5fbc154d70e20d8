from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from pagefault.errors import InputError
from pagefault.workload import all_at_once, bursts, poisson, seeded_lengths, seeded_workload, stream


class MersenneTwister:
    """MT19937 after Matsumoto and Nishimura's reference, to hold NumPy's against."""

    def __init__(self, seed: int) -> None:
        self.state = [seed]
        for index in range(1, 624):
            last = self.state[-1]
            self.state.append((1812433253 * (last ^ (last >> 30)) + index) & 0xFFFFFFFF)
        self.index = 624

    def word(self) -> int:
        if self.index == 624:
            for at in range(624):
                joined = (self.state[at] & 0x80000000) | (self.state[(at + 1) % 624] & 0x7FFFFFFF)
                twisted = self.state[(at + 397) % 624] ^ (joined >> 1)
                self.state[at] = twisted ^ (0x9908B0DF if joined & 1 else 0)
            self.index = 0
        word = self.state[self.index]
        self.index += 1
        word ^= word >> 11
        word ^= (word << 7) & 0x9D2C5680
        word ^= (word << 15) & 0xEFC60000
        return word ^ (word >> 18)


def lengths_by_hand(count: int, seed: int) -> list[int]:
    twister = MersenneTwister(seed)
    lengths = []
    for _ in range(count):
        pick = twister.word() / 2**32
        low, bits, values = (32, 7, 97) if pick < 0.5 else (256, 9, 257) if pick < 0.8 else (1024, 11, 1025)
        while (extra := twister.word() % 2**bits) >= values:
            pass
        lengths.append(low + extra)
    return lengths


@pytest.mark.parametrize(("seed", "blocks", "utilization"), [(42, 1298, "98.7%"), (7, 790, "98.1%")])
def test_published_figures(seed: int, blocks: int, utilization: str) -> None:
    lengths = seeded_lengths(32, seed)
    used = int((-(-lengths // 16)).sum())
    assert used == blocks
    assert f"{lengths.sum() / (used * 16):.1%}" == utilization


@pytest.mark.parametrize("seed", [0, 42, 2**32 - 1])
def test_lengths_follow_the_reference_generator(seed: int) -> None:
    assert seeded_lengths(2000, seed).tolist() == lengths_by_hand(2000, seed)


def test_a_longer_mix_begins_with_the_shorter_one() -> None:
    assert seeded_lengths(5000, 3)[:100].tolist() == seeded_lengths(100, 3).tolist()


def test_the_mix_has_its_shares() -> None:
    lengths = seeded_lengths(20_000, 1)
    short, medium, long = (
        np.mean((lengths >= a) & (lengths <= b)) for a, b in ((32, 128), (256, 512), (1024, 2048))
    )
    assert (short, medium, long) == pytest.approx((0.5, 0.3, 0.2), abs=0.01)
    assert short + medium + long == pytest.approx(1)
    for edge in (32, 128, 256, 512, 1024, 2048):
        assert edge in lengths


@pytest.mark.parametrize(("count", "seed"), [(0, 1), (-1, 1), (1, -1), (1, 2**32)])
def test_lengths_refuse(count: int, seed: int) -> None:
    with pytest.raises(InputError, match="expected"):
        seeded_lengths(count, seed)


def test_seeded_workload_splits_the_lengths() -> None:
    lengths = seeded_lengths(512, 42)
    made = seeded_workload(512, 42)
    assert made.total_tokens.tolist() == lengths.tolist()
    assert made.prompt_tokens.tolist() == [max(1, int(0.2 * length)) for length in lengths.tolist()]
    assert made.duration_ns == 0


@pytest.mark.parametrize("share", [0, 1])
def test_every_seeded_request_has_a_prompt_and_an_output(share: float) -> None:
    made = seeded_workload(50, 1, arrival_ns=poisson(50, 2.0, stream(1, "arrivals")), prompt_share=share)
    assert min(made.prompt_tokens.min(), made.output_tokens.min()) == 1
    assert made.duration_ns > 0


def test_seeded_workload_refuses_a_share_above_one() -> None:
    with pytest.raises(InputError, match=r"prompt share is 1\.5"):
        seeded_workload(1, 1, prompt_share=1.5)


def test_streams_are_named() -> None:
    def draw(seed: int, name: str) -> list[int]:
        drawn: list[int] = stream(seed, name).integers(0, 2**31, size=4).tolist()
        return drawn

    assert draw(1, "arrivals") == draw(1, "arrivals")
    assert len({tuple(draw(seed, name)) for seed in (1, 2) for name in ("arrivals", "lengths")}) == 4
    with pytest.raises(InputError, match="seed is -1"):
        stream(-1, "arrivals")


def test_all_at_once() -> None:
    assert all_at_once(3).tolist() == [0, 0, 0]


def test_poisson_has_its_rate_and_its_spread() -> None:
    gaps = np.diff(poisson(50_001, 20.0, stream(5, "arrivals"))) / 1e9
    assert gaps.min() >= 0
    assert gaps.mean() == pytest.approx(1 / 20, rel=0.02)
    assert gaps.std() == pytest.approx(1 / 20, rel=0.02)  # of an exponential the same as its mean


def test_bursts_come_together_at_the_same_average_rate() -> None:
    arrivals = bursts(10_005, 20.0, 10, stream(5, "arrivals"))
    assert len(arrivals) == 10_005
    instants, sizes = np.unique(arrivals, return_counts=True)
    assert set(sizes[:-1].tolist()) == {10}
    assert sizes[-1] == 5
    assert len(arrivals) / (instants[-1] / 1e9) == pytest.approx(20, rel=0.1)


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf"), 1e-12])
def test_arrivals_refuse_a_rate(rate: float) -> None:
    with pytest.raises(InputError, match=r"rate|a second"):
        poisson(3, rate, stream(1, "arrivals"))


def test_arrivals_refuse_counts() -> None:
    with pytest.raises(InputError, match="number of requests is 0"):
        all_at_once(0)
    with pytest.raises(InputError, match="number of requests is 0"):
        poisson(0, 1, stream(1, "arrivals"))
    with pytest.raises(InputError, match="burst size is 0"):
        bursts(1, 1, 0, stream(1, "arrivals"))


def test_the_room_opens_without_msgspec() -> None:
    code = """
import sys
sys.modules["msgspec"] = None
from pagefault.workload import read_trace, seeded_lengths
from pagefault.errors import MissingExtra
assert len(seeded_lengths(3, 1)) == 3
import tempfile, os
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "t.jsonl")
    with open(path, "w") as file:
        file.write('{"input_toks": 1, "output_toks": 2, "arrival_time_ns": 3}')
    try:
        read_trace(path)
    except MissingExtra as error:
        assert "pip install msgspec" in str(error)
    else:
        raise SystemExit("no error")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
