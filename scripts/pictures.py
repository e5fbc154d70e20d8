"""Makes the pictures of the README: ``python scripts/pictures.py`` (needs the extras report and test, and Chromium).

`docs/images/watermark.svg` is the report's own still picture; `docs/images/pool.png` is the page, in a browser, with
naive beside paged, a moment after the start; `docs/images/report-phone.png` a chart of it on a phone, in the dark.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
SWEEP = "watermark=0,0.02,0.05,0.1,0.3,0.5"
MOMENT = 0.045
"""Of the time line: the pools are full, and nobody has finished everything yet."""


def pagefault(*arguments: str, folder: Path, to: str | None = None) -> None:
    """Runs a command in a folder, its output to a file there if wanted."""
    done = subprocess.run(
        [sys.executable, "-m", "pagefault", *arguments], cwd=folder, check=True, capture_output=True
    )
    if to is not None:
        (folder / to).write_bytes(done.stdout)


def photograph(page: Path) -> None:
    """The player with the slider moved; a chart and the player on a phone in the dark."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        desk = browser.new_page(viewport={"width": 1100, "height": 900}, color_scheme="light")
        desk.goto(page.as_uri())
        to_moment(desk)
        desk.locator("#pool").screenshot(path=IMAGES / "pool.png")
        phone = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme="dark")
        phone.goto(page.as_uri())
        to_moment(phone)
        chart = phone.locator("#serving-watermark")
        chart.scroll_into_view_if_needed()
        phone.wait_for_timeout(1500)
        chart.screenshot(path=IMAGES / "report-phone.png")
        browser.close()


def to_moment(shown: Page) -> None:
    """Moves the slider."""
    slider = shown.locator("#pool input[type=range]").first
    slider.scroll_into_view_if_needed()
    highest = float(slider.get_attribute("max") or 1)
    slider.evaluate(
        "(it, value) => { it.value = value; it.dispatchEvent(new Event('input')); }", MOMENT * highest
    )
    shown.wait_for_timeout(500)


def main() -> None:
    """See the module's text."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pagefault("sim", "--sweep", SWEEP, "--json", folder=folder, to="sweep.json")
        pagefault("sim", "--events", "pool.jsonl", folder=folder)
        pagefault("report", "sweep.json", "pool.jsonl", "--static", folder=folder)
        shutil.copy(folder / "report" / "serving-watermark.svg", IMAGES / "watermark.svg")
        photograph(folder / "report" / "index.html")


if __name__ == "__main__":
    main()
