"""Charges with a due date made at the contract's door, which are the other door's too."""

from datetime import date
from typing import Any

import pytest
from msgspec import structs

from pixconnect.features.institutions.rules.institution import CertainRefusal, InstitutionTraits
from pixconnect.features.pix_api.service import charge as charge_usecases
from pixconnect.features.pix_api.service.charge import create_due_charge
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.charge_contents import (
    ChargeContents,
    ContentsChange,
    Discount,
    DueChange,
    DueTerms,
    Fine,
    Interest,
    Payer,
    Rebate,
)
from pixconnect.platform.base import errors
from support.account_shop import Shop
from support.books import check_books
from support.records import own_key
from support.service import Service, open_holder

NAME = "fatura20260700000000000042"
TERMS = DueTerms(due_on=date(2026, 7, 10), fine=Fine(kind="percentage", value=200), discounts_roll=True)


def asked(external_id: str | None = NAME, **changes: Any) -> tuple[ChargeContents, str | None]:
    fields = dict(amount_cents=10_000, key=own_key(), payer=Payer(name="Ana", tax_id="52998224725"), due=TERMS, lifetime_s=0)
    return ChargeContents(**{**fields, **changes}), external_id


async def create(service: Service, caller: Caller, **changes: Any) -> Charge:
    return await create_due_charge(service.context, caller, *asked(**changes))


async def test_it_is_a_charge_at_both_doors_under_one_name(service: Service, caller: Caller) -> None:
    made = await create(service, caller)
    assert (made.external_id, made.txid, made.due_on, made.status) == (NAME, NAME, date(2026, 7, 10), "PENDING")
    there = await charge_usecases.read_charge(service.context, caller, NAME, kind="cobv")
    assert (there.charge, there.contents.due, there.revision) == (made, TERMS, 0)
    unnamed = await create(service, caller, external_id=None)
    assert (len(unnamed.txid), unnamed.external_id) == (32, unnamed.txid)
    await check_books(service)


async def test_the_same_request_gets_the_same_charge(service: Service, caller: Caller) -> None:
    made = await create(service, caller)
    # With a mark that people write, and which its normal form has not.
    assert await create(service, caller, key=f" {own_key().upper()}".strip()) == made
    revised = ContentsChange(due=DueChange(due_on=date(2026, 7, 20)))
    await charge_usecases.patch_charge(service.context, caller, NAME, revised, kind="cobv")
    # Its due date has passed: a replay beats every refusal.
    service.clock.advance(days=12)
    again = await create(service, caller)
    assert (again.id, again.due_on) == (made.id, date(2026, 7, 20))
    others: list[dict[str, Any]] = [
        dict(amount_cents=1),
        dict(due=structs.replace(TERMS, valid_days=2)),
        dict(payer=Payer(name="B", tax_id="52998224725")),
    ]
    for other in others:
        with pytest.raises(errors.ExternalIdConflict, match="external_id"):
            await create(service, caller, **other)


async def test_a_name_of_another_kind_is_taken(service: Service, caller: Caller) -> None:
    contents = charge_usecases.ChargeContents(lifetime_s=60, amount_cents=5, key=own_key())
    await charge_usecases.put_charge(service.context, caller, NAME, contents)
    with pytest.raises(errors.ExternalIdConflict, match="external_id"):
        await create(service, caller)


@pytest.mark.parametrize(
    ("changes", "refusal", "words"),
    [
        (dict(amount_cents=0), errors.AmountOutOfRange, "^amount: "),
        (dict(payer=Payer(name="Ana", tax_id="52998224726")), errors.InvalidTaxId, r"^payer\.tax_id: "),
        (dict(key="nobody@example.com"), errors.PixKeyNotOwned, "^key: "),
        (dict(key="no key"), errors.InvalidPixKey, "key"),
        (dict(payer=Payer(name="", tax_id="52998224725")), errors.BadRequest, "^payer.name: must not be empty$"),
        (dict(due=DueTerms(due_on=date(2026, 6, 30))), errors.BadRequest, "^due_on: is before today in Sao Paulo$"),
        (
            dict(
                due=DueTerms(
                    due_on=date(2026, 7, 10),
                    rebate=Rebate(kind="sum", value=10_000),
                    discount=Discount(kind="sum_a_day"),
                    interest=Interest(kind="sum_a_day", value=1),
                )
            ),
            errors.BadRequest,
            r"^rebate\.value: must be less than the amount; discount\.value: is missing for this kind$",
        ),
    ],
)
async def test_a_refusal_names_the_field_and_the_rule_in_the_contracts_words(
    service: Service, caller: Caller, changes: dict[str, Any], refusal: type[errors.Refusal], words: str
) -> None:
    with pytest.raises(refusal, match=words):
        await create(service, caller, **changes)
    # Nothing has the name: the same request can be made right.
    assert (await create(service, caller)).txid == NAME


async def test_a_holder_without_an_address_is_told_who_can_give_it_one(service: Service) -> None:
    homeless = await open_holder(service, account_number="2", has_address=False)
    with pytest.raises(errors.BadRequest, match="no address"):
        await create(service, homeless, key=own_key("2"))


async def test_over_an_account_at_an_institution_it_is_opened_there(shop: Shop) -> None:
    shop.there.traits = InstitutionTraits(opens_due=True)
    made = await create_due_charge(shop.context, shop.house, *asked())
    assert (made.institution_id, made.due_on, made.br_code) == (shop.account.id, TERMS.due_on, shop.there.charges[NAME].code)
    assert await create_due_charge(shop.context, shop.house, *asked()) == made
    with pytest.raises(errors.ExternalIdConflict, match="external_id"):
        await create_due_charge(shop.context, shop.house, *asked(amount_cents=1))
    assert shop.there.calls == [f"open {NAME}"]
    member = "cobv.calendario.dataDeVencimento"
    shop.there.answers = [CertainRefusal(code="CobVOperacaoInvalida", reason="fora do prazo", member=member)]
    with pytest.raises(errors.InvalidQrCode, match=r"^due_on: the institution refuses it: fora do prazo$"):
        await create_due_charge(shop.context, shop.house, *asked(external_id=NAME[:-1] + "3"))
    await check_books(shop.live)


async def test_where_an_institution_has_no_such_charges_it_is_not_asked(shop: Shop) -> None:
    with pytest.raises(errors.BadRequest, match=r"^due_on: the institution opens no charge with a due date"):
        await create_due_charge(shop.context, shop.house, *asked())
    assert shop.there.calls == []
