"""Whether the database's disk is full: every connection notes it, and it counts until there is room again.

While it is full much can be read and little written, so no other look at the database finds it out. Some small writes go on for
a while, so a success says nothing: only a file that needs room does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, LiteralString

import asyncpg
import structlog

from pixconnect.domain.frame import errors

if TYPE_CHECKING:  # its connections note here what they meet
    from pixconnect.foundation.pool import Pool

MESSAGE: Final = "the database's disk is full"
# Sorts 2 MB in a file: more than the server keeps ready, and less than anybody notices.
_NEEDS_ROOM: Final[LiteralString] = """
    select count(*) from (
        select repeat('x', 1000) as text from generate_series(1, 2000) as n order by text, n offset 0
    ) as sorted
"""
_log = structlog.get_logger(__name__)


class FullDisk:
    def __init__(self) -> None:
        self.is_full = False

    def note(self) -> None:
        """Remember that the database had no room for a write."""
        if not self.is_full:
            self.is_full = True
            _log.critical(f"{MESSAGE}: nothing is written until there is room")

    async def check(self, pool: Pool, timeout_s: float) -> None:
        """Look whether there is room again, if there was none; raises ``ServiceUnavailable``."""
        if not self.is_full:
            return
        try:
            async with pool.acquire(timeout=timeout_s) as connection, connection.transaction(readonly=True):
                await connection.execute("set local work_mem = '64kB'", timeout=timeout_s)
                await connection.fetchval(_NEEDS_ROOM, timeout=timeout_s)
        except asyncpg.InsufficientResourcesError:
            raise errors.ServiceUnavailable(MESSAGE) from None
        self.is_full = False
        _log.warning("the database's disk has room again")


database_disk: Final = FullDisk()
"""A process has one database, and several pools to it."""
