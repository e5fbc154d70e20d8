"""Reads rows and events that others wrote; makes charts, the page, the pool played back, and traces."""

from __future__ import annotations

from pagefault.report.charts import Chart
from pagefault.report.chrome_trace import write_chrome_trace
from pagefault.report.events import RunLog, read_events
from pagefault.report.loading import load
from pagefault.report.page import build_page
from pagefault.report.pool_playback import Playback, playback
from pagefault.report.replay import Replay
from pagefault.report.results import Results
from pagefault.report.static import chart_png, chart_svg

__all__ = [
    "Chart",
    "Playback",
    "Replay",
    "Results",
    "RunLog",
    "build_page",
    "chart_png",
    "chart_svg",
    "load",
    "playback",
    "read_events",
    "write_chrome_trace",
]
