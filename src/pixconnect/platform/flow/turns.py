"""Shares the event loop: while others are active, a party with many requests gets the remaining time.

All requests of a process wait for the same event loop at each of their steps. So while several parties are active, a party that
already has requests in progress waits for a turn::

    request ─► its party is alone, or has little in progress ──────────► run
            └► queue of its party ► when one of those few has ended ───► run
                                  └► every 4 ms, one of each in turn ──► run
                                    (more while the loop is on time, hardly any while it is late)

A timer that comes late shows how long others wait, for this loop and for other processes on the same cores. A party that is
alone has no limit, and without waiting requests nothing is measured.

Long requests, of which a few fill cores and connections, wait for another turn before that one: beside others a party has one
of them at a time, and then rests for three times as long as it took.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Callable, Hashable
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Final

from pixconnect.platform.base import errors
from pixconnect.platform.flow.shares import FairQueue, FairSemaphore, RecentParties

# Requests of a party that run regardless of others: with four a hot account keeps more than half of its speed.
AT_ONCE_FREELY: Final = 4
AT_ONCE_MAX: Final = 32  # requests of a party that run at once while others are active
LOOK_EVERY_S: Final = 0.004
# Timers are exact to a millisecond. One that is later than this found the loop or the core busy.
LATE_S: Final = 0.002
ADMITTED_MAX: Final = 16  # requests that begin at one check
# However late the loop is, one request begins after this, because something else may make it late.
REST_MAX_S: Final = 0.02
REST_TIMES: Final = 3  # a party's rest after a long request, as a multiple of its duration
# Maximum rest, even after a replay of minutes or a page behind a slow database: the next one is answered in time.
LONG_REST_MAX_S: Final = 5.0

_Waiter = tuple[Hashable, "asyncio.Future[None]"]


class Turns:
    """The turns of one process, shared by all work of its parties."""

    # ``monotonic_s`` is read at each look, because the loop's own time stands still while a callback runs.
    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._parties = RecentParties()
        self._monotonic_s = monotonic_s
        self._long = FairSemaphore(
            sys.maxsize, waiting_max=sys.maxsize, what="long requests", share_max=1, parties=self._parties
        )
        self._under_way: dict[Hashable, int] = {}
        self._waiting: FairQueue[_Waiter] = FairQueue(sys.maxsize, _keep)
        self._look_at_s = 0.0
        self._admitted_at_s = float("-inf")
        self._admitted_count = 1
        self._look: asyncio.TimerHandle | None = None

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        # Looking for it takes a call of the system each time.
        return asyncio.get_running_loop()

    def is_alone(self, party: Hashable) -> bool:
        """Whether no other party has made a request lately."""
        return self._parties.is_alone(party, self._loop.time())

    @asynccontextmanager
    async def hold(self, party: Hashable) -> AsyncGenerator[None]:
        """Wait for a turn and hold it while the block runs."""
        if not self.acquire_now(party):
            await self.acquire(party)
        try:
            yield
        finally:
            self.release(party)

    @asynccontextmanager
    async def hold_long(self, party: Hashable) -> AsyncGenerator[None]:
        """Hold the turn of a long request, beside that of ``hold``; while others are active, its party rests afterwards."""
        if not self._long.acquire_now(party):
            await self._long.acquire(party)
        began_at_s = self._loop.time()
        try:
            yield
        finally:
            # Writing the answer and the database's work come on top of the turn.
            rest_s = min(REST_TIMES * (self._loop.time() - began_at_s), LONG_REST_MAX_S)
            self._loop.call_later(rest_s, self._long.release, party)

    def acquire_now(self, party: Hashable) -> bool:
        """Begin a request if it need not wait; if this is false, call ``acquire``."""
        now_s = self._loop.time()
        self._parties.note(party, now_s)
        under_way_count = self._under_way.get(party, 0)
        # In most processes no request waits most of the time, and this is all that happens.
        if (under_way_count < AT_ONCE_FREELY and not self._waiting.has(party)) or self._parties.is_only_one(now_s):
            self._under_way[party] = under_way_count + 1
            return True
        return False

    async def acquire(self, party: Hashable) -> None:
        turn: asyncio.Future[None] = self._loop.create_future()
        waiter = party, turn
        self._waiting.put(party, waiter)
        if self._look is None:
            self._look_again()
        try:
            await turn
        except asyncio.CancelledError:
            self._waiting.remove(party, waiter)
            # The turn may have come in the same turn of the loop.
            if turn.done() and not turn.cancelled():
                self.release(party)
            raise

    def release(self, party: Hashable) -> None:
        left_count = self._under_way[party] - 1
        if left_count:
            self._under_way[party] = left_count
        else:
            del self._under_way[party]
        if left_count < AT_ONCE_FREELY and self._waiting.has(party):
            # These few follow each other at once, or a loop that others make late would stop the party that sends most.
            self._begin(1, lambda each: each == party)

    def _look_again(self) -> None:
        self._look_at_s = self._monotonic_s() + LOOK_EVERY_S
        self._look = self._loop.call_later(LOOK_EVERY_S, self._begin_due)

    def _begin_due(self) -> None:
        now_s = self._monotonic_s()
        is_alone = self._parties.is_only_one(self._loop.time())
        self._begin(sys.maxsize, (lambda _: True) if is_alone else self._has_less_than_another)
        # One more at each check that is on time, and back to one as soon as a check is late.
        if now_s - self._look_at_s <= LATE_S:
            count = self._admitted_count = min(self._admitted_count + 1, ADMITTED_MAX)
        else:
            self._admitted_count = 1
            count = 1 if now_s - self._admitted_at_s >= REST_MAX_S else 0
        if self._begin(count, lambda party: self._under_way.get(party, 0) < AT_ONCE_MAX):
            self._admitted_at_s = now_s
        self._look = None
        if len(self._waiting):
            self._look_again()

    def _begin(self, count_max: int, may_begin: Callable[[Hashable], bool]) -> int:
        """Begin waiting requests, one of each party in turn, and return how many."""
        count = 0
        while count < count_max and (waiter := self._waiting.take_first(may_begin)) is not None:
            party, turn = waiter
            if not turn.done():
                self._under_way[party] = self._under_way.get(party, 0) + 1
                turn.set_result(None)
                count += 1
        return count

    def _has_less_than_another(self, party: Hashable) -> bool:
        # Parties with equal demand are not held back.
        own_count = self._under_way.get(party, 0)
        return own_count < AT_ONCE_MAX and any(count > own_count for count in self._under_way.values())


def _keep(_: _Waiter) -> None:
    raise errors.InvariantBroken("the queue has room for all")
