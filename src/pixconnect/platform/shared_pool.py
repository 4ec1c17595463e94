"""A pool that gives its connections to parties in turn, and at most half of them to one while others are active.

``shares.current_party`` is the party that a connection is for. The service's own work for all is a separate party, and so is
each address that makes requests without a token.

While no connection can be opened no caller waits for one: after a second each request fails at once, and the pool retries until
it has one again.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import asyncpg
import structlog

from pixconnect.platform.base import errors
from pixconnect.platform.database_failure import DATABASE_AWAY, DATABASE_BUSY, LOGIN_REFUSED
from pixconnect.platform.flow.shares import FairSemaphore, current_party, on_behalf_of_all

if TYPE_CHECKING:  # asyncpg's classes take a parameter in its stubs only
    _AnyPool = asyncpg.Pool[asyncpg.Record]
    _Connection = asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
else:
    _AnyPool = asyncpg.Pool


# A login without the role stays a separate error: its operator must see it.
_OF_ANOTHER_KIND: Final = (*DATABASE_AWAY, *DATABASE_BUSY, asyncpg.InsufficientPrivilegeError)


AWAY_AFTER_S: Final = 1.0  # how long opening connections fails before requests fail at once: a restart may be over by then
SLOW_S: Final = 0.5
"""A caller that gave up after this long has found the database away; an earlier cancellation proves nothing."""
LOOK_EVERY_S: Final = 0.25
_LOOK_TIMEOUT_S: Final = 3.0

_log = structlog.get_logger(__name__)

Look = Callable[["asyncpg.Connection[asyncpg.Record]"], Awaitable[None]]


class SharedPool(_AnyPool):
    # The driver's: it replaces connections of an earlier one.
    _generation: int

    def __init__(
        self,
        url: str,
        *,
        semaphore: FairSemaphore,
        init: Look | None = None,
        **options: Any,  # noqa: ANN401  the driver's own
    ) -> None:
        super().__init__(url, loop=None, record_class=asyncpg.Record, init=self._greet, **options)
        self.semaphore = semaphore
        self._look = init
        self._away_since_s: float | None = None
        self._login_refused: BaseException | None = None
        self._has_complained = False
        self._looking: asyncio.Task[None] | None = None
        self.primary: SharedPool = self
        """The pool of the server that has everything: another one only where this leads to a standby."""
        # Callers that each keep one and wait for another would deadlock.
        self._keeping = asyncio.Semaphore(max(1, options["max_size"] // 3))

    @asynccontextmanager
    async def keep(self) -> AsyncGenerator[_Connection]:
        """A connection for callers that take a second one meanwhile; few are kept, so that a second one is always free."""
        async with self._keeping, self.acquire() as connection:
            yield connection

    def expire(self) -> None:
        """Replace each open connection before it is used again."""
        self._generation += 1

    def acquire(self, *, timeout: float | None = None, insists: bool = False) -> _Acquired:  # type: ignore[override]  not awaitable
        """Return a connection; with ``insists`` it tries to open one although others failed."""
        return _Acquired(self, super().acquire, timeout, insists=insists)

    @property
    def away_for_s(self) -> float:
        """Return how long opening connections has failed, with none left; 0 otherwise."""
        # An open one may still be valid: while one exists, callers try it.
        if self._away_since_s is None or self.get_idle_size():
            return 0.0
        return time.monotonic() - self._away_since_s

    @property
    def is_away(self) -> bool:
        """Whether requests now fail at once because the database cannot be reached."""
        return self._away_since_s is not None and self.away_for_s > AWAY_AFTER_S

    def away_error(self) -> BaseException:
        """Return the error of requests while ``is_away``: the server refuses the login, or does not answer."""
        refused = self._login_refused
        return ConnectionRefusedError("the database is away") if refused is None else type(refused)(str(refused))

    def note_failure(self, error: BaseException, began_s: float) -> None:
        """Record that no connection could be opened, and retry until one can."""
        # A cancelled caller may have had less patience than the network: a proxy accepts a connection for a second before it
        # finds that there is no server, and callers are verified in less.
        has_given_up = isinstance(error, asyncio.CancelledError) and time.monotonic() - began_s > SLOW_S
        # A server that reports no free connection is present, and will have one.
        is_away = isinstance(error, DATABASE_AWAY) and not isinstance(error, asyncpg.InsufficientResourcesError)
        if not (is_away or has_given_up):
            return
        # Callers get "unreachable", and only an operator can end this: logged once per occurrence.
        if isinstance(error, ssl.SSLCertVerificationError) and not self._has_complained:
            self._has_complained = True
            _log.critical(
                "the database's certificate is not the one that was expected: look at sslrootcert, and at the name of the "
                "server, in PIXCONNECT_DATABASE_URL",
                error=str(error),
            )
        self._login_refused = error if isinstance(error, LOGIN_REFUSED) else None
        # Dated by the beginning of the try, and one task retries for all: of a thousand concurrent failures the first starts
        # it.
        if self._away_since_s is None and not self.is_closing():
            self._away_since_s = began_s
            self._looking = asyncio.create_task(self._keep_looking(), name="looks for the database")

    async def close(self) -> None:
        self._end_looking()
        await super().close()

    def terminate(self) -> None:
        self._end_looking()
        super().terminate()

    def _end_looking(self) -> None:
        if self._looking is not None:
            self._looking.cancel()

    async def _greet(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        if self._look is not None:
            await self._look(connection)
        self._away_since_s, self._has_complained = None, False

    async def _keep_looking(self) -> None:
        # On behalf of all: a party that has to wait its turn must not delay all others.
        with on_behalf_of_all():
            while self._away_since_s is not None:
                try:
                    async with self.acquire(timeout=_LOOK_TIMEOUT_S, insists=True) as connection:
                        # A connection that was idle proves nothing before the server has answered on it.
                        await connection.execute("select", timeout=_LOOK_TIMEOUT_S)
                    # Only after the check: a server that it refuses, such as a standby, counts as unreachable.
                    self._away_since_s = None
                except Exception:  # noqa: BLE001  any error: without this loop the database stays away for all
                    await asyncio.sleep(LOOK_EVERY_S)


class _Acquired:
    __slots__ = ("_acquire", "_acquired", "_insists", "_party", "_pool", "_timeout_s")

    def __init__(
        self,
        pool: SharedPool,
        acquire: Callable[..., AbstractAsyncContextManager[_Connection]],
        timeout_s: float | None,
        *,
        insists: bool,
    ) -> None:
        self._pool = pool
        self._acquire = acquire
        self._timeout_s = timeout_s
        self._insists = insists
        self._party: Hashable = None
        self._acquired: AbstractAsyncContextManager[_Connection] | None = None

    async def __aenter__(self) -> _Connection:
        pool = self._pool
        # Checked before the queue: otherwise each would wait for those before to fail, one timeout after the other.
        if pool.is_away and not self._insists:
            raise pool.away_error()
        party = self._party = current_party.get()
        semaphore = pool.semaphore
        if not semaphore.acquire_now(party):
            async with asyncio.timeout(self._timeout_s):
                await semaphore.acquire(party)
        # From here on the wait is the server's, and not other parties'.
        began_s = time.monotonic()
        try:
            acquired = self._acquired = self._acquire(timeout=self._timeout_s)
            return await acquired.__aenter__()
        except BaseException as error:
            # After any exception, a cancellation too: this is the only place that returns the permit.
            semaphore.release(party)
            pool.note_failure(error, began_s)
            # Nothing was requested yet. A server that admits no login, or lacks our tables during a restore, counts as
            # unreachable.
            if isinstance(error, asyncpg.PostgresError) and not isinstance(error, _OF_ANOTHER_KIND):
                raise ConnectionError(f"the database takes no connection: {error}") from error
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        acquired = errors.require(self._acquired, "it was entered")
        try:
            await acquired.__aexit__(kind, error, traceback)
        finally:
            # Also if the connection broke while it was released.
            self._pool.semaphore.release(self._party)
