"""What pays no charge stays credited and is listed; where the operator wants that, it goes back after a reading."""

from collections.abc import Sequence

import pytest
from msgspec import structs

from pixconnect.domain.institutions.give_back import UnmatchedCredit
from pixconnect.domain.institutions.institution import ListedRefund, ReceivedPix
from pixconnect.usecases.institutions.give_back import AGAIN_AFTER, give_back_due, list_without_charge
from support.account_shop import Shop, open_shop
from support.books import check_books
from support.fake_institution import FakeInstitution
from support.operators import as_operator
from support.service import Service, read_funds


@pytest.fixture
async def giver(live: Service) -> Shop:
    """Its account gives back by itself."""
    return await open_shop(live, FakeInstitution(live.clock), options={"give_back": "always"})


async def receive(shop: Shop, **changes: object) -> ReceivedPix:
    pix = shop.pay(1000, **changes)
    await shop.read()
    return pix


async def work(shop: Shop) -> None:
    await give_back_due(shop.at, shop.opened)
    await shop.move_orders()


async def read_unmatched(shop: Shop) -> Sequence[UnmatchedCredit]:
    return await list_without_charge(as_operator(shop.live.context), "loja", 7)


async def test_usually_it_stays_credited_and_is_listed(shop: Shop) -> None:
    charge = await shop.charge()
    await receive(shop, txid=charge.txid)
    second = await receive(shop, txid=charge.txid)
    await shop.allow()
    await work(shop)
    (listed,) = await read_unmatched(shop)
    assert (listed.end_to_end_id, listed.given_back, listed.amount_cents) == (second.end_to_end_id, None, 1000)
    assert await read_funds(shop.live, shop.house) == (2000, 0)


async def test_what_pays_no_charge_goes_back_once(giver: Shop) -> None:
    await giver.allow()
    charge = await giver.charge()
    await receive(giver, txid=charge.txid)
    second = await receive(giver, txid=charge.txid)
    for _ in range(3):
        await work(giver)
        await giver.read()
    (listed,) = await read_unmatched(giver)
    assert (listed.end_to_end_id, listed.given_back, listed.returned_cents) == (second.end_to_end_id, "made", 1000)
    rows = await giver.live.fetch("select reason, status, external_id from refund")
    assert [tuple(row) for row in rows] == [("MD06", "RETURNED", f"auto:{second.end_to_end_id}")]
    assert giver.there.given_back_cents == 1000
    await check_books(giver.live)


@pytest.mark.parametrize(("allowed_cents", "reason"), [(0, "up to 0 cents more today"), (5000, "left to return")])
async def test_what_is_not_allowed_or_not_there_any_more_is_not_made_and_is_listed(
    giver: Shop, allowed_cents: int, reason: str
) -> None:
    await giver.allow(allowed_cents)
    pix = await receive(giver)
    if allowed_cents:
        await giver.give_back(pix, 1)
    await give_back_due(giver.at, giver.opened)
    (listed,) = await read_unmatched(giver)
    assert listed.given_back == "not_made"
    assert reason in (listed.reason or "")
    await check_books(giver.live)


async def test_what_a_person_returned_there_is_left_alone(giver: Shop) -> None:
    await giver.allow()
    pix = await receive(giver)
    now = giver.live.clock.real_now()
    returned = ListedRefund(
        id="theirs", return_id=None, amount_cents=1, status="returned", asked_at=now, settled_at=now
    )
    giver.there.received = [structs.replace(pix, refunds=[returned])]
    await work(giver)
    (listed,) = await read_unmatched(giver)
    assert (listed.given_back, giver.there.given_back_cents) == ("not_made", 0)


async def test_without_a_reading_it_waits(giver: Shop) -> None:
    await giver.allow()
    await receive(giver)
    giver.there.is_reachable = False
    await give_back_due(giver.at, giver.opened)
    giver.there.is_reachable = True
    await work(giver)
    assert giver.there.given_back_cents == 0, "it is looked at again after a while"
    giver.live.clock.advance(seconds=AGAIN_AFTER.total_seconds())
    await work(giver)
    assert giver.there.given_back_cents == 1000


async def test_whoever_died_after_it_was_begun_begins_no_second_one(giver: Shop) -> None:
    await giver.allow()
    pix = await receive(giver)
    await work(giver)
    await giver.live.execute_as_owner(
        "alter table give_back disable trigger check_give_back; update give_back set state = 'waiting';"
        "alter table give_back enable trigger check_give_back"
    )
    (there,) = giver.there.refunds.values()
    giver.there.received = [structs.replace(pix, refunds=[there])]
    await work(giver)
    (listed,) = await read_unmatched(giver)
    assert (listed.given_back, giver.there.given_back_cents) == ("made", 1000)


async def test_what_has_paid_a_charge_does_not_go_back_though_it_is_noted(giver: Shop) -> None:
    await giver.allow()
    charge = await giver.charge()
    await receive(giver, txid=charge.txid)
    await giver.context.pool.execute(
        "insert into give_back (transfer_id, holder_id, institution_id, state, due_at, created_at) "
        "select id, holder_id, institution_id, 'waiting', created_at, created_at from transfer"
    )
    await work(giver)
    rows = await giver.live.fetch("select state, reason from give_back")
    assert [tuple(row) for row in rows] == [("not_made", "it has paid a charge, or has not settled")]
    assert giver.there.given_back_cents == 0
