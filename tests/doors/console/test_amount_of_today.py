"""Today's amount of a charge with a due date and its reasons, on the charge's page and on a payer's phone."""

import re
from collections.abc import Awaitable
from datetime import date

from msgspec import structs
from starlette.responses import Response

from doors.console.test_account_days import visit
from pixconnect.doors.console.visit import Visit
from pixconnect.features.console_pages import payments, sandbox
from pixconnect.features.due_charges.rules.terms import INTEREST_KINDS
from pixconnect.features.pix_api.service import charge as charge_usecases
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge_contents import ChargeContents, Discount, DueTerms, Fine, Interest, Payer, Rebate
from support.records import own_key
from support.service import Service, credit_report

TERMS = DueTerms(
    due_on=date(2026, 7, 10),
    fine=Fine(kind="percentage", value=250),
    interest=Interest(kind="percentage_a_month", value=100),
    rebate=Rebate(kind="sum", value=500),
    discount=Discount(kind="sum_a_business_day", value=40),
)


async def make(service: Service, caller: Caller, terms: DueTerms, number: int = 1) -> int:
    contents = ChargeContents(
        lifetime_s=0, amount_cents=10_000, key=own_key(), payer=Payer(name="Ana", tax_id="52998224725"), due=terms
    )
    return (await charge_usecases.put_charge(service.context, caller, f"boleto{number:020d}", contents)).charge.id


def at(service: Service, charge_id: int, *, language: str = "en") -> Visit:
    shown = visit(service, f"/charges/{charge_id}", id=str(charge_id), language=language)
    shown.parts.is_sandbox = True  # type: ignore[misc]
    return shown


async def read(shown: Awaitable[Response]) -> str:
    text = re.sub(r"<[^>]+>", " ", bytes((await shown).body).decode())
    return " ".join(text.replace("&nbsp;", " ").split())


async def test_a_payers_phone_shows_each_part_of_today_with_its_reason(service: Service, caller: Caller) -> None:
    charge_id = await make(service, caller, TERMS)
    early = await read(sandbox.show_phone(at(service, charge_id)))
    # Seven business days from Thursday the 2nd to Friday the 10th.
    assert "Original R$ 100,00 Rebate whenever it is paid \u2212R$ 5,00" in early
    assert "Discount days early that count: 7 \u2212R$ 2,80 Today R$ 92,20" in early
    assert "Due on 10/07/2026; can be paid until 10/08/2026." in early
    assert "Fine" not in early
    service.clock.advance(days=12)
    late = await read(sandbox.show_phone(at(service, charge_id, language="pt")))
    assert "Multa 2,5 %, uma vez, pelo atraso R$ 2,38" in late
    assert "Juros 1 % ao mês, dias de atraso que contam: 3 R$ 0,10 Hoje R$ 97,48" in late
    assert "Venceu em 10/07/2026; pode ser pago até 10/08/2026." in late
    assert "Desconto" not in late


async def test_each_kind_of_interest_has_words(service: Service, caller: Caller) -> None:
    kinds = {
        kind: await make(service, caller, structs.replace(TERMS, interest=Interest(kind=kind, value=1000)), number)
        for number, kind in enumerate(INTEREST_KINDS)
    }
    service.clock.advance(days=12)
    for kind, charge_id in kinds.items():
        words = "R$ 10,00 a" if kind.startswith("sum") else "10 % a"
        assert f"Interest {words}" in await read(sandbox.show_phone(at(service, charge_id))), kind


async def test_a_charge_page_hints_at_the_consumer_code_until_it_ends(service: Service, caller: Caller) -> None:
    charge_id = await make(service, caller, TERMS)
    page = await read(payments.show_payment(at(service, charge_id), "charge"))
    assert ("Amount today" in page, "Law 8,078, article 52" in page, "Due date 10/07/2026" in page) == (True,) * 3
    service.clock.advance(days=60)
    ended = await read(payments.show_payment(at(service, charge_id), "charge"))
    assert ("Amount today" in ended, "Due date 10/07/2026" in ended) == (False, True)


async def test_the_parts_of_a_payment_stand_with_charge_and_payment(service: Service, caller: Caller) -> None:
    charge_id = await make(service, caller, TERMS)
    service.clock.advance(days=12)
    report = credit_report(service, amount_cents=97_48, txid="boleto00000000000000000001")
    await receive_credit(service.context, structs.replace(report, reported_at=service.clock.now()))
    transfer_id = await service.context.pool.fetchval("select id from transfer where charge_id = $1", charge_id)
    for page in (
        await read(payments.show_payment(at(service, charge_id), "charge")),
        await read(payments.show_payment(at(service, transfer_id), "transfer")),
    ):
        assert "What was paid Original R$ 100,00 Rebate \u2212R$ 5,00 Fine R$ 2,38 Interest R$ 0,10 Paid R$ 97,48" in page, page
        assert "Amount today" not in page


async def test_a_fine_of_two_per_cent_needs_no_hint(service: Service, caller: Caller) -> None:
    allowed = structs.replace(TERMS, fine=Fine(kind="sum", value=200))
    page = await read(payments.show_payment(at(service, await make(service, caller, allowed)), "charge"))
    assert ("Amount today" in page, "Law 8,078" in page) == (True, False)


async def test_its_page_names_the_last_day_and_not_the_midnight_after_it(service: Service, caller: Caller) -> None:
    charge_id = await make(service, caller, TERMS)
    # 30 days after 10/7/2026 is a Sunday.
    assert "Can be paid until 10/08/2026 Holder" in await read(payments.show_payment(at(service, charge_id), "charge"))
