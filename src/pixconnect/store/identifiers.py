"""Ids in blocks: one round trip for hundreds of ids."""

from __future__ import annotations

import asyncio
from typing import LiteralString

from pixconnect.foundation.pool import Pool
from pixconnect.foundation.shares import for_everybody

_BLOCK_SIZES: dict[LiteralString, int] = {"charge_id": 512, "transfer_id": 512, "refund_id": 512}
"""As ``increment`` of the sequences in ``0001_holders_and_ledger.sql``."""


class IdBlocks:
    """Hands out ids below 2^53, never twice, roughly in order of time.

    Args:
        pool: Where the sequences are.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._left: dict[str, list[int]] = {name: [] for name in _BLOCK_SIZES}
        self._forgotten_count = 0
        self._locks = {name: asyncio.Lock() for name in _BLOCK_SIZES}

    def forget(self) -> None:
        """Throw away what is left: the database that gave it out may not remember."""
        for left in self._left.values():
            left.clear()
        self._forgotten_count += 1

    async def charge_id(self) -> int:
        """For a new charge."""
        return await self._take("charge_id")

    async def transfer_id(self) -> int:
        """For a new transfer."""
        return await self._take("transfer_id")

    async def refund_id(self) -> int:
        """For a new refund."""
        return await self._take("refund_id")

    async def _take(self, name: LiteralString) -> int:
        left = self._left[name]
        while not left:
            await self._fill(name, left)
        return left.pop()

    async def _fill(self, name: LiteralString, left: list[int]) -> None:
        async with self._locks[name]:
            if left:
                return
            forgotten_count = self._forgotten_count
            with for_everybody():
                first = await self._pool.fetchval(f"select nextval('{name}')")
            if forgotten_count != self._forgotten_count:
                return  # it may be from before
            left.extend(range(first + _BLOCK_SIZES[name] - 1, first - 1, -1))
