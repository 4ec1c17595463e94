"""What looks at the books of a service in this process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pixconnect.foundation import pool
from pixconnect.foundation.privileges import VERIFIER_ROLE
from pixconnect.usecases.proof.verify import BookReader
from support.postgres import Addresses
from support.service import Service


@asynccontextmanager
async def open_book_reader(service: Service, database: Addresses) -> AsyncIterator[BookReader]:
    connection = await pool.connect(
        database.service_url, role=VERIFIER_ROLE, schema="pixconnect, verify", name="verify", reads_tables=True
    )
    try:
        yield BookReader(connection=connection, clock=service.context.clock, operator="a test")
    finally:
        await connection.close()
