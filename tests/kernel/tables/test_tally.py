"""Totals stay true while they are kept short."""

import asyncio

from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import ChargeRequest
from pixconnect.kernel.rules.listing import Span
from pixconnect.kernel.tables import tally as tally_store
from support.books import check_books
from support.records import own_key
from support.service import Service


async def make(service: Service, caller: Caller, count: int) -> None:
    request = ChargeRequest(amount_cents=1, key=own_key())
    for _ in range(count):
        await charge_usecases.create_charge(service.context, caller, request)
        service.clock.advance(minutes=20)


async def fold(service: Service, rows_max: int) -> int:
    async with service.context.pool.acquire() as connection, connection.transaction():
        return await tally_store.fold(connection, rows_max)


async def total(service: Service, caller: Caller, status: str) -> int:
    return (await charge_usecases.list_charges(service.context, caller, status, Span())).total_count  # type: ignore[arg-type]


async def test_adding_notes_together_changes_no_total(service: Service, caller: Caller) -> None:
    await make(service, caller, 7)
    service.clock.advance(days=1, hours=-1)
    await charge_usecases.expire_charges(service.context, range(256), service.clock.now(), 100)
    before = [await total(service, caller, status) for status in ("PENDING", "EXPIRED")]
    assert sum(before) == 7
    while await fold(service, 2):
        assert [await total(service, caller, status) for status in ("PENDING", "EXPIRED")] == before
        await check_books(service)
    assert await service.context.pool.fetchval("select count(*) from tally_change") == 0


async def test_notes_are_added_together_while_more_are_written(service: Service, caller: Caller) -> None:
    async def keep_folding() -> None:
        for _ in range(20):
            await fold(service, 3)

    await asyncio.gather(make(service, caller, 20), make(service, caller, 20), keep_folding())
    assert await total(service, caller, "PENDING") == 40
    await check_books(service)
