"""Lets a process that has to refuse anyway accept no more orders than are settled.

Where all of it runs on the same cores, or with one database, what accepting takes is missing for what was accepted before. As
long as a process refuses nothing that is wanted: a burst is accepted as fast as it comes, and workers follow. One that refuses
(``flow/admission.py``) lets in what it can answer in a quarter of a second, writes orders in small batches, and looks
twice a second at how old the oldest open orders are. While that is more than a second it writes as many orders a second as are
settled. With the last refusal this ends.

How many are settled is seen from when the oldest were made: if that moves on by half a second in half a second, as many were
settled as were made in such a time. Where none is settled at all, because the rail is away, nothing is slowed down: there is
nothing to make room for.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from contextvars import Context
from datetime import datetime
from typing import Final

from pixconnect.domain.frame.clock import Clock
from pixconnect.flow.admission import Admission
from pixconnect.foundation.database_failure import DATABASE_FAILED
from pixconnect.foundation.pool import Pool
from pixconnect.store.money import order as order_store

LOOK_EVERY_S: Final = 0.5
BATCH_MAX: Final = 64
"""Orders in a batch meanwhile. Larger ones cost little less each, and keep the event loop, and so refusals, for longer."""
AGE_MAX_S: Final = 1.0
"""How old an open order may be before accepting is slowed down."""
SLOWER_WHILE_OLD: Final = 0.95
FASTER_WHILE_YOUNG: Final = 1.1
STEP_MIN: Final = 0.7
STEP_MAX: Final = 1.2
"""How much the pace may change at one look: batches settle in leaps, which make single looks wrong."""
PER_SECOND_MIN: Final = 50.0
STUCK_LOOKS_MAX: Final = 6
_KEPT_LOOKS: Final = 16


class OrderPace:
    """How many orders a second this process makes at most, if there is a limit."""

    def __init__(self, admission: Admission, pool: Pool, clock: Clock) -> None:
        self._admission = admission
        self._pool = pool
        self._now = clock.now
        self._monotonic_s = clock.monotonic_s
        self._looking: asyncio.Task[None] | None = None
        self._oldest_at: datetime | None = None
        self._stuck_count = 0
        self._made_count = 0
        # At the last looks, the newest first.
        self._made_per_second: deque[float] = deque(maxlen=_KEPT_LOOKS)
        # When the next batch may begin: of the busy holder, and of all others, who need not wait for what that one sends.
        self._begin_at_s = {True: 0.0, False: 0.0}
        self.per_second: float | None = None

    async def wait(self, *, is_busy: bool) -> None:
        """Wait until the next batch may begin."""
        # In steps: the pace ends with the last refusal.
        while self.per_second is not None and (rest_s := self._begin_at_s[is_busy] - self._monotonic_s()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(min(rest_s, LOOK_EVERY_S))

    def bound_batch(self, size_max: int) -> int:
        """How many orders the next batch may have."""
        return min(size_max, BATCH_MAX) if self._admission.has_refused or self._looking is not None else size_max

    def note(self, count: int, *, is_busy: bool) -> None:
        """Count the orders of a batch that was written."""
        self._made_count += count
        if self.per_second is not None:
            # What was not used is not saved up for long.
            begun_s = max(self._begin_at_s[is_busy], self._monotonic_s() - LOOK_EVERY_S)
            self._begin_at_s[is_busy] = begun_s + count / self.per_second
        if self._admission.has_refused and self._looking is None:
            # In a context of its own: it works for everybody.
            self._looking = asyncio.create_task(self._keep_looking(), name="pace of orders", context=Context())

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])

    def learn(self, oldest_at: datetime | None, lasted_s: float) -> None:
        """Take how old the oldest open order is, so many seconds after the last time."""
        self._made_per_second.appendleft(self._made_count / lasted_s)
        self._made_count = 0
        before, self._oldest_at = self._oldest_at, oldest_at
        if oldest_at is None or before is None:
            self.per_second = None
            return
        age_s = (self._now() - oldest_at).total_seconds()
        progress = max(0.0, (oldest_at - before).total_seconds() / lasted_s)
        self._stuck_count = 0 if progress else self._stuck_count + 1
        if self._stuck_count >= STUCK_LOOKS_MAX or (self.per_second is None and age_s <= AGE_MAX_S):
            self.per_second = None
            return
        # Those that were settled meanwhile were made as long ago as the oldest is old.
        then = min(round(age_s / LOOK_EVERY_S), len(self._made_per_second) - 1)
        wanted = progress * self._made_per_second[then]
        wanted *= FASTER_WHILE_YOUNG if age_s <= AGE_MAX_S or progress > 1 else SLOWER_WHILE_OLD
        now_per_second = self.per_second or self._made_per_second[0]
        wanted = min(max(wanted, STEP_MIN * now_per_second), STEP_MAX * now_per_second)
        self.per_second = max(PER_SECOND_MIN, wanted)

    async def _keep_looking(self) -> None:
        counted_s = looked_s = self._monotonic_s()
        answered_count, self._made_count = self._admission.answered_count, 0
        try:
            while self._admission.has_refused:
                self._admission.has_refused = False
                await asyncio.sleep(LOOK_EVERY_S)
                before_count, answered_count = answered_count, self._admission.answered_count
                before_s, counted_s = counted_s, self._monotonic_s()
                # Of all that is admitted: a few orders among many charges say nothing of how fast those are.
                self._admission.expect((answered_count - before_count) / (counted_s - before_s))
                with suppress(*DATABASE_FAILED):
                    oldest_at = await order_store.find_oldest(self._pool)
                    lasted_s, looked_s = self._monotonic_s() - looked_s, self._monotonic_s()
                    self.learn(oldest_at, lasted_s)
        finally:
            self._looking = self._oldest_at = None
            self._made_per_second.clear()
            self.per_second = None
            self._begin_at_s = {True: 0.0, False: 0.0}
            self._admission.expect(None)
