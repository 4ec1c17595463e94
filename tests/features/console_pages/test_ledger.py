"""The ledger's page shows what a holder owes, and what repaid it."""

from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.rules.rail import Abilities
from support.console import open_console, sign_in_client
from support.postgres import Addresses
from support.service import credit_report, movement_report, open_holder, open_service


async def test_it_shows_a_deficit_and_its_repayment(database: Addresses) -> None:
    async with open_service(database, abilities=Abilities(refuses_credits=False)) as service, open_console(service) as console:
        caller = await open_holder(service, funds_cents=1_000)
        page = console.nobody.of(await sign_in_client(console, caller.holder_id, "ledger.read"))
        assert "took it" not in (await page.get("/ledger")).content.decode()
        assert await take_reports(service.context, [movement_report(service, amount_cents=1_250)]) == 1
        assert "the institution took it" in (await page.get("/ledger")).content.decode()
        await receive_credit(service.context, credit_report(service, amount_cents=250))
        shown = (await page.get("/ledger")).content.decode()
        assert "took it" not in shown
        assert "Deficit repaid" in shown
