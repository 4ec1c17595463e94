"""Adding up what was noted for the totals (tallies), in one process at a time."""

from __future__ import annotations

from typing import Final

from pixconnect.store.frame import tally as tally_store
from pixconnect.usecases.frame.context import Context

NOTES_MAX: Final = 20_000
"""Notes of one kind that one transaction adds up."""


async def fold_tallies(context: Context) -> int:
    """Add up the notes on new and changed rows, and return how many there were; 0 also while another process does it."""
    async with context.pool.acquire() as connection, connection.transaction():
        if not await tally_store.try_lock_tally(connection):
            return 0
        return await tally_store.fold(connection, NOTES_MAX)
