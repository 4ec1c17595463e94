"""The documentation as a browser shows it: served by our own server, nothing fetched from anywhere else."""

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Browser, Request, Route, expect

from pixconnect.api.application import make_application
from pixconnect.api.frame.operation import Services
from pixconnect.foundation.logging import AccessLog
from pixconnect.http.server import Server
from support.browser import DESKTOP, TELEPHONE, TIMEOUT_MS, check_accessibility, needs_chromium, open_browser, open_page

ONE_OF_EACH = """
    // Operations, types and errors are made alike: to look at all of them takes several times as long, and finds nothing else.
    const again = "article + article ~ article, .type ~ .type, tr ~ tr ~ tr, nav li ~ li ~ li";
    for (const one of document.querySelectorAll(again)) one.remove();
    // What is folded away is looked at too.
    for (const one of document.querySelectorAll("main details")) one.open = true;
"""
READ_ONLY = "poor"
"""A token of the stub, without scopes."""

pytestmark = needs_chromium


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
    async with open_browser() as opened:
        yield opened


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
    await expect(page.locator("#create_charge h3")).to_be_visible(timeout=TIMEOUT_MS)
    described: dict[str, Any] = await (await page.request.get(f"{address}/openapi.json")).json()
    text = await page.inner_text("body")
    for path in described["paths"]:
        assert path in text
    assert {url for url in asked if not url.startswith((address, "data:"))} == set()
    assert complaints == []


async def test_the_navigation_folds_leads_to_operations_and_says_where_one_is(address: str, browser: Browser) -> None:
    page = await browser.new_page()
    await page.goto(f"{address}/docs", timeout=TIMEOUT_MS)
    link = page.get_by_role("link", name="Return a received Pix")
    await expect(link).not_to_be_visible(timeout=TIMEOUT_MS)
    await page.get_by_role("navigation").get_by_text("Refunds", exact=True).click()
    await link.click()
    await expect(page.get_by_role("heading", name="Return a received Pix")).to_be_in_viewport(timeout=TIMEOUT_MS)
    await expect(link).to_have_attribute("aria-current", "location", timeout=TIMEOUT_MS)


async def test_the_page_can_be_read_without_a_script(address: str, browser: Browser) -> None:
    context = await browser.new_context(java_script_enabled=False, viewport=TELEPHONE)
    page = await context.new_page()
    await page.goto(f"{address}/docs#type-TransferParty", timeout=TIMEOUT_MS)
    await expect(page.get_by_role("button", name="Search")).not_to_be_visible(timeout=TIMEOUT_MS)
    charge = page.locator("#create_charge")
    await expect(charge.get_by_text("curl -s")).to_be_visible(timeout=TIMEOUT_MS)
    await charge.get_by_text("TypeScript", exact=True).click()
    await expect(charge.get_by_text("await fetch")).to_be_visible(timeout=TIMEOUT_MS)
    await expect(charge.get_by_text("curl -s")).not_to_be_visible(timeout=TIMEOUT_MS)
    await page.get_by_role("button", name="Contents").click()
    await expect(page.get_by_role("link", name="POST Create a charge", exact=True)).to_be_visible(timeout=TIMEOUT_MS)


async def test_the_search_finds_by_any_word_and_leads_there(address: str, browser: Browser) -> None:
    page = await browser.new_page()
    await page.goto(f"{address}/docs", timeout=TIMEOUT_MS)
    await page.keyboard.press("Control+k")
    await page.keyboard.type("refund external-id")
    await expect(page.get_by_role("option", selected=True)).to_contain_text("own id", timeout=TIMEOUT_MS)
    await page.keyboard.press("Enter")
    await expect(page.locator("#get_refund_by_external_id h3")).to_be_in_viewport(timeout=TIMEOUT_MS)
    await page.keyboard.press("/")
    await page.keyboard.type("transferparty")
    await page.keyboard.press("Enter")
    await expect(page.locator("#type-TransferParty")).to_be_in_viewport(timeout=TIMEOUT_MS)


@pytest.mark.parametrize("name", ["guides/console", "reference/schema"])
async def test_pictures_are_there(address: str, browser: Browser, name: str) -> None:
    page = await browser.new_page()
    await page.goto(f"{address}/docs/{name}", timeout=TIMEOUT_MS)
    widths = await page.evaluate(
        "Promise.all([...document.images].map((each) => each.decode().then(() => each.naturalWidth)))"
    )
    assert len(widths) >= 4
    assert min(widths) > 100
    # None is wider than what it stands in.
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_credentials_leave_the_address_and_a_request_is_tried(address: str, browser: Browser) -> None:
    page = await browser.new_page()
    sent: list[Request] = []

    async def log_in(route: Route) -> None:
        sent.append(route.request)
        await route.fulfill(json=dict(access_token=READ_ONLY, token_type="Bearer", expires_in=300))

    # There is no database behind this service, so logging in is played.
    await page.route("**/oauth/token", log_in)
    await page.goto(f"{address}/docs#client_id=shop&client_secret=very%20secret", timeout=TIMEOUT_MS)
    await expect(page.locator("#token .curl code")).to_contain_text("-u 'shop:very secret'", timeout=TIMEOUT_MS)
    assert page.url == f"{address}/docs#token"
    article = page.locator("#create_charge")
    await article.get_by_text("Try it").click()
    await article.get_by_role("button", name="Send POST").click()
    await expect(article.get_by_role("status")).to_contain_text("403 after", timeout=TIMEOUT_MS)
    await expect(article.locator(".try pre")).to_contain_text("the token lacks the scope charge.write")
    assert [request.post_data for request in sent] == [
        "grant_type=client_credentials&client_id=shop&client_secret=very+secret"
    ]


async def test_the_page_is_readable_on_a_telephone(address: str, browser: Browser) -> None:
    page = await browser.new_page(viewport=TELEPHONE)
    await page.goto(f"{address}/docs", timeout=TIMEOUT_MS)
    width = await page.evaluate("document.documentElement.scrollWidth")
    assert width <= 390
    await expect(page.get_by_role("heading", name="Pix Connect")).to_be_in_viewport(timeout=TIMEOUT_MS)
    await page.get_by_role("button", name="Contents").click()
    await page.get_by_role("link", name="POST Create a charge", exact=True).click()
    await expect(page.get_by_role("navigation")).not_to_be_visible(timeout=TIMEOUT_MS)
    await expect(page.locator("#create_charge h3")).to_be_in_viewport(timeout=TIMEOUT_MS)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.long
@pytest.mark.parametrize("size", [DESKTOP, TELEPHONE], ids=["desktop", "telephone"])
async def test_everybody_can_use_the_pages(address: str, browser: Browser, scheme: Any, size: Any) -> None:
    async with open_page(browser, scheme=scheme, size=size) as page:
        for name in ("guides/webhooks", "reference/figures"):
            await page.goto(f"{address}/docs/{name}", timeout=TIMEOUT_MS)
            await check_accessibility(page)
        await page.goto(f"{address}/docs", timeout=TIMEOUT_MS)
        await page.evaluate(ONE_OF_EACH)
        await check_accessibility(page)
        await page.keyboard.press("/")
        await page.keyboard.type("refund")
        await expect(page.get_by_role("option", selected=True)).to_be_visible(timeout=TIMEOUT_MS)
        await check_accessibility(page, within="dialog")
