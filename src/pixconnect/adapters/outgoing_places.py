"""Limits how much runs at once towards hosts that holders chose: for each holder, and in all.

Whoever chooses a host also decides how long it takes. The limit of each holder leaves room for the others without a wait; the
limit of all is shared in turn (``foundation.shares``) when very many holders use theirs.
"""

import asyncio
from collections.abc import AsyncGenerator, Hashable
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakValueDictionary

from pixconnect.foundation.shares import FairPlaces, current_party

_WAITING_MAX: Final = 4096


class OutgoingPlaces:
    """Places for what goes out.

    Args:
        what: Is done there, for who is refused: plural.
    """

    def __init__(self, count: int, *, holder_max: int, what: str) -> None:
        self._in_all = FairPlaces(count, waiting_max=_WAITING_MAX, what=what)
        self._holder_max = holder_max
        self._of_holder: WeakValueDictionary[Hashable, asyncio.Semaphore] = WeakValueDictionary()
        """Of those for whom something is under way or waits; who has or wants a place keeps it alive."""

    @asynccontextmanager
    async def lend(self) -> AsyncGenerator[None]:
        """A place for whom this is done, for as long as the block lasts.

        Raises:
            ServiceUnavailable: Too many wait already.
        """
        party = current_party.get()
        own = self._of_holder.get(party)
        if own is None:
            own = self._of_holder[party] = asyncio.Semaphore(self._holder_max)
        async with own, self._in_all.lend(party):
            yield
