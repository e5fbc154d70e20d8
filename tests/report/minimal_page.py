"""The smallest page around the player."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagefault.report.player import player_script, player_section, player_style

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pagefault.report.events import RunLog

LIGHT = "--bg:#fff;--fg:#1b1f24;--muted:#59636e;--line:#d1d9e0;--accent:#0b63b6;--panel:#f6f8fa"
DARK = "--bg:#0f1318;--fg:#e6edf3;--muted:#9aa6b2;--line:#333c47;--accent:#6cb6ff;--panel:#171c23"
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>The pool</title>
<meta name="viewport" content="width=device-width,initial-scale=1"><style>
:root{{color-scheme:light;{light}}}
@media(prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}
:root[data-theme=dark]{{color-scheme:dark;{dark}}}
*{{box-sizing:border-box}}
body{{margin:0 auto;padding:16px;max-width:1240px;font:16px/1.45 system-ui,sans-serif}}
body{{background:var(--bg);color:var(--fg)}}
{style}</style></head><body>{section}<script type="module">{script}</script></body></html>"""


def write_page(path: Path, runs: Sequence[RunLog]) -> Path:
    """Writes it, and gives the path back."""
    path.write_text(
        PAGE.format(
            light=LIGHT,
            dark=DARK,
            style=player_style(),
            section=player_section(runs),
            script=player_script(),
        ),
        encoding="utf-8",
    )
    return path
