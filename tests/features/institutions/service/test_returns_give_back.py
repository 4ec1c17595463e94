"""Payments without a charge stay credited and are listed; if the operator wants, they are returned after a reading."""

from collections.abc import Sequence

import pytest
from msgspec import structs

from pixconnect.features.cases.rules import Case
from pixconnect.features.cases.service.case import list_cases, look_for_cases
from pixconnect.features.institutions.rules.institution import ListedRefund, ReceivedPix
from pixconnect.features.institutions.rules.unmatched import AGAIN_AFTER, UnmatchedCredit
from pixconnect.features.institutions.service.returns import give_back_due, list_without_charge
from pixconnect.features.movements.service import receive_movement
from pixconnect.kernel.flows.holder import HolderChanges, set_holder
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.rules.block_report import InfractionReport
from support.account_shop import Shop, open_shop
from support.books import check_books
from support.fake_institution import FakeInstitution
from support.operators import as_operator
from support.service import Service, decided, infraction_report, movement_report, read_funds


@pytest.fixture
async def giver(live: Service) -> Shop:
    """Its account gives back by itself."""
    return await open_shop(live, FakeInstitution(live.clock), options={"give_back": "always"})


async def work(shop: Shop) -> None:
    await give_back_due(shop.at, shop.opened)
    await shop.move_orders()


async def read_unmatched(shop: Shop) -> Sequence[UnmatchedCredit]:
    return await list_without_charge(as_operator(shop.live.context), "loja", 7)


async def test_usually_it_stays_credited_and_is_listed(shop: Shop) -> None:
    charge = await shop.charge()
    await shop.receive(txid=charge.txid)
    second = await shop.receive(txid=charge.txid)
    await shop.allow()
    await work(shop)
    (listed,) = await read_unmatched(shop)
    assert (listed.end_to_end_id, listed.given_back, listed.amount_cents) == (second.end_to_end_id, None, 1000)
    assert await read_funds(shop.live, shop.house) == (2000, 0)


async def test_what_pays_no_charge_goes_back_once(giver: Shop) -> None:
    await giver.allow()
    charge = await giver.charge()
    await giver.receive(txid=charge.txid)
    second = await giver.receive(txid=charge.txid)
    for _ in range(3):
        await work(giver)
        await giver.read()
    (listed,) = await read_unmatched(giver)
    assert (listed.end_to_end_id, listed.given_back, listed.returned_cents) == (second.end_to_end_id, "made", 1000)
    rows = await giver.live.fetch("select reason, status, external_id from refund")
    assert [tuple(row) for row in rows] == [("MD06", "RETURNED", f"auto:{second.end_to_end_id}")]
    assert giver.there.given_back_cents == 1000
    await check_books(giver.live)


async def test_what_is_not_there_any_more_is_not_made_and_is_listed(giver: Shop) -> None:
    await giver.allow()
    pix = await giver.receive()
    await giver.give_back(pix, 1)
    await give_back_due(giver.at, giver.opened)
    (listed,) = await read_unmatched(giver)
    assert listed.given_back == "not_made"
    assert "left to return" in (listed.reason or "")
    await check_books(giver.live)


async def be_contested(giver: Shop, pix: ReceivedPix) -> InfractionReport:
    report = infraction_report(giver.live, pix.end_to_end_id)
    assert await take_reports(giver.at, [report]) == 1
    return report


async def look(giver: Shop) -> list[Case]:
    await look_for_cases(giver.live.context)
    return [one.case for one in await list_cases(giver.live.context, kind="waits")]


@pytest.mark.parametrize("hindrance", ["contest", "limit", "flag", "funds"])
async def test_a_late_give_back_is_a_case_until_it_goes(giver: Shop, hindrance: str) -> None:
    await giver.allow(0 if hindrance == "limit" else 1_000_000)
    pix = await giver.receive()
    operator, house_id = as_operator(giver.live.context), giver.house.holder_id
    report = None
    match hindrance:
        case "contest":
            report, reason = await be_contested(giver, pix), "the payer contests this Pix"
        case "flag":
            await set_holder(operator, house_id, HolderChanges(may_withdraw=False))
            reason = "may not withdraw"
        case "funds":
            party = (await giver.context.directory.read_account(giver.house.holder_id)).party
            await receive_movement(giver.at, movement_report(giver.live, party=party))
            reason = "available funds"
        case _:
            reason = "up to 0 cents more today"
    await work(giver)
    (listed,) = await read_unmatched(giver)
    assert (listed.given_back, reason in (listed.reason or "")) == ("waiting", True)
    assert await look(giver) == []
    giver.live.clock.advance(days=1, minutes=1)
    (case,) = await look(giver)
    assert (case.institution_id, case.holder_id, case.amount_cents) == (giver.account.id, house_id, None)
    assert reason in case.facts
    if report is not None:
        await take_reports(giver.at, [decided(giver.live, report)])
    if hindrance == "limit":
        await giver.allow()
    if hindrance == "flag":
        await set_holder(operator, house_id, HolderChanges(may_withdraw=True))
    if hindrance == "funds":
        charge = await giver.charge()
        await giver.receive(txid=charge.txid)
    for _ in range(2):
        giver.live.clock.advance(hours=1)
        await work(giver)
    (listed,) = await read_unmatched(giver)
    assert (listed.given_back, listed.reason, listed.returned_cents) == ("made", None, 1000)
    assert await look(giver) == []
    await check_books(giver.live)


async def test_a_refund_that_has_not_left_waits_for_the_end_of_a_contest_and_is_a_case(giver: Shop) -> None:
    await giver.allow()
    pix = await giver.receive()
    await give_back_due(giver.at, giver.opened)
    report = await be_contested(giver, pix)
    for _ in range(3):
        giver.live.clock.advance(hours=9)
        await giver.move_orders()
    (case,) = await look(giver)
    assert "does not leave: the payer contests the returned Pix" in case.facts
    assert giver.there.given_back_cents == 0
    await take_reports(giver.at, [decided(giver.live, report, days=2)])
    giver.live.clock.advance(days=2)
    for _ in range(2):
        await giver.move_orders()
        giver.live.clock.advance(seconds=10)
    assert giver.there.given_back_cents == 1000
    assert await look(giver) == []


async def test_what_a_person_returned_there_is_left_alone(giver: Shop) -> None:
    await giver.allow()
    pix = await giver.receive()
    now = giver.live.clock.real_now()
    returned = ListedRefund(id="theirs", return_id=None, amount_cents=1, status="returned", asked_at=now, settled_at=now)
    giver.there.received = [structs.replace(pix, refunds=[returned])]
    await work(giver)
    (listed,) = await read_unmatched(giver)
    assert (listed.given_back, giver.there.given_back_cents) == ("not_made", 0)


async def test_without_a_reading_it_waits(giver: Shop) -> None:
    await giver.allow()
    await giver.receive()
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
    pix = await giver.receive()
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
    await giver.receive(txid=charge.txid)
    await giver.context.pool.execute(
        "insert into give_back (transfer_id, holder_id, institution_id, state, due_at, created_at) "
        "select id, holder_id, institution_id, 'waiting', created_at, created_at from transfer"
    )
    await work(giver)
    rows = await giver.live.fetch("select state, reason from give_back")
    assert [tuple(row) for row in rows] == [("not_made", "it has paid a charge, or has not settled")]
    assert giver.there.given_back_cents == 0
