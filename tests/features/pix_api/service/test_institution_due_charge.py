"""Charges with a due date of holders with accounts at institutions: opened, changed and paid there."""

import json
from datetime import date
from typing import Any

import pytest
from msgspec import structs

from pixconnect.features.institutions.rules.institution import CertainRefusal, InstitutionTraits, UnknownOutcome
from pixconnect.features.institutions.service.charge_change import CHANGE_CALLS
from pixconnect.features.institutions.service.charge_opening import OPENING_CALLS
from pixconnect.features.institutions.service.pending_call import go_on
from pixconnect.features.institutions.service.sweep import expire_account_charges
from pixconnect.features.lots import service as lot_usecases
from pixconnect.features.lots.rules import WantedItem
from pixconnect.features.lots.service import NewItem
from pixconnect.features.pix_api.service import charge as standard_usecases
from pixconnect.features.pix_api.service import pix as pix_usecases
from pixconnect.features.pix_api.service.charge_write import StandardCharge
from pixconnect.kernel.rules.charge_contents import (
    ChargeContents,
    ContentsChange,
    DatedDiscount,
    DayAmount,
    Discount,
    DueChange,
    DueTerms,
    Fine,
    Interest,
    Payer,
    PayerAddress,
)
from pixconnect.platform.base import errors
from pixconnect.platform.base.errors import Violated
from support.account_shop import Shop, open_shop
from support.books import check_books
from support.fake_institution import FakeInstitution
from support.records import broken, own_key
from support.service import Service

TXID = "V" * 26
SILENT = UnknownOutcome(reason="silence")
DUE_ON = date(2026, 7, 10)
TERMS = DueTerms(
    due_on=DUE_ON,
    valid_days=5,
    fine=Fine(kind="percentage", value=200),
    interest=Interest(kind="sum_a_day", value=10),
    discount=Discount(kind="sum_until_a_date", dated=(DatedDiscount(until=date(2026, 7, 5), value=100),)),
    discounts_roll=True,
)
WITH_DUE = InstitutionTraits(opens_due=True)


@pytest.fixture
async def shop(live: Service, there: FakeInstitution) -> Shop:
    there.traits = WITH_DUE
    return await open_shop(live, there)


def contents(**changes: Any) -> ChargeContents:
    payer = Payer(name="Ana", tax_id="52998224725")
    said = ChargeContents(lifetime_s=0, amount_cents=1000, key=own_key(), payer=payer, due=TERMS)
    return structs.replace(said, **changes)


async def put(shop: Shop, txid: str | None = TXID, **changes: Any) -> StandardCharge:
    return await standard_usecases.put_charge(shop.context, shop.house, txid, contents(**changes))


async def patch(shop: Shop, *, removes: bool = False, **changes: Any) -> StandardCharge:
    change = ContentsChange(**changes)
    return await standard_usecases.patch_charge(shop.context, shop.house, TXID, change, kind="cobv", removes=removes)


async def read(shop: Shop) -> StandardCharge:
    return await standard_usecases.read_charge(shop.context, shop.house, TXID, kind="cobv")


async def told(shop: Shop) -> list[tuple[list[str], int]]:
    """The reported differences of payments from their charges, and the requested amounts."""
    rows = await shop.live.fetch("select body from event where name = 'charge.diverged' order by id")
    data = [json.loads(row["body"])["payload"] for row in rows]
    return [(each["divergences"], each["asked_amount"]) for each in data]


async def test_it_is_opened_there_by_its_terms(shop: Shop) -> None:
    made = await put(shop, address=PayerAddress(city="Recife"))
    there = shop.there.charges[TXID]
    assert (there.due, there.lifetime_s, made.charge.br_code) == (TERMS, 0, there.code)
    assert (made.charge.institution_id, made.charge.due_on, made.location) == (shop.account.id, DUE_ON, None)
    shown = await read(shop)
    assert (shown.contents.due, shown.contents.address) == (TERMS, PayerAddress(city="Recife"))
    assert await put(shop, address=PayerAddress(city="Recife")) == made
    assert shop.there.calls == [f"open {TXID}"]
    with pytest.raises(errors.NotFound):
        await standard_usecases.read_charge(shop.context, shop.house, TXID)
    await check_books(shop.live)


async def test_what_nobody_knows_is_asked_about_also_once_its_due_date_is_over(shop: Shop) -> None:
    shop.there.answers, shop.there.loses_answers = [SILENT], True
    with pytest.raises(errors.OutcomeUnknown) as caught:
        await put(shop)
    assert caught.value.txid == TXID
    shop.live.clock.advance(days=11)
    with pytest.raises(errors.OutcomeUnknown):
        # Unknown yet: an error of today would be no answer.
        await put(shop)
    await go_on(shop.at, shop.opened, OPENING_CALLS)
    assert (await put(shop)).charge.due_on == DUE_ON
    await check_books(shop.live)


async def test_no_static_code_stands_for_one(live: Service, there: FakeInstitution) -> None:
    there.traits = WITH_DUE
    shop = await open_shop(live, there, options={"static_fallback": True})
    there.answers = [SILENT]
    with pytest.raises(errors.OutcomeUnknown):
        await put(shop)
    shop.live.clock.advance(seconds=60)
    await go_on(shop.at, shop.opened, OPENING_CALLS)
    assert (await put(shop)).charge.br_code == there.charges[TXID].code


async def test_it_is_revised_and_removed_there(shop: Shop) -> None:
    await put(shop)
    patched = await patch(shop, amount_cents=2000, due=DueChange(due_on=date(2026, 7, 20)))
    there = shop.there.charges[TXID]
    assert (there.amount_cents, there.due) == (2000, structs.replace(TERMS, due_on=date(2026, 7, 20)))
    assert (patched.revision, patched.charge.due_on) == (1, date(2026, 7, 20))
    shop.there.answers, shop.there.loses_answers = [SILENT], True
    with pytest.raises(errors.OutcomeUnknown):
        await patch(shop, removes=True)
    shop.live.clock.advance(seconds=60)
    await go_on(shop.at, shop.opened, CHANGE_CALLS)
    removed = await patch(shop, removes=True)
    assert (removed.charge.status, shop.there.charges[TXID].status) == ("REMOVED_BY_RECEIVER", "removed_by_us")
    await check_books(shop.live)


async def test_what_cannot_be_is_told_before_the_institution_is_asked(shop: Shop) -> None:
    with pytest.raises(Violated) as caught:
        await put(shop, due=structs.replace(TERMS, due_on=date(2026, 6, 30), discount=None), key="nobodys@test.example")
    assert broken(caught.value) == ["cobv.calendario.dataDeVencimento", "cobv.chave"]
    with pytest.raises(Violated) as caught:
        await standard_usecases.put_charge(shop.context, shop.house, TXID, contents(), 7)
    assert broken(caught.value) == ["cobv.loc.id"]
    assert shop.there.calls == []
    await put(shop)
    with pytest.raises(Violated) as caught:
        await put(shop, due=structs.replace(TERMS, fine=None, discount=None))
    assert broken(caught.value) == ["cobv.valor.multa", "cobv.valor.desconto"]
    with pytest.raises(Violated) as caught:
        await put(shop, due=None, lifetime_s=60)
    assert broken(caught.value) == ["txid"]
    with pytest.raises(errors.NotFound):
        await standard_usecases.patch_charge(shop.context, shop.house, TXID, ContentsChange(amount_cents=1))
    assert shop.there.calls == [f"open {TXID}"]


async def test_a_holder_without_an_address_has_none(shop: Shop) -> None:
    await shop.live.execute_as_owner("update holder set street = null, state = null, postal_code = null")
    shop.context.directory.forget_all()
    with pytest.raises(Violated) as caught:
        await put(shop)
    assert broken(caught.value) == ["cobv.recebedor"]


async def test_an_institutions_refusal_is_a_row_of_ours(shop: Shop) -> None:
    member = "cobv.valor.desconto.descontoDataFixa[0].data"
    shop.there.answers = [CertainRefusal(code="CobVOperacaoInvalida", reason="data inválida", member=member)]
    with pytest.raises(Violated) as caught:
        await put(shop)
    assert (broken(caught.value), caught.value.entity) == ([member], "cobv")
    assert "data inválida" in caught.value.rows[0].reason
    shop.there.traits = InstitutionTraits()
    with pytest.raises(Violated) as caught:
        await put(shop, TXID[:-1] + "W")
    assert broken(caught.value) == ["cobv.calendario.dataDeVencimento"]
    assert "não abre cobranças com vencimento" in caught.value.rows[0].reason


LATE = DayAmount(original_cents=1000, fine_cents=20, interest_cents=30)


@pytest.mark.parametrize(
    ("days", "cents", "parts", "divergences", "asked_cents", "is_kept"),
    [
        # On the third late day, by our computation; returned in full, and not at all.
        (12, 1050, LATE, [], 0, True),
        (12, 1050, None, [], 0, False),
        # By the institution's own calendar, with its own parts.
        (12, 1040, DayAmount(original_cents=1000, fine_cents=20, interest_cents=20), ["OTHER_AMOUNT"], 1050, True),
        # Parts that do not add up to the amount, or have another original, are ignored.
        (12, 1050, DayAmount(original_cents=1000, fine_cents=20), [], 0, False),
        (12, 1050, DayAmount(original_cents=900, fine_cents=150), [], 0, False),
        # Behind its last day.
        (20, 1000, None, ["EXPIRED", "OTHER_AMOUNT"], 1130, False),
        (3, 900, DayAmount(original_cents=1000, discount_cents=100), [], 0, True),
        # On the Monday after a discount's Sunday, which the institution rolls or does not.
        (5, 900, None, [], 0, False),
        (5, 1000, None, [], 0, False),
        (6, 900, None, ["OTHER_AMOUNT"], 1000, False),
    ],
)
async def test_what_was_paid_is_recorded_whole_and_a_difference_is_told(
    shop: Shop, days: int, cents: int, parts: DayAmount | None, divergences: list[str], asked_cents: int, is_kept: bool
) -> None:
    await put(shop)
    shop.live.clock.advance(days=days)
    # Within a moment of its list.
    pix = shop.pay(cents, txid=TXID, parts=parts)
    shop.live.clock.advance(minutes=1)
    await shop.read()
    await shop.read()
    charge = (await read(shop)).charge
    assert (charge.status, charge.amount_cents) == ("APPROVED", cents)
    assert charge.asked_cents == (None if cents == 1000 else 1000)
    assert await told(shop) == ([(divergences, asked_cents)] if divergences else [])
    assert len(await shop.live.fetch("select from paid_amount")) == is_kept
    shown = await pix_usecases.read_pix(shop.context, shop.house, pix.end_to_end_id)
    assert shown.componentes_valor is not None
    assert (shown.componentes_valor.original.valor == "10.00") == (is_kept or cents == 1000)
    await check_books(shop.live)


async def test_it_expires_once_a_reading_after_its_last_day_has_found_no_payment(shop: Shop) -> None:
    await put(shop)
    # Its last day is 15 July.
    shop.live.clock.advance(days=14)
    await shop.read()
    assert await expire_account_charges(shop.at, shop.there) == 0
    shop.live.clock.advance(days=1)
    await shop.read()
    assert await expire_account_charges(shop.at, shop.there) == 1
    assert (await read(shop)).charge.status == "EXPIRED"
    # It comes back with a later due date, which is the institution's to give.
    revised = await patch(shop, due=DueChange(due_on=date(2026, 7, 30)))
    assert (revised.charge.status, shop.there.charges[TXID].revision) == ("PENDING", 1)
    await check_books(shop.live)


async def test_no_lot_is_taken_there(shop: Shop) -> None:
    item = NewItem(txid=TXID, asked=WantedItem(contents=contents()), wanted="{}")
    with pytest.raises(Violated) as refused:
        await lot_usecases.put_lot(shop.context, shop.house, 1, "Carnê", [item])
    assert broken(refused.value) == ["loteCobV"]
    # Nor does it keep the txid.
    assert (await put(shop)).charge.txid == TXID
