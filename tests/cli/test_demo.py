"""`pagefault demo` shows every stage, with and without PyTorch."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pagefault.cli import console, demo, demo_oracle
from pagefault.errors import CheckFailed

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(autouse=True)
def fresh_consoles() -> None:
    console.console.cache_clear()
    console.err.cache_clear()


def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec: Callable[..., Any] = importlib.util.find_spec
    monkeypatch.setattr(demo, "find_spec", lambda name: None if name == "torch" else find_spec(name))


def test_every_stage(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    without_torch(monkeypatch)
    demo.demo(trace=None)
    shown = capsys.readouterr().out
    stages = ("$ pagefault calc\n", "--model llama3-70b", "paged = contiguous", "$ pagefault sim\n")
    places = [shown.index(stage) for stage in stages]
    assert places == sorted(places)


def test_attention_is_the_bench_where_there_is_pytorch(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    demo._attention()
    shown = capsys.readouterr().out
    assert "$ pagefault bench --skip-sim" in shown
    assert "naive = oracle, every sequence" in shown


def test_the_oracle_is_equal_over_ordered_and_scattered_frames(capsys: pytest.CaptureFixture[str]) -> None:
    demo_oracle.show()
    shown = capsys.readouterr().out
    assert shown.count("20,500 of 20,500") == 2
    assert shown.count(" equal") == 2


def test_the_oracle_notices_a_wrong_frame(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pagefault.reference import paged_attention as right

    def wrong(q: Any, k_pool: Any, v_pool: Any, table: Any, lengths: Any) -> Any:
        swapped = np.array(table)
        swapped[0, 0] = swapped[1, 0]
        return right(q, k_pool, v_pool, swapped, lengths)

    monkeypatch.setattr(demo_oracle, "paged_attention", wrong)
    with pytest.raises(CheckFailed, match="over ordered frames differs"):
        demo_oracle.show()
    assert "equal" not in capsys.readouterr().out
