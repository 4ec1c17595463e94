"""Tells the other processes that there is work, outside every transaction that makes some.

``NOTIFY`` inside a write transaction makes commits queue behind one lock. Here it is one statement of its own, sent at most
once in ``QUIET_S`` however much happens, and losing it costs no more than the time until somebody looks.
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
    """Says that there is something to do."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._speaking: asyncio.Task[None] | None = None
        self._has_more = False

    def notify(self) -> None:
        """There is something to do; returns at once."""
        self._has_more = True
        if self._speaking is None or self._speaking.done():
            self._speaking = asyncio.create_task(self._speak(), name="notifier")

    async def _speak(self) -> None:
        while self._has_more:
            self._has_more = False
            try:
                with for_everybody():
                    await self._pool.execute(f"notify {CHANNEL}")
            except DATABASE_FAILED:
                return  # whoever looks will find it
            await asyncio.sleep(QUIET_S)
