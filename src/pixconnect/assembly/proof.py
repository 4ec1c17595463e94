"""Opens what looks at the books: one connection, by the role that may only read them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from pixconnect.adapters.system import SystemClock, SystemEntropy, name_system_user
from pixconnect.assembly.base import SERVICE_PACKAGE, SERVICE_SCHEMA, open_own_secret_box
from pixconnect.assembly.outside import has_rail, open_rail
from pixconnect.config import Settings
from pixconnect.domain.money.rail import Rail
from pixconnect.foundation import pool, schema_history
from pixconnect.foundation.privileges import VERIFIER_ROLE
from pixconnect.store.running import installation as installation_store
from pixconnect.usecases.proof.verify import BookReader
from pixconnect.usecases.running.installation import refuse_other_mode

_SCHEMAS: Final = f"{SERVICE_SCHEMA}, verify"


@asynccontextmanager
async def open_book_reader(settings: Settings) -> AsyncGenerator[BookReader]:
    """Connect as the reader; ``SchemaError`` if the tables are not those of this program."""
    connection = await pool.connect(
        settings.verify_database_url or settings.operators_url,
        role=VERIFIER_ROLE,
        schema=_SCHEMAS,
        name="pixconnect verify",
        reads_tables=True,
    )
    try:
        await schema_history.refuse_other_tables(connection, SERVICE_SCHEMA, SERVICE_PACKAGE)
        refuse_other_mode(await installation_store.find_mode(connection), settings.mode)
        async with _open_rail(settings) as rail:
            operator = settings.operator or name_system_user()
            yield BookReader(connection=connection, clock=SystemClock(), operator=operator, rail=rail)
    finally:
        await connection.close()


@asynccontextmanager
async def _open_rail(settings: Settings) -> AsyncGenerator[Rail | None]:
    # Who only reads the database may know neither its address nor its password.
    if not has_rail(settings) or not settings.rail_url:
        yield None
        return
    async with open_rail(settings, open_own_secret_box(settings, SystemEntropy())) as (rail, _):
        yield rail
