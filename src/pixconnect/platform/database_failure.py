"""Classifies database failures (unreachable, busy, our error), and tracks a full disk.

A new kind of error belongs here and into the table in ``tests/platform/test_database_failure.py``.

Every connection records a full disk, which counts until there is room again. Processes do not share the state, so each also
checks from time to time, on a health request. While the disk is full most reads and few writes work, so no other check of the
database detects it. Some small writes succeed for a while, so a success proves nothing: only a file that needs room does.
"""

import time
from typing import TYPE_CHECKING, Final, LiteralString

import asyncpg
import structlog

from pixconnect.platform.base import errors

if TYPE_CHECKING:  # its connections note here what they meet
    from pixconnect.platform.pool import Pool

MESSAGE: Final = "the database's disk is full"
# Sorts 2 MB in a file: more than the server keeps ready, and too little to disturb.
_NEEDS_ROOM: Final[LiteralString] = """
    select count(*) from (
        select repeat('x', 1000) as text from generate_series(1, 2000) as n order by text, n offset 0
    ) as sorted
"""
LOOK_EVERY_S: Final = 10.0
_log = structlog.get_logger(__name__)


class FullDisk:
    def __init__(self) -> None:
        self.is_full = False
        self._looks_at_s = 0.0

    def note(self) -> None:
        """Record that the database had no room for a write."""
        if not self.is_full:
            self.is_full = True
            _log.critical(f"{MESSAGE}: nothing is written until there is room")

    async def check(self, pool: "Pool", timeout_s: float) -> None:
        """Raise ``ServiceUnavailable`` while the disk is full; checks it again if it was full or the last check is old."""
        now_s = time.monotonic()
        if not self.is_full:
            if now_s < self._looks_at_s:
                return
            timeout_s /= 3
        self._looks_at_s = now_s + LOOK_EVERY_S
        try:
            async with pool.acquire(timeout=timeout_s) as connection, connection.transaction(readonly=True):
                await connection.execute("set local work_mem = '64kB'", timeout=timeout_s)
                await connection.fetchval(_NEEDS_ROOM, timeout=timeout_s)
        except asyncpg.DiskFullError:
            self.note()
            raise errors.ServiceUnavailable(MESSAGE) from None
        except DATABASE_FAILED as error:
            # Other checks report other faults.
            if not self.is_full:
                return
            if isinstance(error, asyncpg.InsufficientResourcesError):
                raise errors.ServiceUnavailable(MESSAGE) from None
            raise
        if self.is_full:
            self.is_full = False
            _log.warning("the database's disk has room again")


database_disk: Final = FullDisk()
"""A process has one database, and several pools to it."""


LOGIN_REFUSED: Final = (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError)
"""The server answers and does not accept the address: a wrong password, role or database, or no line in pg_hba.conf."""

DATABASE_AWAY: Final = (
    OSError,  # the network's, the resolver's, TLS's, and every timeout
    asyncpg.PostgresConnectionError,  # class 08
    asyncpg.InterfaceError,  # "connection is closed", "connection has been released", "pool is closing"
    asyncpg.InternalClientError,  # a connection that ended between two messages of one statement
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.exceptions.DatabaseDroppedError,
    asyncpg.exceptions.IdleSessionTimeoutError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.exceptions.TransactionTimeoutError,
    # After a failover we may still be connected to a server that is a standby by now, or have been directed to one.
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InsufficientResourcesError,  # class 53: no disk, no memory, no connections left
    asyncpg.PostgresSystemError,  # class 58: its files cannot be read or written
    # A server that does not know us yet, or no longer: we log in with each new connection.
    *LOGIN_REFUSED,
)
"""The database cannot answer now. Running work was not done, except for a COMMIT, whose outcome is unknown."""

DATABASE_BUSY: Final = (
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,  # also a standby's that was overtaken while it read
    asyncpg.InvalidCachedStatementError,  # tables were changed meanwhile
)
"""The database could not do it in time. The transaction was not done, including its COMMIT."""

DATABASE_REFUSES: Final = (asyncpg.InsufficientPrivilegeError,)
"""A right is missing: `migrate` restores it. The statement was not executed."""

DATABASE_FAILED: Final = (*DATABASE_AWAY, asyncpg.PostgresError)  # any failure; background work logs it and retries


def is_of_own_file(error: BaseException) -> bool:
    """Whether one of our files failed and not the network: for a socket the system names no file."""
    return isinstance(error, OSError) and error.filename is not None


def lacks_memory(error: BaseException) -> bool:
    """Whether this process got no memory; the driver makes another error of that where it writes a value down."""
    return isinstance(error, MemoryError) or isinstance(error.__cause__, MemoryError)


def explain_failure(error: BaseException) -> str:
    """Explain why the database cannot do it now: a full one, or one without connections, is reachable."""
    match error:
        case asyncpg.InvalidAuthorizationSpecificationError():
            return "the database refuses the service's login"
        case asyncpg.InvalidCatalogNameError():
            return "the server has no such database"
        case asyncpg.InsufficientPrivilegeError():
            return "the database refuses the service a right that it needs"
        case asyncpg.DiskFullError():
            return MESSAGE
        case asyncpg.OutOfMemoryError():
            return "the database is out of memory"
        case asyncpg.TooManyConnectionsError():
            return "the database has no connection left"
        case asyncpg.InsufficientResourcesError():
            return "the database has reached a limit of its server"
        case _:
            return "the database cannot be reached"


def explain_undone(error: BaseException) -> str:
    """Explain it to a caller whose request was not executed: a 503, in any process."""
    return f"{explain_failure(error)}; nothing was done"
