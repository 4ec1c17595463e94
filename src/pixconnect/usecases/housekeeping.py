"""What has to be tidied from time to time. Only one process at a time does."""

from typing import TYPE_CHECKING, Final

from pixconnect.store import housekeeping as housekeeping_store
from pixconnect.store import tally as tally_store

if TYPE_CHECKING:
    from pixconnect.usecases.context import Context

_NOTES_MAX: Final = 20_000


async def fold_tallies(context: "Context") -> int:
    """Add up what write groups have noted for the totals of lists.

    Returns:
        How many notes were taken up; 0 also when another process is at it.
    """
    async with context.pool.acquire() as connection, connection.transaction():
        if not await housekeeping_store.try_lock(connection):
            return 0
        return await tally_store.fold(connection, _NOTES_MAX)
