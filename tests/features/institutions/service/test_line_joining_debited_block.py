"""A line that takes blocked money belongs to its block: no movement is posted beside it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from msgspec import structs

from features.cases.service.test_answer import look, moved, read, waiting
from features.contests.service.test_defence_contest import FakeContests, contest, give_back
from features.contests.service.test_defence_contest import look as look_at
from pixconnect.features.institutions.rules.institution import InstitutionTraits, ReceivedPix
from pixconnect.features.institutions.service import statement as statement_usecases
from pixconnect.features.institutions.service.succession import move_holder
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.features.movements.service import receive_blocks
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.rules.block_report import BlockReport, BlockTerms
from support.account_shop import Shop, make_owner, open_in_july
from support.attacker import REFUSED, attempt, refuse
from support.books import check_books
from support.operators import as_operator
from support.postgres import Addresses
from support.records import own_key
from support.service import credit_report

DEBIT, CREDIT = ("J1", "-40.00", "BLOQUEIO JUDICIAL"), ("J2", "40.00", "DESBLOQUEIO JUDICIAL", "02")
ORDERED_CENTS = 40_00
RESERVE = """
    insert into block (id, holder_id, institution_id, kind, reference, line_id, wanted_cents, held_cents, covered_cents, source,
        state, reported_at, created_at, modified_at)
    select 7, {}, id, 'statement_line', 'r', 'J1', 4000, 4000, 0, 'r', 'open', now(), now(), now() from institution_account
"""


@pytest.fixture
async def shop(database: Addresses) -> AsyncIterator[Shop]:
    """On the third of July, a court has blocked 40.00 of 100.00."""
    async with open_in_july(database) as shop:
        await tell(shop, ORDERED_CENTS)
        yield shop


async def tell(shop: Shop, cents: int, *orders: str, late: timedelta = timedelta(0)) -> None:
    shop.live.clock.advance(seconds=1)
    terms = [BlockTerms(reference=name, kind="judicial", wanted_cents=cents, held_cents=cents) for name in orders or ["COURT1"]]
    report = BlockReport(
        report_id=shop.live.context.entropy.token(12),
        party=credit_report(shop.live).credit_party,
        blocks=tuple(terms),
        reported_at=shop.live.clock.now() - late,
    )
    await receive_blocks(shop.at, report)


async def settle(shop: Shop) -> None:
    for _ in range(2):
        await statement_usecases.settle_waiting(shop.live.context, shop.account, is_deep=False)
        await statement_usecases.settle_items(shop.live.context, shop.account)


async def funds(shop: Shop, holder_id: int | None = None) -> tuple[int, int, int]:
    """Available, blocked, and the account's balance by the books: of the house or another holder."""
    await check_books(shop.live)
    caller = structs.replace(shop.house, holder_id=holder_id or shop.house.holder_id)
    balance = await ledger_usecases.read_balance(shop.live.context, caller)
    here_cents = await account_store.sum_balance_here(shop.live.context.pool, shop.account.id)
    return balance.available_cents, balance.blocked_cents, here_cents


async def test_a_debit_and_a_credit_of_blocked_money_are_its_blocks(shop: Shop) -> None:
    assert await funds(shop) == (60_00, 40_00, 100_00)
    for _ in range(2):
        await read(shop, DEBIT, closing="60.00")
        assert (await funds(shop), await moved(shop), await look(shop)) == ((60_00, 40_00, 60_00), [], [])
    # What was debited is not there to be spent before it is credited again.
    await tell(shop, 0)
    assert await funds(shop) == (60_00, 40_00, 60_00)
    await read(shop, CREDIT, first="20260702", last="20260702", opening="60.00", closing="100.00")
    assert (await funds(shop), await moved(shop), await look(shop)) == ((100_00, 0, 100_00), [], [])


async def test_a_block_is_debited_and_returned_in_parts(shop: Shop) -> None:
    parts = ("J1", "-25.00", "BLOQUEIO JUDICIAL"), ("J2", "-15.00", "BLOQUEIO JUDICIAL", "02")
    await read(shop, parts[0], closing="75.00")
    assert (await funds(shop), await waiting(shop)) == ((35_00, 65_00, 100_00), {"J1": "could_be_ours"})
    await read(shop, parts[1], first="20260702", last="20260702", opening="75.00", closing="60.00")
    assert (await funds(shop), await waiting(shop)) == ((60_00, 40_00, 60_00), {})
    await tell(shop, 25_00)
    assert await funds(shop) == (60_00, 40_00, 60_00), "released, and not credited yet"
    part = "J3", "15.00", "DESBLOQUEIO JUDICIAL", "03"
    await read(shop, part, first="20260703", last="20260703", opening="60.00", closing="75.00")
    assert (await funds(shop), await moved(shop), await waiting(shop)) == ((75_00, 25_00, 75_00), [], {})
    await tell(shop, 0)
    shop.live.clock.advance(days=6)
    await read(shop, part, first="20260703", last="20260708", opening="60.00", closing="75.00")
    for _ in range(2):
        await statement_usecases.settle_items(shop.live.context, shop.account)
        assert (await moved(shop), await funds(shop)) == ([-25_00], (75_00, 0, 75_00))


@pytest.mark.parametrize(("is_given_back", "tells_opening"), [(True, True), (False, True), (False, False)])
async def test_a_debit_that_is_read_after_its_block_has_ended_is_the_blocks(
    shop: Shop, is_given_back: bool, tells_opening: bool
) -> None:
    # A block that ended without a debit keeps no money of the other.
    await tell(shop, ORDERED_CENTS, "COURT1", "COURT2")
    await tell(shop, 0, "COURT1", "COURT2")
    shop.live.clock.advance(days=20)
    told = dict(last="20260702", closing="100.00" if is_given_back else "60.00")
    for _ in range(2):
        await read(shop, DEBIT, *[CREDIT] * is_given_back, **told)
        assert (await moved(shop), await waiting(shop)) == ([], {})
    assert await funds(shop) == ((100_00, 0, 100_00) if is_given_back else (60_00, 40_00, 60_00))
    shop.live.clock.advance(days=5)
    # Equal balances show that nothing was on the days between.
    for day in ("20260703", "20260708"):
        await settle(shop)
        assert await moved(shop) == [], "a day since then may have the line that gives it back"
        await read(shop, first=day, last=day, opening=told["closing"] if tells_opening else None, closing=told["closing"])
    for _ in range(2):
        await statement_usecases.settle_items(shop.live.context, shop.account)
        assert await moved(shop) == ([] if is_given_back else [-40_00])


@pytest.mark.parametrize("parts", [("40.00",), ("25.00", "15.00")])
@pytest.mark.parametrize("is_given_back", [True, False])
async def test_a_debit_that_is_read_before_its_block_becomes_the_blocks(
    database: Addresses, is_given_back: bool, parts: tuple[str, ...]
) -> None:
    async with open_in_july(database) as shop:
        lines = [(f"J{cents}", f"-{cents}", "BLOQUEIO JUDICIAL", "03") for cents in parts]
        await read(shop, *lines, first="20260703", last="20260703", closing="60.00")
        assert (sum(await moved(shop)), await funds(shop)) == (-40_00, (60_00, 0, 60_00))
        await tell(shop, ORDERED_CENTS)
        for _ in range(2):
            await statement_usecases.settle_waiting(shop.live.context, shop.account, is_deep=False)
            assert (sum(await moved(shop)), await funds(shop)) == (0, (60_00, 40_00, 60_00))
        await tell(shop, 0)
        assert await funds(shop) == (60_00, 40_00, 60_00)
        shop.live.clock.advance(days=1)
        if is_given_back:
            await read(shop, (*CREDIT[:3], "04"), first="20260704", last="20260704", opening="60.00", closing="100.00")
        shop.live.clock.advance(days=6)
        if not is_given_back:
            await read(shop, *lines, first="20260703", last="20260708", closing="60.00")
        for _ in range(2):
            await statement_usecases.settle_items(shop.live.context, shop.account)
            left = (0, (100_00, 0, 100_00)) if is_given_back else (-40_00, (60_00, 0, 60_00))
            assert (sum(await moved(shop)), await funds(shop)) == left


async def test_a_debit_that_one_order_kept_is_not_the_next_ones(shop: Shop) -> None:
    await read(shop, (*DEBIT, "03"), first="20260703", last="20260703", closing="60.00")
    await tell(shop, 0)
    shop.live.clock.advance(days=4)
    await tell(shop, ORDERED_CENTS, "COURT2")
    shop.live.clock.advance(days=2)
    await read(shop, (*DEBIT, "03"), first="20260703", last="20260708", closing="60.00")
    assert (await funds(shop), await moved(shop)) == ((20_00, 40_00, 60_00), [-40_00])
    await read(shop, ("J2", *DEBIT[1:], "09"), first="20260709", last="20260709", opening="60.00", closing="20.00")
    assert (await funds(shop), await waiting(shop)) == ((20_00, 40_00, 20_00), {})


async def test_a_balance_without_blocked_money_omits_what_was_not_debited_by_its_day(database: Addresses) -> None:
    async with open_in_july(database, options={"balance": "available"}) as shop:
        await tell(shop, ORDERED_CENTS)
        shop.live.clock.advance(days=1)
        parts = (*DEBIT[:1], "-25.00", DEBIT[2], "04"), ("J2", "-15.00", DEBIT[2], "05")
        fees = ("F1", "-1.00", "TARIFA", "03"), ("F2", "-1.00", "TARIFA", "06")
        for cents in (50_00, 0):
            for line, closing in ((fees[0], "59.00"), (parts[0], "59.00"), (parts[1], "59.00"), (fees[1], "48.00")):
                on = f"202607{line[3]}"
                await read(shop, line, first=on, last=on, opening="100.00" if line == fees[0] else None, closing=closing)
                if line == parts[1] and cents:
                    await tell(shop, cents)
                shop.live.clock.advance(days=1)
        rows = await shop.live.fetch("select state, closing_cents from institution_day order by day")
        assert [tuple(row) for row in rows] == [("closed", cents) for cents in (99_00, 74_00, 59_00, 58_00)]
        assert (await moved(shop), await look(shop), await funds(shop)) == ([-1_00, -1_00], [], (48_00, 50_00, 58_00))


async def test_money_that_a_block_covers_on_a_later_day_is_not_of_an_earlier_balance(database: Addresses) -> None:
    async with open_in_july(database, options={"balance": "available"}) as shop:
        await tell(shop, 140_00)
        shop.live.clock.advance(days=1)
        pix = await shop.receive(10_00)
        await read(shop, first="20260703", last="20260703", opening="100.00", closing="0.00")
        shop.live.clock.advance(days=1)
        line = "P1", "10.00", f"PIX RECEBIDO {pix.end_to_end_id}", "04"
        await read(shop, line, first="20260704", last="20260704", opening="0.00", closing="0.00")
        rows = await shop.live.fetch("select state, closing_cents from institution_day order by day")
        assert [tuple(row) for row in rows] == [("closed", 100_00), ("closed", 110_00)]


@pytest.mark.parametrize("was_debited", [True, False])
async def test_a_balance_without_blocked_money_is_right_if_its_block_is_reported_later(
    database: Addresses, was_debited: bool
) -> None:
    async with open_in_july(database, options={"balance": "available"}) as shop:
        shop.live.clock.advance(days=1)
        if was_debited:
            await read(shop, (*DEBIT, "03"), first="20260703", last="20260703", closing="60.00")
        await tell(shop, ORDERED_CENTS, late=timedelta(days=1))
        if not was_debited:
            await read(shop, first="20260703", last="20260703", closing="60.00")
        shop.live.clock.advance(days=1)
        await read(shop, ("F1", "-1.00", "TARIFA", "04"), first="20260704", last="20260704", opening=None, closing="59.00")
        await settle(shop)
        rows = await shop.live.fetch("select state, closing_cents from institution_day order by day")
        told = (60_00, 59_00) if was_debited else (100_00, 99_00)
        assert [tuple(row) for row in rows] == [("closed", cents) for cents in told]


@pytest.mark.parametrize("cents", [50_00, 10_00, 0])
async def test_a_balance_without_blocked_money_is_right_if_its_block_changed_before_its_report(
    database: Addresses, cents: int
) -> None:
    async with open_in_july(database, options={"balance": "available"}) as shop:
        await tell(shop, ORDERED_CENTS)
        shop.live.clock.advance(days=1)
        await tell(shop, cents, late=timedelta(days=1))
        await read(shop, first="20260703", last="20260703", closing=f"{100 - cents // 100}.00")
        (day,) = await shop.live.fetch("select state, closing_cents from institution_day")
        assert tuple(day) == ("closed", 100_00)


@asynccontextmanager
async def open_contested(
    database: Addresses, spent_cents: int = 0, *, is_read: bool = True
) -> AsyncIterator[tuple[Shop, FakeContests, int, ReceivedPix, list[tuple[str, ...]]]]:
    """A second holder who received 40.00 on the third of July and paid a fee; with its id and the day's lines."""
    async with open_in_july(database, kind="efi", profile="efi", keys=[own_key(), own_key("2")]) as shop:
        shop.there.contests = contests = FakeContests()
        other_id, spent = await make_owner(shop.live, "2"), spent_cents // 100
        await move_holder(as_operator(shop.live.context), other_id, shop.account.name)
        pix = await shop.receive(40_00, key=own_key("2"))
        fee: tuple[str, ...] = "F1", f"-{spent}.00", f"TARIFA {pix.end_to_end_id}", "03"
        lines = [("P1", "40.00", f"PIX RECEBIDO {pix.end_to_end_id}", "03"), *[fee] * bool(spent)]
        if is_read:
            await read(shop, *lines, first="20260703", last="20260703", closing=f"{140 - spent}.00")
        yield shop, contests, other_id, pix, lines


@pytest.mark.parametrize(
    ("spent_cents", "returned_cents", "back_cents", "left", "decides"),
    [
        (0, 0, 40_00, (40_00, 0, 140_00), "I1"),
        (0, 0, 0, (0, 0, 100_00), "I1"),
        (0, 15_00, 0, (0, 0, 100_00), "I1"),
        # Less was covered here than the institution took; the holder owes the rest.
        (15_00, 40_00, 0, (0, 0, 85_00), "I1"),
        # The money is in the block of one contest, and another one of the same Pix returns it.
        (0, 40_00, 0, (0, 0, 100_00), "I2"),
        (0, 15_00, 0, (0, 25_00, 100_00), "I2"),
    ],
)
async def test_what_a_contest_debited_of_another_holder_is_reserved_and_posted_on_it(
    database: Addresses, spent_cents: int, returned_cents: int, back_cents: int, left: tuple[int, int, int], decides: str
) -> None:
    async with open_contested(database, spent_cents) as (shop, contests, other_id, pix, lines):
        told = dict(first="20260703", last="20260703", closing=f"{100 - spent_cents // 100}.00")
        listed = [contest(shop, pix, name) for name in sorted({"I1", decides})]
        await look_at(shop, contests, *listed)
        lines.append(("J1", "-40.00", "PIX BLOQUEIO MED", "03"))
        await read(shop, *lines, **told)
        async with shop.live.context.pool.acquire() as attacker:
            for holder_id in (shop.house.holder_id, other_id):
                with pytest.raises(REFUSED, match="nothing is reserved for line J1"):
                    await attempt(attacker, RESERVE.format(holder_id))
        if returned_cents:
            give_back(shop, pix, returned_cents)
            await shop.read()
        shop.live.clock.advance(days=91)
        now, accepted = shop.live.clock.real_now(), decides if returned_cents else ""
        ended = [structs.replace(one, status=("rejected", "accepted")[one.name == accepted], reported_at=now) for one in listed]
        await look_at(shop, contests, *ended)
        assert (await funds(shop))[:2] == (100_00, 0)
        assert (await funds(shop, other_id))[:2] == (0, 40_00 - returned_cents)
        if back_cents:
            back = "J2", "40.00", "PIX DESBLOQUEIO MED", "04"
            await read(shop, back, first="20260704", last="20260704", opening="100.00", closing="140.00")
        shop.live.clock.advance(days=6)
        if not back_cents:
            await read(shop, *lines, **told | dict(last="20261007"))
        for _ in range(2):
            await settle(shop)
            assert (await funds(shop), await funds(shop, other_id)) == ((100_00, 0, left[2]), left)


@pytest.mark.parametrize(("spent_cents", "returned_cents", "days"), [(0, 15_00, 1), (15_00, 15_00, 95), (40_00, 40_00, 1)])
async def test_a_contests_debit_that_is_read_after_the_decision_is_its_blocks(
    database: Addresses, spent_cents: int, returned_cents: int, days: int
) -> None:
    async with open_contested(database, spent_cents) as (shop, contests, other_id, pix, lines):
        listed = contest(shop, pix)
        await look_at(shop, contests, listed)
        shop.live.clock.advance(days=1)
        give_back(shop, pix, returned_cents)
        await shop.read()
        for late in (0, days):
            shop.live.clock.advance(days=late)
            await look_at(shop, contests, structs.replace(listed, status="accepted", reported_at=shop.live.clock.real_now()))
        left_cents = 100_00 - spent_cents, 40_00 - min(spent_cents + returned_cents, 40_00)
        lines.append(("J1", "-40.00", "PIX BLOQUEIO MED", "03"))
        for _ in range(2):
            await read(shop, *lines, first="20260703", last="20260704", closing=f"{100 - spent_cents // 100}.00")
            assert (await moved(shop), await waiting(shop)) == ([-spent_cents] * bool(spent_cents), {})
            assert await funds(shop) == (100_00, 0, left_cents[0]), "none of it is the house's"
            assert (await funds(shop, other_id))[:2] == (0, left_cents[1])
        (day,) = await shop.live.fetch("select state from institution_day where day = '2026-07-04'")
        assert day["state"] == "closed", "the return has no line of its own"
        shop.live.clock.advance(days=1)
        await read(shop, ("J2", "40.00", "DESBLOQUEIO MED", "05"), first="20260705", last="20260705")
        assert await waiting(shop) == {"J2": "could_be_ours"}, "more than is left of the debit"


async def test_a_debit_that_may_be_of_two_holders_blocks_waits_for_the_other_ones_line(database: Addresses) -> None:
    async with open_contested(database) as (shop, contests, other_id, pix, lines):
        own = await shop.receive(40_00)
        lines.append(("P2", "40.00", f"PIX RECEBIDO {own.end_to_end_id}", "03"))
        await look_at(shop, contests, contest(shop, pix), contest(shop, own, "I2"))
        told = dict(first="20260703", last="20260703")
        debits = [(name, "-40.00", "PIX BLOQUEIO MED", "03") for name in ("J1", "J2")]
        shop.live.clock.advance(days=1)
        await read(shop, *lines, debits[0], **told, closing="140.00")
        assert (await moved(shop), await waiting(shop), len(await look(shop))) == ([], {"J1": "could_be_ours"}, 1)
        await read(shop, *lines, *debits, **told, closing="100.00")
        assert (await moved(shop), await waiting(shop), await look(shop)) == ([], {}, [])
        assert (await funds(shop), await funds(shop, other_id)) == ((100_00, 40_00, 100_00), (0, 40_00, 100_00))


async def test_a_blocks_line_that_names_its_pix_does_not_take_the_pixs_place(database: Addresses) -> None:
    async with open_contested(database, is_read=False) as (shop, contests, other_id, pix, lines):
        told = contest(shop, pix)
        await look_at(shop, contests, told)
        shop.live.clock.advance(days=1)
        await look_at(shop, contests, structs.replace(told, status="rejected", reported_at=shop.live.clock.real_now()))
        lines += [("B1", "-40.00", f"PIX BLOQUEIO MED {pix.end_to_end_id}", "03")]
        lines += [("A1", "40.00", f"PIX DESBLOQUEIO MED {pix.end_to_end_id}", "04")]
        await read(shop, *lines, first="20260703", last="20260704", closing="140.00")
        await settle(shop)
        assert (await moved(shop), await waiting(shop)) == ([], {})
        assert await funds(shop, other_id) == (40_00, 0, 140_00)


async def test_two_reserves_end_at_once_though_the_end_of_one_covers_the_other(database: Addresses) -> None:
    async with open_contested(database, 20_00) as (shop, contests, other_id, pix, lines):
        second = await shop.receive(30_00, key=own_key("2"))
        told = [contest(shop, pix), contest(shop, second, "I2")]
        await look_at(shop, contests, *told)
        shop.live.clock.advance(days=1)
        lines.append(("P2", "30.00", f"PIX RECEBIDO {second.end_to_end_id}", "03"))
        lines += [(f"J{cents}", f"-{cents}.00", "BLOQUEIO MED", "03") for cents in (40, 30)]
        await read(shop, *lines, first="20260703", last="20260703", closing="80.00")
        now = shop.live.clock.real_now()
        await look_at(shop, contests, *(structs.replace(one, status="rejected", reported_at=now) for one in told))
        await settle(shop)
        shop.live.clock.advance(days=1)
        back = [(f"C{cents}", f"{cents}.00", "DESBLOQUEIO MED", "04") for cents in (40, 30)]
        await read(shop, *back, first="20260704", last="20260704", opening="80.00", closing="150.00")
        await settle(shop)
        assert await funds(shop, other_id) == (50_00, 0, 150_00)


async def test_all_blocks_that_one_report_ends_are_reserved_at_once(database: Addresses) -> None:
    names = [f"COURT{number}" for number in range(60)]
    async with open_in_july(database) as shop:
        await tell(shop, 1_00, *names)
        shop.live.clock.advance(days=1)
        lines = [(name, "-1.00", "BLOQUEIO JUDICIAL", "03") for name in names]
        await read(shop, *lines, first="20260703", last="20260703", opening="100.00", closing="40.00")
        await tell(shop, 0, *names)
        assert await funds(shop) == (40_00, 60_00, 40_00)


async def test_only_money_of_an_open_block_is_its_own(shop: Shop) -> None:
    await read(shop, ("J1", "-25.00", "BLOQUEIO JUDICIAL"), ("B1", "40.00", "SALDO"), closing="80.00")
    assert await waiting(shop) == {"J1": "could_be_ours", "B1": "perhaps_balance"}
    joined = (
        "update institution_item set joined_kind = 'block', joined_by = 'amount',"
        " joined_id = (select id::text from block where line_id is null)"
    )
    async with shop.live.context.pool.acquire() as attacker:
        for odd in ("item_id = 'J1'", "item_id = 'B1'"):
            await refuse(attacker, f"{joined} where {odd}")
            await refuse(attacker, f"{joined}, is_reversal = true where {odd}")


async def test_a_debit_that_may_be_of_an_order_under_way_takes_no_blocks_place(database: Addresses) -> None:
    async with open_in_july(database, InstitutionTraits(sends=("KEY",))) as shop:
        await tell(shop, ORDERED_CENTS)
        await shop.allow_sending()
        await shop.send(ORDERED_CENTS)
        await read(shop, DEBIT, closing="60.00")
        assert (await moved(shop), await waiting(shop)) == ([], {"J1": "order_unknown"})
