"""The documentation site in a browser: served by our server, without requests to other hosts."""

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec import structs
from playwright.async_api import Browser, Page, Request, expect

from pixconnect.assembly.application import make_application
from pixconnect.doors.api.operation import Services
from pixconnect.doors.api.site import Site
from pixconnect.platform.http.server import Server
from pixconnect.platform.logging import AccessLog
from support.browser import DESKTOP, TELEPHONE, TIMEOUT_MS, check_accessibility, needs_chromium, open_browser, open_page
from support.site import build_site

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(build_site(tmp_path_factory.mktemp("site")))


@pytest.fixture
async def address(services: Services, site: Site) -> AsyncIterator[str]:
    served = structs.replace(services, site=site)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = Server(make_application(served, AccessLog(services.context.clock, wanted="off")))
        serving = asyncio.create_task(server.serve([listener]))
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.stop()
        await serving


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with open_browser() as opened:
        yield opened


async def _search(page: Page, words: str) -> None:
    await page.keyboard.press("/")
    await page.locator(".md-search__input").fill(words)


async def test_a_page_loads_and_searches_within_its_policy_and_asks_no_other_host(address: str, browser: Browser) -> None:
    page = await browser.new_page()
    asked: list[str] = []
    complaints: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    page.on("request", note)
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    await page.goto(f"{address}/", timeout=TIMEOUT_MS)
    await page.wait_for_url(f"{address}/docs/", timeout=TIMEOUT_MS)
    await page.goto(f"{address}/docs/guides/webhooks", timeout=TIMEOUT_MS)
    await expect(page.get_by_role("heading", level=1)).to_be_visible(timeout=TIMEOUT_MS)
    await _search(page, "webhook")
    await expect(page.locator(".md-search-result__link").first).to_be_visible(timeout=TIMEOUT_MS)
    assert {url for url in asked if not url.startswith((address, "data:"))} == set()
    assert complaints == []


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("devolução", "operations/refunds"), ("devolucao", "operations/refunds"), ("cobrança", "operations/charges"),
        ("extrato", "statement"), ("instituicao", "institution"), ("INSUFFICIENT_FUNDS", "errors"),
    ],
)  # fmt: skip
async def test_the_search_knows_the_words_of_readers_in_brazil(address: str, browser: Browser, words: str, found: str) -> None:
    page = await browser.new_page()
    await page.goto(f"{address}/docs/", timeout=TIMEOUT_MS)
    await _search(page, words)
    await expect(page.locator(f'.md-search-result__link[href*="{found}"]').first).to_be_attached(timeout=TIMEOUT_MS)


@pytest.mark.parametrize("name", ["guides/console", "reference/schema"])
async def test_pictures_are_there(address: str, browser: Browser, name: str) -> None:
    page = await browser.new_page()
    await page.goto(f"{address}/docs/{name}", timeout=TIMEOUT_MS)
    widths = await page.evaluate("Promise.all([...document.images].map((each) => each.decode().then(() => each.naturalWidth)))")
    assert len(widths) >= 4
    assert min(widths) > 100


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, TELEPHONE], ids=["desktop", "telephone"])
async def test_everybody_can_use_the_pages(address: str, browser: Browser, scheme: Any, size: Any) -> None:
    async with open_page(browser, scheme=scheme, size=size) as page:
        for name in ("", "guides/webhooks", "reference/operations/refunds"):
            await page.goto(f"{address}/docs/{name}", timeout=TIMEOUT_MS)
            await check_accessibility(page)
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
