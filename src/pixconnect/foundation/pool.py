"""Connections to PostgreSQL: one way to open them, with a limit on every wait.

Durability is the server's (``synchronous_commit`` stays on); what is set here bounds how long one statement, one lock or
one forgotten transaction may hold up the others. Service connections take a role that owns nothing.
"""

from typing import TYPE_CHECKING, TypeAlias

import asyncpg

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Pool: TypeAlias = asyncpg.Pool[asyncpg.Record]
    Connection: TypeAlias = asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]

DATABASE_AWAY = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""What it looks like when the server cannot be reached, or ends a connection; whoever works in the background tries again."""

LOCK_TIMEOUT_MS = 3_000
STATEMENT_TIMEOUT_MS = 10_000
IDLE_IN_TRANSACTION_TIMEOUT_MS = 5_000

_QUERIES_MAX = 50_000_000
"""After so many a connection is replaced; each replacement prepares all statements anew."""


async def open_pool(url: str, *, role: str | None, schema: str, connections_max: int, name: str) -> "Pool":
    """Open a pool of connections.

    Args:
        url: ``postgresql://...``; a socket folder goes into its ``host`` parameter.
        role: Taken on every connection, so that its privileges hold whoever logged in; ``None`` keeps the login's.
        schema: First in ``search_path``.
        connections_max: How many connections at most.
        name: ``application_name``, seen in ``pg_stat_activity``.

    Returns:
        The pool, with one connection already open.

    Raises:
        OSError: The server cannot be reached.
        asyncpg.PostgresError: The server refuses the login.
    """
    return await asyncpg.create_pool(
        url,
        min_size=1,
        max_size=connections_max,
        command_timeout=STATEMENT_TIMEOUT_MS / 1000 + 5,
        timeout=5,
        max_inactive_connection_lifetime=300,
        max_queries=_QUERIES_MAX,
        reset=_keep_session,
        server_settings=_session_settings(role, schema, name),
    )


async def _keep_session(_connection: object) -> None:
    """Nothing: we leave no session state behind, and asking the server to forget it would be a round trip a group.

    A transaction that was left open is rolled back before this is called.
    """


async def connect(url: str, *, role: str | None, schema: str, name: str) -> "asyncpg.Connection[asyncpg.Record]":
    """Open one connection outside any pool; arguments and errors as in ``open_pool``."""
    return await asyncpg.connect(url, timeout=5, server_settings=_session_settings(role, schema, name))


def _session_settings(role: str | None, schema: str, name: str) -> dict[str, str]:
    settings = {
        "application_name": name,
        "search_path": schema,
        "timezone": "UTC",
        "jit": "off",
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
