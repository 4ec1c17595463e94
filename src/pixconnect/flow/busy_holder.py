"""The holder that sends more than all others together: it has batches of its own, written beside theirs.

A batch waits for the slowest of its balances, and workers and other processes also lock the balance of the holder that
sends most. So the others' requests must neither be in one batch with its requests nor behind one::

    queue ─► a1 a2 a3 a4 a5 ─► batches of a ─────────────┐ at the same time
          └► b1 c1 ──────────► batches of everybody else ┘

Its batches follow one another like all others, so it loses nothing; and requests that come later find it separated
already.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, Final

from pixconnect.flow.shares import FairQueue

SENT_MIN: Final = 7
"""What it has in the last batch and waiting at least: batches of its own cost commits of their own."""
KEPT_S: Final = 1.0
"""How long it has them after nothing more of it came."""


class BusyHolder:
    """The busy holder in the queue of one operation, if there is one.

    Args:
        write_next: Writes and answers what waits of this holder and says whether there was anything; raises nothing.
        on_end: Hears that the holder's requests go with everybody else's again.
    """

    def __init__(
        self, queue: FairQueue[Any], write_next: Callable[[], Awaitable[bool]], on_end: Callable[[], None]
    ) -> None:
        self._queue = queue
        self._write_next = write_next
        self._on_end = on_end
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_closing = False
        self.holder_id: int | None = None

    def choose(self, written: Iterable[int]) -> None:
        """Begin separate batches for the holder that sends most; called while no common batch is being written.

        Args:
            written: Whose requests the last one of everybody's batches had. What came meanwhile is often less than that.
        """
        if self.holder_id is not None:
            return
        holder_id = self._queue.find_dominant(Counter(written), SENT_MIN)
        if isinstance(holder_id, int):
            self.holder_id = holder_id
            self._task = asyncio.create_task(self._run(), name="batches of a busy holder")

    def wake(self) -> None:
        """Say that something of it has come."""
        self._wake.set()

    def end_soon(self) -> None:
        """Write what waits of it, and then wait for no more."""
        self._is_closing = True
        self._wake.set()

    async def _run(self) -> None:
        try:
            while await self._write_next() or await self._has_more():
                pass
        finally:
            # Nothing is awaited between the last look and this, so nothing is left behind.
            self.holder_id = None
            self._on_end()

    async def _has_more(self) -> bool:
        self._wake.clear()
        if self._queue.has(self.holder_id):
            return True
        if not self._is_closing:
            with suppress(TimeoutError):
                async with asyncio.timeout(KEPT_S):
                    await self._wake.wait()
        return self._queue.has(self.holder_id)
