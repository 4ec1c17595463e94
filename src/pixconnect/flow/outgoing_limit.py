"""Limits how much runs at once towards hosts that holders chose: for each holder, and in all.

The owner of a host decides how long it takes to answer. Each holder has a limit, so that the other holders do not wait;
when very many holders use theirs at once, they share the total limit in turn (``flow.shares``).
"""

import asyncio
from collections.abc import AsyncGenerator, Hashable
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakValueDictionary

from pixconnect.flow.shares import FairSemaphore, current_party

_WAITING_MAX: Final = 4096


class OutgoingLimit:
    def __init__(self, count: int, *, holder_max: int, what: str) -> None:
        self._in_all = FairSemaphore(count, waiting_max=_WAITING_MAX, what=what)
        self._holder_max = holder_max
        # Only of holders for whom something runs or waits: that keeps their semaphores alive.
        self._of_holder: WeakValueDictionary[Hashable, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def hold(self) -> AsyncGenerator[None]:
        """Wait until the current party may begin, and count it while the block runs; errors as ``FairSemaphore.acquire``."""
        party = current_party.get()
        own = self._of_holder.get(party)
        if own is None:
            own = self._of_holder[party] = asyncio.Semaphore(self._holder_max)
        async with own, self._in_all.hold(party):
            yield
