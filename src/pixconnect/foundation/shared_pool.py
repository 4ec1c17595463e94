"""A pool that gives its connections to parties in turn, and at most half of them to one while others are there.

``shares.current_party`` says for whom a connection is. What the service does for all is a party of its own, and so is each
address that asks without a token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any

import asyncpg

from pixconnect.foundation.shares import FairPlaces, current_party

if TYPE_CHECKING:  # asyncpg's classes take a parameter in its stubs only
    _AnyPool = asyncpg.Pool[asyncpg.Record]
    _Connection = asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
else:
    _AnyPool = asyncpg.Pool


class SharedPool(_AnyPool):
    def __init__(self, url: str, *, places: FairPlaces, **options: Any) -> None:  # noqa: ANN401  the driver's own
        super().__init__(url, loop=None, record_class=asyncpg.Record, **options)
        self._places = places

    def acquire(self, *, timeout: float | None = None) -> _Acquired:  # type: ignore[override]  ours cannot be awaited
        return _Acquired(self._places, super().acquire, timeout)


class _Acquired:
    __slots__ = ("_acquire", "_lent", "_party", "_places", "_timeout_s")

    def __init__(
        self,
        places: FairPlaces,
        acquire: Callable[..., AbstractAsyncContextManager[_Connection]],
        timeout_s: float | None,
    ) -> None:
        self._places = places
        self._acquire = acquire
        self._timeout_s = timeout_s
        self._party: Hashable = None
        self._lent: AbstractAsyncContextManager[_Connection] | None = None

    async def __aenter__(self) -> _Connection:
        party = self._party = current_party.get()
        if not self._places.take_now(party):
            async with asyncio.timeout(self._timeout_s):
                await self._places.take(party)
        try:
            lent = self._lent = self._acquire(timeout=self._timeout_s)
            return await lent.__aenter__()
        except BaseException:
            self._places.give_back(party)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._lent is not None, "it was entered"
        try:
            await self._lent.__aexit__(kind, error, traceback)
        finally:
            self._places.give_back(self._party)
