"""Concurrent visitors and wrong guesses in the console, in a browser."""

import json
import re
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from playwright.async_api import Page, expect
from pyotp.totp import TOTP

from pixconnect.doors.console.exports import LONG_MIN
from pixconnect.platform.local.embedded_postgres import EmbeddedPostgres
from support.browser import needs_chromium
from support.installation import run_verb

pytestmark = [*needs_chromium, pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("console acts")]


async def test_an_operator_comes_in_by_password_and_a_code_that_is_good_once(played: Any, door: Any) -> None:
    said = run_verb(played.installation.home, "operator", "add", "--name", "maria", "--role", "operator", "--json")
    account = json.loads(said.stdout)
    code = TOTP(account["totp_secret"])
    first, second, *_ = account["recovery_codes"].split()
    async with door.nobody() as page:
        used = await _sign_in(page, account["password"], code)
        await page.wait_for_url(f"{played.console_url}/")
        await page.goto("/sessions")
        await expect(page.locator("tbody")).to_contain_text("maria")
    async with door.nobody() as page:
        for password, wrong in ((account["password"], used), ("x" * 24, first), (account["password"], "000-000")):
            await _sign_in(page, password, wrong)
            await expect(page.get_by_role("alert")).to_contain_text("Something that you typed is wrong")
        await _sign_in(page, account["password"], second)
        await page.wait_for_url(f"{played.console_url}/")


async def test_whoever_acts_second_gets_a_clear_page_and_nothing_is_done_twice(played: Any, door: Any) -> None:
    own = played.open_holder()
    charge = played.charge(own, 500)
    endpoint = dict(url=f"{played.base_url}/livez", secret="s" * 32, event_types=["qrcode.expired"])
    made = played.call(own, "POST", "/v1/webhook/endpoints", endpoint)
    # Without a script the second visitor sees the state at loading.
    async with door.operator() as page, door.holder(own, java_script_enabled=False) as other:
        for each in (page, other):
            await each.goto(f"/sandbox/phone/{charge['id']}")
        await page.get_by_role("button", name="Pay", exact=True).click()
        await expect(page.get_by_role("status")).to_contain_text("The payment was made")
        await other.get_by_role("button", name="Pay", exact=True).click()
        await expect(other.get_by_role("status")).to_contain_text("It was refused: no money moved")
        assert played.call(own, "GET", "/v1/connect/ledger/balance")["current_funds"] == 1_000_500
        # What is typed stays while the page follows, and is refused once another refund was made.
        for each in (page, other):
            await each.goto(f"/charges/{charge['id']}")
            await each.locator("#refund summary").click()
            await each.fill("#refund [name=amount]", "1,00" if each is page else "2,00")
        await page.locator("#refund [name=amount]").blur()
        await other.get_by_role("button", name="Refund it").click()
        await page.evaluate(_FOLLOW, "/refunds/")
        await expect(page.locator("#refund [name=amount]")).to_have_value("1,00")
        await page.get_by_role("button", name="Refund it").click()
        await expect(page.get_by_role("alert")).to_contain_text("Another refund was made since this form was shown")
        for each in (page, other):
            await each.goto(f"/endpoints/{made['id']}")
        await page.get_by_text("Remove it", exact=True).click()
        await page.get_by_role("button", name="Remove it permanently").click()
        await expect(page.get_by_role("status")).to_contain_text("Saved")
        await other.get_by_role("button", name="Switch it off").click()
        await expect(other.get_by_role("alert")).to_contain_text("Not found")


_FOLLOW = """wanted => new Promise((done) => {
    const source = new EventSource(location.href);
    source.addEventListener("part", (event) => { if (event.data.includes(wanted)) { source.close(); done(); } });
})"""


async def _deposit(page: Page, amount: str) -> None:
    await page.goto("/sandbox")
    form = page.locator("form[action^='/sandbox/deposit']")
    await form.locator("[name=amount]").fill(amount)
    await form.get_by_role("button").click()


async def _sign_in(page: Page, password: str, code: str | TOTP) -> str:
    """Fill in the form and send it; the code is read last, because it expires soon. Returns the code."""
    await page.goto("/sign-in?as=operator")
    await page.fill("[name=name]", "maria")
    await page.fill("[name=password]", password)
    used = code.now() if isinstance(code, TOTP) else code
    await page.fill("[name=code]", used)
    await page.press("[name=code]", "Enter")
    return used


@pytest.mark.parametrize("has_script", [True, False])
async def test_a_long_file_is_written_while_a_page_counts(played: Any, door: Any, *, has_script: bool) -> None:
    own = played.open_holder()
    await _write_long_ledger(played.installation.home, int(own.holder_id), LONG_MIN)
    async with door.holder(own, java_script_enabled=has_script) as page:
        await page.goto("/ledger")
        await expect(page.locator(".notice")).to_contain_text("The newest 200 of 10,001 lines")
        await page.get_by_role("button", name="Save as CSV").click()
        await page.wait_for_url(re.compile("/ledger/saving"))
        await expect(page.locator("progress")).to_have_count(1)
        # It appears by itself: by events with a script, otherwise by reloading.
        await expect(page.locator(".big-amount")).to_have_text("10,001 of 10,001 lines")
        async with page.expect_download() as downloading:
            await page.get_by_role("link", name="Download the file").click()
        lines = (await (await downloading.value).path()).read_text().splitlines()
        assert len(lines) == 10_002
        assert lines[-1].endswith('"0.01","10100.00"')
    async with door.holder(own) as other:
        assert (await other.goto("/ledger/saving")).status == 404


_LONG_LEDGER = """
    insert into ledger_entry
        (id, holder_id, debit_account, credit_account, amount_cents, number, running_balance_cents, created_at, cause_kind,
        cause_id, cause_state)
    select max_id + n, $1, 'funding', 'available', 1, 1 + n, 1000000 + n, at + n * interval '1 microsecond', 'deposit',
        max_id + n, 'MADE'
    from generate_series(1, $2::bigint) as n, (select max(id) as max_id from ledger_entry) as last,
        (select max(created_at) as at from ledger_entry where holder_id = $1) as own
"""


async def _write_long_ledger(home: Path, holder_id: int, count: int) -> None:
    owner = await asyncpg.connect(EmbeddedPostgres(home).owner_url, server_settings={"search_path": "pixconnect"})
    # So many deposits would take minutes, so they are written without the triggers that check them.
    await owner.execute("set session_replication_role = replica")
    await owner.execute(_LONG_LEDGER, holder_id, count)
    await owner.close()
