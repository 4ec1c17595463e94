"""Opens what looks at the books: one connection, by the role that may only read them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

import asyncpg
import structlog

from pixconnect.adapters.system import SystemClock, SystemEntropy, name_system_user
from pixconnect.assembly.base import SERVICE_PACKAGE, SERVICE_SCHEMA, open_own_secret_box
from pixconnect.assembly.outside import has_rail, open_rail
from pixconnect.config import Settings
from pixconnect.domain.money.rail import Rail
from pixconnect.foundation import migrations as schema_history
from pixconnect.foundation import pool
from pixconnect.foundation.database_failure import DATABASE_FAILED
from pixconnect.foundation.privileges import VERIFIER_ROLE
from pixconnect.store.running import installation as installation_store
from pixconnect.usecases.proof.verify import BookReader
from pixconnect.usecases.running.installation import refuse_other_mode
from pixconnect.usecases.running.standby import AGE_MAX_S

_log = structlog.get_logger(__name__)
_SCHEMAS: Final = f"{SERVICE_SCHEMA}, verify"


@asynccontextmanager
async def open_book_reader(settings: Settings) -> AsyncGenerator[BookReader]:
    """Connect as the reader.

    Raises:
        SchemaError: The tables are not those of this program.
        InstallationError: They are of the other mode.
    """
    own_url = settings.verify_database_url or settings.operators_url
    connection = await _connect(own_url)
    standby: pool.Connection | None = None
    try:
        await schema_history.refuse_other_tables(connection, SERVICE_SCHEMA, SERVICE_PACKAGE)
        refuse_other_mode(await installation_store.find_mode(connection), settings.mode)
        async with _open_rail(settings) as rail:
            operator = settings.operator or name_system_user()
            standby = await _open_standby(settings.read_database_url, own_url)
            yield BookReader(
                connection=connection,
                standby=standby,
                standby_age_max_s=AGE_MAX_S,
                clock=SystemClock(),
                operator=operator,
                rail=rail,
            )
    finally:
        if standby is not None:
            # It may hang.
            standby.terminate()
        await connection.close()


async def _connect(url: str) -> asyncpg.Connection[asyncpg.Record]:
    return await pool.connect(url, role=VERIFIER_ROLE, schema=_SCHEMAS, name="pixconnect verify", reads_tables=True)


async def _open_standby(read_url: str, own_url: str) -> asyncpg.Connection[asyncpg.Record] | None:
    """The reader's connection to the standby, where the service has one and it is there."""
    if not read_url:
        return None
    try:
        return await _connect(_log_in_as(own_url, read_url))
    except DATABASE_FAILED as error:
        _log.warning("the standby is not read from, and the primary instead", reason=type(error).__name__)
        return None


def _log_in_as(own_url: str, read_url: str) -> str:
    """The standby's address with the login of another one: the service's may not take the role of whoever verifies."""
    read, own = urlsplit(read_url), urlsplit(own_url)
    login = own.netloc.rpartition("@")[0]
    host = read.netloc.rpartition("@")[2]
    return read._replace(netloc=f"{login}@{host}" if login else host).geturl()


@asynccontextmanager
async def _open_rail(settings: Settings) -> AsyncGenerator[Rail | None]:
    # Who only reads the database may know neither its address nor its password.
    if not has_rail(settings) or not settings.rail_url:
        yield None
        return
    async with open_rail(settings, open_own_secret_box(settings, SystemEntropy())) as (rail, _):
        yield rail
