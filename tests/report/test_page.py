"""The page is one file that holds everything, says what the files say, and is the same for the same files."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from pagefault.report.loading import load
from pagefault.report.page import build_page, sections
from report.result_files import CALC, CALC_GPU, H200, SWEEP, event_log, output

if TYPE_CHECKING:
    from pathlib import Path

NASTY = '</script><img src=x onerror="alert(1)">&\u2028'


class Loads(HTMLParser):
    """Collects what a page would load, its ids and its links inside."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name == "href" and tag == "a":
                self.links.append(value or "")
            elif name in ("src", "href", "srcset", "action", "data", "poster"):
                self.loads.append(value or "")


def page_of(folder: Path, *texts: str) -> str:
    for index, text in enumerate(texts):
        (folder / f"{index}.json").write_text(text)
    return build_page(load([folder / f"{index}.json" for index in range(len(texts))]))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("page")
    (folder / "h200.csv").write_text(H200.read_text())
    texts = (output(*CALC), output(*CALC_GPU), output(*SWEEP), event_log())
    for index, text in enumerate(texts):
        (folder / f"{index}").write_text(text)
    return build_page(load([*(folder / f"{index}" for index in range(len(texts))), folder / "h200.csv"]))


def test_it_loads_nothing(page: str) -> None:
    found = Loads(page)
    assert [load for load in found.loads if not load.startswith("data:,")] == []
    assert "link" in found.tags
    assert "iframe" not in found.tags
    assert not re.search(r"@import|url\((?!['\"]?data:)", page.split("<script>")[0])


def test_links_lead_somewhere_and_ids_are_unique(page: str) -> None:
    found = Loads(page)
    assert len(set(found.ids)) == len(found.ids)
    assert {link.removeprefix("#") for link in found.links} <= set(found.ids)
    assert {"memory", "serving", "pool", "kernels"} <= {link.removeprefix("#") for link in found.links}


def test_every_chart_has_words_around_it(page: str) -> None:
    figures = re.findall(r'<figure class="chart".*?</figure>', page, re.DOTALL)
    assert len(figures) > 12
    for figure in figures:
        for part in ("<h3 ", 'class="subtitle"', "aria-label=", "<figcaption>", "<details>", "<table>"):
            assert part in figure
        caveat, made = (
            figure.find('class="caveat"'),
            max(figure.find("Made by"), figure.find("The command is not")),
        )
        assert caveat < made


def test_sections_without_data_are_left_out(tmp_path: Path) -> None:
    found = Loads(page_of(tmp_path, output(*CALC)))
    assert "#memory" in found.links
    assert not {"#serving", "#pool", "#kernels"} & set(found.links)


def test_a_log_without_a_step_is_an_empty_page(tmp_path: Path) -> None:
    page = page_of(tmp_path, event_log().split("\n")[0] + "\n")
    assert "nothing that can be drawn" in page
    assert "vegaEmbed=" not in page


def test_the_same_results_give_the_same_bytes(tmp_path: Path) -> None:
    texts = (output(*CALC), event_log())
    assert page_of(tmp_path, *texts) == page_of(tmp_path, *texts)


def test_text_of_files_is_no_html(tmp_path: Path) -> None:
    calc = json.loads(output(*CALC)) | {"command": NASTY, "lengths": NASTY}
    header, rest = event_log().split("\n", 1)
    first = json.loads(header)
    first["about"] |= {"run": NASTY, "command": NASTY}
    page = page_of(tmp_path, json.dumps(calc), json.dumps(first) + "\n" + rest)
    assert "<img src=x" not in page
    assert "&lt;img src=x" in page
    scripts = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert len(scripts) == 3
    pool, specs, configs = map(json.loads, scripts)
    assert NASTY in json.dumps(specs, ensure_ascii=False).replace('\\"', '"')
    assert set(configs) == {"light", "dark"}
    assert pool["runs"]


def test_the_title_is_escaped(tmp_path: Path) -> None:
    (tmp_path / "calc.json").write_text(output(*CALC))
    page = build_page(load([tmp_path / "calc.json"]), title="a < b & $title")
    assert "<h1>a &lt; b &amp; $title</h1>" in page


def test_sections_are_what_the_page_shows(page: str, tmp_path: Path) -> None:
    (tmp_path / "calc.json").write_text(output(*CALC))
    shown = sections(load([tmp_path / "calc.json"]))
    assert [section.id for section in shown] == ["memory"]
    assert all(f'id="{chart.id}"' in page for chart in shown[0].charts)
