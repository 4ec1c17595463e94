"""A gate that many may pass at once, or one alone: what writes an order passes, what moves the clock goes alone."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Gate:
    """Shared by those who pass; whoever goes alone waits for them, and those who come later wait for it."""

    def __init__(self) -> None:
        self._alone = asyncio.Lock()
        self._passing_count = 0
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    @asynccontextmanager
    async def passing(self) -> AsyncGenerator[None]:
        """Among others."""
        if self._alone.locked():
            async with self._alone:
                self._enter()
        else:
            self._enter()
        try:
            yield
        finally:
            self._passing_count -= 1
            if not self._passing_count:
                self._is_empty.set()

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[None]:
        """With nobody else inside."""
        async with self._alone:
            await self._is_empty.wait()
            yield

    def _enter(self) -> None:
        self._passing_count += 1
        self._is_empty.clear()
