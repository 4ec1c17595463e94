"""How much may be under way to hosts that holders chose: so much for one holder, and so much in all.

Whoever chooses a host chooses how long it takes. A holder's own bound keeps places free for the others without a wait; the
bound of all is shared out in turn (``foundation.shares``), should very many take what they can.
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
        count: In all.
        holder_max: Of one holder.
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
