"""Answering what a payer contests, in a browser and in both languages: what is taken is known before anything is typed."""

import asyncio
import socket
from typing import Any

import pytest
from playwright.async_api import expect

from pixconnect.console.language import LANGUAGES
from pixconnect.domain.identity.access import Caller
from pixconnect.domain.money.block_report import BlockReport, BlockTerms
from pixconnect.http.server import Server
from pixconnect.usecases.money.incoming import receive_credit
from pixconnect.usecases.money.report import take_reports
from support.browser import TIMEOUT_MS, check_every_look, needs_chromium, open_browser
from support.console import open_console, sign_in
from support.service import Service, credit_report, infraction_report, make_charge, open_holder

pytestmark = [*needs_chromium, pytest.mark.xdist_group("console infractions")]

WIDTHS = (1280, 390)
COURT = BlockTerms(reference="PROC-77", kind="judicial", wanted_cents=70_000, held_cents=0)


@pytest.fixture
async def caller(service: Service) -> Caller:
    return await open_holder(service, funds_cents=0)


@pytest.mark.parametrize("language", ["en", "pt"])
async def test_a_contested_pix_is_found_and_answered(service: Service, caller: Caller, language: Any) -> None:
    say = LANGUAGES[language].text
    charge = await make_charge(service, caller, amount_cents=1_000)
    paid = credit_report(service, amount_cents=1_000, txid=charge.txid)
    await receive_credit(service.context, paid)
    told = infraction_report(service, paid.end_to_end_id)
    blocks = BlockReport(report_id="B1", party=told.party, blocks=(COURT,), told_at=told.told_at)
    await take_reports(service.context, [told, blocks])
    listener = socket.create_server(("127.0.0.1", 0))
    host = f"127.0.0.1:{listener.getsockname()[1]}"
    async with open_console(service, hosts=frozenset({host})) as console, open_browser() as browser:
        server, is_ready = Server(console.console, grace_s=0.5), asyncio.Event()
        serving = asyncio.create_task(server.serve([listener], on_ready=is_ready.set))
        await is_ready.wait()
        url = f"http://{host}"
        session = await sign_in(console, "operator")
        opened = await browser.new_context(base_url=url, reduced_motion="reduce")
        opened.set_default_timeout(TIMEOUT_MS)
        cookies: Any = [
            dict(name=console.parts.cookie_name, value=session.token, url=url),
            dict(name="pixconnect_language", value=language, url=url),
        ]
        await opened.add_cookies(cookies)
        page = await opened.new_page()
        await page.goto("/")
        await page.get_by_role("link", name=say("contested Pix to be answered: %(count)s", count=1)).click()
        await check_every_look(page, WIDTHS)
        await page.locator("a.row-link").click()
        await check_every_look(page, WIDTHS)
        form = page.locator("#answer")
        await expect(form).to_contain_text(say("It takes no files."))
        field = page.get_by_label(say("Why the Pix is rightly yours"))
        begun = await field.input_value()
        assert charge.external_id in begun
        assert begun.endswith(say("What was delivered, when and to whom:") + " ")
        # Too long: it is said at the field, and what was typed is still there.
        await field.fill(begun + "x" * 1_000)
        await page.get_by_role("button", name=say("Send the answer")).click()
        assert await field.input_value() == begun + "x" * 1_000
        await expect(field).to_have_attribute("aria-invalid", "true")
        await expect(page.get_by_role("alert")).to_contain_text(str(LANGUAGES[language].number(len(begun) + 1_000)))
        await check_every_look(page, WIDTHS)
        await field.fill(begun + "shoes, on the 20th")
        await page.get_by_role("button", name=say("Send the answer")).click()
        await expect(page.get_by_role("status")).to_contain_text(
            say("Your answer is kept, and is sent until the institution has it.")
        )
        await expect(page.locator("textarea")).to_have_count(0)
        await expect(page.locator(".words").last).to_contain_text("shoes, on the 20th")
        await check_every_look(page, WIDTHS)
        await page.goto("/blocks")
        await expect(page.locator("tbody tr")).to_have_count(2)
        await check_every_look(page, WIDTHS)
        await opened.close()
        server.stop()
        await serving
