"""Returns at the institution, by a person or by itself, are recorded once, as refunds without a request."""

import random
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest
from msgspec import structs
from structlog.testing import capture_logs

from pixconnect.features.institutions.rules.account import Credential
from pixconnect.features.institutions.rules.institution import InstitutionItem, ListedRefund, ReceivedPix
from pixconnect.features.institutions.rules.rail_memory import name_at_institution
from pixconnect.features.institutions.service import account as account_usecases
from pixconnect.features.institutions.service import day as day_usecases
from pixconnect.features.institutions.service.refund import record_returns
from pixconnect.features.institutions.service.statement import settle_items
from pixconnect.features.institutions.service.statement_sweep import note_listed, record_listed
from pixconnect.features.institutions.service.succession import succeed_holder
from pixconnect.features.institutions.service.sweep import record_page, sweep
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables import returns as return_store
from pixconnect.features.movements.service import post_statement_item
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import kept_report as kept_usecases
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.rules import ability
from pixconnect.kernel.rules.rail import MovementReport
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import to_day
from support.account_shop import Shop, make_owner, open_cut_shop
from support.books import check_books
from support.cut_connections import Cut
from support.fake_institution import a_description
from support.operators import as_operator
from support.postgres import Addresses
from support.records import own_key
from support.service import Service


def give_back(shop: Shop, pix: ReceivedPix, amount_cents: int, **changes: Any) -> ListedRefund:
    """A person returns a part of a payment there; it is listed with the payment from then on."""
    token = shop.context.entropy.token(11)
    refund = ListedRefund(
        id=f"r{token}", return_id=f"D99999004202607011500{token}", amount_cents=amount_cents, status="returned",
        asked_at=shop.live.clock.real_now(), settled_at=shop.live.clock.real_now(),
    )  # fmt: skip
    refund = structs.replace(refund, **changes)
    index = next(index for index, one in enumerate(shop.there.received) if one.end_to_end_id == pix.end_to_end_id)
    listed = shop.there.received[index]
    shop.there.received[index] = structs.replace(listed, refunds=[*listed.refunds, refund])
    if refund.status == "returned":
        shop.there.balance_cents -= amount_cents
    return refund


async def funds(shop: Shop, holder_id: int | None = None) -> tuple[int, int, int]:
    caller = shop.house if holder_id is None else structs.replace(shop.house, holder_id=holder_id)
    balance = await ledger_usecases.read_balance(shop.context, caller)
    return balance.available_cents, balance.reserved_cents, balance.deficit_cents


async def refunds(shop: Shop) -> list[tuple[str, int, str, str]]:
    told = "select external_id, amount_cents, status, made_by from refund order by id"
    return [tuple(row) for row in await shop.live.fetch(told)]


async def events(shop: Shop, resource: str) -> list[str]:
    told = f"select name from event where resource = '{resource}' order by id"
    return [row["name"] for row in await shop.live.fetch(told)]


async def kept(shop: Shop) -> list[tuple[str, str, str]]:
    found = await kept_usecases.list_kept(as_operator(shop.context), with_closed=True)
    return [(one.kind, one.reason, one.name) for one in found]


async def movements(shop: Shop) -> list[tuple[str, str, int, str | None]]:
    told = "select kind, direction, amount_cents, opposite_of from movement where kind <> 'opening_balance' order by item_id"
    return [tuple(row) for row in await shop.live.fetch(told)]


async def test_a_return_made_there_is_recorded_once_however_often_it_is_listed(shop: Shop) -> None:
    pix = await shop.receive(1000)
    refund = give_back(shop, pix, 300)
    for _ in range(3):
        await shop.read()
    assert await refunds(shop) == [(f"theirs:{refund.return_id}", 300, "RETURNED", "institution")]
    assert await funds(shop) == (700, 0, 0)
    assert await events(shop, "refund") == ["refund.out.processing", "refund.out.returned"]
    (row,) = await shop.live.fetch("select returned_cents, returning_cents, status from transfer")
    assert tuple(row) == (300, 0, "CONFIRMED")
    assert await kept(shop) == []
    await check_books(shop.live)


async def test_a_payment_and_its_return_may_be_listed_at_once_and_in_parts(shop: Shop) -> None:
    pix = shop.pay(1000)
    give_back(shop, pix, 300)
    give_back(shop, pix, 200, return_id=None)
    await shop.read()
    await shop.read()
    assert await funds(shop) == (500, 0, 0)
    assert len(await refunds(shop)) == 2
    await check_books(shop.live)


async def test_what_pays_back_all_of_a_charge_returns_the_charge(shop: Shop) -> None:
    charge = await shop.charge(amount_cents=1000)
    pix = await shop.receive(1000, txid=charge.txid)
    give_back(shop, pix, 400)
    await shop.read()
    assert (await charge_usecases.read_charge_by_id(shop.context, shop.house, charge.id)).status == "APPROVED"
    give_back(shop, pix, 600)
    await shop.read()
    assert (await charge_usecases.read_charge_by_id(shop.context, shop.house, charge.id)).status == "RETURNED"
    assert await events(shop, "transfer") == ["transfer.in.processing", "transfer.in.confirmed"]
    await check_books(shop.live)


async def test_what_is_not_over_there_or_was_refused_is_not_recorded(shop: Shop) -> None:
    pix = shop.pay(1000)
    give_back(shop, pix, 300, status="under_way", settled_at=None)
    give_back(shop, pix, 200, status="refused", settled_at=None)
    await shop.read()
    assert await refunds(shop) == []
    listed = shop.there.received[0]
    over = structs.replace(listed.refunds[0], status="returned", settled_at=shop.live.clock.real_now())
    shop.there.received[0] = structs.replace(listed, refunds=[over, *listed.refunds[1:]])
    await shop.read()
    assert await funds(shop) == (700, 0, 0)


async def test_what_is_lacking_is_owed_and_repaid_by_what_comes_in(shop: Shop) -> None:
    pix = await shop.receive(1000)
    await take_fee(shop, 800)
    give_back(shop, pix, 1000)
    await shop.read()
    assert await funds(shop) == (0, 0, 800)
    entries = await shop.live.fetch(
        "select debit_account::text, amount_cents from ledger_entry where cause_kind = 'refund' order by id"
    )
    assert [tuple(entry) for entry in entries] == [("available", 200), ("deficit", 800)]
    await check_books(shop.live)
    await shop.receive(1000)
    assert await funds(shop) == (200, 0, 0)
    await check_books(shop.live)


async def take_fee(shop: Shop, amount_cents: int) -> None:
    report = MovementReport(
        report_id="fee", item_id=shop.context.entropy.token(11),
        party=(await shop.context.directory.read_account(shop.house.holder_id)).party, kind="fee", direction="OUT",
        amount_cents=amount_cents, end_to_end_id=None, description=None, settled_at=shop.live.clock.real_now(),
    )  # fmt: skip
    assert await post_statement_item(shop.at, shop.house.holder_id, report)
    shop.there.balance_cents -= amount_cents


async def test_more_than_was_received_is_kept_for_a_person_once_and_moves_nothing(shop: Shop) -> None:
    pix = shop.pay(1000)
    give_back(shop, pix, 700)
    await shop.read()
    refund = give_back(shop, pix, 400)
    for _ in range(2):
        await shop.read()
    assert await kept(shop) == [("institution_return", "contradiction", refund.return_id)]
    assert await funds(shop) == (300, 0, 0)
    await check_books(shop.live)


async def test_a_return_that_changed_is_kept(shop: Shop) -> None:
    pix = shop.pay(1000)
    refund = give_back(shop, pix, 300)
    await shop.read()
    shop.there.received[0] = structs.replace(shop.there.received[0], refunds=[structs.replace(refund, amount_cents=301)])
    await shop.read()
    assert await kept(shop) == [("institution_return", "changed_repeat", refund.return_id)]
    assert await funds(shop) == (700, 0, 0)


async def test_the_networks_name_may_be_told_later_and_left_out_later(shop: Shop) -> None:
    pix = shop.pay(1000)
    refund = give_back(shop, pix, 300, return_id=None)
    await shop.read()
    named = structs.replace(refund, return_id="D99999004202607011500zzzzzzzzzzz")
    for told in (named, refund, named):
        shop.there.received[0] = structs.replace(shop.there.received[0], refunds=[told])
        await shop.read()
    rows = await shop.live.fetch("select network_id from refund")
    assert [row["network_id"] for row in rows] == [named.return_id]
    assert await funds(shop) == (700, 0, 0)
    await check_books(shop.live)


async def test_a_return_of_what_was_paid_before_the_books_is_a_movement_if_it_left_since(shop: Shop) -> None:
    old = shop.pay(1000, settled_at=shop.account.opened_at - timedelta(hours=1))
    give_back(shop, old, 200, settled_at=shop.account.opened_at - timedelta(minutes=1))
    shop.live.clock.advance(minutes=1)
    give_back(shop, old, 300, settled_at=shop.live.clock.real_now())
    for _ in range(2):
        # A sweep does not read that far back; a question about one Pix does.
        await record_page(shop.at, shop.there.received)
    assert await movements(shop) == [("reversal", "OUT", 300, None)]
    assert await funds(shop) == (0, 0, 300)
    await check_books(shop.live)


async def tell_line(shop: Shop, at: datetime, **changes: Any) -> None:
    line = InstitutionItem(item_id="L1", day=to_day(at), settled_at=at, direction="OUT", amount_cents=300, kind="refund")
    line = structs.replace(line, **changes)
    await shop.tell_lines(line)


@pytest.mark.parametrize("naming", ["return", "payment", "nothing"])
async def test_a_line_that_was_a_movement_and_proves_to_be_a_return_is_counted_once(shop: Shop, naming: str) -> None:
    shop.live.clock.advance(minutes=1)
    pix = shop.pay(1000)
    refund = give_back(shop, pix, 300)
    names = dict(return_=dict(return_id=refund.return_id), payment=dict(end_to_end_id=pix.end_to_end_id), nothing={})
    # The statement is read before the list of received payments.
    await tell_line(shop, shop.live.clock.real_now(), **names["return_" if naming == "return" else naming])
    assert await movements(shop) == [("reversal", "OUT", 300, None)]
    await shop.read()
    assert sorted(await movements(shop), key=str) == [("reversal", "IN", 300, "L1"), ("reversal", "OUT", 300, None)]
    assert await funds(shop) == (700, 0, 0)
    rows = await shop.live.fetch("select joined_kind, joined_by from institution_item")
    assert [tuple(row) for row in rows] == [("refund", "name")]
    await shop.read()
    await settle_items(shop.at, shop.account)
    assert await funds(shop) == (700, 0, 0)
    day = await day_usecases.read_day(shop.at, shop.account, to_day(shop.live.clock.real_now()))
    assert [line.key[0] for line in day.lines_alone] == ["transfer"], "what was taken back is on no statement"
    await check_books(shop.live)


async def test_a_movement_is_taken_back_on_whoever_has_it(shop: Shop) -> None:
    sister = await make_owner(shop.live, "2")
    await shop.live.execute_as_owner(f"update holder set institution_id = {shop.account.id} where id = {sister}")
    shop.live.clock.advance(minutes=1)
    pix = await shop.receive(1000, key=own_key("2"))
    refund = give_back(shop, pix, 300)
    await tell_line(shop, shop.live.clock.real_now(), return_id=refund.return_id)
    assert (await funds(shop), await funds(shop, sister)) == ((0, 0, 300), (1000, 0, 0))
    await shop.read()
    assert (await funds(shop), await funds(shop, sister)) == ((0, 0, 0), (700, 0, 0))
    await check_books(shop.live)


async def test_two_lines_that_look_alike_are_left_to_a_person(shop: Shop) -> None:
    shop.live.clock.advance(minutes=1)
    pix = shop.pay(1000)
    give_back(shop, pix, 300)
    now = shop.live.clock.real_now()
    await tell_line(shop, now)
    await tell_line(shop, now, item_id="L2")
    await shop.read()
    assert [opposite for *_, opposite in await movements(shop)] == [None, None]
    await check_books(shop.live)


async def test_a_listed_return_of_ours_is_the_report_of_our_refund(shop: Shop) -> None:
    await shop.allow()
    pix = await shop.receive(1000)
    shop.there.refund_status = "under_way"
    refund = await shop.give_back(pix, 600)
    await shop.move_orders()
    # Beside ours there is room for one of 400 and none for one of 500.
    give_back(shop, pix, 500)
    await shop.read()
    assert await funds(shop) == (400, 600, 0)
    ours = next(iter(shop.there.refunds.values()))
    over = structs.replace(ours, status="returned", settled_at=shop.live.clock.real_now())
    theirs = structs.replace(shop.there.received[0].refunds[-1], amount_cents=400)
    shop.there.received[0] = structs.replace(shop.there.received[0], refunds=[over, theirs])
    for _ in range(2):
        await shop.read()
    assert await funds(shop) == (0, 0, 0)
    assert [(cents, status, by) for _, cents, status, by in await refunds(shop)] == [
        (600, "RETURNED", "service"),
        (400, "RETURNED", "institution"),
    ]
    steps = await shop.live.fetch(f"select state from rail_step where order_name = '{refund.return_id}'")
    assert [row["state"] for row in steps] == ["closed"], "nobody asks about it any more"
    assert await kept(shop) == []
    await check_books(shop.live)


async def test_a_line_read_after_the_return_is_joined_and_no_movement(shop: Shop) -> None:
    pix = shop.pay(1000)
    refund = give_back(shop, pix, 300)
    await shop.read()
    await tell_line(shop, shop.live.clock.real_now(), return_id=refund.return_id, end_to_end_id=pix.end_to_end_id)
    assert await movements(shop) == []
    (row,) = await shop.live.fetch("select joined_kind, joined_by from institution_item")
    assert tuple(row) == ("refund", "name")


async def test_a_day_that_closed_without_it_is_judged_anew(shop: Shop) -> None:
    pix = await shop.receive(1000)
    at = shop.live.clock.real_now()
    line = InstitutionItem(
        item_id="P1", day=to_day(at), settled_at=at, direction="IN", amount_cents=1000, kind="pix",
        end_to_end_id=pix.end_to_end_id,
    )  # fmt: skip
    shop.live.clock.advance(days=2)
    await record_listed(shop.at, shop.account, [line])
    await note_listed(shop.at, shop.account, (line.day, line.day))
    await shop.live.execute_as_owner("update institution_day set opening_cents = 0, closing_cents = 1000")
    await settle_items(shop.at, shop.account)
    day = (await day_usecases.read_day(shop.at, shop.account, line.day)).shown
    assert day.state == "closed"
    give_back(shop, pix, 300, settled_at=at)
    await shop.read()
    (row,) = await shop.live.fetch("select state, reopened_at is not null as is_reopened from institution_day")
    assert row["state"] == "closed_with_cases"


async def test_the_schema_takes_no_institution_return_that_it_should_not(shop: Shop) -> None:
    pix = shop.pay(1000)
    give_back(shop, pix, 300)
    await shop.read()
    for change in (
        "update refund set external_id = 'mine'",
        "insert into ledger_entry (id, holder_id, debit_account, credit_account, amount_cents, cause_kind, cause_id,"
        " cause_state, created_at) select 999999, holder_id, 'deficit', 'settlement', 1, 'refund', id, 'RETURNED', now()"
        " from refund",
    ):
        with pytest.raises((asyncpg.IntegrityConstraintViolationError, asyncpg.InsufficientPrivilegeError)):
            await shop.live.execute_as_owner(change)


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_in_whatever_order_it_is_read_our_books_are_the_institutions(shop: Shop, seed: int) -> None:
    """Payments, our returns and others', and fees, from the list, from the statement, or from both."""
    chance = random.Random(seed)  # noqa: S311  it makes no secret
    await shop.allow(1_000_000)
    shop.live.clock.advance(minutes=1)
    left: dict[str, int] = {}
    for number in range(14):
        shop.live.clock.advance(seconds=chance.choice((1, 90)))
        now = shop.live.clock.real_now()
        open_names = [name for name, cents in left.items() if cents > 0]
        act = chance.choice(("pay", "theirs", "theirs", "ours", "fee", "read"))
        if act == "pay" or not open_names:
            paid = shop.pay(chance.randint(100, 900))
            left[paid.end_to_end_id] = paid.amount_cents
        elif act == "theirs":
            name = chance.choice(open_names)
            pix = next(one for one in shop.there.received if one.end_to_end_id == name)
            cents = chance.randint(1, left[pix.end_to_end_id])
            refund = give_back(shop, pix, cents)
            left[pix.end_to_end_id] -= cents
            if chance.random() < 0.5:
                told = chance.choice((dict(return_id=refund.return_id), dict(end_to_end_id=pix.end_to_end_id)))
                await tell_line(shop, now, item_id=f"R{number}", amount_cents=cents, **told)
        elif act == "fee":
            await take_fee(shop, chance.randint(1, 400))
        else:
            await shop.read()
            name = open_names[0]
            if act == "ours" and (await funds(shop))[0] >= left[name]:
                pix = next(one for one in shop.there.received if one.end_to_end_id == open_names[0])
                await shop.give_back(pix, left.pop(name))
                await shop.move_orders()
    await shop.read()
    available, reserved, deficit = await funds(shop)
    assert available + reserved - deficit == shop.there.balance_cents
    assert await kept(shop) == []
    await check_books(shop.live)


async def test_a_reading_that_leaves_returns_for_later_is_not_noted(shop: Shop) -> None:
    pix = shop.pay(1000)
    give_back(shop, pix, 300)
    await shop.read()
    before = await day_store.find(shop.at.pool, shop.account.id, "deep")
    shop.live.clock.advance(days=1)
    # Another process makes movements of lines meanwhile.
    async with shop.at.pool.keep() as other, day_store.working_on(other, shop.account.id):
        give_back(shop, pix, 200)
        await sweep(shop.at, shop.there, "deep")
        assert await day_store.find(shop.at.pool, shop.account.id, "deep") == before
    await sweep(shop.at, shop.there, "deep")
    assert await day_store.find(shop.at.pool, shop.account.id, "deep") != before
    assert await funds(shop) == (500, 0, 0)


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_a_lost_commit_has_one_effect(database: Addresses, live: Service, cut: Cut) -> None:
    async with open_cut_shop(database, live.clock) as (wire, shop):
        shop.live.clock.advance(minutes=1)
        pix = shop.pay(1000)
        refund = give_back(shop, pix, 300)
        await tell_line(shop, shop.live.clock.real_now(), return_id=refund.return_id)
        shop.there.received[0] = pix
        await shop.read()
        shop.there.received[0] = structs.replace(pix, refunds=[refund])
        wire.cuts = [cut]
        assert await record_returns(shop.at, shop.account, shop.there.received)
        assert wire.cuts_count == 1
        assert await funds(shop) == (700, 0, 0)
        assert len(await refunds(shop)) == 1
        await check_books(shop.live)


@pytest.mark.parametrize("external_id", ["theirs:D1", "auto:E1"])
def test_its_external_ids_are_kept_for_it(external_id: str, shop: Shop) -> None:
    with pytest.raises(errors.ExternalIdConflict):
        ability.check_external_id(shop.at.policy.abilities, external_id)


async def name_ours(shop: Shop, external_id: str) -> str:
    """The institution's name of a request, computed from the account's key."""
    keys = await return_store.read_keys(shop.context.pool, [shop.account.id])
    return name_at_institution(keys[shop.account.id], shop.account.id, "refund", shop.house.holder_id, external_id)


async def test_a_request_that_was_forgotten_here_finds_what_it_had_made_there(shop: Shop) -> None:
    await shop.allow()
    pix = await shop.receive(1000)
    # The database was restored to before it: only the institution has it.
    give_back(shop, pix, 600, id=await name_ours(shop, "r1"))
    await shop.read()
    assert await refunds(shop) == [(f"theirs:{shop.there.received[0].refunds[0].return_id}", 600, "RETURNED", "institution")]
    for _ in range(2):
        repeated = await shop.give_back(pix, 600, external_id="r1")
        assert (repeated.status, repeated.amount_cents, repeated.external_id) == ("RETURNED", 600, "r1")
    read = await refund_usecases.read_refund_by_external_id(shop.context, shop.house, "r1")
    assert read == repeated
    with pytest.raises(errors.ExternalIdConflict):
        await shop.give_back(pix, 400, external_id="r1")
    await shop.move_orders()
    assert await funds(shop) == (400, 0, 0)
    assert (len(await refunds(shop)), shop.there.refunds) == (1, {})
    # A request under a new name is new.
    await shop.give_back(pix, 400, external_id="r2")
    await shop.move_orders()
    await shop.read()
    assert await funds(shop) == (0, 0, 0)
    assert await kept(shop) == []
    await check_books(shop.live)


async def test_a_successor_finds_what_the_former_one_had_made_and_was_forgotten(shop: Shop) -> None:
    await shop.allow()
    pix = await shop.receive(1000)
    give_back(shop, pix, 600, id=await name_ours(shop, "r1"))
    await shop.read()
    shop.live.clock.advance(minutes=1)
    operator = as_operator(shop.live.context)
    said = a_description(keys=["b@test.example"], receiving=Credential(client_id="b"), base_url="https://127.0.0.1:8106")
    await account_usecases.add_account(operator, shop.there.open, "banco", said, await make_owner(shop.live, "9"))
    done = await succeed_holder(operator, shop.house.holder_id, "banco", "77", "0001")
    heir = structs.replace(shop, house=structs.replace(shop.house, holder_id=done.heir.id))
    read = await refund_usecases.read_refund_by_external_id(shop.context, heir.house, "r1")
    assert (read.status, read.amount_cents) == ("RETURNED", 600)
    assert await heir.give_back(pix, 600, external_id="r1") == read
    await shop.move_orders()
    assert (len(await refunds(shop)), shop.there.refunds) == (1, {})
    await check_books(shop.live)


async def test_a_request_that_came_again_before_the_list_was_read_is_ended_by_it(shop: Shop) -> None:
    await shop.allow()
    pix = await shop.receive(1000)
    give_back(shop, pix, 600, id=await name_ours(shop, "r1"))
    # Accepted again, and no worker has noted its name there yet.
    refund = await shop.give_back(pix, 600, external_id="r1")
    await shop.read()
    assert [(cents, status, by) for _, cents, status, by in await refunds(shop)] == [(600, "PROCESSING", "service")]
    assert await funds(shop) == (400, 600, 0)
    # Once it is asked for under its name, the answer is what exists there.
    listed = shop.there.received[0].refunds[0]
    shop.there.refunds[pix.end_to_end_id, listed.id] = listed
    for _ in range(2):
        await shop.move_orders()
        await shop.read()
    ended = await refund_usecases.read_refund_by_id(shop.context, shop.house, refund.id)
    assert (ended.status, ended.network_id) == ("RETURNED", listed.return_id)
    assert await funds(shop) == (400, 0, 0)
    assert await kept(shop) == []
    await check_books(shop.live)


async def test_two_returns_that_look_alike_are_two_however_they_are_named(shop: Shop) -> None:
    pix = shop.pay(1000)
    for asked_as in ("h3", "h4"):
        give_back(shop, pix, 100, id=asked_as, return_id=None)
    for _ in range(2):
        await shop.read()
    assert await funds(shop) == (800, 0, 0)
    # One that had a name is listed again without it, and a moment later.
    told = shop.there.received[0].refunds
    named = structs.replace(told[0], return_id="D99999004202607011500zzzzzzzzzzz")
    shop.there.received[0] = structs.replace(shop.there.received[0], refunds=[named, told[1]])
    await shop.read()
    moved = structs.replace(told[0], settled_at=told[0].settled_at and told[0].settled_at + timedelta(seconds=1))
    shop.there.received[0] = structs.replace(shop.there.received[0], refunds=[moved, told[1]])
    await shop.read()
    assert await funds(shop) == (800, 0, 0)
    await check_books(shop.live)


async def test_of_two_returns_of_one_name_the_second_is_kept_once_and_moves_nothing(shop: Shop) -> None:
    pix, other, third = shop.pay(1000), shop.pay(1000), shop.pay(1000)
    first = give_back(shop, pix, 300)
    unnamed = give_back(shop, third, 50, return_id=None)
    await shop.read()
    # Of the same payment and of another one, and one with that name later.
    give_back(shop, pix, 200, return_id=first.return_id)
    give_back(shop, other, 100, return_id=first.return_id)
    named = structs.replace(unnamed, return_id=first.return_id)
    shop.there.received[2] = structs.replace(shop.there.received[2], refunds=[named])
    with capture_logs() as logs:
        for _ in range(3):
            await shop.read()
    assert [line["event"] for line in logs] == ["a report waits for an operator"] * 3
    assert await kept(shop) == [("institution_return", "contradiction", first.return_id)] * 3
    assert await funds(shop) == (2650, 0, 0)
    # Of two that are new at once, the first is the one.
    twin = give_back(shop, pix, 20)
    give_back(shop, other, 20, return_id=twin.return_id)
    for _ in range(2):
        await shop.read()
    assert len(await kept(shop)) == 4
    assert await funds(shop) == (2630, 0, 0)
    await check_books(shop.live)


@pytest.mark.parametrize("way", ["failed here", "another amount", "refused later", "another payment"])
async def test_what_is_listed_otherwise_of_a_refund_of_ours_is_kept_for_a_person(shop: Shop, way: str) -> None:
    await shop.allow()
    pix, other = shop.pay(1000), shop.pay(1000)
    await shop.read()
    shop.there.refund_status = "refused" if way == "failed here" else "under_way" if way == "another amount" else "returned"
    refund = await shop.give_back(pix, 400)
    await shop.move_orders()
    before = await funds(shop)
    ours = structs.replace(
        next(iter(shop.there.refunds.values())),
        status="refused" if way == "refused later" else "returned",
        amount_cents=700 if way == "another amount" else 400,
        settled_at=shop.live.clock.real_now(),
    )
    listed = other if way == "another payment" else pix
    index = next(i for i, one in enumerate(shop.there.received) if one.end_to_end_id == listed.end_to_end_id)
    shop.there.received[index] = structs.replace(shop.there.received[index], refunds=[ours])
    for _ in range(2):
        await shop.read()
    assert len(await kept(shop)) == 1
    assert await funds(shop) == before
    assert refund.return_id
    await check_books(shop.live)
