"""A batch is judged by the facts when it holds its locks: flags, limits, the clock, and the order of events."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import holder as holder_usecases
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.flows.holder import HolderChanges
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.flows.settlement import end_orders
from pixconnect.kernel.rules import identifiers
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import ChargeRequest
from pixconnect.kernel.rules.listing import Span
from pixconnect.kernel.rules.rail import Rejected, Settled
from pixconnect.kernel.tables import clock as clock_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.platform.base import errors
from pixconnect.platform.pool import connect
from support.operators import as_operator
from support.postgres import Addresses
from support.records import own_key
from support.service import Service, credit_report, open_service, send_out

if TYPE_CHECKING:
    from pixconnect.kernel.rules.transfer import Transfer
    from pixconnect.platform.pool import Connection


@pytest.fixture
async def beside(database: Addresses) -> "AsyncIterator[Connection]":
    """Another connection."""
    connection = await connect(database.owner_url, role=None, schema="pixconnect", name="beside")
    yield connection
    connection.terminate()


@asynccontextmanager
async def holding_balance(beside: "Connection", caller: Caller) -> AsyncIterator[None]:
    async with beside.transaction():
        await beside.execute("select from balance where holder_id = $1 for no key update", caller.holder_id)
        yield


def send(service: Service, caller: Caller, amount_cents: int = 100) -> "asyncio.Task[Transfer]":
    async def start() -> "Transfer":
        return await send_out(service, caller, amount_cents)

    return asyncio.create_task(start())


@asynccontextmanager
async def holding_statement(beside: "Connection", caller: Caller) -> AsyncIterator[None]:
    async with beside.transaction():
        await beside.execute("select from statement_head where holder_id = $1 for no key update", caller.holder_id)
        yield


async def wait_for_lock(beside: "Connection") -> None:
    """Wait until another process waits for a lock of this connection."""
    # Not from pg_stat_activity, which is a snapshot for the whole transaction and lacks newer connections.
    blocked = "select exists (select from pg_locks where not granted and pg_backend_pid() = any (pg_blocking_pids(pid)))"
    async with asyncio.timeout(60):
        while not await beside.fetchval(blocked):  # noqa: ASYNC110  nothing else tells
            await asyncio.sleep(0.01)


FREEZE: Sequence[tuple[HolderChanges, type[errors.PixConnectError]]] = [
    (HolderChanges(may_withdraw=False), errors.HolderBlocked),
    (HolderChanges(transfer_limit_cents=1), errors.LimitExceeded),
]


@pytest.mark.parametrize(("change", "refusal"), FREEZE, ids=["flag", "limit"])
async def test_a_request_that_comes_after_the_operators_answer_is_judged_by_it(
    service: Service, caller: Caller, beside: "Connection", change: HolderChanges, refusal: type[errors.PixConnectError]
) -> None:
    late: asyncio.Task[Transfer] | None = None
    async with holding_balance(beside, caller):
        send(service, caller)
        await wait_for_lock(beside)
        operator = asyncio.create_task(holder_usecases.set_holder(as_operator(service.context), caller.holder_id, change))
        await asyncio.wait([operator], timeout=0.3)
        if operator.done():
            late = send(service, caller)
            await asyncio.sleep(0.1)
    await operator
    with pytest.raises(refusal):
        await (late or send(service, caller))


async def test_a_transfer_settles_and_another_is_accepted_without_waiting_for_each_other(
    service: Service, caller: Caller, beside: "Connection"
) -> None:
    before = await ledger_usecases.read_balance(service.context, caller)
    sent = await send(service, caller, 300)
    settled = Settled(settled_at=service.clock.now())
    async with holding_balance(beside, caller):  # as a batch does that accepts transfers
        assert await end_orders(service.context, [(sent.end_to_end_id, settled)]) == [None]
    async with holding_statement(beside, caller):  # as a batch does that ends them
        await send(service, caller, 20)
    after = await ledger_usecases.read_balance(service.context, caller)
    assert (after.available_cents, after.reserved_cents) == (before.available_cents - 320, 20)
    assert after.last_number == before.last_number + 1
    (line,) = (await ledger_usecases.list_transactions(service.context, caller, Span(page=1, page_size=1))).items
    assert (line.direction, line.amount_cents, line.created_at) == ("OUT", 300, after.last_entry_at)


@pytest.mark.parametrize("holding", [holding_balance, holding_statement])
async def test_what_is_released_waits_for_the_balance_and_for_the_statement(
    service: Service, caller: Caller, beside: "Connection", holding: Callable[..., AbstractAsyncContextManager[None]]
) -> None:
    sent = await send(service, caller)
    rejected = Rejected(code="AC03", reason="closed")
    async with holding(beside, caller):
        ended = asyncio.create_task(end_orders(service.context, [(sent.end_to_end_id, rejected)]))
        await wait_for_lock(beside)
    assert await ended == [None]


async def test_flags_are_those_of_the_held_balance(service: Service, caller: Caller, beside: "Connection") -> None:
    async with holding_balance(beside, caller):
        waiting = send(service, caller)
        await wait_for_lock(beside)
        await beside.execute("update holder set may_withdraw = false where id = $1", caller.holder_id)
    with pytest.raises(errors.HolderBlocked):
        await waiting


async def test_nothing_is_dated_before_a_told_clock(service: Service, caller: Caller, beside: "Connection") -> None:
    async with holding_balance(beside, caller):
        first = send(service, caller)
        await wait_for_lock(beside)
        moved = timedelta(days=1)
        await clock_store.move(service.context.pool, moved)
        answered_at = service.clock.now() + moved
        late = send(service, caller)
        await asyncio.sleep(0.1)
    await first
    assert (await late).created_at >= answered_at
    assert service.clock.offset == moved


async def test_who_comes_when_a_move_was_heard_of_is_not_admitted_to_a_group_of_before(
    service: Service, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock is moved, and a request comes, between the batch's reading of the clock and its latecomers."""
    late: list[asyncio.Task[Transfer]] = []
    take: Callable[..., object] = type(service.clock).take

    def move_after(clock: object, reading: object) -> object:
        taken = take(clock, reading)
        if not late:
            service.clock.set_offset(timedelta(days=1), service.clock.revision + 1)
            late.append(send(service, caller))
        return taken

    monkeypatch.setattr(type(service.clock), "take", move_after)
    first = send(service, caller)
    assert (await first).created_at == service.clock.real
    assert service.clock.offset == timedelta(days=1)
    await late[0]


async def test_an_older_reading_moves_no_clock_back(service: Service) -> None:
    read = await clock_store.read(service.context.pool)
    revision = await clock_store.move(service.context.pool, timedelta(days=1))
    service.clock.set_offset(timedelta(days=1), revision)
    service.clock.set_offset(read.offset, read.revision)
    assert service.clock.offset == timedelta(days=1)


async def test_a_charge_is_announced_as_made_before_it_is_announced_as_paid(
    service: Service, caller: Caller, database: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch that pays it began before the charge was made by another process."""
    txid = "T" * 32
    monkeypatch.setattr(identifiers, "make_txid", lambda *_: txid)
    find_received = transfer_store.find_received

    async with open_service(database, clock=service.clock) as other:

        async def make_charge_first(
            connection: "Connection", wanted: Sequence[tuple[str, int]]
        ) -> "dict[tuple[int, str], Transfer]":
            request = ChargeRequest(amount_cents=1000, key=own_key())
            await charge_usecases.create_charge(other.context, caller, request)
            return await find_received(connection, wanted)

        monkeypatch.setattr(transfer_store, "find_received", make_charge_first)
        report = credit_report(service, amount_cents=1000, txid=txid)
        assert (await receive_credit(service.context, report)).refusal_code is None
    rows = await service.context.pool.fetch("select name from event where resource = 'charge' order by id")
    assert [row["name"] for row in rows] == ["qrcode.pending", "qrcode.approved"]
