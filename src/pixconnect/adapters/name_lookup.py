"""Looks up the names of hosts that somebody else chose, so that one who chooses names that hang stops nobody else's.

::

    find ─► failed lately? ─► together with those of this holder who ask the same ─► a place ─► the name servers, 2 s

A look-up that nobody waits for any more is dropped, whether it has begun or not. What is found is judged by whoever asked, and
not remembered.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Final

from pixconnect.adapters.outgoing_places import OutgoingPlaces
from pixconnect.foundation.shares import current_party

Lookup = Callable[[str, int], Awaitable[Sequence[str]]]
"""Finds the addresses of a name, given with its port; raises ``OSError`` where there are none."""

LOOKUP_S: Final = 2.0
"""How long a look-up may take, once it has its place."""
LOOKUPS_MAX: Final = 64
LOOKUPS_OF_HOLDER_MAX: Final = 4
FAILED_FOR_S: Final = 5.0
"""How long a failure is believed: who mends a name sees it soon, and who asks for one that hangs seldom waits for it."""
_FAILURES_MAX: Final = 1024


class _Asked:
    """A look-up that is under way, and how many wait for it."""

    __slots__ = ("answer", "waiting_count")

    def __init__(self, answer: asyncio.Task[Sequence[str]]) -> None:
        self.answer = answer
        self.waiting_count = 0


class NameLookups:
    """The look-ups of one process.

    Args:
        lookup: Asks.
        lookup_s: How long one may take.
    """

    def __init__(self, lookup: Lookup, *, lookup_s: float = LOOKUP_S) -> None:
        self._lookup = lookup
        self._lookup_s = lookup_s
        self._places = OutgoingPlaces(LOOKUPS_MAX, holder_max=LOOKUPS_OF_HOLDER_MAX, what="look-ups of names")
        self._asked: dict[tuple[Hashable, str, int], _Asked] = {}
        """By holder: nobody waits in the line of another's look-ups."""
        self._failed: OrderedDict[str, tuple[float, str]] = OrderedDict()

    async def find(self, host: str, port: int) -> Sequence[str]:
        """All addresses of a name.

        Raises:
            OSError: There are none, or none could be found out in time; its ``strerror`` says why.
            ServiceUnavailable: Too many wait already.
        """
        self._check_failed(host)
        key = (current_party.get(), host, port)
        asked = self._asked.get(key)
        if asked is None:
            asked = self._asked[key] = _Asked(asyncio.ensure_future(self._ask(host, port)))
            asked.answer.add_done_callback(_hear)
        asked.waiting_count += 1
        try:
            return await asyncio.shield(asked.answer)
        finally:
            asked.waiting_count -= 1
            if not asked.waiting_count:
                asked.answer.cancel()
                del self._asked[key]

    async def _ask(self, host: str, port: int) -> Sequence[str]:
        async with self._places.lend():
            self._check_failed(host)
            try:
                async with asyncio.timeout(self._lookup_s):
                    return await self._lookup(host, port)
            except TimeoutError:
                raise self._failure(host, f"no answer within {self._lookup_s:g} s") from None
            except (OSError, UnicodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else None
                raise self._failure(host, reason or type(error).__name__) from error

    def _failure(self, host: str, reason: str) -> OSError:
        """Why a name could not be looked up; remembered for a while."""
        self._failed[host] = (asyncio.get_running_loop().time() + FAILED_FOR_S, reason)
        self._failed.move_to_end(host)
        if len(self._failed) > _FAILURES_MAX:
            self._failed.popitem(last=False)
        return OSError(0, reason)

    def _check_failed(self, host: str) -> None:
        failed = self._failed.get(host)
        if failed is None:
            return
        until_s, reason = failed
        if asyncio.get_running_loop().time() < until_s:
            raise OSError(0, reason)
        del self._failed[host]


def _hear(answer: asyncio.Task[Sequence[str]]) -> None:
    """Nobody may be left to hear of a failure."""
    if not answer.cancelled():
        answer.exception()
