"""Charges with a due date at institutions: written, read back in every form, and opened at each simulated bank."""

from datetime import date, timedelta
from typing import Any

import pytest
from msgspec import structs

from features.institutions.adapters.test_lying_counterpart import Liar, answer, liar, open_there  # noqa: F401  a fixture
from features.institutions.adapters.test_standard import KEY, TXID, list_all, shown
from pixconnect.features.due_charges.rules import terms as due
from pixconnect.features.institutions.adapters.standard_records import decode_terms, find_parts, write_calendar, write_value
from pixconnect.features.institutions.adapters.wire import Malformed
from pixconnect.features.institutions.rules.institution import (
    CertainRefusal,
    ChargeTerms,
    Institution,
    InstitutionUnavailable,
    UnknownOutcome,
)
from pixconnect.kernel.rules import charge_contents
from pixconnect.kernel.rules.charge_contents import DayAmount, PayerAddress
from support.faces import Bank

DUE_ON = date(2026, 7, 10)
ALL = charge_contents.DueTerms(
    due_on=DUE_ON,
    valid_days=5,
    fine=charge_contents.Fine(kind="percentage", value=200),
    interest=charge_contents.Interest(kind="percentage_a_year_of_business_days", value=1),
    rebate=charge_contents.Rebate(kind="sum", value=99),
    discount=charge_contents.Discount(
        kind="percentage_until_a_date",
        dated=(
            charge_contents.DatedDiscount(until=DUE_ON, value=100),
            charge_contents.DatedDiscount(until=date(2026, 7, 1), value=1_000),
        ),
    ),
)
CONTENTS = ChargeTerms(
    txid=TXID,
    key=KEY,
    amount_cents=1234,
    lifetime_s=0,
    payer=charge_contents.Payer(name="Maria", tax_id="52998224725"),
    address=PayerAddress(street="Rua A, 1", city="Recife", state="PE", postal_code="50000000"),
    due=ALL,
)


def test_what_is_written_is_read_again_of_every_kind() -> None:
    for interest in due.INTEREST_KINDS:
        for discount in due.DISCOUNT_KINDS:
            dated = (ALL.discount and ALL.discount.dated) or ()
            given: dict[str, Any] = dict(dated=dated) if discount in due.UNTIL_A_DATE else dict(value=7)
            made = charge_contents.Discount(kind=discount, **given)
            terms = structs.replace(ALL, interest=charge_contents.Interest(kind=interest, value=3), discount=made)
            assert decode_terms(write_calendar(terms), write_value(terms, 1234)) == terms
    assert decode_terms({"expiracao": 3600}, {}) is None
    assert decode_terms({"dataDeVencimento": "2026-07-10"}, {"original": "1.00"}) == charge_contents.DueTerms(due_on=DUE_ON)


def test_forms_that_say_the_same_are_the_same() -> None:
    texts = write_value(ALL, 1234) | {"multa": {"modalidade": "2", "valorPerc": "2.00"}}
    assert decode_terms(write_calendar(ALL), texts) == ALL
    turned = structs.replace(ALL, discount=structs.replace(ALL.discount, dated=ALL.discount.dated[::-1]))  # type: ignore[union-attr]
    assert due.are_same(turned, ALL)
    nothing = structs.replace(ALL, fine=charge_contents.Fine(kind="sum", value=0))
    assert due.are_same(nothing, structs.replace(ALL, fine=None))
    assert not any(due.are_same(other, ALL) for other in (nothing, structs.replace(ALL, valid_days=6)))


@pytest.mark.parametrize(
    ("calendar", "value"),
    [
        ({"dataDeVencimento": "2026-02-30"}, {}),
        ({"dataDeVencimento": "10/07/2026"}, {}),
        ({"dataDeVencimento": "2026-07-10", "validadeAposVencimento": "5"}, {}),
        ({}, {"multa": {"modalidade": 3, "valorPerc": "2.00"}}),
        ({}, {"multa": {"modalidade": 1, "valorPerc": 2}}),
        ({}, {"juros": {"modalidade": 9, "valorPerc": "2.00"}}),
        ({}, {"juros": "2.00"}),
        ({}, {"desconto": {"modalidade": 1, "valorPerc": "2.00"}}),
        ({}, {"desconto": {"modalidade": 1, "descontoDataFixa": [7]}}),
        ({}, {"abatimento": {"modalidade": True, "valorPerc": "2.00"}}),
    ],
)
def test_terms_that_cannot_be_relied_on_are_none(calendar: dict[str, Any], value: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        decode_terms({"dataDeVencimento": "2026-07-10"} | calendar, value)


@pytest.mark.parametrize(
    ("told", "parts"),
    [
        (None, None),
        ({"original": {"valor": "10.00"}}, DayAmount(original_cents=1000)),
        (
            {"original": {"valor": "10.00"}, "multa": {"valor": "0.20"}, "desconto": {"valor": "0.00"}},
            DayAmount(original_cents=1000, fine_cents=20),
        ),
        ({"original": {"valor": "10.00"}, "troco": {"valor": "1.00"}}, None),
        ({"original": "10.00"}, None),
        ({"original": {"valor": "10.00"}, "juros": {"valor": "x"}}, None),
        ([], None),
    ],
)
def test_parts_are_known_where_all_of_them_can_be_read(told: object, parts: DayAmount | None) -> None:
    assert find_parts({"componentesValor": told}) == parts


def asked_at(bank: Bank, **changes: Any) -> ChargeTerms:
    due_on = bank.service.context.clock.now().date() + timedelta(days=10)
    dated = (charge_contents.DatedDiscount(until=due_on, value=100),)
    terms = structs.replace(ALL, due_on=due_on, discount=charge_contents.Discount(kind="sum_until_a_date", dated=dated))
    return structs.replace(CONTENTS, **{"due": terms, **changes})


@pytest.mark.parametrize("name", ["efi", "inter", "sicoob", "bb", "bradesco", "sicredi"])
async def test_one_is_opened_read_revised_paid_and_removed(institution: Institution, bank: Bank, name: str) -> None:
    assert institution.traits.opens_due
    asked = asked_at(bank)
    assert await institution.read_charge(TXID, has_due_date=True) is None
    opened = shown(await institution.open_charge(asked))
    assert (opened.txid, opened.status, opened.lifetime_s, opened.due) == (TXID, "active", 0, asked.due)
    assert opened.code is not None
    assert opened.is_as_asked(asked)
    again = shown(await institution.read_charge(TXID, has_due_date=True))
    assert (again.code, again.due) == (opened.code, asked.due)
    # Each difference is found separately.
    assert await institution.read_charge(TXID) is None
    later = structs.replace(
        asked, amount_cents=2000, due=structs.replace(asked.due, rebate=charge_contents.Rebate(kind="sum", value=1))
    )
    revised = shown(await institution.revise_charge(later))
    assert (revised.amount_cents, revised.revision, revised.is_as_asked(later)) == (2000, 1, True)
    # Rebate and discount are disabled.
    await bank.be_paid(TXID, 2000 - 1 - 100)
    (pix,) = await list_all(institution)
    parts = DayAmount(original_cents=2000, rebate_cents=1, discount_cents=100)
    assert (pix.txid, pix.amount_cents, pix.parts) == (TXID, 1899, None if name == "efi" else parts)
    assert shown(await institution.read_charge(TXID, has_due_date=True)).status == "paid"
    other = structs.replace(asked, txid=TXID[:-1] + "9")
    shown(await institution.open_charge(other))
    assert shown(await institution.remove_charge(other.txid, has_due_date=True)).status == "removed_by_us"


@pytest.mark.parametrize("name", ["efi", "inter", "sicoob"])
async def test_a_refusal_is_certain_where_its_profile_says_so(institution: Institution, bank: Bank, name: str) -> None:
    refused = await institution.open_charge(asked_at(bank, key="nobody@else.example"))
    assert isinstance(refused, CertainRefusal), refused
    over = asked_at(bank)
    over = structs.replace(over, due=structs.replace(over.due, due_on=date(2020, 1, 2), discount=None))
    refused = await institution.open_charge(over)
    assert isinstance(refused, CertainRefusal), refused
    if name != "efi":
        assert refused.member == "cobv.calendario.dataDeVencimento"
    assert await institution.read_charge(TXID, has_due_date=True) is None
    shown(await institution.open_charge(asked_at(bank)))
    repeated = await institution.open_charge(asked_at(bank, amount_cents=1))
    assert isinstance(repeated, UnknownOutcome) == (name == "efi"), repeated


@pytest.mark.parametrize("name", ["woovi"])
async def test_where_there_is_no_such_kind_nothing_is_asked(institution: Institution, bank: Bank) -> None:
    assert not institution.traits.opens_due
    assert isinstance(await institution.open_charge(asked_at(bank)), CertainRefusal)
    assert await institution.read_charge(TXID) is None


def kinds_of_tokens(tokens: list[bytes]) -> list[bool]:
    """For each requested token, whether it had the scopes of charges with a due date."""
    return [b"cobv" in each for each in tokens]


@pytest.mark.parametrize("status", [400, 401, 403])
async def test_a_credential_that_has_no_scope_for_them_receives_all_the_same(liar: Liar, status: int) -> None:  # noqa: F811
    liar.refused_scopes = answer({"error": "invalid_scope"}, status)
    institution = open_there(liar)
    liar.said = answer({}, 404)
    with pytest.raises(InstitutionUnavailable):
        await institution.read_charge(TXID)
    assert kinds_of_tokens(liar.tokens) == [True, False]
    refused = await institution.open_charge(CONTENTS)
    assert isinstance(refused, CertainRefusal), refused
    assert (refused.code, "cobv.write" in refused.reason) == ("scope", True)
    assert "PUT" not in "".join(liar.asked)
    await institution.close()


async def test_who_is_told_a_narrower_scope_believes_it(liar: Liar) -> None:  # noqa: F811
    liar.token = {"access_token": "t", "expires_in": 3600, "scope": "cob.read cob.write pix.read"}
    institution = open_there(liar)
    assert isinstance(await institution.open_charge(CONTENTS), CertainRefusal)
    liar.token = {"access_token": "t", "expires_in": 3600, "scope": "of its own"}
    other = open_there(liar)
    liar.said = answer({}, 500)
    # An unknown text says nothing, so the charge is read.
    assert isinstance(await other.open_charge(CONTENTS), UnknownOutcome)
    assert kinds_of_tokens(liar.tokens) == [True, True]
    for each in (institution, other):
        await each.close()
