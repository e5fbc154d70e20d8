"""Still pictures of charts, without a browser."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from pagefault.report.bundle import VEGA_LITE, vl_convert
from pagefault.report.theme import LIGHT

if TYPE_CHECKING:
    from pagefault.report.charts import Chart, Spec

WIDTH = 640
"""Pixels of a view, its axis beside it."""

CHARACTERS = 96
"""Of a line of the title's small print."""


APART = {"scale": dict.fromkeys(("color", "strokeDash", "shape"), "independent")}
"""Each panel says its own looks, or none: those of the panel above."""


def still(chart: Chart) -> Spec:
    """The chart as one specification of a fixed width, with its words in it."""
    panels = [
        {**{key: value for key, value in panel.items() if key != "autosize"}, "width": WIDTH}
        for panel in chart.panels
    ]
    small = [chart.subtitle, chart.caveat, chart.thinned, *chart.commands]
    return {
        "title": {
            "text": textwrap.wrap(chart.title, CHARACTERS * 3 // 4),
            "subtitle": [line for text in small if text for line in textwrap.wrap(text, CHARACTERS)],
            "anchor": "start",
            "frame": "group",
            "fontSize": 15,
            "offset": 14,
        },
        "background": LIGHT.bg,
        "padding": 16,
        **({"vconcat": panels, "resolve": APART} if len(panels) > 1 else panels[0]),
    }


def chart_svg(chart: Chart) -> str:
    """The chart as an SVG picture on white.

    Raises:
        MissingExtra: vl-convert is not installed.
    """
    drawn: str = vl_convert().vegalite_to_svg(still(chart), **_settings())
    return drawn


def chart_png(chart: Chart) -> bytes:
    """The chart as a PNG picture on white, two pixels for each of the SVG's.

    Raises:
        MissingExtra: vl-convert is not installed.
    """
    drawn: bytes = vl_convert().vegalite_to_png(still(chart), scale=2, **_settings())
    return drawn


def _settings() -> dict[str, Any]:
    config = {key: value for key, value in LIGHT.vega().items() if key != "background"}
    return {"vl_version": VEGA_LITE, "config": config, "allowed_base_urls": []}
