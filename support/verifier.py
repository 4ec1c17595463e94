"""Checks of the books of a service, in this process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pixconnect.features.proof.service.rule_group import BookReader
from pixconnect.kernel.tables.installation import take_mode
from pixconnect.platform import pool
from pixconnect.platform.privileges import VERIFIER_ROLE
from support.books import chain_all
from support.postgres import Addresses
from support.service import Service, open_holder, open_service


async def be_started(service: Service) -> None:
    """Record the mode as a start does, because test services are not started."""
    async with service.context.pool.acquire() as connection:
        await take_mode(connection, "sandbox")


@asynccontextmanager
async def open_book_reader(service: Service, database: Addresses) -> AsyncIterator[BookReader]:
    await be_started(service)
    connection = await pool.connect(
        database.service_url, role=VERIFIER_ROLE, schema="pixconnect, verify", name="verify", reads_tables=True
    )
    try:
        yield BookReader(connection=connection, clock=service.context.clock, operator="a test")
    finally:
        await connection.close()


async def chain_deposit(database: Addresses, account_number: str = "1") -> tuple[int, int]:
    """A holder with R$ 10,00 and a chained entry; returns both ids."""
    async with open_service(database) as service:
        await be_started(service)
        holder = await open_holder(service, account_number=account_number, funds_cents=1_000)
        await chain_all(service.context)
        return holder.holder_id, await service.context.pool.fetchval("select max(id) from ledger_entry")
