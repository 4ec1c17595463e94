"""Connections to PostgreSQL: one way to open them, with a limit on every wait.

Durability is the server's, and is looked at (``usecases/installation.py``); what is set here bounds how long one statement,
one lock or one forgotten transaction may hold up the others. Service connections take a role that owns nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

import asyncpg

from pixconnect.foundation.database_failure import DATABASE_FAILED
from pixconnect.foundation.shared_pool import SharedPool
from pixconnect.foundation.shares import FairPlaces

# asyncpg's classes are subscripted for the type checker only.
Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"

if TYPE_CHECKING:  # only its stubs give the class a parameter
    _AnyConnection: TypeAlias = asyncpg.Connection[asyncpg.Record]
else:
    _AnyConnection = asyncpg.Connection

Operation = TypeVar("Operation", bound=Callable[..., Awaitable[object]])

WAITING_MAX = 4096
"""Those that wait for a connection of one pool at most, if nothing else is said."""

LOCK_TIMEOUT_MS = 3_000
STATEMENT_TIMEOUT_MS = 10_000
IDLE_IN_TRANSACTION_TIMEOUT_MS = 5_000

_FINISH_TIMEOUT_S = 2.0
"""How long a connection that comes back with something broken off may take to come to rest."""

_QUERIES_MAX = 50_000_000
"""After so many a connection is replaced; each replacement prepares all statements anew."""


async def open_pool(
    url: str,
    *,
    role: str | None,
    schema: str,
    connections_max: int,
    name: str,
    waiting_max: int = WAITING_MAX,
    look: Callable[[Connection], Awaitable[None]] | None = None,
) -> Pool:
    """Open a pool of connections, which are lent by shares.

    Args:
        url: ``postgresql://...``; a socket folder goes into its ``host`` parameter.
        role: Taken on every connection, so that its privileges hold whoever logged in; ``None`` keeps the login's.
        schema: First in ``search_path``.
        connections_max: How many connections at most.
        name: ``application_name``, seen in ``pg_stat_activity``.
        waiting_max: Those that wait for a connection at most.
        look: Called with each new connection before it is used.

    Returns:
        The pool, with one connection already open.

    Raises:
        OSError: The server cannot be reached.
        asyncpg.PostgresError: The server refuses the login.
    """
    return await SharedPool(
        url,
        places=FairPlaces(connections_max, waiting_max=waiting_max, what="reads"),
        min_size=1,
        max_size=connections_max,
        command_timeout=STATEMENT_TIMEOUT_MS / 1000 + 5,
        timeout=5,
        max_inactive_connection_lifetime=300,
        max_queries=_QUERIES_MAX,
        connection_class=_PooledConnection,
        init=look,
        reset=_bring_to_rest,
        server_settings=_session_settings(role, schema, name),
    )


def _watched(operation: Operation) -> Operation:
    async def watched(connection: _PooledConnection, *args: object, **options: object) -> object:
        connection.is_at_rest = False
        try:
            result = await operation(connection, *args, **options)
        except asyncpg.ReadOnlySQLTransactionError:
            connection.is_to_a_standby = True
            raise
        connection.is_at_rest = True
        return result

    return cast(Operation, watched)


class _PooledConnection(_AnyConnection):
    """Knows whether what it was asked last came to its end.

    A statement that is new to a connection is prepared first, which begins a transaction at the server; executing it ends that.
    Whoever is cancelled between the two leaves a transaction open of which the driver knows nothing.
    """

    is_at_rest = True
    is_to_a_standby = False
    """A failover has made one of the server; the next connection may be led to the new primary."""

    execute = _watched(_AnyConnection.execute)
    executemany = _watched(_AnyConnection.executemany)
    fetch = _watched(_AnyConnection.fetch)
    fetchrow = _watched(_AnyConnection.fetchrow)
    fetchval = _watched(_AnyConnection.fetchval)


async def _bring_to_rest(connection: _AnyConnection) -> None:
    """Hand a connection to the next user with no transaction open, or not at all.

    Called with each connection that comes back, after a transaction that the driver knows of was rolled back. We leave no
    session state behind, and asking the server to forget it would be a round trip a group: one is made only where something was
    broken off, and ends the transaction that may be open.
    """
    pooled = cast(_PooledConnection, connection)
    if not pooled.is_at_rest:
        try:
            async with asyncio.timeout(_FINISH_TIMEOUT_S):
                await connection.execute("select")
        except DATABASE_FAILED:
            connection.terminate()
            return
    if pooled.is_to_a_standby or connection.is_in_transaction():
        connection.terminate()


async def connect(url: str, *, role: str | None, schema: str, name: str) -> asyncpg.Connection[asyncpg.Record]:
    """Open one connection outside any pool; arguments and errors as in ``open_pool``."""
    return await asyncpg.connect(url, timeout=5, server_settings=_session_settings(role, schema, name))


def _session_settings(role: str | None, schema: str, name: str) -> dict[str, str]:
    settings = {
        "application_name": name,
        "search_path": schema,
        "timezone": "UTC",
        "jit": "off",
        "default_transaction_isolation": "read committed",
        # Every statement finds its rows by an index that was made for it. Where tables have just grown, PostgreSQL would take
        # statistics, or their absence, for a reason to read whole tables instead.
        "enable_seqscan": "off",
        "enable_hashjoin": "off",
        "enable_mergejoin": "off",
        "lock_timeout": str(LOCK_TIMEOUT_MS),
        "statement_timeout": str(STATEMENT_TIMEOUT_MS),
        "idle_in_transaction_session_timeout": str(IDLE_IN_TRANSACTION_TIMEOUT_MS),
        "tcp_keepalives_idle": "10",
        "tcp_keepalives_interval": "5",
        "tcp_keepalives_count": "3",
    }
    if role is not None:
        settings["role"] = role
    return settings
