"""Asking an institution about one Pix in the console: recorded with the operator's name, and answered in words."""

from collections.abc import AsyncIterator

import pytest
from msgspec import Struct, structs

from pixconnect.features.institutions.service import account as account_usecases
from support.account_shop import Shop, open_shop
from support.browser import check_every_look, needs_chromium, open_browser
from support.console import HOST, Browser, InProcess, open_console, sign_in, sign_in_client
from support.fake_institution import FakeInstitution
from support.operators import as_operator
from support.service import Service, read_funds

ASK = "/days/loja/ask"
UNKNOWN = "E99999999202607011500AAAAAAAAAAA"


class Desk(Struct, frozen=True, kw_only=True):
    """An operator's browser at the console of a service with an account."""

    shop: Shop
    console: InProcess
    operator: Browser

    async def ask(self, asked: str, status: int = 200, name: str = "loja") -> str:
        answer = await self.operator.post(f"/days/{name}/ask", dict(asked=asked))
        assert answer.status == status, answer
        return answer.content.decode()


@pytest.fixture
async def desk(live: Service) -> AsyncIterator[Desk]:
    shop = await open_shop(live, FakeInstitution(live.clock))
    async with open_console(structs.replace(live, context=shop.context)) as console:
        yield Desk(shop=shop, console=console, operator=console.nobody.of(await sign_in(console, "operator", "ana")))


async def test_a_pix_is_recorded_once_by_whoever_asks_and_shown_with_its_transfer(desk: Desk) -> None:
    pix = desk.shop.pay(700)
    page = await desk.ask(f"  {pix.end_to_end_id} ")
    [transfer] = await desk.console.service.fetch("select id from transfer")
    for words in ("recorded now", "R$\u00a07,00", f'href="/transfers/{transfer["id"]}"', pix.end_to_end_id):
        assert words in page
    assert "had been recorded" in await desk.ask(pix.end_to_end_id)
    assert await read_funds(desk.shop.live, desk.shop.house) == (700, 0)
    rows = await desk.console.operator.pool.fetch("select operator, subject from audit where verb = 'institution ask'")
    assert [tuple(row) for row in rows] == [("console ana", "institution loja")] * 2
    old = desk.shop.pay(500, settled_at=desk.shop.account.opened_at.replace(year=2020))
    assert "before the books of this account began" in await desk.ask(old.end_to_end_id)


async def test_a_charge_is_shown_with_what_paid_it(desk: Desk) -> None:
    charge, charges = await desk.shop.charge(), desk.shop.there.charges
    assert "no Pix that the institution names" in await desk.ask(charge.txid)
    pix = desk.shop.pay(txid=charge.txid)
    charges[charge.txid] = structs.replace(charges[charge.txid], status="paid", paid_by=[pix.end_to_end_id])
    page = await desk.ask(charge.txid)
    assert (charge.txid in page, pix.end_to_end_id in page, "recorded now" in page) == (True, True, True)


async def test_what_cannot_be_told_is_said_in_words_and_by_its_status(desk: Desk) -> None:
    assert "must be an end-to-end id" in await desk.ask("<b>no id</b>", 400)
    assert "does not know this id" in await desk.ask(UNKNOWN, 404)
    desk.shop.there.is_reachable = False
    assert "There was no answer" in await desk.ask(UNKNOWN, 503)
    assert "there is no account other" in await desk.ask(UNKNOWN, 404, "other")
    assert (await desk.operator.get(ASK)).status == 200
    assert ASK in (await desk.operator.get("/days")).content.decode()
    await account_usecases.set_state(as_operator(desk.shop.context), "loja", "paused")
    assert ASK in (await desk.operator.get("/days")).content.decode()
    await desk.shop.live.execute_without_guards("update institution_account set state = 'closed'")
    assert "the account loja is closed" in await desk.ask(UNKNOWN, 400)
    page = (await desk.operator.get("/days", **{"accept-language": "pt-BR"})).content.decode()
    assert (ASK in page, "A conta está encerrada" in page) == (False, True)


async def test_holders_and_readers_ask_nothing_and_no_other_site_does(desk: Desk) -> None:
    nobody, asked = desk.console.nobody, dict(asked=UNKNOWN)
    for session in (await sign_in_client(desk.console, desk.shop.house.holder_id), await sign_in(desk.console, "reader")):
        for answer in (await nobody.of(session).post(ASK, asked), await nobody.of(session).get(ASK)):
            assert answer.status == 403
    assert (await desk.operator.post(ASK, dict(asked, csrf="0" * 64))).status == 403
    assert ASK not in (await nobody.of(await sign_in(desk.console, "reader", "rui")).get("/days")).content.decode()
    assert "institution ask" not in dict(await desk.console.audited())


class TestInABrowser:
    pytestmark = needs_chromium

    async def test_form_and_answers_can_be_used_by_everybody(self, desk: Desk) -> None:
        """In light and dark, on a desk and on a telephone."""
        paid, charge = desk.shop.pay(700), await desk.shop.charge()
        async with open_browser() as browser:
            context = await browser.new_context(base_url=f"http://{HOST}", locale="pt-BR", reduced_motion="reduce")
            await desk.operator.answer(context, "pt-BR")
            page = await context.new_page()
            await page.goto("/days")
            await check_every_look(page, (1280, 390))
            for asked, words in (
                (paid.end_to_end_id, "registrado agora"),
                (charge.txid, "nenhum Pix que a instituição informe"),
                (UNKNOWN, "não conhece este identificador"),
            ):
                await page.fill("[name=asked]", asked)
                await page.get_by_role("button", name="Consultar a instituição").click()
                await page.get_by_text(words).wait_for()
                await check_every_look(page, (1280, 390))
