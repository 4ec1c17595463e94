"""A code of a holder on an account is paid from outside and on the books, in any order: its charge is paid once."""

import asyncio
import json
from itertools import product
from typing import Literal

import pytest
from msgspec import structs

from pixconnect.features.finding.service.search import find_anything
from pixconnect.features.finding.service.timeline import read_timeline
from pixconnect.features.institutions.rules.institution import NotSent
from pixconnect.features.institutions.service.charge_change import change_at_institution
from pixconnect.features.institutions.service.succession import move_holder
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.rules.access import READING_SCOPES, Caller, Viewer
from pixconnect.kernel.rules.br_code import format_static_br_code, parse_br_code
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.location import OutsideCharge
from pixconnect.kernel.rules.transfer import QrCodeTransferRequest, Transfer
from pixconnect.platform.base import errors
from support.account_shop import Shop, make_owner, open_shop
from support.books import check_books
from support.fake_institution import FakeInstitution
from support.operators import as_operator
from support.records import own_key
from support.service import Service, read_funds

Road = Literal["outside", "book"]


@pytest.fixture
async def shop(live: Service, there: FakeInstitution) -> Shop:
    return await open_shop(live, there, options={"static_fallback": True})


@pytest.fixture
async def payer(shop: Shop) -> Caller:
    """Another holder of the account, with money."""
    holder_id = await make_owner(shop.live, "2")
    await move_holder(as_operator(shop.live.context), holder_id, "loja")
    await shop.receive(100_000, key=own_key("2"))
    return structs.replace(shop.house, holder_id=holder_id)


async def open_code(shop: Shop, *, is_static: bool) -> Charge:
    if is_static:
        shop.there.answers = [NotSent(reason="no connection")]
    charge = await shop.charge("counter")
    assert (parse_br_code(charge.br_code).kind == "static") is is_static
    if not is_static:
        asked = OutsideCharge(txid=charge.txid, key=charge.key, amount_cents=1000, status="ATIVA", expires_at=charge.expires_at)
        shop.live.locations.charges[f"pix.example/{charge.txid}"] = asked
    return charge


def name_of(charge: Charge) -> str:
    return parse_br_code(charge.br_code).txid or charge.txid


async def pay_by_book(shop: Shop, payer: Caller, code: str, amount_cents: int = 1000) -> Transfer:
    request = QrCodeTransferRequest(amount_cents=amount_cents, br_code=code)
    return (await transfer_usecases.start_transfer(shop.context, payer, request)).transfer


async def pay(shop: Shop, payer: Caller, road: Road, charge: Charge, amount_cents: int = 1000) -> None:
    if road == "book":
        assert (await pay_by_book(shop, payer, charge.br_code, amount_cents)).status == "CONFIRMED"
    else:
        await shop.receive(amount_cents, txid=name_of(charge))


async def read_status(shop: Shop, charge: Charge) -> str:
    return (await charge_usecases.read_charge_by_id(shop.context, shop.house, charge.id)).status


async def list_receivers(shop: Shop) -> list[tuple[str, list[str] | None]]:
    rows = await shop.live.fetch(
        "select name, body from event where name in ('qrcode.approved', 'charge.diverged') order by id"
    )
    return [(row["name"], json.loads(row["body"])["payload"].get("divergences")) for row in rows]


APPROVED = ("qrcode.approved", None)


@pytest.mark.parametrize("roads", list(product(("outside", "book"), repeat=2)))
async def test_a_second_payment_of_a_static_code_diverges(shop: Shop, payer: Caller, roads: tuple[Road, Road]) -> None:
    charge = await open_code(shop, is_static=True)
    await pay(shop, payer, roads[0], charge)
    assert (await read_status(shop, charge), await list_receivers(shop)) == ("APPROVED", [APPROVED])
    await pay(shop, payer, roads[1], charge)
    assert await list_receivers(shop) == [APPROVED, ("charge.diverged", ["PAID_BEFORE"])]
    assert await read_funds(shop.live, shop.house) == (2000, 0)
    found = await find_anything(shop.context, Viewer(holder_id=None, scopes=READING_SCOPES), name_of(charge))
    assert [one.kind for one in found] == ["charge", "transfer", "transfer"]
    assert len({one.id for one in found}) == 3
    told = await read_timeline(shop.context, Viewer(holder_id=charge.holder_id, scopes=READING_SCOPES), "charge", charge.id)
    assert {str(each.id) for each in told.facts.transfers} == {one.id for one in found if one.kind == "transfer"}
    await check_books(shop.live)


@pytest.mark.parametrize("first", ["outside", "book"])
async def test_a_paid_dynamic_code_diverges_from_outside(shop: Shop, payer: Caller, first: Road) -> None:
    charge = await open_code(shop, is_static=False)
    await pay(shop, payer, first, charge)
    assert await read_status(shop, charge) == "APPROVED"
    with pytest.raises(errors.QrCodeAlreadyPaid):
        await pay_by_book(shop, payer, charge.br_code)
    await pay(shop, payer, "outside", charge)
    assert await list_receivers(shop) == [APPROVED, ("charge.diverged", ["PAID_BEFORE"])]
    assert await read_funds(shop.live, shop.house) == (2000, 0)
    await check_books(shop.live)


@pytest.mark.parametrize("is_static", [True, False])
async def test_of_many_at_once_one_pays_the_charge(shop: Shop, payer: Caller, *, is_static: bool) -> None:
    charge = await open_code(shop, is_static=is_static)
    shop.pay(txid=name_of(charge))
    paid = asyncio.gather(*(pay_by_book(shop, payer, charge.br_code) for _ in range(5)), return_exceptions=True)
    outcomes, _ = await asyncio.gather(paid, shop.read())
    by_book = [one.status if isinstance(one, Transfer) else type(one).__name__ for one in outcomes]
    told = await list_receivers(shop)
    assert told.count(APPROVED) == 1
    confirmed_count = by_book.count("CONFIRMED")
    assert told.count(("charge.diverged", ["PAID_BEFORE"])) == confirmed_count
    assert (confirmed_count == 5) if is_static else (confirmed_count <= 1)
    assert set(by_book) <= {"CONFIRMED", "ERROR", "QrCodeAlreadyPaid"}
    await check_books(shop.live)


@pytest.mark.parametrize("road", ["outside", "book"])
async def test_a_static_code_with_another_amount_pays_and_diverges(shop: Shop, payer: Caller, road: Road) -> None:
    charge = await open_code(shop, is_static=True)
    other = format_static_br_code(charge.key, "Loja", "Recife", amount_cents=900, txid=name_of(charge))
    await pay(shop, payer, road, structs.replace(charge, br_code=other), 900)
    assert await list_receivers(shop) == [APPROVED, ("charge.diverged", ["OTHER_AMOUNT"])]
    assert await read_status(shop, charge) == "APPROVED"
    await check_books(shop.live)


@pytest.mark.parametrize("road", ["outside", "book"])
async def test_a_static_code_of_an_expired_charge_pays_and_diverges(shop: Shop, payer: Caller, road: Road) -> None:
    charge = await open_code(shop, is_static=True)
    shop.live.clock.advance(days=2)
    await pay(shop, payer, road, charge)
    assert await list_receivers(shop) == [APPROVED, ("charge.diverged", ["EXPIRED"])]
    await check_books(shop.live)


async def test_a_dynamic_code_of_a_removed_charge_is_refused_by_book(shop: Shop, payer: Caller) -> None:
    charge = await open_code(shop, is_static=False)
    await change_at_institution(shop.context, shop.house, charge, removal="REMOVED_BY_RECEIVER")
    refused = await pay_by_book(shop, payer, charge.br_code)
    assert (refused.status, refused.outcome_code) == ("ERROR", "BE17")
    assert await read_funds(shop.live, payer) == (100_000, 0)
    await check_books(shop.live)


async def test_a_static_code_pays_the_holder_of_its_charge(shop: Shop, payer: Caller) -> None:
    charge = await open_code(shop, is_static=True)
    third = await make_owner(shop.live, "3")
    await move_holder(as_operator(shop.live.context), third, "loja")
    other = format_static_br_code(own_key("3"), "Loja", "Recife", amount_cents=1000, txid=name_of(charge))
    await pay(shop, payer, "book", structs.replace(charge, br_code=other))
    assert (await read_status(shop, charge), await read_funds(shop.live, shop.house)) == ("APPROVED", (1000, 0))
    await check_books(shop.live)
