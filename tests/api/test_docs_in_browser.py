"""The documentation as a browser shows it: served by our own server, nothing fetched from anywhere else."""

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Browser, Request, async_playwright, expect

from pixconnect.api.application import make_application
from pixconnect.api.services import Services
from pixconnect.foundation.logging import AccessLog
from pixconnect.http.server import Server

CHROMIUM = shutil.which("chromium")
TIMEOUT_MS = 180_000

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None, reason="there is no chromium on this machine (Debian: apt-get install chromium)"
    ),
]


@pytest.fixture
async def address(services: Services) -> AsyncIterator[str]:
    application = make_application(services, AccessLog(services.context.clock, wanted="off"))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = Server(application)
        serving = asyncio.create_task(server.serve([listener]))
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.stop()
        await serving


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    quiet = [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=CHROMIUM, args=quiet, timeout=TIMEOUT_MS)
        yield opened
        await opened.close()


async def test_the_page_shows_every_operation_and_asks_nobody_else(address: str, browser: Browser) -> None:
    page = await browser.new_page()
    asked: list[str] = []
    complaints: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    page.on("request", note)
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    await page.goto(f"{address}/docs", timeout=TIMEOUT_MS)
    await expect(page.get_by_role("heading", name="Create a charge")).to_be_visible(timeout=TIMEOUT_MS)
    described: dict[str, Any] = await (await page.request.get(f"{address}/openapi.json")).json()
    text = await page.inner_text("body")
    for path in described["paths"]:
        assert path in text
    assert {url for url in asked if not url.startswith((address, "data:"))} == set()
    assert complaints == []


async def test_a_link_of_the_list_leads_to_its_operation(address: str, browser: Browser) -> None:
    page = await browser.new_page()
    await page.goto(f"{address}/docs", timeout=TIMEOUT_MS)
    await page.get_by_role("link", name="Return a received Pix").click()
    heading = page.get_by_role("heading", name="Return a received Pix")
    await expect(heading).to_be_in_viewport(timeout=TIMEOUT_MS)


async def test_the_page_is_readable_on_a_telephone(address: str, browser: Browser) -> None:
    page = await browser.new_page(viewport={"width": 390, "height": 844})
    await page.goto(f"{address}/docs", timeout=TIMEOUT_MS)
    width = await page.evaluate("document.documentElement.scrollWidth")
    assert width <= 390
