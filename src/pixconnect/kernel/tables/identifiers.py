"""Ids in blocks: one round trip for hundreds of ids.

Each process keeps blocks of ids for new rows. Each batch takes its own block for its events and entries once it has locked the
changed rows, so that ids rise in the order in which a resource changed.
"""

from __future__ import annotations

import asyncio
from typing import Final, LiteralString

from pixconnect.kernel.tables.clock import DatabaseClock, clock_of
from pixconnect.kernel.tables.table import fetch_row
from pixconnect.platform.flow.shares import on_behalf_of_all
from pixconnect.platform.pool import COMMIT_TIMEOUT_S, Connection, Pool

# As ``increment`` of the sequences in the schema.
_BLOCK_SIZES: dict[LiteralString, int] = {"charge_id": 512, "transfer_id": 512, "refund_id": 512, "location_id": 512}


class IdBlocks:
    """Assigns ids below 2^53, never twice, roughly in order of time."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._left: dict[str, list[int]] = {name: [] for name in _BLOCK_SIZES}
        self._forgotten_count = 0
        self._locks = {name: asyncio.Lock() for name in _BLOCK_SIZES}

    def forget(self) -> None:
        """Discard the remaining ids: after a loss the database may assign them again."""
        for left in self._left.values():
            left.clear()
        self._forgotten_count += 1

    async def charge_id(self) -> int:
        return await self._take("charge_id")

    async def transfer_id(self) -> int:
        return await self._take("transfer_id")

    async def refund_id(self) -> int:
        return await self._take("refund_id")

    async def location_id(self) -> int:
        return await self._take("location_id")

    async def _take(self, name: LiteralString) -> int:
        left = self._left[name]
        # A block may be used up, or discarded, between its arrival and our turn.
        while not left:
            await self._fill(name, left)
        return left.pop()

    async def _fill(self, name: LiteralString, left: list[int]) -> None:
        async with self._locks[name]:
            # Another caller has filled it while we waited for the lock.
            if left:
                return
            forgotten_count = self._forgotten_count
            # A block serves every later caller, so it does not wait in one holder's queue.
            with on_behalf_of_all():
                # It is a separate commit, which may wait for a standby.
                take: LiteralString = f"select nextval('{name}') where refuse_old_session()"
                first = await self._pool.fetchval(take, timeout=COMMIT_TIMEOUT_S)
            if forgotten_count != self._forgotten_count:
                # The sequence may be that of a database that was replaced since.
                return
            left.extend(range(first + _BLOCK_SIZES[name] - 1, first - 1, -1))


BLOCK_SIZE: Final = 2048
"""Ids of one group for its events, and as many for its entries; as ``increment`` in the schema."""

_OPEN: Final[LiteralString] = """
    select clock_timestamp() as real_now, offset_us, revision, nextval('write_group_id') as first_id from clock
    where refuse_old_session()
"""


async def open_group(connection: Connection) -> tuple[DatabaseClock, int]:
    """Begin a group, with all changed rows locked; return the clock and the first id of the group's block."""
    row = await fetch_row(connection, _OPEN)
    return clock_of(row), row["first_id"]


async def take_block(pool: Connection | Pool) -> int:
    """Return the first id of a dedicated block, for an entry whose id is needed before its group's."""
    return await pool.fetchval("select nextval('write_group_id') where refuse_old_session()")
