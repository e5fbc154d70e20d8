"""The page: one HTML file that holds everything it needs."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING

from pagefault.report.bundle import vega_script
from pagefault.report.charts import Chart, apart, several
from pagefault.report.kernel_charts import kernel_charts
from pagefault.report.memory_charts import memory_charts
from pagefault.report.player import player_script, player_section, player_style
from pagefault.report.run_charts import run_charts
from pagefault.report.runs import drawn_runs
from pagefault.report.serving_charts import serving_charts
from pagefault.report.theme import DARK, LIGHT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagefault.report.charts import Table
    from pagefault.report.results import Results

TITLE = "PageFault report"


@dataclass(frozen=True)
class Section:
    """Charts of one subject; without charts it is left out."""

    id: str
    title: str
    about: str
    charts: tuple[Chart, ...]


def sections(results: Results) -> list[Section]:
    """The page's sections that have something to show, with charts whose ids differ."""
    charts = apart(
        [
            *memory_charts(results.memory),
            *serving_charts(results.classic, results.served),
            *run_charts(results.runs),
            *kernel_charts(results.measured),
        ]
    )
    subjects = (
        ("memory", "Memory", "What the KV cache reserves, what it stores, what fits.", ("memory-",)),
        ("serving", "Serving", "Who runs and who waits, what the pool holds, what gets lost.", ("serving-",)),
        ("kernels", "Kernels", "What attention takes, measured.", ("kernels-", "paging-")),
    )
    found = [
        Section(id_, title, about, tuple(chart for chart in charts if chart.id.startswith(prefixes)))
        for id_, title, about, prefixes in subjects
    ]
    return [section for section in found if section.charts]


def build_page(results: Results, title: str = TITLE) -> str:
    """The report as one HTML document that loads nothing from anywhere. The same results give the same text.

    Args:
        results: What to show; kinds of which there is nothing are left out.
        title: Its heading.

    Raises:
        InputError: An event log is broken.
        MissingExtra: vl-convert is not installed.
    """
    shown = sections(results)
    parts = {section.id: _section(section) for section in shown}
    links = {
        section.id: (section.title, [(chart.id, chart.title) for chart in section.charts])
        for section in shown
    }
    pool = player_section(drawn_runs(results.runs)) if results.runs else ""
    if pool:
        parts["pool"], links["pool"] = pool, ("The pool over time", [])
    order = [id_ for id_ in ("memory", "serving", "pool", "kernels") if id_ in parts]
    specs = {chart.id: chart.panels for section in shown for chart in section.charts}
    return Template(_asset("page.html")).substitute(
        title=html.escape(title),
        holds=html.escape(contents(results)),
        variables=_variables(),
        style=_asset("page.css") + (player_style() if pool else ""),
        contents="\n".join(_link(id_, *links[id_]) for id_ in order),
        sections="\n".join(parts[id_] for id_ in order)
        or "<p>These files hold nothing that can be drawn.</p>",
        specs=_json(specs),
        configs=_json({"light": LIGHT.vega(), "dark": DARK.vega()}),
        vega=vega_script() if specs else "",
        script=_asset("page.js"),
        player=f'<script type="module">\n{player_script()}</script>' if pool else "",
    )


def contents(results: Results) -> str:
    """What was given, in words."""
    counts = (
        (len(results.memory), "calculation"),
        (len(results.classic), "experiment"),
        (len(results.served), "replay"),
        (len(results.runs), "run of an event log" if len(results.runs) == 1 else "runs of event logs"),
        (len(results.measured), "measurement"),
    )
    return ", ".join(
        several(count, noun) if "event" not in noun else f"{count:,} {noun}"
        for count, noun in counts
        if count
    )


def _variables() -> str:
    return (
        f":root {{ color-scheme: light; {LIGHT.css()} }}\n"
        "@media (prefers-color-scheme: dark) {\n"
        f":root:not([data-theme=light]) {{ color-scheme: dark; {DARK.css()} }}\n}}\n"
        f":root[data-theme=dark] {{ color-scheme: dark; {DARK.css()} }}"
    )


def _link(id_: str, title: str, charts: Sequence[tuple[str, str]]) -> str:
    inner = "".join(f'<li><a href="#{chart}">{html.escape(says)}</a></li>' for chart, says in charts)
    return f'<li><a href="#{id_}">{html.escape(title)}</a>{f"<ul>{inner}</ul>" if inner else ""}</li>'


def _section(section: Section) -> str:
    figures = "\n".join(map(_figure, section.charts))
    return (
        f'<section id="{section.id}" aria-labelledby="{section.id}-title">\n<h2 id="{section.id}-title">'
        f'{html.escape(section.title)}</h2>\n<p class="about">{html.escape(section.about)}</p>\n{figures}\n</section>'
    )


def _figure(chart: Chart) -> str:
    heights = "".join(
        f'<div class="panel" style="min-height: {panel["height"] + 60}px"></div>' for panel in chart.panels
    )
    said = (
        [f'<p class="caveat"><strong>Note.</strong> {html.escape(chart.caveat)}</p>'] if chart.caveat else []
    )
    said += [f'<p class="thinned">{html.escape(chart.thinned)}</p>'] if chart.thinned else []
    said.append(f"<p>{_made_by(chart)}</p>")
    return (
        f'<figure class="chart" id="{chart.id}" aria-labelledby="{chart.id}-title">\n'
        f'<h3 id="{chart.id}-title">{html.escape(chart.title)}</h3>\n'
        f'<p class="subtitle">{html.escape(chart.subtitle)}</p>\n'
        f'<div class="picture" role="img" aria-label="{html.escape(chart.alt)}">{heights}</div>\n'
        f"<figcaption>{''.join(said)}</figcaption>\n"
        f"<details><summary>The figures as a table</summary>{_table(chart.table, chart.title)}</details>\n"
        "</figure>"
    )


def _made_by(chart: Chart) -> str:
    files_ = f" · {html.escape(', '.join(chart.sources))}" if chart.sources else ""
    if not chart.commands:
        return f"The command is not in the file{files_}"
    return (
        "Made by " + ", ".join(f"<code>{html.escape(command)}</code>" for command in chart.commands) + files_
    )


def _table(table: Table, title: str) -> str:
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in table.columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{html.escape(title)}: figures">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _json(value: object) -> str:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _asset(name: str) -> str:
    return (files("pagefault.report") / "assets" / name).read_text(encoding="utf-8")
