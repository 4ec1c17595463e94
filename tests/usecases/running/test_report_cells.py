"""What one network reports, given to the cell that it is of: once, and refused only when it is surely nobody's."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from msgspec import Struct, structs

from pixconnect.domain.frame import cell, errors
from pixconnect.domain.identity.access import Caller
from pixconnect.domain.money import reject_code
from pixconnect.domain.money.rail import Report, ReturnReport, SettledReport
from pixconnect.domain.money.transfer import AccountTransferRequest, Transfer
from pixconnect.foundation.pool import Pool
from pixconnect.store.money.refused_credit import hold_accounts
from pixconnect.usecases.frame.cells import Cells, UnreachableCells
from pixconnect.usecases.frame.under_way import read_ordered
from pixconnect.usecases.money import holder as holder_usecases
from pixconnect.usecases.money import transfer as transfer_usecases
from pixconnect.usecases.money.incoming import receive_credit
from pixconnect.usecases.running.name_sweep import forget_former_cells
from pixconnect.usecases.running.report_cells import split_reports, take_reports_of_others
from support.books import check_books
from support.cells import NUMBER, add_cell
from support.operators import as_operator
from support.postgres import Addresses
from support.records import OUTSIDE_ISPB, outside_party
from support.service import (
    STARTED_AT,
    Service,
    credit_report,
    infraction_report,
    movement_report,
    open_holder,
    open_service,
    own_key,
    read_funds,
)

FUNDS_CENTS = 10_000


class Two(Struct, frozen=True, kw_only=True):
    """A holder in each of two cells: account 1 at home, account 2 in the other."""

    home: Service
    there: Service
    at_home: Caller
    elsewhere: Caller
    away: UnreachableCells
    cells: Cells

    def lose(self) -> None:
        """The other cell's database goes away."""
        self.cells.remove(NUMBER, self.there.context)

    async def take(self, *reports: Report) -> int:
        """Take reports as the worker does; answers how many of those of others were acknowledged."""
        here, others = await split_reports(self.cells, reports)
        assert not here
        return await take_reports_of_others(self.cells, others)


@pytest.fixture
async def two(database: Addresses, other_database: Addresses) -> AsyncIterator[Two]:
    await add_cell(database, other_database)
    async with open_service(database) as home, open_service(other_database, cell=NUMBER) as there:
        away = UnreachableCells()
        cells = Cells(home.context, away)
        cells.add(NUMBER, there.context)
        yield Two(
            home=home,
            there=there,
            at_home=await open_holder(home, funds_cents=FUNDS_CENTS),
            elsewhere=await open_holder(there, account_number="2", funds_cents=FUNDS_CENTS),
            away=away,
            cells=cells,
        )
        await check_books(home)
        await check_books(there)


async def send(service: Service, caller: Caller) -> Transfer:
    asked = AccountTransferRequest(amount_cents=100, credit_party=outside_party())
    return (await transfer_usecases.start_transfer(service.context, caller, asked)).transfer


def settled(name: str) -> SettledReport:
    return SettledReport(report_id=f"{name}/end", id=name, settled_at=STARTED_AT)


async def test_with_one_cell_nobody_is_asked(two: Two) -> None:
    reports = [settled("E" * 32), credit_report(two.home)]
    assert await split_reports(Cells(two.home.context), reports) == (reports, [])


async def test_who_does_not_know_yet_which_cells_there_are_lets_the_network_tell_it_again(two: Two) -> None:
    # As a worker that was started while the home cell was away for a moment.
    starting = UnreachableCells()
    starting.are_known = False
    cells = Cells(two.home.context, starting)
    ours, theirs = await send(two.home, two.at_home), await send(two.there, two.elsewhere)
    returned = ReturnReport(
        report_id="r",
        return_id=f"D{OUTSIDE_ISPB}202607011500abcdefghijk",
        original_end_to_end_id=theirs.end_to_end_id,
        amount_cents=40,
        reason="MD06",
        description=None,
        reported_at=STARTED_AT,
    )
    told = [settled(theirs.end_to_end_id), returned, credit_report(two.there, account_number="2")]
    here, others = await split_reports(cells, [settled(ours.end_to_end_id), *told])
    assert (here, others) == ([settled(ours.end_to_end_id)], told)
    assert await take_reports_of_others(cells, others) == 0
    assert not await two.home.fetch("select from kept_report")
    assert [await two.take(each) for each in told] == [1, 1, 1]
    assert sum(await read_funds(two.there, two.elsewhere)) == FUNDS_CENTS - 100 + 40 + 1000


async def test_each_report_goes_to_the_cell_that_knows_what_it_is_about(two: Two) -> None:
    for service, caller, account_number in (
        (two.home, two.at_home, "1"),
        (two.there, two.elsewhere, "2"),
    ):
        sent = await send(service, caller)
        paid = credit_report(service, account_number=account_number)
        party = paid.credit_party
        reports = [
            settled(sent.end_to_end_id),
            paid,
            movement_report(service, party=party),
        ]
        here, others = await split_reports(two.cells, reports)
        assert (here, others) == ((reports, []) if service is two.home else ([], reports))
    assert await take_reports_of_others(two.cells, others) == len(others)
    assert await read_funds(two.there, two.elsewhere) == (FUNDS_CENTS - 100 + 1000 - 100, 0)
    assert await read_funds(two.home, two.at_home) == (FUNDS_CENTS - 100, 100)


async def test_what_is_said_of_an_earlier_one_goes_where_that_is(two: Two) -> None:
    sent, paid = await send(two.there, two.elsewhere), credit_report(two.there, account_number="2")
    await two.take(settled(sent.end_to_end_id), paid)
    returned = ReturnReport(
        report_id="r",
        return_id=f"D{OUTSIDE_ISPB}202607011500abcdefghijk",
        original_end_to_end_id=sent.end_to_end_id,
        amount_cents=40,
        reason="MD06",
        description=None,
        reported_at=STARTED_AT,
    )
    contested = infraction_report(two.there, paid.end_to_end_id, party=paid.credit_party)
    assert await two.take(returned, contested) == 2
    assert sum(await read_funds(two.there, two.elsewhere)) == FUNDS_CENTS - 100 + 40
    assert not await two.home.fetch("select from kept_report")


async def test_names_from_before_there_were_tags_are_the_home_cells_wherever_they_lead(two: Two) -> None:
    sent = await send(two.home, two.at_home)
    untagged = sent.end_to_end_id[:-2] + cell.draw_tagged(two.home.context.entropy, 2, NUMBER)
    await two.home.execute_as_owner(
        "set session_replication_role = replica; "
        f"update transfer set end_to_end_id = '{untagged}'; update open_order set name = '{untagged}'"
    )
    two.home.context.under_way.forget_all()
    assert await two.take(settled(untagged)) == 1
    assert await read_funds(two.home, two.at_home) == (FUNDS_CENTS - 100, 0)


async def test_a_payment_for_nobody_is_refused_once_all_cells_have_said_so(two: Two) -> None:
    paid = credit_report(two.home, account_number="404")
    assert await two.take(paid) == 1
    (said,) = two.home.rail.acknowledged
    assert said.refusal_code is not None
    assert not two.there.rail.acknowledged
    # Whoever gets the account later: the payer has the money back.
    await open_holder(two.there, account_number="404")
    here, others = await split_reports(two.cells, [paid])
    assert (here, others) == ([paid], [])


async def test_nothing_is_refused_that_may_be_for_somebody_whose_cell_is_away(two: Two) -> None:
    sent, paid = await send(two.there, two.elsewhere), credit_report(two.there, account_number="2")
    two.lose()
    assert await two.take(settled(sent.end_to_end_id), paid) == 0
    assert not two.home.rail.acknowledged
    assert not await two.home.fetch("select from kept_report union all select from refused_credit")
    # The home cell's own are recorded all the same.
    own = credit_report(two.home)
    assert await split_reports(two.cells, [own]) == ([own], [])
    two.away.numbers.clear()
    two.cells.add(NUMBER, two.there.context)
    assert await two.take(settled(sent.end_to_end_id), paid) == 2
    assert await read_funds(two.there, two.elsewhere) == (FUNDS_CENTS - 100 + 1000, 0)


async def test_what_cannot_be_read_is_kept_at_home(two: Two) -> None:
    broken = settled("E\0")
    assert await split_reports(two.cells, [broken]) == ([broken], [])


async def test_a_payment_told_again_after_its_key_went_to_another_cell_is_credited_once(two: Two) -> None:
    """It went from the home cell to the other one, and back: each has credited what came while it had the key."""
    key, at_home = own_key("2"), as_operator(two.home.context)
    there = as_operator(two.there.context, home=two.home.context)
    first = credit_report(two.there, account_number="2")
    await claim(two, key)
    assert await two.take(first) == 1
    await holder_usecases.remove_pix_key(there, two.elsewhere.holder_id, key)
    await let_go(two, key)
    await holder_usecases.add_pix_key(at_home, two.at_home.holder_id, "EMAIL", key)
    second = credit_report(two.home, account_number="2", report_id="r2")
    assert await two.take(second, first) == 2
    assert await read_funds(two.there, two.elsewhere) == (FUNDS_CENTS + 1000, 0)
    assert await read_funds(two.home, two.at_home) == (FUNDS_CENTS + 1000, 0)
    await holder_usecases.remove_pix_key(at_home, two.at_home.holder_id, key)
    await two.home.execute_as_owner("update removed_pix_key set removed_at = removed_at - interval '1 minute'")
    await two.there.execute_as_owner("update removed_pix_key set removed_at = removed_at - interval '1 minute'")
    await holder_usecases.add_pix_key(there, two.elsewhere.holder_id, "EMAIL", key)
    third = credit_report(two.there, account_number="2", report_id="r3")
    assert await two.take(third, second, first) == 3
    assert await read_funds(two.there, two.elsewhere) == (FUNDS_CENTS + 2000, 0)
    assert await read_funds(two.home, two.at_home) == (FUNDS_CENTS + 1000, 0)
    assert {said.refusal_code for said in (*two.home.rail.acknowledged, *two.there.rail.acknowledged)} == {None}


@pytest.mark.parametrize("is_led", [True, False])
async def test_a_payment_to_a_key_that_came_home_is_credited_wherever_its_txid_leads(two: Two, *, is_led: bool) -> None:
    """The cell that has lost the key still knows that, and would refuse it."""
    key, at_home = own_key("2"), as_operator(two.home.context)
    await claim(two, key)
    there = as_operator(two.there.context, home=two.home.context)
    await holder_usecases.remove_pix_key(there, two.elsewhere.holder_id, key)
    await let_go(two, key)
    await holder_usecases.add_pix_key(at_home, two.at_home.holder_id, "EMAIL", key)
    txid = cell.draw_tagged(two.there.context.entropy, 8, NUMBER) if is_led else None
    assert await two.take(credit_report(two.home, account_number="2", txid=txid)) == 1
    assert await read_funds(two.home, two.at_home) == (FUNDS_CENTS + 1000, 0)


async def test_a_pix_from_another_cell_is_for_the_account_that_its_payer_was_shown(two: Two) -> None:
    """The key has gone to another holder while the order was under way: nobody is paid who was not meant."""
    paid = credit_report(two.home)
    ours = structs.replace(paid, debit_party=structs.replace(paid.debit_party, ispb=paid.credit_party.ispb))
    moved = structs.replace(ours, credit_party=structs.replace(ours.credit_party, account_number="777"))
    assert (await receive_credit(two.home.context, moved)).refusal_code == reject_code.ACCOUNT_UNKNOWN
    assert await read_funds(two.home, two.at_home) == (FUNDS_CENTS, 0)
    other = ours.end_to_end_id[:-1] + ("y" if ours.end_to_end_id.endswith("z") else "z")
    again = structs.replace(ours, end_to_end_id=other, report_id="r9")
    assert (await receive_credit(two.home.context, again)).refusal_code is None


async def test_what_a_key_has_led_to_is_forgotten_after_a_month(two: Two) -> None:
    await claim(two, "k@shop.example")
    await let_go(two, "k@shop.example")
    for age, left in (("29 days", 1), ("2 days", 0)):
        await two.home.execute_as_owner(f"update former_key_cell set left_at = left_at - interval '{age}'")
        await forget_former_cells(two.home.context.pool)
        assert len(await two.home.fetch("select from former_key_cell")) == left


@pytest.mark.parametrize("is_by_key", [True, False])
async def test_a_payment_waits_while_its_account_is_being_given_to_another_cell(two: Two, *, is_by_key: bool) -> None:
    """The home cell has found it nobody's; before it has refused that, it is said to be the other cell's."""
    paid = credit_report(two.home, account_number="404")
    if is_by_key:
        await claim(two, own_key("404"))
    else:
        paid = structs.replace(paid, credit_party=structs.replace(paid.credit_party, key=None, key_type=None))
        await two.home.execute_as_owner(f"insert into account_cell (account_number, cell) values ('404', {NUMBER})")
    with pytest.raises(errors.ServiceUnavailable, match="another cell's"):
        await receive_credit(two.home.context, paid)
    assert await two.take(paid) == 0
    assert not await two.home.fetch("select from refused_credit")
    await two.home.execute_as_owner("delete from key_cell")
    await open_holder(two.there, account_number="404")
    assert await two.take(paid) == 1
    assert [said.refusal_code for said in two.there.rail.acknowledged] == [None]


async def test_whoever_gives_a_key_to_another_cell_waits_for_the_refusal_of_what_came_to_it(two: Two) -> None:
    async with two.home.context.pool.acquire() as refusing, refusing.transaction():
        await hold_accounts(refusing, {"k@shop.example"})
        claiming = asyncio.create_task(claim(two, "k@shop.example"))
        await asyncio.sleep(0.2)
        assert not claiming.done()
    await claiming


async def claim(two: Two, key: str) -> None:
    """The home cell says that a key is the other cell's."""
    await two.home.execute_as_owner(f"insert into key_cell (key, cell) values ('{key}', {NUMBER})")


async def let_go(two: Two, key: str) -> None:
    """The sweep finds that the other cell has a key no more."""
    await two.home.execute_as_owner(f"delete from key_cell where key = '{key}'")


class CountingPool:
    """A pool that counts what it is asked for itself."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.asked_count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    async def fetch(self, query: str, *args: object) -> Any:
        self.asked_count += 1
        return await self._pool.fetch(query, *args)

    def acquire(self) -> Any:
        self.asked_count += 1
        return self._pool.acquire()


async def test_a_cell_is_asked_once_for_all_its_orders_and_not_for_those_that_were_handed_over_here(two: Two) -> None:
    context = two.there.context
    asked_counts: list[int] = []
    for orders_count, is_forgotten in ((1, True), (5, True), (5, False)):
        names = [(await send(two.there, two.elsewhere)).end_to_end_id for _ in range(orders_count)]
        context.under_way.forget_all()
        if not is_forgotten:
            context.under_way.remember((await read_ordered(context.pool, names)).values())
        counting = CountingPool(context.pool)
        two.cells.add(NUMBER, structs.replace(context, pool=cast("Pool", counting)))
        assert await two.take(*map(settled, names)) == orders_count
        asked_counts.append(counting.asked_count)
    assert asked_counts[1] == asked_counts[0]
    assert asked_counts[2] < asked_counts[0]


async def test_the_home_cell_is_asked_once_for_all_payments_to_keys_of_others(two: Two) -> None:
    await claim(two, own_key("2"))
    asked_counts: list[int] = []
    for batch, payments_count in enumerate((1, 5)):
        counting = CountingPool(two.home.context.pool)
        cells = Cells(structs.replace(two.home.context, pool=cast("Pool", counting)), two.away)
        cells.add(NUMBER, two.there.context)
        reports = [
            credit_report(two.there, account_number="2", report_id=f"r{batch}{number}")
            for number in range(payments_count)
        ]
        assert await take_reports_of_others(cells, reports) == payments_count
        asked_counts.append(counting.asked_count)
    assert await read_funds(two.there, two.elsewhere) == (FUNDS_CENTS + 6 * 1000, 0)
    assert asked_counts == [asked_counts[0]] * 2
