"""The SQL of closing a cell's database: it is renamed by who is connected to another one of its server.

The target of a move is closed otherwise: its copy goes on, and only services are kept out.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final, LiteralString

from msgspec import Struct

from pixconnect.domain.running.known_cell import COPY_PREFIX, CellAddress
from pixconnect.foundation.database_failure import DATABASE_FAILED
from pixconnect.foundation.pool import Connection

_POLL_S: Final = 0.02
_END_SESSIONS: Final[LiteralString] = "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1"

_END_AND_WAIT: Final[LiteralString] = "select pg_terminate_backend($1, 5000)"


async def has_database(beside: Connection, database: str) -> bool:
    return await beside.fetchval("select exists (select from pg_database where datname = $1)", database)


_HAS_CLOSED: Final[LiteralString] = """
    select exists (select from pg_database where starts_with(datname, $2))
        and not exists (select from pg_database where datname = $1)
"""


async def has_closed(beside: Connection, there: CellAddress) -> bool:
    """Whether moves have closed databases of that name there, and there is none now."""
    return await beside.fetchval(_HAS_CLOSED, there.database, there.closed_prefix)


class ClosedDatabase(Struct, frozen=True, kw_only=True):
    name: str
    slot: str | None
    """By which it is copied: the move that has closed it has not ended."""


_LIST_CLOSED: Final[LiteralString] = """
    select datname::text as name, max(slot_name::text) as slot
    from pg_database left join pg_replication_slots on database = datname and starts_with(slot_name, $2)
    where starts_with(datname, $1) group by 1 order by 1
"""


async def list_closed(beside: Connection, there: CellAddress) -> list[ClosedDatabase]:
    """The databases that moves have closed there, by name and so by age."""
    return [ClosedDatabase(**row) for row in await beside.fetch(_LIST_CLOSED, there.closed_prefix, COPY_PREFIX)]


async def rename_database(beside: Connection, another: Connection, database: str, name: str) -> None:
    """Rename a database and end its sessions; nobody writes to it after that who knows the former name.

    New sessions wait from the moment on at which it is being renamed, and then there is no such database.

    Args:
        beside: To another database of that server.
        another: The same, which ends the sessions meanwhile.
        database: Its name.
        name: Its new name.
    """
    rename = await beside.fetchval(
        "select format('alter database %I rename to %I', $1::text, $2::text)", database, name
    )
    renaming = asyncio.ensure_future(beside.execute(rename))
    try:
        while not renaming.done():
            await another.execute(_END_SESSIONS, database)
            await asyncio.wait([renaming], timeout=_POLL_S)
    except BaseException:
        renaming.cancel()
        await asyncio.wait([renaming])
        # It may be renamed all the same; whoever looks then by what name it is there must not be too early.
        with suppress(*DATABASE_FAILED):
            await another.execute(_END_AND_WAIT, beside.get_server_pid())
        raise
    await renaming


async def find_slot_database(connection: Connection, name: str) -> str | None:
    """The database of this server whose log the slot keeps, whatever that is called by now."""
    return await connection.fetchval("select database::text from pg_replication_slots where slot_name = $1", name)


_FIND_LIMIT: Final[LiteralString] = "select datconnlimit from pg_database where datname = current_database()"
_END_OTHERS: Final[LiteralString] = """
    select pid, pg_terminate_backend(pid, 5000) as has_ended from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
"""
_HAS_ANY: Final[LiteralString] = "select exists (select from pg_stat_activity where pid = any($1))"


async def end_other_sessions(connection: Connection) -> bool:
    """End all sessions of this database but this one, so that whoever goes on looks at it anew; whether they have ended."""
    # It is said of those too that have ended by themselves in that moment.
    unended = [row["pid"] for row in await connection.fetch(_END_OTHERS) if not row["has_ended"]]
    return not await connection.fetchval(_HAS_ANY, unended)


async def keep_services_out(connection: Connection) -> bool:
    """Let nobody but superusers log in to this database; whether the sessions of all others have ended.

    A limit of its own that it had is forgotten.
    """
    await _limit_connections(connection, 0)
    return await end_other_sessions(connection)


async def let_services_in(connection: Connection) -> None:
    """End ``keep_services_out``, if somebody has begun that."""
    if await connection.fetchval(_FIND_LIMIT) == 0:
        await _limit_connections(connection, -1)


async def _limit_connections(connection: Connection, count: int) -> None:
    limit = await connection.fetchval(
        "select format('alter database %I connection limit %s', current_database(), $1::int)", count
    )
    await connection.execute(limit)
