"""A payment at an institution that differs from its charge pays it all the same, with the differences."""

import json
from typing import Any

from pixconnect.features.institutions.rules.institution import NotSent
from pixconnect.features.institutions.service.charge_change import change_at_institution
from pixconnect.features.institutions.service.sweep import expire_account_charges
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.rules.br_code import parse_br_code
from pixconnect.kernel.rules.charge import Charge
from support.account_shop import Shop, open_shop
from support.books import check_books
from support.fake_institution import FakeInstitution
from support.service import Service

NEVER_OPENED = "never0opened0anywhere0at0all"


async def list_receivers(shop: Shop) -> list[dict[str, Any]]:
    rows = await shop.live.fetch("select body from event where name = 'charge.diverged' order by id")
    return [json.loads(row["body"])["payload"] for row in rows]


async def expire(shop: Shop) -> Charge:
    charge = await shop.charge("late")
    shop.live.clock.advance(days=2)
    await shop.read()
    shop.live.clock.advance(seconds=120)
    await shop.read()
    assert await expire_account_charges(shop.at, shop.there) == 1
    return charge


async def test_each_payment_that_is_not_what_its_charge_asked_for_is_told_once(shop: Shop) -> None:
    late = await expire(shop)
    removed, other, twice, plain = [await shop.charge(name) for name in ("removed", "other", "twice", "plain")]
    await change_at_institution(shop.context, shop.house, removed, removal="REMOVED_BY_RECEIVER")
    shop.pay(900, txid=late.txid)
    shop.pay(txid=removed.txid)
    shop.pay(1, txid=other.txid)
    first, second = shop.pay(txid=twice.txid), shop.pay(txid=twice.txid)
    shop.pay(txid=plain.txid)
    stray = shop.pay(5, txid=NEVER_OPENED)
    shop.pay(5, txid="counter")
    for _ in range(2):
        await shop.read()
    events = await list_receivers(shop)
    told = {one.get("external_id"): one for one in events}
    assert len(told) == len(events)
    assert {name: one["divergences"] for name, one in told.items()} == {
        "late": ["EXPIRED", "OTHER_AMOUNT"],
        "removed": ["REMOVED"],
        "other": ["OTHER_AMOUNT"],
        "twice": ["PAID_BEFORE"],
        None: ["NEVER_OPENED"],
    }
    assert (told["late"]["asked_amount"], told["late"]["amount"]) == (1000, 900)
    assert (told["twice"]["charge_id"], told["twice"]["status"]) == (twice.id, "CONFIRMED")
    assert told["twice"]["end_to_end_id"] in {first.end_to_end_id, second.end_to_end_id}
    assert (told[None]["transaction_identification"], told[None]["end_to_end_id"]) == (NEVER_OPENED, stray.end_to_end_id)
    for charge in (late, removed, other, twice, plain):
        assert (await charge_usecases.read_charge_by_id(shop.context, shop.house, charge.id)).status == "APPROVED"
    await check_books(shop.live)


async def test_a_second_payment_of_a_static_code_names_its_charge(live: Service, there: FakeInstitution) -> None:
    shop = await open_shop(live, there, options={"static_fallback": True})
    shop.there.answers = [NotSent(reason="no connection")]
    charge = await shop.charge("counter")
    reference = parse_br_code(charge.br_code).txid
    for _ in range(2):
        shop.pay(txid=reference)
    await shop.read()
    (told,) = await list_receivers(shop)
    assert (told["divergences"], told["charge_id"]) == (["PAID_BEFORE"], charge.id)
    assert told["transaction_identification"] == charge.txid
    await check_books(shop.live)
