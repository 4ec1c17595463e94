"""The console as a browser shows it, against a whole service: who comes in, what is seen, what is refused."""

import re
from typing import Any

import pytest
from playwright.async_api import Page, Request, expect

from support.browser import check_accessibility, needs_chromium
from support.installation import wait_until

pytestmark = [*needs_chromium, pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("console")]

PAGES = (
    "/",
    "/charges",
    "/transfers?status=CONFIRMED",
    "/refunds",
    "/events",
    "/deliveries",
    "/endpoints",
    "/resends",
    "/resends/new?holder=1",
    "/figures",
    "/ledger?holder=1",
    "/sandbox?holder=1",
    "/audit",
    "/sessions",
    "/help",
    "/search?q=1",
    "/nowhere",
)


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
        await expect(page.get_by_role("alert")).to_contain_text("used already")
        await page.goto("/charges")
        assert page.url.endswith("/sign-in?next=%2Fcharges")


async def test_a_paid_charge_is_one_line_of_time_with_what_paid_it_and_who_was_told(played: Any, door: Any) -> None:
    url = f"{played.base_url}/livez"  # takes no webhook: each attempt fails
    endpoint = played.call(
        played.holder,
        "POST",
        "/v1/webhook/endpoints",
        dict(url=url, secret="s" * 32, event_types=["qrcode.approved"]),
    )
    charge = played.paid_charge(played.holder, 12345, external_id="order-1042")
    listed = f"/v1/webhook/endpoints/{endpoint['id']}/deliveries"
    wait_until(lambda: any(each["attempts"] for each in played.call(played.holder, "GET", listed)))
    async with door.operator() as page:
        await page.goto("/charges?status=APPROVED&amount=%3E%3D100%2C00")
        await page.get_by_role("link", name=str(charge["id"]), exact=True).click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(f"Charge {charge['id']}")
        line = page.locator("ol.line-of-time")
        for words in ("Charge made", "Charge paid", "Transfer settled", "settlement → available", "qrcode.approved"):
            await expect(line).to_contain_text(words)
        await expect(line).to_contain_text("Webhook failed")
        await expect(page.get_by_role("note")).to_contain_text("It is sent again by itself")
        await line.get_by_role("link", name="attempt 1").first.click()
        await expect(page.get_by_role("heading", name="Attempt 1: 4")).to_be_visible()
        await page.get_by_text("The request", exact=True).click()
        await expect(page.get_by_text("webhook-signature")).to_be_visible()
        await page.get_by_role("button", name="Send it again").click()
        await expect(page.get_by_role("status")).to_contain_text("sent again now")
        await page.goto("/audit")
        await expect(page.get_by_role("cell", name="delivery resend").first).to_be_visible()


async def test_any_id_leads_to_what_it_belongs_to(played: Any, door: Any) -> None:
    charge = played.charge(played.holder, 700, external_id="find-me-7")
    async with door.operator() as page:
        for text in ("find-me-7", charge["transaction_identification"]):
            await page.goto("/help")
            await page.keyboard.press("/")
            await page.keyboard.type(text)
            await page.keyboard.press("Enter")
            await page.wait_for_url(re.compile(f"/charges/{charge['id']}$"))


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
        await expect(page.get_by_role("heading", name="Nothing has this id")).to_be_visible()
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
        await expect(page.get_by_role("alert")).to_contain_text("One of what you typed is wrong")
        answer = await page.request.get(f"{played.console_url}/sign-in", headers={"Host": "rebound.example"})
        assert answer.status == 400
        for next_address in ("https://evil.example/", "//evil.example/", "/\\evil.example"):
            await page.goto(f"/sign-in?next={next_address}")
            await page.fill("[name=client_id]", played.holder.client_id)
            await page.fill("[name=client_secret]", played.holder.client_secret)
            await page.press("[name=client_secret]", "Enter")
            await page.wait_for_url(f"{played.console_url}/")
            await page.context.clear_cookies()


@pytest.mark.parametrize("has_script", [True, False])
async def test_a_payers_phone_pays_a_charge(played: Any, door: Any, *, has_script: bool) -> None:
    charge = played.charge(played.holder, 2500)
    async with door.operator(java_script_enabled=has_script, viewport=dict(width=390, height=844)) as page:
        await page.goto(f"/charges/{charge['id']}")
        await page.get_by_role("link", name="Pay it with a phone").click()
        await page.fill("[name=name]", "Maria Silva")
        await page.get_by_role("button", name="Pay", exact=True).click()
        await expect(page.get_by_role("status")).to_contain_text("The payment was made")
        await expect(page.locator(".summary")).to_contain_text("paid")


async def test_a_list_grows_by_itself(played: Any, door: Any) -> None:
    own = played.open_holder()
    async with door.operator() as page:
        await page.goto(f"/charges?holder={own.holder_id}")
        await expect(page.get_by_role("heading", name="No charges yet")).to_be_visible()
        await expect(page.locator("#live[data-live=on]")).to_have_count(1)
        played.charge(own, 100)
        await expect(page.locator("tbody tr")).to_have_count(1)


async def test_what_makes_no_sense_is_said_on_a_page(played: Any, door: Any) -> None:
    async with door.operator() as page:
        for path, status in (
            ("/charges?amount=much", 400),
            ("/charges?when=2026-13-99", 400),
            ("/charges?after=nowhere", 400),
            ("/charges?status=NONSENSE&holder=x", 200),
            ("/charges/99999999999999999999999", 404),
            ("/deliveries?endpoint=999999", 404),
            ("/search?q=" + "x" * 300, 400),
        ):
            answer = await page.goto(path)
            assert answer is not None
            assert answer.status == status, path
            assert "Traceback" not in await page.content()


async def test_pages_ask_nobody_else_break_no_policy_and_can_be_used_by_everybody(played: Any, door: Any) -> None:
    charge = played.paid_charge(played.holder, 3100)
    asked, complaints = set[str](), list[str]()

    def note(request: Request) -> None:
        asked.add(request.url.partition("?")[0])

    def complain(text: str) -> None:
        # A page that says 404 is not broken.
        if "status of 404" not in text:
            complaints.append(text)

    things = (f"/charges/{charge['id']}", f"/sandbox/phone/{charge['id']}")
    for scheme, width, paths in (("light", 1280, (*PAGES, *things)), ("dark", 390, ("/", "/ledger?holder=1", *things))):
        async with door.operator(color_scheme=scheme, viewport=dict(width=width, height=844)) as page:
            page.on("request", note)
            page.on("console", lambda message: complain(message.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            for path in paths:
                await page.goto(path)
                await check_accessibility(page)
                assert await _width(page) <= width, path
    assert {url for url in asked if not url.startswith((played.console_url, "data:"))} == set()
    assert complaints == []


async def _width(page: Page) -> int:
    return await page.evaluate("document.documentElement.scrollWidth")
