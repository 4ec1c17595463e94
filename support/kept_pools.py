"""Connection pools that outlive a test, because a new connection with cold caches costs the server five times as much."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakKeyDictionary

from msgspec import Struct

from pixconnect.platform.pool import Pool, close_pool, open_pool

NAME: Final = "kept for tests"  # the ``application_name`` of such connections


class _Kind(Struct, frozen=True):
    url: str
    role: str | None
    connections_max: int


class KeptPools:
    """The pools of the loop that all tests of a run share, for databases that outlive a test. Other pools are closed."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._urls = set[str]()
        self._free: defaultdict[_Kind, list[Pool]] = defaultdict(list)
        self.urls = WeakKeyDictionary[Pool, str]()  # by which address each pool was opened

    def keep(self, *urls: str) -> None:
        """Keep the pools for these addresses on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._urls.update(urls)

    @asynccontextmanager
    async def take(self, url: str, *, role: str | None, connections_max: int, name: str) -> AsyncIterator[Pool]:
        """A pool for one service; ``name`` is its ``application_name`` if it is not kept."""
        kind = _Kind(url, role, connections_max)
        is_kept = url in self._urls and asyncio.get_running_loop() is self._loop
        free = self._free[kind] if is_kept else []
        pool = free.pop() if free else None
        if pool is None:
            pool = await open_pool(
                url, role=role, schema="pixconnect", connections_max=connections_max, name=NAME if is_kept else name
            )
            self.urls[pool] = url
        try:
            yield pool
        finally:
            if is_kept and not pool.is_closing() and pool.get_idle_size() == pool.get_size():
                self._free[kind].append(pool)
            else:
                await close_pool(pool)

    async def forget(self, url: str) -> None:
        self._urls.discard(url)
        for kind in [kind for kind in self._free if kind.url == url]:
            for pool in self._free.pop(kind):
                await close_pool(pool)


kept_pools: Final = KeptPools()
