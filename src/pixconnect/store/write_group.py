"""What every write group reads first."""

from __future__ import annotations

from typing import Final, LiteralString

from pixconnect.domain import errors
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.clock import DatabaseClock, clock_of

BLOCK_SIZE: Final = 2048
"""Ids of one group for its events, and as many for its entries; as ``increment`` in ``0001_holders_and_ledger.sql``."""

_OPEN: Final[LiteralString] = """
    select clock_timestamp() as real_now, offset_us, revision, nextval('write_group_id') as first_id from clock
"""


async def open_group(connection: Connection) -> tuple[DatabaseClock, int]:
    """Begin to write: called in a transaction, after everything that the group changes has been locked.

    Returns:
        The clock, and the first id of the group's block.
    """
    row = await connection.fetchrow(_OPEN)
    if row is None:
        raise errors.InvariantBroken("the clock has one row")
    return clock_of(row), row["first_id"]


_TAKE_BLOCK: Final[LiteralString] = "select nextval('write_group_id')"


async def take_block(pool: Pool) -> int:
    """The first id of a block of its own, for an entry whose id must be known before its group."""
    return await pool.fetchval(_TAKE_BLOCK)
