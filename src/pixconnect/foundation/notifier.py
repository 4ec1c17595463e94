"""Wakes the other processes by one debounced ``NOTIFY``, outside every transaction that makes work for them.

``NOTIFY`` inside a write transaction makes commits queue behind one lock. Here it is a statement of its own, sent at most once
in ``QUIET_S``. A lost one only costs the time until the others poll.
"""

from __future__ import annotations

import asyncio
from typing import Final

from pixconnect.foundation.database_failure import DATABASE_FAILED
from pixconnect.foundation.pool import Pool
from pixconnect.foundation.shares import for_everybody

CHANNEL: Final = "pixconnect_work"
QUIET_S: Final = 0.005


class Notifier:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._speaking: asyncio.Task[None] | None = None
        self._has_more = False

    def notify(self) -> None:
        """Wake the others soon; returns at once."""
        self._has_more = True
        if self._speaking is None or self._speaking.done():
            self._speaking = asyncio.create_task(self._speak(), name="notifier")

    async def _speak(self) -> None:
        while self._has_more:
            self._has_more = False
            try:
                # On behalf of all, or it would wait for a connection in the share of whoever asked first.
                with for_everybody():
                    await self._pool.execute(f"notify {CHANNEL}")
            # The others will find the work when they poll.
            except DATABASE_FAILED:
                return
            await asyncio.sleep(QUIET_S)
