"""The console in a browser, beside the table of rows: keys, returns, sessions."""

from typing import Any

import pytest
from playwright.async_api import expect

from support.browser import needs_chromium
from support.waiting import wait_until

pytestmark = [*needs_chromium, pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("console rows")]


async def test_a_list_is_filtered_by_payer_and_walked_by_keys(played: Any, door: Any) -> None:
    own = played.open_holder()
    for amount in (1_00, 300_00):
        played.charge(own, amount, payer=dict(name=f"Payer {amount}", tax_id="12345678909"))
    async with door.holder(own) as page:
        await page.goto("/charges?who=Payer+300")
        await expect(page.locator("a.row-link")).to_have_count(1)
        await page.goto("/charges")
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("j")
        await page.keyboard.press("k")
        await page.keyboard.press("Enter")
        await expect(page.locator(".big-amount")).to_have_text("R$ 300,00")


async def test_a_transfer_is_given_back_by_its_receiver(played: Any, door: Any) -> None:
    own = played.open_holder()
    body = dict(amount=100, key="settle@sandbox.pix.example", key_type="EMAIL")
    transfer = played.call(own, "POST", "/v1/connect/transfer/key", body)
    path = f"/v1/connect/transfer/id/{transfer['id']}"
    wait_until(lambda: played.call(own, "GET", path)["status"] == "CONFIRMED")
    async with door.holder(own) as page:
        await page.goto(f"/transfers/{transfer['id']}")
        await page.locator("#return summary").click()
        await page.get_by_role("button", name="Return it as the receiver").click()
        await expect(page.locator(".summary")).to_contain_text("returned")
        await expect(page.locator("ol.line-of-time")).to_contain_text("Refund settled")


async def test_whoever_signs_out_is_out_and_a_session_is_ended_from_another(played: Any, door: Any) -> None:
    own = played.open_holder()
    async with door.holder(own) as page, door.holder(own) as other:
        await other.goto("/charges")
        await expect(other.locator("#live[data-live=on]")).to_have_count(1)
        await page.goto("/sessions")
        await page.locator("tbody tr", has_not_text="this one").get_by_role("button").first.click()
        await expect(page.get_by_role("status")).to_contain_text("ended")
        # The open page is no longer updated, and a new one leads to the sign-in.
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
