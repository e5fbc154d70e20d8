"""The page's section that plays the pool: HTML around the data, and the script and style that bring it to life."""

from __future__ import annotations

import html
import json
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING

from pagefault.report.pool_playback import playback

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagefault.report.events import RunLog

SCRIPTS = ("track.js", "pool.js", "timeline.js", "pane.js", "player.js")


def player_section(runs: Sequence[RunLog]) -> str:
    """The pool over time as a piece of HTML: ``<section id="pool">``, with its data.

    The page adds `player_script` and `player_style`, and defines the variables ``--bg --fg --muted --line --accent
    --panel`` on ``:root``.

    Args:
        runs: Of one log. Two are shown at a time, at first the first and the last.

    Returns:
        HTML; empty if no run has a step.

    Raises:
        InputError: A log is broken.
    """
    played = playback(runs)
    if not played.tracks:
        return ""
    data = json.dumps(played.as_json(), separators=(",", ":"))
    return Template(_asset("player.html")).substitute(
        note=html.escape(played.thinned), data=data.replace("<", "\\u003c")
    )


def player_script() -> str:
    """What plays it, for a ``<script type="module">``."""
    return "\n".join(_asset(name) for name in SCRIPTS)


def player_style() -> str:
    """How it looks, for a ``<style>``."""
    return _asset("player.css")


def _asset(name: str) -> str:
    return (files("pagefault.report") / "assets" / name).read_text(encoding="utf-8")
