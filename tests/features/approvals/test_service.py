"""Transfers that wait for an operator's approval: none leaves without it, and a refused one is released once."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from msgspec import structs

from pixconnect.doors.worker.parts import check_problems
from pixconnect.features.approvals import tables as approval_store
from pixconnect.features.approvals.service import PROBLEMS, decide_transfer, list_waiting_transfers
from pixconnect.features.monitoring import tables as order_figures_store
from pixconnect.features.receipts.service import read_parties
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.settlement import end_orders
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.holder import Party
from pixconnect.kernel.rules.order import FirstIds, GivenUp
from pixconnect.kernel.rules.rail import NeverTaken, Settled
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import database_loss as loss_store
from pixconnect.kernel.tables import order as order_store
from pixconnect.platform.base import errors
from support.books import check_books
from support.operators import as_operator, execute
from support.records import outside_party
from support.service import Service, open_holder, read_funds, send_out

JOANA: Party = outside_party()
PEDRO: Party = structs.replace(JOANA, account_number="777", name="Pedro")


async def send(service: Service, caller: Caller, amount_cents: int = 400, payee: Party = JOANA, **named: Any) -> Transfer:
    return await send_out(service, caller, amount_cents, credit_party=payee, **named)


async def decide(service: Service, transfer: Transfer, *, is_approved: bool, operator: str = "maria") -> None:
    await decide_transfer(as_operator(service.context, operator), transfer.id, is_approved=is_approved)


async def read(service: Service, caller: Caller, transfer: Transfer) -> Transfer:
    return (await transfer_usecases.read_transfer_by_id(service.context, caller, transfer.id)).transfer


async def list_receivers(service: Service, transfer: Transfer) -> list[str]:
    rows = await service.fetch(
        "select name from event where resource = 'transfer' and resource_id = $1 order by id", transfer.id
    )
    return [row["name"] for row in rows]


@pytest.fixture
async def payer(service: Service) -> AsyncIterator[Caller]:
    """Of R$ 10,00; transfers above R$ 3,00 wait."""
    caller = await open_holder(service, funds_cents=1000)
    await service.set_holder(caller, approve_above_cents=300)
    service.rail.answer(*[Settled(settled_at=service.clock.now())] * 9)
    yield caller
    await check_books(service)


async def test_what_is_above_the_amount_waits_and_leaves_with_a_yes(service: Service, payer: Caller) -> None:
    small, large = await send(service, payer, 300), await send(service, payer, 301)
    await service.work()
    assert [order.end_to_end_id for order in service.rail.orders] == [small.end_to_end_id]
    assert await list_receivers(service, large) == ["transfer.out.processing", "transfer.out.waiting"]
    seen = await read_parties(service.context, payer, large.id)
    assert seen.wait is not None
    assert (seen.wait.waits_for, seen.view.transfer.status) == ("operator", "PROCESSING")
    [waiting] = await list_waiting_transfers(service.context)
    assert (waiting.pending.is_above, waiting.pending.is_new_payee) == (True, False)
    await decide(service, large, is_approved=True)
    await service.work()
    assert (await read(service, payer, large)).status == "CONFIRMED"
    assert (await read_parties(service.context, payer, large.id)).wait is None
    assert await read_funds(service, payer) == (1000 - 601, 0)


async def test_a_new_payee_waits_until_something_has_settled_to_it(service: Service, payer: Caller) -> None:
    await service.set_holder(payer, approve_above_cents=None, approve_new_payees=True)
    first, second = await asyncio.gather(send(service, payer, 100), send(service, payer, 100))
    waiting = await list_waiting_transfers(service.context)
    assert {(each.transfer.id, each.paid_count, each.pending.is_new_payee) for each in waiting} == {
        (first.id, 0, True),
        (second.id, 0, True),
    }
    await decide(service, first, is_approved=True)
    await service.work()
    (left,) = await list_waiting_transfers(service.context, payer.holder_id)
    assert (left.transfer.id, left.paid_count) == (second.id, 1)
    third, fourth = await send(service, payer, 100), await send(service, payer, 100, PEDRO)
    # The same account with another owner is another payee.
    fifth = await send(service, payer, 100, structs.replace(JOANA, tax_id="11144477735"))
    await service.work()
    assert (await read(service, payer, third)).status == "CONFIRMED"
    waiting = await list_waiting_transfers(service.context)
    # Those of one instant have no order.
    assert {each.transfer.id for each in waiting} == {second.id, fourth.id, fifth.id}


async def test_what_goes_by_book_and_what_is_refused_waits_for_nobody(service: Service, payer: Caller) -> None:
    other = await open_holder(service, account_number="2")
    account = (await service.context.directory.read_account(other.holder_id)).party
    assert (await send(service, payer, 400, account)).status == "CONFIRMED"
    with pytest.raises(errors.InsufficientFunds):
        await send(service, payer, 5000)
    assert await list_waiting_transfers(service.context) == []


async def test_a_repeated_request_is_answered_with_what_waits(service: Service, payer: Caller) -> None:
    sent = await send(service, payer, external_id="x-1")
    await service.set_holder(payer, approve_above_cents=None)
    assert (await send(service, payer, external_id="x-1")).id == sent.id
    await service.work()
    assert service.rail.orders == []
    assert len(await list_waiting_transfers(service.context)) == 1


async def test_a_no_gives_the_money_back_once(service: Service, payer: Caller) -> None:
    sent = await send(service, payer)
    for _ in range(2):
        await decide(service, sent, is_approved=False)
        await service.work()
    ended = await read(service, payer, sent)
    assert (ended.status, ended.outcome_reason) == ("CANCELLED", "An operator refused it.")
    assert await read_funds(service, payer) == (1000, 0)
    assert service.rail.orders == []
    with pytest.raises(errors.BadRequest, match="maria has refused it already"):
        await decide(service, sent, is_approved=True, operator="paulo")
    rows = await as_operator(service.context).pool.fetch("select operator, verb from audit where subject like 'transfer %'")
    assert [tuple(row) for row in rows] == [("maria", "operator transfer refuse")]


async def test_what_nobody_approves_in_its_time_is_given_back_and_not_before(service: Service, payer: Caller) -> None:
    sent = await send(service, payer)
    await service.work(hours=10, minutes=58)
    assert (await read(service, payer, sent)).status == "PROCESSING"
    service.clock.advance(minutes=3)
    with pytest.raises(errors.BadRequest, match="no longer waits"):
        await decide(service, sent, is_approved=True)
    await service.work()
    ended = await read(service, payer, sent)
    assert (ended.status, ended.outcome_reason) == ("CANCELLED", "No operator approved it in time.")
    assert await read_funds(service, payer) == (1000, 0)
    with pytest.raises(errors.BadRequest, match="no longer waits"):
        await decide(service, sent, is_approved=True)


async def test_a_yes_after_which_nothing_could_leave_is_given_up_as_any_order(service: Service, payer: Caller) -> None:
    sent = await send(service, payer)
    service.clock.advance(hours=1)
    await decide(service, sent, is_approved=True)
    await service.work(minutes=2)
    ended = await read(service, payer, sent)
    assert ended.outcome_reason == "An operator approved it, and it could not be handed to the rail in time."
    assert await read_funds(service, payer) == (1000, 0)


async def test_a_yes_that_is_repeated_sends_once(service: Service, payer: Caller) -> None:
    sent = await send(service, payer)
    await asyncio.gather(*(decide(service, sent, is_approved=True, operator=f"o{n}") for n in range(5)))
    await asyncio.gather(service.work(), service.work())
    await decide(service, sent, is_approved=True)
    assert len(service.rail.orders) == 1
    assert (await service.fetch("select count(*) as count from approval_answer"))[0]["count"] == 1


@pytest.mark.parametrize("number", range(6))
async def test_a_yes_and_a_no_and_the_end_of_its_time_agree(service: Service, payer: Caller, number: int) -> None:
    sent = await send(service, payer)
    service.clock.advance(seconds=11 * 3_600 - (30 if number % 2 else 0))

    async def say(*, is_approved: bool) -> bool:
        try:
            await decide(service, sent, is_approved=is_approved)
        except errors.BadRequest:
            return False
        return True

    async def give_up() -> None:
        await end_orders(service.context, [(sent.end_to_end_id, GivenUp())])

    yes, no, _, _ = await asyncio.gather(say(is_approved=True), say(is_approved=False), give_up(), service.work())
    await service.work()
    status = (await read(service, payer, sent)).status
    assert not (yes and no)
    assert status == ("CONFIRMED" if yes else "CANCELLED")
    assert await read_funds(service, payer) == ((600, 0) if yes else (1000, 0))
    assert len(service.rail.orders) == int(yes)


async def test_what_waits_is_not_silent_and_hinders_nobody(service: Service, payer: Caller) -> None:
    await send(service, payer)
    service.clock.advance(hours=3)
    assert await order_store.find_oldest(service.context.pool) is None
    assert await order_store.count_unresolved(service.context.pool, service.clock.now(), 10) == 0


async def test_after_a_restart_a_yes_asks_first_and_a_no_waits_for_the_rail(service: Service, payer: Caller) -> None:
    approved, refused, late = [await send(service, payer, 301) for _ in range(3)]
    # Everything open is older than the first id after the start.
    await service.execute_as_owner("update installation set first_transfer_id = 9000000000000000")
    service.context.server.first_ids = FirstIds(transfer_id=9000000000000000)
    await decide(service, approved, is_approved=True)
    await decide(service, refused, is_approved=False)
    await service.work()
    assert sorted(service.rail.queried) == sorted([approved.end_to_end_id, refused.end_to_end_id])
    assert [order.end_to_end_id for order in service.rail.orders] == [approved.end_to_end_id]
    assert (await read(service, payer, refused)).status == "PROCESSING"
    service.clock.advance(hours=13)
    for each in (refused, late):
        service.rail.outcomes[each.end_to_end_id] = NeverTaken()
    await service.work()
    await service.work()
    assert [(await read(service, payer, each)).status for each in (refused, late)] == ["ERROR", "ERROR"]
    assert await read_funds(service, payer) == (1000 - 301, 0)
    assert len(service.rail.orders) == 1


async def test_what_waited_at_a_loss_is_asked_about_and_approved_by_nobody(service: Service, payer: Caller) -> None:
    sent = await send(service, payer)
    async with service.context.pool.acquire() as connection:
        await loss_store.count_orders_as_handed(connection, has_rail=True)
    with pytest.raises(errors.BadRequest, match="database was restored"):
        await decide(service, sent, is_approved=True)
    await service.work(hours=12)
    assert service.rail.queried == [sent.end_to_end_id]
    assert service.rail.orders == []
    assert await list_waiting_transfers(service.context) == []


async def test_the_schema_lets_nothing_leave_without_a_yes(service: Service, payer: Caller) -> None:
    sent = await send(service, payer)
    name = sent.end_to_end_id
    for statement in (
        "update open_order set handed_at = now()",
        "update open_order set approval = 'given'",
        "update open_order set approval = null",
        "update open_order set approval = null, handed_at = now()",
        f"insert into pending_approval values ('{name[:-1]}!', 1, 1, true, false, now())",
        "update pending_approval set is_above = false, is_new_payee = true",
        "delete from approval_answer",
    ):
        with pytest.raises(asyncpg.PostgresError):
            await execute(service.context, statement)
    yes = f"insert into approval_answer values ('{name}', true, 'maria', now())"
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await service.context.pool.execute(yes)
    await decide(service, sent, is_approved=False)
    for statement in ("update open_order set approval = 'given'", yes):
        with pytest.raises(asyncpg.PostgresError):
            await execute(service.context, statement)


async def test_who_names_no_such_transfer_is_told_so(service: Service, payer: Caller) -> None:
    small = await send(service, payer, 100)
    for transfer_id in (small.id, 99):
        with pytest.raises(errors.NotFound, match=f"id: no transfer {transfer_id} had to be approved"):
            await decide_transfer(as_operator(service.context), transfer_id, is_approved=True)
    with pytest.raises(errors.AmountOutOfRange, match="approve_above_cents"):
        await service.set_holder(payer, approve_above_cents=-1)


async def test_it_is_counted_and_dated(service: Service, payer: Caller) -> None:
    pool = service.context.pool
    assert await approval_store.measure_awaited(pool, 10) == (0, None)
    sent = await send(service, payer)
    assert await approval_store.measure_awaited(pool, 10) == (1, sent.created_at)
    assert await order_figures_store.read_all(pool, service.clock.now(), 10) == {}
    await check_problems(service.context, PROBLEMS)
    service.clock.advance(hours=1)
    with pytest.raises(errors.ServiceUnavailable, match="1 transfer has waited for an operator's approval for over 1 h"):
        await check_problems(service.context, PROBLEMS)
