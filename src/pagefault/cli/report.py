"""`pagefault report`: one page from any results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pagefault.cli.console import atomic_path, note, progress, say
from pagefault.errors import InputError

if TYPE_CHECKING:
    from pagefault.report.charts import Chart
    from pagefault.report.page import Section

PAGE = "index.html"


def report(
    results: Annotated[
        list[str],
        typer.Argument(
            help="Files that calc, sim and bench wrote with --json, sim with --events, bench with --csv.",
            metavar="RESULTS",
            show_default=False,
        ),
    ],
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="DIR", help="Folder to write to; made if it is not there.")
    ] = "report",
    static: Annotated[
        bool, typer.Option("--static", help="Write each chart as an SVG and a PNG picture, too.")
    ] = False,
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Heading of the page.", show_default="PageFault report")
    ] = None,
) -> None:
    """Make one HTML page of charts from results and event logs.

    The page opens from disk and needs no network. Results may be of any kinds and
    in any order: each file is recognised by its content. With event logs, the
    page plays the pool over time.
    """
    from pagefault.report.bundle import vl_convert
    from pagefault.report.loading import load
    from pagefault.report.page import TITLE, build_page, contents, sections

    vl_convert()  # refuses now what would be missing after reading
    folder = _folder(out)
    with progress("report") as update:
        update(0, 3, "reading")
        found = load(results)
        update(1, 3, "drawing")
        page = build_page(found, TITLE if title is None else title)
        shown = sections(found)
        pictures = _pictures(shown) if static else {}
        update(2, 3, "writing")
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in {**pictures, PAGE: page.encode()}.items():
            with atomic_path(folder / name) as temporary:
                temporary.write_bytes(data)
    say(f"{folder / PAGE}   {len(page.encode()) / 1e6:.1f} MB: {contents(found)}")
    for section in shown:
        say()
        say(section.title)
        for chart in section.charts:
            _line(chart)
    if found.runs:
        say()
        say(
            f"The pool over time: {', '.join(run.header.name for run in found.runs[:4])}{' …' * (len(found.runs) > 4)}"
        )
    if pictures:
        say()
        say(f"{len(pictures)} pictures beside it, an SVG and a PNG of each chart")
    thinned = sum(bool(chart.thinned) for section in shown for chart in section.charts)
    if thinned:
        note(f"note: {thinned} of the charts are thinned for drawing; the page says how, and peaks are kept")


def _line(chart: Chart) -> None:
    import textwrap

    from pagefault.cli.console import WIDTH

    for line in textwrap.wrap(chart.title, WIDTH, initial_indent="  ", subsequent_indent="    "):
        say(line)


def _folder(out: str) -> Path:
    """The folder to write to, refused now if it cannot be one."""
    import os

    folder = Path(out)
    if not out or (folder.exists() and not folder.is_dir()):
        raise InputError(
            f"-o {out or 'a folder without a name'} is no folder: give one, or a name for a new one"
        )
    nearest = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise InputError(f"cannot write to {out}: {nearest} is not a folder that may be written to")
    return folder


def _pictures(shown: list[Section]) -> dict[str, bytes]:
    from pagefault.report.static import chart_png, chart_svg

    pictures: dict[str, bytes] = {}
    for section in shown:
        for chart in section.charts:
            pictures[f"{chart.id}.svg"] = chart_svg(chart).encode()
            pictures[f"{chart.id}.png"] = chart_png(chart)
    return pictures
