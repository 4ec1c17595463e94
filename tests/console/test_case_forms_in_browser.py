"""What an operator does about a case, in a browser: notes, a proposal to adjust, an end; and who may not."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import Struct
from playwright.async_api import Page, expect

from pixconnect.http.server import Server
from pixconnect.usecases.identity.console_session import NewSession
from support.account_shop import open_shop
from support.browser import TIMEOUT_MS, check_every_look, needs_chromium, open_browser
from support.console import InProcess, open_console, sign_in, sign_in_client
from support.fake_institution import FakeInstitution
from support.service import Service

pytestmark = [*needs_chromium, pytest.mark.xdist_group("console cases")]

WIDTHS = (1280, 390)
_CASES = """
    insert into kept_case (kind, institution_id, holder_id, name, amount_cents, said, since) values
        ('day', {account}, {house}, '2026-07-01', 300, 'the bank says 3,00 more', now()),
        ('rail', null, null, 'position', -500, 'the rail says 1', now())
    returning id
"""


class Cases(Struct, frozen=True, kw_only=True):
    console: InProcess
    browser: Any
    base_url: str
    house_id: int
    day: str
    """The page of a case that may be adjusted."""
    rail: str
    """That of one that may not."""

    @asynccontextmanager
    async def page_of(self, session: NewSession) -> AsyncIterator[Page]:
        context = await self.browser.new_context(base_url=self.base_url, locale="en-US", reduced_motion="reduce")
        cookie = dict(name=self.console.parts.cookie_name, value=session.token, url=self.base_url)
        context.set_default_timeout(TIMEOUT_MS)
        await context.add_cookies([cookie])
        yield await context.new_page()
        await context.close()


@pytest.fixture
async def cases(live: Service) -> AsyncIterator[Cases]:
    """Of a live installation, since only that has accounts: the console of this process, over real HTTP."""
    shop = await open_shop(live, FakeInstitution(live.clock))
    listener = socket.create_server(("127.0.0.1", 0))
    host = f"127.0.0.1:{listener.getsockname()[1]}"
    house_id = shop.house.holder_id
    paths = [
        f"/audit/cases/{row['id']}" for row in await live.fetch(_CASES.format(account=shop.account.id, house=house_id))
    ]
    async with open_console(live, hosts=frozenset({host})) as console, open_browser() as browser:
        server, is_ready = Server(console.console, grace_s=0.5), asyncio.Event()
        serving = asyncio.create_task(server.serve([listener], on_ready=is_ready.set))
        await is_ready.wait()
        day, rail = paths
        yield Cases(console=console, browser=browser, base_url=f"http://{host}", house_id=house_id, day=day, rail=rail)
        server.stop()
        await serving


async def test_an_operator_notes_proposes_and_closes_and_is_told_what_is_wrong(cases: Cases) -> None:
    async with cases.page_of(await sign_in(cases.console, "operator", "ana")) as page:
        await page.goto("/audit/cases")
        await page.get_by_role("link", name=cases.day.rpartition("/")[2], exact=True).click()
        await check_every_look(page, WIDTHS)
        # The browser itself asks for what is required, and the service what a browser takes for words.
        await page.get_by_role("button", name="Add the note").click()
        await expect(page.locator("[name=note]:invalid")).to_be_focused()
        for note in ("   ", "asked the bank"):
            await page.goto(cases.day)
            await page.get_by_label("Note").fill(note)
            await page.get_by_role("button", name="Add the note").click()
            if not note.strip():
                await expect(page.get_by_role("alert")).to_contain_text("note: ")
        await expect(page.get_by_role("status")).to_contain_text("Saved")
        await expect(page.get_by_role("cell", name="asked the bank")).to_be_visible()
        for amount, whose, words in (
            ("3,01", "", "amount: must be from 1 to the 300 cents"),
            ("much", "", "That request is not valid"),
            ("1,00", "x", "whose: must be an id"),
        ):
            await _propose(page, cases.day, amount, whose)
            await expect(page.get_by_role("alert")).to_contain_text(words)
        await _propose(page, cases.day, "1,00", "")
        await expect(page.get_by_text("console ana wants R$ 1,00 to be adjusted")).to_be_visible()
        await expect(page.get_by_text("pixconnect institution confirm loja")).to_be_visible()
        await page.locator("summary", has_text="Close the case").click()
        await page.get_by_label("What you found, and did about it").fill("the bank has mended it")
        await page.get_by_role("button", name="Close the case").click()
        await expect(page.get_by_text("An operator closed it")).to_be_visible()
        await expect(page.get_by_role("button", name="Close the case")).to_have_count(0)
        await check_every_look(page, WIDTHS)
        # What has an id is recorded under that: there is nothing to adjust.
        await page.goto(cases.rail)
        await expect(page.get_by_role("button", name="Add the note")).to_be_visible()
        await expect(page.get_by_role("button", name="Propose it")).to_have_count(0)
    acts = [verb for verb, _ in await cases.console.audited() if verb.startswith("case ")]
    assert acts == ["case note", "case adjust", "case close"]


async def _propose(page: Page, path: str, amount: str, whose: str) -> None:
    await page.goto(path)
    await page.get_by_label("Whose error it is").select_option("found")
    await page.get_by_label("Amount, or all that is left").fill(amount)
    await page.get_by_label("Holder, if it is not the case's").fill(whose)
    await page.get_by_role("button", name="Propose it").click()


async def test_a_reader_sees_no_form_and_a_holder_no_case(cases: Cases) -> None:
    console = cases.console
    async with cases.page_of(await sign_in(console, "reader")) as page:
        await page.goto(cases.day)
        await expect(page.get_by_text("the bank says 3,00 more")).to_be_visible()
        await expect(page.locator("main form")).to_have_count(0)
    holder = await sign_in_client(console, cases.house_id)
    async with cases.page_of(holder) as page:
        for path in ("/audit/cases", cases.day, "/audit/cases/99"):
            answer = await page.goto(path)
            assert answer is not None
            assert answer.status == 403
            await expect(page.get_by_role("alert")).to_contain_text("You may not do that")
        for act, field in (("note", "note"), ("close", "reason"), ("adjust", "kind")):
            form: Any = {field: "found", "csrf": holder.visitor.csrf_token}
            sent = await page.request.post(f"{cases.day}/{act}", form=form, headers={"Origin": cases.base_url})
            assert sent.status == 403
    assert not [verb for verb, _ in await console.audited() if verb.startswith("case ")]
