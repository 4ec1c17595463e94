"""Opens connections to PostgreSQL, with a timeout for every statement, lock and idle transaction.

Roles, prepared statements, advisory locks and ``LISTEN`` belong to a session, and money depends on the first of them. A pooler
that gives each client a separate session, for the life of its connection, is harmless; one that shares sessions is refused.

Durability is a setting of the server, which ``kernel/flows/installation.py`` checks. The service's connections take a
role that owns nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

import asyncpg
from asyncpg.protocol import protocol as driver

from pixconnect.platform.database_failure import DATABASE_FAILED, database_disk
from pixconnect.platform.flow.shares import FairSemaphore
from pixconnect.platform.shared_pool import SharedPool

Pool: TypeAlias = SharedPool

if TYPE_CHECKING:  # only its stubs give the classes a parameter
    _AnyConnection: TypeAlias = asyncpg.Connection[asyncpg.Record]
    Connection: TypeAlias = _AnyConnection | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
else:
    _AnyConnection = asyncpg.Connection
    Connection = asyncpg.Connection | asyncpg.pool.PoolConnectionProxy

# The driver asks abstract base classes whether each element of an array is an array too, which takes as long as encoding it.
# Classes give the same answers in a fifth of the time.
_ARRAYS: Final = (list, tuple, set, frozenset, deque, range, type(dict[str, str]().keys()), type(dict[str, str]().values()))
for _name, _types in {"IterableABC": _ARRAYS, "SizedABC": _ARRAYS, "MappingABC": dict}.items():
    setattr(driver, _name, _types)

Operation = TypeVar("Operation", bound=Callable[..., Awaitable[object]])

WAITING_MAX = 4096  # how many may wait for a connection of one pool by default

LOCK_TIMEOUT_MS = 3_000
STATEMENT_TIMEOUT_MS = 10_000
IDLE_IN_TRANSACTION_TIMEOUT_MS = 5_000

# The time limit of a COMMIT, including standbys: the caller learns in time that the outcome is unknown.
COMMIT_TIMEOUT_S = 3.5
# As the driver writes it; a savepoint has other words.
_COMMIT = "COMMIT;"
_END_AFTER_S = 0.05

# How long the round trip may take that ends a cancelled statement.
_FINISH_TIMEOUT_S = 2.0
_CLOSE_TIMEOUT_S = 1.0

_STANDBY_CONNECT_TIMEOUT_S = 2  # a caller waiting for an absent standby could use the primary instead

# PostgreSQL needs 4 to 12 MiB for a connection that was used. The pool hands out the one that was released last, so whatever a
# process reads at rest keeps that one open, and the others end. The only connection of a pool has no such reader.
_IDLE_MAX_S = 45
_IDLE_ALONE_MAX_S = 300

# After so many queries a connection is replaced. That is rare, because a new one has to prepare all statements again.
_QUERIES_MAX = 50_000_000


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


async def open_pool(
    url: str,
    *,
    role: str | None,
    schema: str,
    connections_max: int,
    name: str,
    waiting_max: int = WAITING_MAX,
    look: Callable[[Connection], Awaitable[None]] | None = None,
    plans_once: bool = False,
) -> SharedPool:
    """Open a pool that shares its connections fairly; one of them at once, if it may have more.

    Args:
        url: ``postgresql://...``; a socket folder goes into its ``host`` parameter.
        role: Taken by every connection, so that its privileges apply for any login; ``None`` keeps the login's.
        name: ``application_name``, shown in ``pg_stat_activity``.
        look: Called with each new connection before it is used.
        plans_once: Each connection plans a statement once, and not for the values of each call.

    Raises:
        OSError: The server cannot be reached.
        asyncpg.PostgresError: The server refuses the login.
    """
    return await SharedPool(
        url,
        semaphore=FairSemaphore(connections_max, waiting_max=waiting_max, what="reads"),
        # A pool of one may never be used, and PostgreSQL needs 2 MiB for an idle connection.
        min_size=min(1, connections_max - 1),
        max_size=connections_max,
        # The server's own timeout comes first; this one is for a server that no longer answers.
        command_timeout=STATEMENT_TIMEOUT_MS / 1000 + 5,
        timeout=5,
        max_inactive_connection_lifetime=_IDLE_MAX_S if connections_max > 1 else _IDLE_ALONE_MAX_S,
        max_queries=_QUERIES_MAX,
        connect=_connect,
        connection_class=_PooledConnection,
        init=look,
        reset=_bring_to_rest,
        server_settings=_session_settings(role, schema, name, plans_once=plans_once),
    )


async def open_standby_pool(
    url: str,
    *,
    primary: SharedPool,
    role: str,
    schema: str,
    connections_max: int,
    name: str,
    check: Callable[[Connection], Awaitable[None]],
) -> SharedPool:
    """Open a pool that reads at a standby; arguments as in ``open_pool``, and no connection before one is requested.

    Args:
        primary: The pool of the server that it follows.
        check: Called before each use of a connection; its error goes to the user of the connection.
    """
    pool = _StandbyPool(
        url,
        semaphore=FairSemaphore(connections_max, waiting_max=WAITING_MAX, what="reads"),
        min_size=0,
        max_size=connections_max,
        command_timeout=STATEMENT_TIMEOUT_MS / 1000 + 5,
        timeout=_STANDBY_CONNECT_TIMEOUT_S,
        max_inactive_connection_lifetime=300,
        max_queries=_QUERIES_MAX,
        connect=_connect,
        connection_class=_StandbyConnection,
        setup=check,
        reset=_bring_to_rest,
        # It may be promoted while we are connected, and then would take a write.
        server_settings=_session_settings(role, schema, name, plans_once=False) | dict(default_transaction_read_only="on"),
    )
    pool.primary = primary
    return await pool


def _watched(operation: Operation) -> Operation:
    async def watched(connection: _PooledConnection, *args: object, **options: object) -> object:
        connection.is_at_rest = False
        connection.is_committing = args[:1] == (_COMMIT,)
        if connection.is_committing:
            options["timeout"] = COMMIT_TIMEOUT_S
        try:
            result = await operation(connection, *args, **options)
        except asyncpg.ReadOnlySQLTransactionError:
            connection.is_to_be_replaced = True
            raise
        except asyncpg.DiskFullError:
            database_disk.note()
            raise
        connection.is_at_rest, connection.answered_s = True, time.monotonic()
        return result

    return cast(Operation, watched)


class _PooledConnection(_AnyConnection):
    # A statement that is new to a connection is prepared first, which begins a transaction at the server, and executing it ends
    # that. A cancellation between the two leaves a transaction open that the driver does not know of.
    is_at_rest = True
    # When it last answered, by this process's monotonic clock.
    answered_s = float("-inf")
    # After a failover the server may be a standby; a new connection may reach the new primary. And a session from before the
    # tables were restored raises the same (`refuse_old_session`).
    is_to_be_replaced = False
    is_committing = False
    ends_when_cancelled = False

    def _cancel_current_command(self, *waiters: asyncio.Future[None]) -> None:
        # A cancelled COMMIT no longer waits for the standby: its rows would become visible, and a failover would then lose
        # them.
        if not self.is_committing and not self.ends_when_cancelled:
            super()._cancel_current_command(*waiters)  # type: ignore[misc]  the driver's stubs leave it out
            return
        # After the caller has handled this failure: the driver fails on a connection that ends while it is released.
        asyncio.get_running_loop().call_later(_END_AFTER_S, self.terminate)

    execute = _watched(_AnyConnection.execute)
    executemany = _watched(_AnyConnection.executemany)
    fetch = _watched(_AnyConnection.fetch)
    fetchrow = _watched(_AnyConnection.fetchrow)
    fetchval = _watched(_AnyConnection.fetchval)


class _StandbyPool(SharedPool):
    def note_failure(self, error: BaseException, began_s: float) -> None:
        # The standby's monitor looks for it, and reads go to the primary meanwhile.
        pass


class _StandbyConnection(_PooledConnection):
    # A server that hangs would not answer the request to cancel either, and the caller would wait for that.
    ends_when_cancelled = True
    # How new its tables are known to be, by this process's monotonic clock.
    known_s = float("-inf")

    # A method, because the pool's proxy of a connection takes no attributes.
    def note_known(self, known_s: float) -> None:
        self.known_s = known_s


async def close_pool(connections: Pool) -> None:
    """Close all connections, those that hang too, so that none keeps the process from ending."""
    # PostgreSQL rolls back what they did.
    with suppress(TimeoutError):
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            await connections.close()


async def _bring_to_rest(connection: _AnyConnection) -> None:
    """Make sure that a released connection has no transaction open, or close it."""
    # The pool has rolled back a transaction that the driver knows of. The driver's own reset would be a round trip for every
    # batch, and we leave no session state behind.
    pooled = cast(_PooledConnection, connection)
    if not pooled.is_at_rest:
        # Any statement ends the transaction that a cancelled one may have left open.
        try:
            async with asyncio.timeout(_FINISH_TIMEOUT_S):
                await connection.execute("select")
        except DATABASE_FAILED:
            connection.terminate()
            return
    if pooled.is_to_be_replaced or connection.is_in_transaction():
        connection.terminate()


async def connect(
    url: str, *, role: str | None, schema: str, name: str, plans_once: bool = False, reads_tables: bool = False
) -> asyncpg.Connection[asyncpg.Record]:
    """Open one connection without a pool; arguments and errors as in ``open_pool``.

    Args:
        reads_tables: Its statements read whole tables and join them, for as long as that takes.
    """
    session = _session_settings(role, schema, name, plans_once=plans_once)
    if reads_tables:
        session |= _READING_TABLES
    return await _connect(url, timeout=5, server_settings=session)


# A slice of a million rows is joined by hashing in memory, or beside it.
_READING_TABLES = dict(enable_seqscan="on", enable_hashjoin="on", enable_mergejoin="on", work_mem="64MB", statement_timeout="0")


def _session_settings(role: str | None, schema: str, name: str, *, plans_once: bool) -> dict[str, str]:
    settings = dict(
        application_name=name,
        search_path=schema,
        timezone="UTC",
        jit="off",
        default_transaction_isolation="read committed",
        # Every statement finds its rows by an index that was made for it. Just after tables have grown, PostgreSQL's
        # statistics, or their absence, would make it read whole tables instead.
        enable_seqscan="off",
        enable_hashjoin="off",
        enable_mergejoin="off",
        lock_timeout=str(LOCK_TIMEOUT_MS),
        statement_timeout=str(STATEMENT_TIMEOUT_MS),
        idle_in_transaction_session_timeout=str(IDLE_IN_TRANSACTION_TIMEOUT_MS),
        tcp_keepalives_idle="10",
        tcp_keepalives_interval="5",
        tcp_keepalives_count="3",
    )
    if plans_once:
        # PostgreSQL replans for an array of one row, which then costs more than the statement.
        settings["plan_cache_mode"] = "force_generic_plan"
    if role is not None:
        settings["role"] = role
    return settings


async def _connect(
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
        wanted = ", ".join(f"set_config({_quote(name)}, {_quote(value)}, false)" for name, value in server_settings.items())
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
