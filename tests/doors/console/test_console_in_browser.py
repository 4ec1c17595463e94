"""The console in a browser, against a whole service: signing in, pages, refusals."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from playwright.async_api import Page, Request, expect

from pixconnect.doors.console.wanted import LISTED
from pixconnect.kernel.rules.listing import Cursor, write_cursor
from pixconnect.platform.local.embedded_postgres import EmbeddedPostgres
from support.browser import Scheme, check_every_look, needs_chromium
from support.console_shop import Shop, open_shop

pytestmark = [*needs_chromium, pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("console")]

WIDTHS = (1280, 390)
LOOKS: dict[str, tuple[Scheme, ...]] = {"en-US": ("light", "dark"), "pt-BR": ("light",)}
"""Colours are the same in all languages."""
PUBLIC = ("/sign-in", "/sign-in?as=operator", "/sign-in?notice=signed_out", "/enter?token=0")
PAGES = (
    "/", "/charges", "/charges?amount=%3C1", "/transfers?status=CONFIRMED", "/refunds", "/infractions",
    "/blocks?kind=judicial", "/events", "/deliveries", "/endpoints", "/figures?days=7", "/ledger", "/sandbox",
    "/days", "/audit", "/audit/proof", "/audit/cases", "/audit/approvals", "/sessions", "/holders", "/holders/1",
    "/holders?to=/ledger&name=loja", "/help", "/search?q=1", "/nowhere", "/charges?amount=much",
)  # fmt: skip


def _count_console(played: Any) -> int:
    try:
        return len(played.installation.children("console"))
    except AssertionError:
        return 0


async def test_the_console_starts_with_its_first_visitor_and_a_link_signs_in_once(played: Any, door: Any) -> None:
    assert _count_console(played) == 0
    [printed] = [line for line in played.installation.said if "/enter?token=" in line]
    link = printed.split()[1]
    async with door.nobody() as page:
        await page.goto(link)
        await page.wait_for_url(f"{played.console_url}/")
        [cookie] = await page.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
        assert _count_console(played) == 1
    async with door.nobody() as page:
        await page.goto(link)
        await expect(page.get_by_role("alert")).to_contain_text("already used")
        await page.goto("/charges")
        assert page.url.endswith("/sign-in?next=%2Fcharges")


async def test_a_holder_sees_its_own_and_nothing_else(played: Any, door: Any) -> None:
    own, other = played.open_holder(), played.charge(played.holder, 100, external_id="not-yours")
    charge = played.charge(own, 4200)
    async with door.holder(own) as page:
        await page.goto(f"/charges?holder={played.holder.holder_id}")
        await expect(page.locator("tbody tr")).to_have_count(1)
        await expect(page.locator("tbody")).to_contain_text(str(charge["id"]))
        for path in (f"/charges/{other['id']}", f"/sandbox/phone/{other['id']}", "/charges/99999999"):
            answer = await page.goto(path)
            assert answer is not None
            assert answer.status == 404
        await page.goto("/search?q=not-yours")
        await expect(page.get_by_role("heading", name="No results for not-yours")).to_be_visible()
        assert (await page.goto("/audit")).status == 403  # type: ignore[union-attr]


async def test_a_form_from_elsewhere_or_of_another_session_changes_nothing(played: Any, door: Any) -> None:
    charge = played.charge(played.holder, 900)
    path = f"{played.console_url}/sandbox/phone/{charge['id']}"
    async with door.operator() as page:
        await page.goto(f"/sandbox/phone/{charge['id']}")
        token = await page.locator("main [name=csrf]").first.input_value()
        for headers, form in (
            ({"Origin": "https://evil.example"}, {"csrf": token, "answer": "pay"}),
            ({"Origin": "null"}, {"csrf": token, "answer": "pay"}),
            ({"Origin": played.console_url, "Sec-Fetch-Site": "cross-site"}, {"csrf": token, "answer": "pay"}),
            ({}, {"csrf": token, "answer": "pay"}),
            ({"Origin": played.console_url}, {"csrf": "0" * 64, "answer": "pay"}),
            ({"Origin": played.console_url}, {"answer": "pay"}),
        ):
            answer = await page.request.post(path, headers=headers, form=form, max_redirects=0)
            assert answer.status == 403, headers
    assert played.call(played.holder, "GET", f"/v1/connect/charge/{charge['id']}")["status"] == "PENDING"


async def test_a_wrong_secret_and_a_name_of_another_host_are_refused_in_words(played: Any, door: Any) -> None:
    async with door.nobody() as page:
        await page.goto("/sign-in")
        await page.fill("[name=client_id]", "nobody")
        await page.fill("[name=client_secret]", "x" * 43)
        await page.press("[name=client_secret]", "Enter")
        await expect(page.get_by_role("alert")).to_contain_text("Something that you typed is wrong")
        answer = await page.request.get(f"{played.console_url}/sign-in", headers={"Host": "rebound.example"})
        assert answer.status == 400
        for next_address in ("https://evil.example/", "//evil.example/", "/\\evil.example"):
            await page.goto(f"/sign-in?next={next_address}")
            await page.fill("[name=client_id]", played.holder.client_id)
            await page.fill("[name=client_secret]", played.holder.client_secret)
            await page.press("[name=client_secret]", "Enter")
            await page.wait_for_url(f"{played.console_url}/")
            await page.context.clear_cookies()


async def test_what_a_reader_has_opened_stays_open_when_the_page_changes(played: Any, door: Any) -> None:
    charge = played.charge(played.holder, 4301)
    async with door.operator() as page:
        await page.goto(f"/charges/{charge['id']}?holder={played.holder.holder_id}")
        await expect(page.locator("#live[data-live=on]")).to_have_count(1)
        await page.get_by_text("Copy as…").click()
        paid = dict(emv=charge["emvqrcps"], amount=4301)
        played.call(played.holder, "POST", "/sandbox/v1/payments", paid)
        await expect(page.locator("ol.line-of-time")).to_contain_text("Charge paid")
        await expect(page.locator(".sources .source").first).to_be_visible()


async def test_a_page_beyond_the_end_and_a_link_whose_time_is_over_are_clear_pages(played: Any, door: Any) -> None:
    own = played.open_holder()
    # A place in the list before everything that there is.
    before_all = write_cursor(Cursor(created_at=datetime(1970, 1, 1, tzinfo=UTC), id=1, position=1, total_count=0), LISTED)
    async with door.operator() as page:
        for path in ("/charges", "/transfers", "/refunds", "/events", "/deliveries"):
            for whose in ("", f"&holder={own.holder_id}"):
                await page.goto(f"{path}?after={before_all}{whose}")
                await expect(page.get_by_role("heading", name="Nothing matches")).to_be_visible()
                await expect(page.get_by_role("link", name="Show all", exact=True)).to_be_visible()
        await page.goto("/audit?before=1")
        await page.get_by_role("link", name="Newest", exact=True).click()
        await expect(page.locator("tbody tr").first).to_be_visible()
    token = played.link().partition("token=")[2]
    await _end_links(played.installation.home)
    async with door.nobody(java_script_enabled=False) as page:
        await page.goto(f"/enter?token={token}")
        await page.get_by_role("button", name="Open the console").click()
        await expect(page.get_by_role("alert")).to_contain_text("has expired")
        assert await page.context.cookies() == []


async def _end_links(home: Path) -> None:
    owner = await asyncpg.connect(EmbeddedPostgres(home).owner_url, server_settings={"search_path": "pixconnect"})
    await owner.execute("update console_link set expires_at = now() - interval '1 second'")
    await owner.close()


async def test_keys_lead_through_pages_and_parts_have_roles(played: Any, door: Any) -> None:
    own = played.open_holder()
    charges = [played.charge(own, amount) for amount in (100, 200)]
    async with door.holder(own) as page:
        await page.goto("/charges")
        for role in ("banner", "main", "search", "contentinfo"):
            await expect(page.get_by_role(role)).to_have_count(1)
        await expect(page.get_by_role("navigation", name="Sections")).to_have_count(1)
        await expect(page.get_by_role("link", name="Charges", exact=True)).to_have_attribute("aria-current", "page")
        # The first key of a visitor without a mouse leads past the menu.
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.locator("main")).to_be_focused()
        newest, oldest = (page.get_by_role("link", name=f"Charge {each['id']}", exact=True) for each in reversed(charges))
        for key, focused in (("ArrowDown", newest), ("ArrowDown", oldest), ("ArrowDown", oldest), ("ArrowUp", newest)):
            await page.keyboard.press(key)
            await expect(focused).to_be_focused()
        await page.keyboard.press("/")
        await expect(page.locator("#find")).to_be_focused()
        # Text in a field is no command.
        await page.keyboard.type("?j")
        await expect(page.locator("#find")).to_have_value("?j")
        await page.keyboard.press("Escape")
        await expect(page.locator("#find")).not_to_be_focused()
        await page.keyboard.press("?")
        await page.wait_for_url(re.compile("/help"))
        await expect(page.get_by_role("heading", level=1)).to_be_visible()


@pytest.mark.long
async def test_each_kind_of_page_is_accessible_asks_no_other_host_and_keeps_policy(played: Any, door: Any) -> None:
    """In both languages, in light and dark, on a desk and on a telephone. It lives four days, so it comes last."""
    asked, complaints = set[str](), list[str]()

    def note(request: Request) -> None:
        asked.add(request.url.partition("?")[0])

    def complain(text: str) -> None:
        # A page with an error status is not broken.
        if "Failed to load resource: the server responded with a status of 4" not in text:
            complaints.append(text)

    def watch(page: Page) -> None:
        page.on("request", note)
        page.on("console", lambda message: complain(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))

    with open_shop(played) as shop:
        of_holder = f"holder={shop.holder.holder_id}"
        things = [f"{path}{'&' if '?' in path else '?'}{of_holder}" for path in PAGES]
        async with door.operator() as page:
            things += await _list_things(page, played, shop)
        for language, schemes in LOOKS.items():
            async with door.nobody(locale=language) as page:
                watch(page)
                for path in PUBLIC:
                    await page.goto(path)
                    await check_every_look(page, WIDTHS, schemes)
            async with door.operator(locale=language) as page:
                watch(page)
                for path in things:
                    await page.goto(path)
                    await check_every_look(page, WIDTHS, schemes)
                # A secret is only shown in the answer to a form.
                await page.goto(f"/endpoints/{shop.failing['id']}")
                await page.locator("form[action*='/rotate'] button").click()
                await expect(page.locator("a.button.main")).to_be_visible()
                await check_every_look(page, WIDTHS, schemes)
    assert {url for url in asked if not url.startswith((played.console_url, "data:"))} == set()
    assert complaints == []


async def _list_things(page: Page, played: Any, shop: Shop) -> list[str]:
    """A page of each kind of resource."""
    [refund] = played.call(shop.holder, "GET", "/v1/connect/refund/list")
    waiting = played.charge(shop.holder, 4990)
    due = _ask_with_due_date(played, shop)
    await page.goto(f"/deliveries/{shop.failed_id}")
    event = await page.locator("a[href*='/events/']").get_attribute("href")
    return [
        str(event), f"/charges/{shop.paid['id']}", f"/charges/{shop.retried['id']}", f"/transfers/{shop.sent['id']}",
        f"/transfers/{shop.sent['id']}/receipt", f"/transfers/{shop.refused['id']}", f"/refunds/{refund['id']}",
        f"/refunds/{refund['id']}/receipt",
        f"/deliveries/{shop.failed_id}", f"/endpoints/{shop.failing['id']}", f"/sandbox/phone/{waiting['id']}",
        f"/sandbox/phone/{shop.paid['id']}", f"/charges/{due['id']}", f"/sandbox/phone/{due['id']}",
        f"/infractions/{played.contest(shop.holder)}",
    ]  # fmt: skip


def _ask_with_due_date(played: Any, shop: Shop) -> Any:
    """A charge with a rebate and a discount today, and with the hint at fines."""
    clock = played.call(shop.holder, "GET", "/sandbox/v1/clock")
    due_on = (datetime.fromisoformat(clock["now"]) + timedelta(days=30)).date().isoformat()
    fine, interest = dict(kind="percentage", value=500), dict(kind="percentage_a_month", value=100)
    asked = dict(
        amount=125_000,
        key=shop.holder.key,
        due_on=due_on,
        payer=dict(name="Maria Silva", tax_id="12345678909"),
        fine=fine,
        interest=interest,
        rebate=dict(kind="sum", value=500),
        discount=dict(kind="sum_until_a_date", dated=[dict(until=due_on, value=1000)]),
    )
    return played.call(shop.holder, "POST", "/v1/connect/charge/due", asked)
