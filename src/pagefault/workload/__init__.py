"""Who asks: seeded length mixes, arrival processes, readers of real traces, as one `Workload` of arrays."""

from __future__ import annotations

from pagefault.workload.arrivals import all_at_once, bursts, poisson, stream
from pagefault.workload.formats import FORMATS, Format
from pagefault.workload.lengths import seeded_lengths, seeded_workload
from pagefault.workload.reader import Progress, Trace, read_trace
from pagefault.workload.requests import MAX_TOKENS, Workload
from pagefault.workload.summary import Distribution, Reuse, WorkloadSummary, summarize

__all__ = [
    "FORMATS",
    "MAX_TOKENS",
    "Distribution",
    "Format",
    "Progress",
    "Reuse",
    "Trace",
    "Workload",
    "WorkloadSummary",
    "all_at_once",
    "bursts",
    "poisson",
    "read_trace",
    "seeded_lengths",
    "seeded_workload",
    "stream",
    "summarize",
]
