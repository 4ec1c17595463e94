"""A pool that gives its connections to parties in turn, and at most half of them to one while others are there.

``shares.current_party`` says for whom a connection is. What the service does for all is a party of its own, and so is each
address that asks without a token.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Hashable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from pixconnect.domain.frame import errors
from pixconnect.flow.shares import FairSemaphore, current_party
from pixconnect.foundation.database_failure import DATABASE_AWAY, DATABASE_BUSY

if TYPE_CHECKING:  # asyncpg's classes take a parameter in its stubs only
    _AnyPool = asyncpg.Pool[asyncpg.Record]
    _Connection = asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
else:
    _AnyPool = asyncpg.Pool


# A login without the role stays one: whoever runs the program has to be told.
_OF_ANOTHER_KIND: Final = (*DATABASE_AWAY, *DATABASE_BUSY, asyncpg.InsufficientPrivilegeError)


class SharedPool(_AnyPool):
    _generation: int  # the driver's: it replaces connections of an earlier one

    def __init__(self, url: str, *, semaphore: FairSemaphore, **options: Any) -> None:  # noqa: ANN401  the driver's own
        super().__init__(url, loop=None, record_class=asyncpg.Record, **options)
        self._semaphore = semaphore
        # Those who all keep one and wait for another would wait for ever.
        self._keeping = asyncio.Semaphore(max(1, options["max_size"] // 3))

    @asynccontextmanager
    async def keep(self) -> AsyncGenerator[_Connection]:
        """A connection for whoever takes another while keeping it: so few are kept at once that there always is one."""
        async with self._keeping, self.acquire() as connection:
            yield connection

    def expire(self) -> None:
        """Replace each open connection before it is used again."""
        self._generation += 1

    def acquire(self, *, timeout: float | None = None) -> _Acquired:  # type: ignore[override]  ours cannot be awaited
        return _Acquired(self._semaphore, super().acquire, timeout)


class _Acquired:
    __slots__ = ("_acquire", "_acquired", "_party", "_semaphore", "_timeout_s")

    def __init__(
        self,
        semaphore: FairSemaphore,
        acquire: Callable[..., AbstractAsyncContextManager[_Connection]],
        timeout_s: float | None,
    ) -> None:
        self._semaphore = semaphore
        self._acquire = acquire
        self._timeout_s = timeout_s
        self._party: Hashable = None
        self._acquired: AbstractAsyncContextManager[_Connection] | None = None

    async def __aenter__(self) -> _Connection:
        party = self._party = current_party.get()
        if not self._semaphore.acquire_now(party):
            async with asyncio.timeout(self._timeout_s):
                await self._semaphore.acquire(party)
        try:
            acquired = self._acquired = self._acquire(timeout=self._timeout_s)
            return await acquired.__aenter__()
        except BaseException as error:
            self._semaphore.release(party)
            # Nothing was asked of it yet. A server that lets nobody in, or lacks our tables while a dump is restored, is away.
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
            self._semaphore.release(self._party)
