"""PostgreSQL's logical replication copies these tables while they are written, to the last row: how a cell will be moved.

The server is one of its own, since those of other tests keep no logical log.
"""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from pixconnect.domain.identity.access import Caller
from pixconnect.domain.money.refund import RefundRequest
from pixconnect.domain.money.transfer import AccountTransferRequest
from pixconnect.usecases.frame.tally import fold_tallies
from pixconnect.usecases.money import charge as charge_usecases
from pixconnect.usecases.money import ledger as ledger_usecases
from pixconnect.usecases.money import refund as refund_usecases
from pixconnect.usecases.money import transfer as transfer_usecases
from pixconnect.usecases.money.incoming import receive_credit
from support.books import check_books
from support.logical_postgres import open_logical_server
from support.postgres import Addresses, make_copy
from support.records import outside_party
from support.service import Service, credit_report, make_charge, open_holder, open_service, read_funds

pytestmark = pytest.mark.long

LIVES = 40
_CAUGHT_UP_WITHIN_S = 60
_TABLES = """
    select oid::regclass::text as name from pg_class
    where relnamespace = 'pixconnect'::regnamespace and relkind in ('r', 'p') and not relispartition order by 1
"""
_IS_THERE = "select not exists (select from pg_subscription_rel where srsubstate <> 'r')"
_IS_CAUGHT_UP = "select confirmed_flush_lsn >= $1::text::pg_lsn from pg_replication_slots where slot_name = 'moving'"


@pytest.fixture
async def logical_server() -> AsyncIterator[Addresses]:
    async with open_logical_server() as (_, addresses):
        yield addresses


async def test_a_logical_copy_of_what_is_written_meanwhile_is_the_same_and_goes_on(logical_server: Addresses) -> None:
    old, new = [await make_copy(logical_server, name) for name in ("old", "new")]
    source, target = [await asyncpg.connect(each.owner_url) for each in (old, new)]
    try:
        async with open_service(old) as service:
            caller = await open_holder(service, funds_cents=1_000_000)
            await live(service, 0)
            await begin_copy(source, target, old)
            # Written while the tables are copied, and after: rows that come, change and go.
            await live(service, 1)
            await wait_for(target, _IS_THERE)
            await live(service, 2)
            await fold_tallies(service.context)
            # Commits do not wait for the disk here, and are sent once they are on it.
            await wait_for(source, _IS_CAUGHT_UP, await source.fetchval("select pg_current_wal_insert_lsn()::text"))
            funds_cents = await read_funds(service, caller)
        for table in [row["name"] for row in await source.fetch(_TABLES)]:
            assert await read_rows(target, table) == await read_rows(source, table), table
        await copy_sequences(source, target)
        await target.execute("alter subscription moving disable; alter subscription moving set (slot_name = none)")
        await target.execute("drop subscription moving")
        async with open_service(new) as service:
            assert await read_funds(service, caller) == funds_cents
            await live(service, 3)
            await check_books(service)
    finally:
        await source.execute("select pg_drop_replication_slot(slot_name) from pg_replication_slots where not active")
        await source.close()
        await target.close()


async def live(service: Service, number: int) -> None:
    """Charges are made, one is paid and partly returned, transfers leave: the holder is the first one."""
    [holder] = await service.fetch("select id from holder")
    caller = Caller(client_id="test", holder_id=holder["id"], scopes=frozenset())
    charges = await asyncio.gather(*(make_charge(service, caller) for _ in range(LIVES)))
    await receive_credit(service.context, credit_report(service, txid=charges[0].txid, report_id=f"r{number}"))
    paying = await charge_usecases.read_paying_transfer(service.context, caller, charges[0].id)
    returned = RefundRequest(end_to_end_id=paying.end_to_end_id, amount_cents=100)
    await refund_usecases.start_refund(service.context, caller, returned)
    sent = AccountTransferRequest(amount_cents=100, credit_party=outside_party())
    await asyncio.gather(*(transfer_usecases.start_transfer(service.context, caller, sent) for _ in range(LIVES)))
    await ledger_usecases.deposit(service.context, caller.holder_id, 1000)


async def begin_copy(source: asyncpg.Connection, target: asyncpg.Connection, old: Addresses) -> None:
    # What migrations put in comes with the copy too.
    names = ", ".join(row["name"] for row in await target.fetch(_TABLES))
    await target.execute(f"set session_replication_role = replica; truncate {names}; reset session_replication_role")
    await source.execute(
        "create publication moving for tables in schema pixconnect with (publish_via_partition_root = true)"
    )
    # On one server a subscription that made its slot itself would wait for its own transaction.
    await source.execute("select pg_create_logical_replication_slot('moving', 'pgoutput')")
    await target.execute(
        f"create subscription moving connection '{old.owner_url}' publication moving with (create_slot = false)"
    )


async def copy_sequences(source: asyncpg.Connection, target: asyncpg.Connection) -> None:
    for row in await source.fetch("select sequencename, last_value from pg_sequences where last_value is not null"):
        await target.execute("select setval('pixconnect.' || $1, $2)", row["sequencename"], row["last_value"])


async def read_rows(connection: asyncpg.Connection, table: str) -> list[str]:
    return [row["found"] for row in await connection.fetch(f"select row::text as found from {table} as row order by 1")]


async def wait_for(connection: asyncpg.Connection, is_so: str, *given: object) -> None:
    async with asyncio.timeout(_CAUGHT_UP_WITHIN_S):
        while not await connection.fetchval(is_so, *given):  # noqa: ASYNC110 - the server does it
            await asyncio.sleep(0.05)
