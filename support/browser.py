"""Debian's Chromium driven by tests, with accessibility checks."""

import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, get_args

import pytest
from axe_playwright_python.async_playwright import Axe
from axe_playwright_python.base import AXE_SCRIPT, AxeResults
from playwright.async_api import Browser, Page, async_playwright

CHROMIUM = shutil.which("chromium")
TIMEOUT_MS = 180_000  # the machine may be busy with other tests

Scheme = Literal["light", "dark"]
DESKTOP = dict(width=1440, height=900)
TELEPHONE = dict(width=390, height=844)

needs_chromium = [
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine (Debian: apt-get install chromium)"),
]
"""The ``pytestmark`` of files whose tests need a browser."""

_QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync",
)  # fmt: skip


@asynccontextmanager
async def open_browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=CHROMIUM, args=_QUIET, timeout=TIMEOUT_MS)
        yield opened
        await opened.close()


@asynccontextmanager
async def open_page(browser: Browser, *, scheme: Scheme, size: dict[str, int]) -> AsyncIterator[Page]:
    """Open a page without animations, since a fading element would be judged by a transient colour."""
    viewport: Any = size
    context = await browser.new_context(color_scheme=scheme, viewport=viewport, reduced_motion="reduce")
    context.set_default_timeout(TIMEOUT_MS)
    yield await context.new_page()
    await context.close()


async def check_every_look(page: Page, widths: Sequence[int], schemes: Sequence[Scheme] = get_args(Scheme)) -> None:
    """Check a page in light and dark and at each width; it must not be wider than the window."""
    await page.evaluate(AXE_SCRIPT)
    for scheme in schemes:
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        for width in widths:
            await page.set_viewport_size({"width": width, "height": 844})
            found = AxeResults(await page.evaluate("axe.run({resultTypes: ['violations']})"))
            look = f"{page.url}, {scheme}, {width} px"
            if found.violations_count:
                pytest.fail(f"{look}: {found.generate_report()}", pytrace=False)
            assert await page.evaluate("document.documentElement.scrollWidth") <= width, look


async def check_accessibility(page: Page) -> None:
    """Run axe-core on the page, and fail with its findings."""
    found = await Axe().run(page)
    if found.violations_count:
        pytest.fail(f"{page.url}: {found.generate_report()}", pytrace=False)
