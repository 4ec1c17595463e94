"""Connects through a pooler before PostgreSQL, and refuses one that shares our sessions with others.

Roles, prepared statements, advisory locks and ``LISTEN`` belong to a session, and money depends on the first of them. A pooler
that gives each client a separate session, for the life of its connection, is harmless.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import asyncpg

_TRIES: Final = 3
_ANSWER_TIMEOUT_S: Final = 5.0
_SHARED: Final = (
    "a pooler between us and PostgreSQL gives its connections to others after each transaction, but roles, prepared "
    "statements, advisory locks and LISTEN belong to a session: set pool_mode = session for this database, or name the "
    "server itself"
)
_DROPPED: Final = (
    "a pooler between us and PostgreSQL leaves out what our sessions are to begin with, such as their role: take role, "
    "search_path and the others out of its ignore_startup_parameters"
)
# A statement that is prepared in one session is missing in the next, or exists already.
_STATEMENT_LOST: Final = (asyncpg.DuplicatePreparedStatementError, asyncpg.InvalidSQLStatementNameError)


class PoolerError(Exception):
    """A pooler removes state that a session must keep; the message states the remedy."""


async def connect(
    *address: Any,  # noqa: ANN401  the driver's own
    server_settings: Mapping[str, str],
    **options: Any,  # noqa: ANN401  the driver's own
) -> asyncpg.Connection[asyncpg.Record]:
    """As the driver's ``connect``, also through a pooler that knows few settings of a session's begin."""
    try:
        return await asyncpg.connect(*address, server_settings=dict(server_settings), **options)
    except asyncpg.ProtocolViolationError as error:
        if "startup parameter" not in str(error):
            raise
    connection = await asyncpg.connect(*address, **options)
    try:
        wanted = ", ".join(
            f"set_config({_quote(name)}, {_quote(value)}, false)" for name, value in server_settings.items()
        )
        await connection.execute(f"select {wanted}")
    except BaseException:
        connection.terminate()
        raise
    return connection


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


async def refuse_shared_sessions(
    connection: Any,  # noqa: ANN401  a pool's or the driver's own
    schema: str,
    open_another: Callable[[], Awaitable[asyncpg.Connection[asyncpg.Record]]],
) -> None:
    """Raise ``PoolerError`` where a session is not this connection's alone, or not as it was asked for.

    Args:
        connection: A new one.
        schema: What it was given as its path.
        open_another: Opens one beside it, by the same address; called only where a pooler stands between.
    """
    try:
        found = await connection.fetchrow("select pg_backend_pid() as pid, current_setting('search_path') as path")
        if found["path"] != schema:
            raise PoolerError(_DROPPED)
        # A pooler gives its clients separate keys, by which it finds the query to cancel.
        if found["pid"] == connection.get_server_pid():
            return
        another = await open_another()
        try:
            for _ in range(_TRIES):
                await _compare(connection, another, found["pid"])
        finally:
            another.terminate()
    except _STATEMENT_LOST:
        raise PoolerError(_SHARED) from None


async def _compare(connection: Any, another: Any, pid: int) -> None:  # noqa: ANN401  as above
    # While the other one is in a transaction, its session is not given to others; ours must still exist, and be ours.
    async with asyncio.timeout(_ANSWER_TIMEOUT_S), another.transaction():
        if await another.fetchval("select pg_backend_pid()") == pid:
            raise PoolerError(_SHARED)
        if await connection.fetchval("select pg_backend_pid()") != pid:
            raise PoolerError(_SHARED)
