"""A lock that many may share, or one may hold alone: writing an order shares it, moving the clock holds it alone."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class SharedLock:
    """A writer that wants it exclusively waits for those who share it; all who come later wait for that writer."""

    def __init__(self) -> None:
        self._alone = asyncio.Lock()
        self._sharing_count = 0
        self._is_free = asyncio.Event()
        self._is_free.set()

    @asynccontextmanager
    async def shared(self) -> AsyncGenerator[None]:
        # The inner lock is held only while entering: those who share must not exclude each other.
        if self._alone.locked():
            async with self._alone:
                self._enter()
        else:
            self._enter()
        try:
            yield
        finally:
            self._sharing_count -= 1
            if not self._sharing_count:
                self._is_free.set()

    @asynccontextmanager
    async def exclusive(self) -> AsyncGenerator[None]:
        async with self._alone:
            await self._is_free.wait()
            yield

    def _enter(self) -> None:
        self._sharing_count += 1
        self._is_free.clear()
