"""Reads rows and events that others wrote; makes charts, the page, the pool played back, and traces."""

from __future__ import annotations

from pagefault.report.chrome_trace import write_chrome_trace
from pagefault.report.events import read_events

__all__ = ["read_events", "write_chrome_trace"]
