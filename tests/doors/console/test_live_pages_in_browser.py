"""The pages of live mode, with data on each: usable by everybody, in both languages, on a desk and on a telephone."""

from pixconnect.features.cases.service import case as case_usecases
from pixconnect.features.institutions.rules.institution import InstitutionTraits
from pixconnect.features.institutions.service import statement as statement_usecases
from pixconnect.features.proof.service.verify import ProofRequest, verify
from pixconnect.kernel.flows.holder import HolderChanges, set_holder
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.rules.block_report import BlockReport, BlockTerms
from support.account_shop import Shop, begin_in_july
from support.browser import Scheme, check_every_look, needs_chromium, open_browser
from support.case_orders import lose_order, read_days
from support.console import HOST, Browser, open_console, sign_in
from support.fake_institution import FakeInstitution
from support.operators import as_operator
from support.postgres import Addresses
from support.service import Service, credit_report
from support.statement_files import make_ofx, make_ofx_line
from support.verifier import open_book_reader

pytestmark = needs_chromium

WIDTHS = (1280, 390)
LOOKS: dict[str, tuple[Scheme, ...]] = {"en": ("light", "dark"), "pt-BR": ("light",)}


async def _fill(shop: Shop) -> None:
    """A day with lines that wait, a silent order, a block, and a transfer that waits for approval."""
    live, operator = shop.live, as_operator(shop.live.context, "bia")
    await lose_order(shop)
    lines = [make_ofx_line(item_id=name, at="20260701", amount="50.00", memo=f"SALDO {name}") for name in ("S1", "S2")]
    content = make_ofx(*lines, first="20260701", last="20260701", opening="100.00", closing="150.00")
    await statement_usecases.record_file(operator, "loja", content, file_name="july.ofx")
    await statement_usecases.settle_items(live.context, shop.account)
    await shop.receive(5_000)
    terms = BlockTerms(reference="PROC-77", kind="judicial", wanted_cents=70_000, held_cents=0)
    blocks = BlockReport(report_id="B1", party=credit_report(live).credit_party, blocks=(terms,), reported_at=live.clock.now())
    assert await take_reports(live.context, [blocks]) == 1
    await set_holder(operator, shop.house.holder_id, HolderChanges(approve_above_cents=0))
    await shop.send(100)
    await read_days(shop)
    await case_usecases.look_for_cases(live.context)
    values = "'rail', 'position', -500, 'the rail says 1', now()"
    await live.fetch(f"insert into kept_case (kind, name, amount_cents, facts, since) values ({values}) returning id")
    for shown in await case_usecases.list_cases(live.context):
        await case_usecases.note_case(operator, shown.case.id, "asked the bank")


async def _break_books(live: Service, database: Addresses) -> None:
    await live.execute_without_guards("update statement_head set last_number = last_number + 7")
    async with open_book_reader(live, database) as reader:
        await verify(reader, ProofRequest(extent="whole", again_after_s=0), lambda *_: None)


async def _list_pages(shop: Shop, ana: Browser) -> list[str]:
    cases = {each.case.kind: each.case.id for each in await case_usecases.list_cases(shop.live.context)}
    assert set(cases) == {"day", "order", "rail"}, cases
    (of_day,) = (
        f"/audit/cases/{each.case.id}"
        for each in await case_usecases.list_cases(shop.live.context, kind="day")
        if each.case.name == "2026-07-01"
    )
    assert (await ana.post(f"{of_day}/answer", {"line": ["counts S1", "aside S2"]})).status == 303
    whose = f"?holder={shop.house.holder_id}"
    assert (await ana.post(f"/ledger/saving{whose}")).status == 303
    (waiting,) = await shop.live.fetch("select id from transfer where direction = 'OUT' order by id desc limit 1")
    return [
        "/", "/days", "/days/loja/2026-07-01", "/days/loja/ask", "/audit", "/audit/proof", "/audit/approvals",
        "/audit/cases", of_day, f"/audit/cases/{cases['order']}", f"/audit/cases/{cases['rail']}", "/blocks",
        f"/transfers/{waiting['id']}", f"/transfers{whose}", f"/ledger{whose}",
        f"/ledger/saving{whose}", "/holders", f"/holders/{shop.house.holder_id}", "/sessions", "/search?q=25,50 Maria",
        "/search?q=2550",
    ]  # fmt: skip


async def test_each_page_of_live_mode_can_be_used_by_everybody(live: Service, database: Addresses) -> None:
    shop = await begin_in_july(live, FakeInstitution(live.clock, InstitutionTraits(sends=("KEY",))))
    await _fill(shop)
    async with open_console(live) as console, open_browser() as browser:
        ana = console.nobody.of(await sign_in(console, "operator", "ana"))
        pages = await _list_pages(shop, ana)
        await _break_books(live, database)
        for language, schemes in LOOKS.items():
            context = await browser.new_context(base_url=f"http://{HOST}", locale=language, reduced_motion="reduce")
            await ana.answer(context, language)
            page = await context.new_page()
            for path in pages:
                answer = await page.goto(path)
                assert answer is not None
                assert answer.status == 200, path
                await check_every_look(page, WIDTHS, schemes)
