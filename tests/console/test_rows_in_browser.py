"""What the console is for, row by row: endpoints, filters, feed, sandbox, ledger, copying, languages."""

import json
import re
from typing import Any

import pytest
from playwright.async_api import expect

from support.browser import needs_chromium
from support.installation import wait_until

pytestmark = [*needs_chromium, pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("console rows")]


async def test_an_endpoint_is_added_chosen_for_rotated_switched_off_and_removed(played: Any, door: Any) -> None:
    own = played.open_holder()
    async with door.operator() as page:
        await page.goto(f"/endpoints?holder={own.holder_id}")
        await expect(page.get_by_role("heading", name="No endpoints yet")).to_be_visible()
        await page.fill("main [name=url]", f"{played.base_url}/livez")
        await page.get_by_text("Only some events").click()
        await page.get_by_role("checkbox", name="qrcode.pending").check()
        await page.get_by_role("button", name="Add", exact=True).click()
        first = await page.locator("pre").inner_text()
        assert len(first) == 43
        await page.get_by_role("link", name="I have saved it").click()
        await page.get_by_role("button", name="Replace the secret").click()
        assert await page.locator("pre").inner_text() != first
        await page.get_by_role("link", name="I have saved it").click()
        # It leads to a page that takes no posts, so that it fails, and the page says since when and what comes next.
        await page.get_by_role("button", name="Send a test event").click()
        await expect(page.get_by_role("status")).to_contain_text("its event is on the way")
        await expect(page.locator("#live .state").first).to_contain_text(re.compile("failing since ../../...."))
        await expect(page.locator("#live")).to_contain_text(re.compile("next try (in|at any moment)"))
        await page.get_by_role("button", name="Switch it off").click()
        await expect(page.locator("#live")).to_contain_text("switched off by its owner")
        await page.goto("/endpoints")
        await expect(page.locator("#live")).to_contain_text("switched off by its owner")
        await page.locator("a.row-link").last.click()
        await page.get_by_text("Remove it", exact=True).click()
        await page.get_by_role("button", name="Remove it permanently").click()
        await expect(page.get_by_role("status")).to_contain_text("Saved")
        await page.goto("/audit")
        for verb in ("endpoint add", "endpoint rotate", "endpoint set", "endpoint remove"):
            await expect(page.get_by_role("cell", name=verb, exact=True).first).to_be_visible()


async def test_lists_are_filtered_by_amount_instant_and_payer_and_walked_by_keys(played: Any, door: Any) -> None:
    own = played.open_holder()
    for amount in (1_00, 20_00, 300_00):
        played.charge(own, amount, payer=dict(name=f"Payer {amount}", tax_id="12345678909"))
    async with door.holder(own) as page:
        for query, count in (
            ("amount=%3E%3D20", 2),
            ("amount=10..30", 1),
            ("amount=%3C1", 0),
            ("who=Payer+300", 1),
            ("when=%3E%3D2020-01-01", 3),
            ("when=2020-01-01..2020-02-01", 0),
            ("status=PENDING&amount=%3D1%2C00", 1),
        ):
            await page.goto(f"/charges?{query}")
            await expect(page.locator("a.row-link")).to_have_count(count)
        await page.goto("/charges")
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("j")
        await page.keyboard.press("k")
        await page.keyboard.press("Enter")
        await expect(page.locator(".big-amount")).to_have_text("R$ 300,00")


async def test_the_clock_is_moved_and_what_falls_due_is_done(played: Any, door: Any) -> None:
    charge = played.charge(played.holder, 100)
    async with door.operator() as page:
        for _ in range(2):
            await page.goto("/sandbox")
            await page.get_by_role("button", name="+ a day").click()
            await expect(page.get_by_role("status")).to_contain_text("The clock was moved")
        await page.goto(f"/charges/{charge['id']}")
        await expect(page.locator(".summary")).to_contain_text("expired")
        await page.goto("/sandbox")
        await page.get_by_role("button", name="Back to real time").click()
        await expect(page.get_by_role("status")).to_contain_text("The clock was moved")


async def test_the_ledger_shows_balance_and_lines_and_saves_exactly_them(played: Any, door: Any) -> None:
    own = played.open_holder()
    played.paid_charge(own, 12_345)
    async with door.holder(own) as page:
        await page.goto("/ledger")
        await expect(page.locator(".figure").first).to_have_text("R$ 10.123,45")
        await expect(page.locator("tbody tr")).to_have_count(2)
        async with page.expect_download() as downloading:
            await page.get_by_role("link", name="Save as CSV").click()
        saved = (await (await downloading.value).path()).read_text().splitlines()
        assert len(saved) == 3
        assert saved[-1].endswith('"123.45","10123.45"')
        async with page.expect_download() as downloading:
            await page.get_by_role("link", name="Save as JSON").click()
        lines = json.loads((await (await downloading.value).path()).read_text())
        assert [line["running_balance_cents"] for line in lines] == [1_000_000, 1_012_345]
        assert await (await page.request.get("/ledger/export?format=json&when=2020-01-01..2020-01-31")).json() == []
        assert (await page.request.get("/ledger/export?format=xml")).status == 400
        await page.goto("/ledger?when=2020-01-01..2020-01-31")
        await expect(page.get_by_role("heading", name="No entries")).to_be_visible()


async def test_a_transfer_is_given_back_by_its_receiver(played: Any, door: Any) -> None:
    own = played.open_holder()
    body = dict(amount=100, key="settle@sandbox.pix.example", key_type="EMAIL")
    transfer = played.call(own, "POST", "/v1/connect/transfer/key", body)
    path = f"/v1/connect/transfer/id/{transfer['id']}"
    wait_until(lambda: played.call(own, "GET", path)["status"] == "CONFIRMED")
    async with door.holder(own) as page:
        await page.goto(f"/transfers/{transfer['id']}")
        await page.get_by_role("button", name="Return it as the receiver").click()
        await expect(page.locator(".summary")).to_contain_text("returned")
        await expect(page.locator("ol.line-of-time")).to_contain_text("Refund settled")


@pytest.mark.parametrize("has_script", [True, False])
async def test_pages_are_in_portuguese_by_the_browsers_wish_and_in_english_by_choice(
    played: Any, door: Any, *, has_script: bool
) -> None:
    async with door.operator(locale="pt-BR", java_script_enabled=has_script) as page:
        await page.goto("/charges")
        assert await page.get_attribute("html", "lang") == "pt-BR"
        await expect(page.get_by_role("heading", level=1)).to_have_text("Cobranças")
        await page.locator("details.who summary").click()
        await page.get_by_role("button", name="English").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Charges")
        await page.locator("details.who summary").click()
        await page.get_by_role("button", name="Dark").click()
        await expect(page.locator("html")).to_have_attribute("data-theme", "dark")


async def test_whoever_signs_out_is_out_and_a_session_is_ended_from_another(played: Any, door: Any) -> None:
    own = played.open_holder()
    async with door.holder(own) as page, door.holder(own) as other:
        await other.goto("/charges")
        await expect(other.locator("#live[data-live=on]")).to_have_count(1)
        await page.goto("/sessions")
        await page.locator("tbody tr", has_not_text="this one").get_by_role("button").first.click()
        await expect(page.get_by_role("status")).to_contain_text("ended")
        # What was open follows no more, and what is opened leads to the door.
        await expect(other.locator("#live[data-live=off]")).to_have_count(1)
        await other.goto("/charges")
        assert "/sign-in" in other.url
        cookies = await page.context.cookies()
        await page.locator("details.who summary").click()
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_role("status")).to_contain_text("signed out")
        await page.context.add_cookies(cookies)
        await page.goto("/charges")
        assert "/sign-in" in page.url


_ROWS_END = """() => [...document.querySelectorAll(".numbers, .grid.wide")].flatMap(all => {
    while (all.children.length < 5) all.append(all.lastElementChild.cloneNode(true));
    const rows = new Map();
    for (const each of all.children) {
        const { top, right } = each.getBoundingClientRect();
        rows.set(Math.round(top), Math.round(right));
    }
    return [...rows.values()];
}).filter((end, at, all) => all.indexOf(end) === at)"""
"""Where rows of five cards end at the right."""


async def test_figures_are_drawn_and_told_as_tables_in_both_languages(played: Any, door: Any) -> None:
    own = played.open_holder()
    async with door.holder(own) as page:
        await page.goto("/figures")
        await expect(page.get_by_role("heading", name="Nothing in this time")).to_be_visible()
        played.paid_charge(own, 2500)
        played.charge(own)
        await page.goto("/figures?days=7")
        await expect(page.get_by_role("img", name="Charges")).to_be_visible()
        await expect(page.locator(".numbers")).to_contain_text("of 2")
        await page.get_by_text("As a table").first.click()
        await expect(page.locator("section", has_text="Charges").get_by_role("row").last).to_contain_text("1")
    async with door.holder(own, locale="pt-BR") as page:
        await page.goto("/figures")
        await expect(page.locator(".numbers")).to_contain_text("Cobranças pagas")
        # No card is left alone beside nothing: each row is as wide as the first.
        for width in (1280, 390):
            await page.set_viewport_size({"width": width, "height": 844})
            ends = await page.evaluate(_ROWS_END)
            assert len(ends) == 1, (width, ends)
