"""Charts of replayed traces: latencies, and what pool and machine did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagefault.report.charts import (
    COLOURS,
    GREY,
    SHAPES,
    Chart,
    brief,
    duration,
    figure,
    legend,
    once,
    percent,
    scale_of,
    several,
    shown,
    table,
    time_unit,
    view,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagefault.report.charts import Spec
    from pagefault.report.results import Quantiles, Served

SIMULATED = (
    "Simulated: a step's time comes from the model's shape and the GPU's peaks, not from a real server."
)

LATENCIES = (
    ("TTFT", "ttft", "time to first token"),
    ("TPOT", "tpot", "time an output token"),
    ("end to end", "e2e", "arrival to last token"),
    ("in line", "wait", "arrival to admission"),
)

QUANTILES = ("p50", "p90", "p99", "max")

SHARES = (
    ("KV pool, mean", "kv_usage"),
    ("KV pool, peak", "kv_usage_peak"),
    ("frames filled", "utilization"),
    ("time busy", "busy_share"),
    ("rows stalled", "stalled_share"),
    ("computed again", "recompute_tax"),
    ("prefix cache hits", "hit_rate"),
    ("requests good", "good"),
)


def _names(served: Sequence[Served]) -> list[str]:
    """What to call each replay: what runs on what at which rate, and a number where that is the same."""
    plain = [f"{each.model} on {each.gpu}, {brief(each.arrival_rate)}/s" for each in served]
    return [
        name if plain.count(name) == 1 else f"{name} #{plain[: index + 1].count(name)}"
        for index, name in enumerate(plain)
    ]


def latencies(served: Sequence[Served]) -> Chart:
    """Quantiles of TTFT, TPOT and the like, a panel a replay."""
    names = _names(served)
    rows: list[Spec] = []
    for name, each in zip(names, served, strict=True):
        for what, key, _ in LATENCIES:
            found: Quantiles = getattr(each, key)
            for quantile in QUANTILES:
                value = getattr(found, quantile)
                if value is not None:
                    rows.append({"run": name, "what": what, "quantile": quantile, "seconds": value})
    largest = max((row["seconds"] for row in rows), default=1.0)
    unit, size = time_unit(1e9 * largest)
    for row in rows:
        row["value"] = figure(row.pop("seconds") * 1e9 / size)
    panels = [
        view(
            [row for row in rows if row["run"] == name],
            130,
            title={"text": name, "anchor": "start", "fontSize": 12},
            layer=[
                {
                    "mark": {"type": "rule", "color": GREY},
                    "encoding": {
                        "x": {"aggregate": "min", "field": "value", "type": "quantitative"},
                        "x2": {"aggregate": "max", "field": "value"},
                    },
                },
                {
                    "mark": {"type": "point", "filled": True, "size": 80, "opacity": 1},
                    "encoding": {
                        "x": {
                            "field": "value",
                            "type": "quantitative",
                            "title": f"{unit} (square-root scale)",
                            "scale": {"type": "sqrt", "domain": [0, figure(largest * 1e9 / size)]},
                            "axis": {"tickCount": 6},
                        },
                        "color": {
                            "field": "quantile",
                            "scale": scale_of(QUANTILES, COLOURS),
                            "legend": legend(),
                        },
                        "shape": {"field": "quantile", "scale": scale_of(QUANTILES, SHAPES)},
                        "tooltip": [
                            {"field": "what", "title": "time"},
                            {"field": "quantile"},
                            {"field": "value", "title": unit, "format": ",.4~r"},
                        ],
                    },
                },
            ],
            encoding={
                "y": {
                    "field": "what",
                    "type": "nominal",
                    "sort": [what for what, *_ in LATENCIES],
                    "title": None,
                    "axis": {"minExtent": 70, "maxExtent": 70},
                }
            },
        )
        for name in names
    ]
    said = _latency_title(names, served)
    return Chart(
        id="serving-latency",
        title=said,
        subtitle="Latencies of a replayed trace. "
        + "; ".join(f"{what} is {meaning}" for what, _, meaning in LATENCIES)
        + ". "
        + " ".join(_verdict(name, each, len(served)) for name, each in zip(names, served, strict=True)),
        commands=once(each.command for each in served),
        spec={"vconcat": panels} if len(panels) > 1 else panels[0],
        alt=said + ".",
        table=table(
            ("run", "time", "p50, s", "p90, s", "p99, s", "max, s"),
            (
                (name, what, *(getattr(getattr(each, key), quantile) for quantile in QUANTILES))
                for name, each in zip(names, served, strict=True)
                for what, key, _ in LATENCIES
            ),
        ),
        caveat=SIMULATED,
        sources=once(each.source for each in served),
    )


def _latency_title(names: Sequence[str], served: Sequence[Served]) -> str:
    if len(served) > 1:
        return "First token for half of the requests within " + "; ".join(
            f"{shown(None) if each.ttft.p50 is None else duration(each.ttft.p50)} ({name})"
            for name, each in zip(names, served, strict=True)
        )
    ttft = served[0].ttft
    if ttft.p50 is None or ttft.p99 is None:
        return f"{names[0]}: no request was finished"
    return (
        f"{names[0]}: half of the requests have their first token within {duration(ttft.p50)}, "
        f"99 of 100 within {duration(ttft.p99)}"
    )


def _verdict(name: str, served: Served, of: int) -> str:
    return f"{name + ': v' if of > 1 else 'V'}erdict: {served.verdict.rstrip('.')}."


def shares(served: Sequence[Served]) -> Chart:
    """What of pool, time and work went where."""
    names = _names(served)
    rows: list[Spec] = [
        {"run": name, "what": what, "share": figure(100 * getattr(each, key))}
        for name, each in zip(names, served, strict=True)
        for what, key in SHARES
    ]
    first = served[0]
    return Chart(
        id="serving-shares",
        title=f"The pool is {percent(first.kv_usage)} full in the mean, {percent(first.kv_usage_peak)} at its peak"
        if len(served) == 1
        else "KV pool in use, in the mean: "
        + "; ".join(f"{percent(each.kv_usage)} ({name})" for name, each in zip(names, served, strict=True)),
        subtitle="Shares in %. KV pool: frames in use, over busy time; filled: the room in used frames that holds "
        "tokens; computed again: of all computed tokens; good: meet the SLO, or all without one. "
        f"{several(sum(each.preemptions for each in served), 'preemption')}, "
        + ", ".join(f"{brief(each.request_throughput)} requests/s" for each in served)
        + ".",
        commands=once(each.command for each in served),
        spec=view(
            rows,
            len(SHARES) * max(22, 14 * len(served)) + 10,
            mark={"type": "bar"},
            encoding={
                "y": {
                    "field": "what",
                    "type": "nominal",
                    "sort": [what for what, _ in SHARES],
                    "title": None,
                },
                **({"yOffset": {"field": "run", "sort": names}} if len(served) > 1 else {}),
                "x": {"field": "share", "type": "quantitative", "title": "%", "scale": {"domainMin": 0}},
                "color": {
                    "field": "run",
                    "scale": scale_of(names, COLOURS),
                    "legend": legend(columns=1, labelLimit=300) if len(served) > 1 else None,
                },
                "tooltip": [
                    {"field": "run"},
                    {"field": "what", "title": "share"},
                    {"field": "share", "title": "%", "format": ".3~r"},
                ],
            },
        ),
        alt="; ".join(
            f"{name}: " + ", ".join(f"{what} {shown(100 * getattr(each, key))}%" for what, key in SHARES)
            for name, each in zip(names, served, strict=True)
        )
        + ".",
        table=table(("run", "share of", "%"), ((row["run"], row["what"], row["share"]) for row in rows)),
        caveat=SIMULATED,
        sources=once(each.source for each in served),
    )
