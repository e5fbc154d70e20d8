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
    from pathlib import Path


@pytest.fixture(autouse=True)
def fresh_consoles() -> None:
    console.console.cache_clear()
    console.err.cache_clear()


def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec: Callable[..., Any] = importlib.util.find_spec
    monkeypatch.setattr(demo, "find_spec", lambda name: None if name == "torch" else find_spec(name))


def test_every_stage_and_a_page_of_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("vl_convert", reason="vl-convert is not installed")
    without_torch(monkeypatch)
    monkeypatch.setattr(demo, "SWEEP", "watermark=0.1")
    demo.demo(trace=None, out=str(tmp_path / "pictures"))
    shown = capsys.readouterr().out
    stages = (
        "$ pagefault calc\n",
        "--model llama3-70b",
        "paged = contiguous",
        "$ pagefault sim --sweep watermark=0.1\n",
        "$ pagefault report",
        f"Open {tmp_path}/pictures/index.html in a browser.",
    )
    places = [shown.index(stage) for stage in stages]
    assert places == sorted(places)
    page = (tmp_path / "pictures" / "index.html").read_text(encoding="utf-8")
    assert "pagefault calc --json" in page
    assert "pagefault sim --sweep watermark=0.1 --json" in page
    assert 'id="pool"' in page


def test_without_what_draws_it_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda _: None)
    demo._page(tmp_path, "pictures")
    assert "pip install '.[report]'" in capsys.readouterr().out


def test_attention_is_the_bench_where_there_is_pytorch(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    demo._attention(tmp_path)
    shown = capsys.readouterr().out
    assert "$ pagefault bench --skip-sim" in shown
    assert "naive = oracle, every sequence" in shown
    assert "pagefault bench --skip-sim" in (tmp_path / "attention.csv").read_text(encoding="utf-8")


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
