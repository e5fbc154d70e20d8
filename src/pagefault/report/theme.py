"""The colours of the page and its charts, once on light and once on dark paper."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pagefault.report.charts import BLUE, COLOURS

if TYPE_CHECKING:
    from pagefault.report.charts import Spec

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"


@dataclass(frozen=True)
class Paper:
    """What is written on what; the fields are the page's CSS variables."""

    bg: str
    fg: str
    muted: str
    line: str
    accent: str
    panel: str

    def css(self) -> str:
        """The variables as CSS declarations."""
        return " ".join(f"--{name}: {value};" for name, value in asdict(self).items())

    def vega(self) -> Spec:
        """The charts' configuration in Vega-Lite."""
        label = {"labelColor": self.muted, "labelFontSize": 11, "labelFont": FONT}
        title = {"titleColor": self.muted, "titleFontSize": 11, "titleFontWeight": 500, "titleFont": FONT}
        return {
            "background": "transparent",
            "font": FONT,
            "view": {"stroke": None},
            "axis": {
                **label,
                **title,
                "gridColor": self.line,
                "gridOpacity": 0.7,
                "domainColor": self.line,
                "tickColor": self.line,
                "labelPadding": 4,
            },
            "axisX": {"tickCount": 8},
            "axisY": {"titlePadding": 6, "labelLimit": 230},
            "legend": {
                **label,
                **title,
                "labelColor": self.fg,
                "symbolStrokeWidth": 2,
                "columnPadding": 14,
                "rowPadding": 4,
                "offset": 10,
            },
            "title": {
                "color": self.fg,
                "subtitleColor": self.muted,
                "font": FONT,
                "subtitleFont": FONT,
                "fontSize": 12,
            },
            "header": {"labelColor": self.fg, "titleColor": self.muted},
            "text": {"color": self.fg, "fontSize": 11, "font": FONT},
            "rule": {"color": self.muted},
            "range": {"category": list(COLOURS)},
        }


LIGHT = Paper(bg="#ffffff", fg="#1a1d21", muted="#5b626b", line="#dfe3e8", accent=BLUE, panel="#f6f8fa")
DARK = Paper(bg="#14171b", fg="#e8eaed", muted="#a3abb5", line="#343a42", accent="#5cb3f0", panel="#1c2026")
