"""The guide's code runs as written, in order, in one namespace, and prints what the guide says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "pager.md"
PIECE = re.compile(r"^```python\n(.*?)^```\n(?:\n^```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def test_the_guide(capsys: pytest.CaptureFixture[str]) -> None:
    pieces = PIECE.findall(GUIDE.read_text(encoding="utf-8"))
    assert len(pieces) == 4
    assert len(pieces[0][0].splitlines()) < 40, "the engine fits on a page"
    assert "from pagefault import BlockHasher, OutOfFrames, Pager\n" in pieces[0][0]
    namespace: dict[str, Any] = {}
    for code, printed in pieces:
        exec(compile(code, str(GUIDE), "exec"), namespace)
        assert capsys.readouterr().out == printed
