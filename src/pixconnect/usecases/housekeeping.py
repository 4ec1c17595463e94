"""What has to be tidied from time to time. Only one process at a time does."""

from __future__ import annotations

from typing import Final

from pixconnect.store import tally as tally_store
from pixconnect.usecases.context import Context

NOTES_MAX: Final = 20_000
"""Notes of one kind that one transaction takes up."""


async def fold_tallies(context: Context) -> int:
    """Add up what was noted for the totals of lists.

    Returns:
        How many notes were taken up; 0 also when another process is at it.
    """
    async with context.pool.acquire() as connection, connection.transaction():
        if not await tally_store.try_lock(connection):
            return 0
        return await tally_store.fold(connection, NOTES_MAX)
