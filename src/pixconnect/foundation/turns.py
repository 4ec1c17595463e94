"""Turns on the event loop: a party that asks for much gets what the others leave, as long as there are others.

A process has one event loop, and whatever one request needs of it is what another's waits for at each of its steps. So
while several parties are there, who already has requests under way waits for the next turn::

    request ─► its party is alone, or has little under way ────────────► run
            └► line of its party ─► every 4 ms, one of each in turn ───► run
                                    (more while the loop is on time, hardly any while it is late)

How late a timer comes is what others wait for: behind what the loop has to do, and behind other processes on the same
cores. A party that is alone has no bound, and while nobody waits nothing is measured.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Callable, Hashable
from contextlib import asynccontextmanager
from typing import Final

from pixconnect.foundation.shares import PRESENT_S, FairPlaces, FairQueue

AT_ONCE_FREELY: Final = 2
"""Requests of a party that run whatever others do."""
AT_ONCE_MAX: Final = 16
"""Requests of a party that run at most while others are there."""
LOOK_EVERY_S: Final = 0.004
LATE_S: Final = 0.002
"""A timer is exact to a millisecond; one that comes later than this found the loop, or the core, taken."""
LET_IN_MAX: Final = 16
"""Requests let in at one look."""
REST_MAX_S: Final = 0.02
"""However late the loop is, one request is let in after this: what makes it late may be none of ours."""
REST_TIMES: Final = 3
"""How much longer than a long request the rest after it is."""

_Waiter = tuple[Hashable, "asyncio.Future[None]"]


class Turns:
    """Lets requests run.

    Args:
        monotonic_s: Read at each look; the loop's own time stands still while something runs.
    """

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._under_way: dict[Hashable, int] = {}
        self._waiting: FairQueue[_Waiter] = FairQueue(sys.maxsize, _keep)
        self._last_party: Hashable = None
        """Who asked last..."""
        self._other_at_s = float("-inf")
        """...and when somebody else had asked before."""
        self._last_at_s = float("-inf")
        self._look_at_s = 0.0
        self._let_in_at_s = float("-inf")
        self._let_in_count = 1
        self._look: asyncio.TimerHandle | None = None

    def take_now(self, party: Hashable) -> bool:
        """Begin a request if it need not wait; otherwise ``take`` is next."""
        now_s = asyncio.get_running_loop().time()
        if party != self._last_party:
            self._other_at_s = self._last_at_s
            self._last_party = party
        self._last_at_s = now_s
        under_way_count = self._under_way.get(party, 0)
        # Nobody waits in most processes at most times: then this is all.
        if (under_way_count < AT_ONCE_FREELY and not self._waiting.has(party)) or now_s - self._other_at_s >= PRESENT_S:
            self._under_way[party] = under_way_count + 1
            return True
        return False

    async def take(self, party: Hashable) -> None:
        """Wait for a turn."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.put(party, (party, turn))
        if self._look is None:
            self._look_again()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(party)
            raise

    def give_back(self, party: Hashable) -> None:
        """End what ``take_now`` or ``take`` began."""
        left_count = self._under_way[party] - 1
        if left_count:
            self._under_way[party] = left_count
        else:
            del self._under_way[party]

    def _look_again(self) -> None:
        self._look_at_s = self._monotonic_s() + LOOK_EVERY_S
        self._look = asyncio.get_running_loop().call_later(LOOK_EVERY_S, self._let_in)

    def _let_in(self) -> None:
        """Begin what has waited, as much as the loop can take."""
        now_s = self._monotonic_s()
        is_alone = asyncio.get_running_loop().time() - self._other_at_s >= PRESENT_S
        self._begin(sys.maxsize, (lambda _: True) if is_alone else self._has_less_than_another)
        if now_s - self._look_at_s <= LATE_S:
            count = self._let_in_count = min(self._let_in_count + 1, LET_IN_MAX)
        else:
            self._let_in_count = 1
            count = 1 if now_s - self._let_in_at_s >= REST_MAX_S else 0
        if self._begin(count, lambda party: self._under_way.get(party, 0) < AT_ONCE_MAX):
            self._let_in_at_s = now_s
        self._look = None
        if len(self._waiting):
            self._look_again()

    def _begin(self, count_max: int, may_begin: Callable[[Hashable], bool]) -> int:
        """Begin some of what waits, one of each party in turn, and say how many that were."""
        count = 0
        while count < count_max and (waiter := self._waiting.take_first(may_begin)) is not None:
            party, turn = waiter
            if not turn.done():
                self._under_way[party] = self._under_way.get(party, 0) + 1
                turn.set_result(None)
                count += 1
        return count

    def _has_less_than_another(self, party: Hashable) -> bool:
        """Whether a party is not the greedy one: several that ask for as much as each other are not held back."""
        own_count = self._under_way.get(party, 0)
        return own_count < AT_ONCE_MAX and any(count > own_count for count in self._under_way.values())


class LongTurns:
    """Lets requests run of which a few are enough to fill cores and connections, such as pages of 1,000.

    Beside others a party has one at a time, and then rests three times as long as that one took: what is written of the answer
    after its turn, and what the database does for it, come on top.
    """

    def __init__(self) -> None:
        self._places = FairPlaces(sys.maxsize, waiting_max=sys.maxsize, what="long requests", share_max=1)

    @asynccontextmanager
    async def lend(self, party: Hashable) -> AsyncGenerator[None]:
        """Wait for a turn, for as long as the block lasts."""
        loop = asyncio.get_running_loop()
        if not self._places.take_now(party):
            await self._places.take(party)
        began_at_s = loop.time()
        try:
            yield
        finally:
            loop.call_later(REST_TIMES * (loop.time() - began_at_s), self._places.give_back, party)


def _keep(_: _Waiter) -> None:
    raise AssertionError("there is room for everybody")
