"""Charts of `pagefault sim --json`: the classic experiment and replays of traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagefault.report.served_charts import latencies, shares
from pagefault.report.watermark_charts import throughput, trade

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagefault.report.charts import Chart
    from pagefault.report.results import Classic, Served


def serving_charts(classic: Sequence[Classic], served: Sequence[Served]) -> list[Chart]:
    """Charts of each classic experiment, and of all replays together."""
    charts = []
    for each in classic:
        if each.paged:
            charts += [throughput(each), trade(each)]
    return [*charts, latencies(served), shares(served)] if served else charts
