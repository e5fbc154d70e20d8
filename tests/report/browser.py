"""A headless Chromium for tests of the page; skipped by name where it is missing."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DESKTOP, PHONE = (1280, 900), (390, 844)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """The system's Chromium, started once a module."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright here: pip install playwright")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("no Chromium here: install the system's package chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(
    browser: Any, file: Path, size: tuple[int, int] = DESKTOP, dark: bool = False, **options: Any
) -> Iterator[Any]:
    """A page from disk, with no network. At the end there must have been no error and no request.

    Args:
        browser: From `chromium`.
        file: The HTML file.
        size: Width and height of the window, CSS pixels.
        dark: Which theme the system asks for.
        **options: Further ones of Playwright's ``new_context``.
    """
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", **options
    )
    context.set_offline(True)
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda said: problems.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith(("file:", "blob:", "data:")) else problems.append(request.url)
        ),
    )
    page.goto(file.as_uri())
    try:
        yield page
        assert problems == []
    finally:
        context.close()


def fits_its_width(page: Any) -> bool:
    """Whether nothing sticks out to the right."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))
