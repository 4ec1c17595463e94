"""Bounds the work in progress of a process, so that accepted requests are answered in time and the rest is refused at once.

Without this bound requests wait uncounted, in sockets and between the steps of others, while more come than can be answered.
Each party may have its share of the bound, so only the party that has filled it is refused.

A process that refuses may also accept more orders than are settled. Where everything runs on the same cores, or with one
database, accepting then takes the time that settling needs. So from its first refusal on a process

- admits as much as it can answer in a quarter of a second,
- writes orders in small batches, and
- checks twice a second the age of the oldest open order. While that exceeds a second, it writes as many orders a second as are
  settled.

This ends half a second after its last refusal. A process that refuses nothing accepts a burst as fast as it comes, and workers
follow.

The number of settled orders follows from the oldest one's creation: if that advances by half a second in half a second, as many
were settled as were created in such a time. If none is settled at all, because the rail is away, nothing is slowed down, since
slowing would free nothing.

Refusals of a flood are sent slowly, so that refusing costs the others little. A caller that retries at once after each refusal
could fill the event loop with nothing but refusals. So each party gets its first refusals at once, and each further one a
little after the one before; for a caller's own mistakes, the longer its request took to read, the longer the next refusal
waits. No accepted request waits for it. A caller that hangs up instead of waiting gets 429, before its next body is read, while
it owes a wait. Public operations also have limits of their own (``doors/api/rates.py``). The number of connections bounds how
many answers wait, since each connection has one request at a time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from contextvars import Context
from datetime import datetime
from typing import Final

from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import Clock, RatePolicy, TokenBuckets

UNDER_WAY_MAX: Final = 512
"""For a process that refuses nothing: as many as are answered in half a second if the service is slow."""
UNDER_WAY_MIN: Final = 128
ANSWERED_IN_S: Final = 0.25  # a process that refuses admits about as much as it answers in this time
TOO_MANY: Final = "too many requests are under way: try again shortly; nothing was done"
LOOK_EVERY_S: Final = 0.5
BATCH_MAX: Final = 64
"""Orders in a batch while the process refuses: larger ones cost little less each, and delay refusals for longer."""
AGE_MAX_S: Final = 1.0  # how old an open order may be before accepting is slowed down
SLOWER_WHILE_OLD: Final = 0.95
FASTER_WHILE_YOUNG: Final = 1.1
STEP_MIN: Final = 0.7
STEP_MAX: Final = 1.2  # maximum change of the rate at one reading: batches settle in leaps, which make single readings wrong
PER_SECOND_MIN: Final = 50.0
STUCK_LOOKS_MAX: Final = 6
_KEPT_LOOKS: Final = 16


class Admission:
    def __init__(self, under_way_max: int = UNDER_WAY_MAX) -> None:
        self._under_way_max = under_way_max
        self._counts: dict[Hashable, int] = {}
        self._count = 0
        self._has_refused = False
        self._answered_count = 0

    @property
    def is_full(self) -> bool:
        return self._count >= self._under_way_max

    def refuses(self, party: Hashable) -> bool:
        """Whether ``enter`` would raise."""
        # A party with nothing in progress is always admitted: there are no more parties than connections.
        if self._count < self._under_way_max or self._counts.get(party, 0) * len(self._counts) < self._under_way_max:
            return False
        self._has_refused = True
        return True

    def enter(self, party: Hashable) -> None:
        """Count a request until ``leave``."""
        if self.refuses(party):
            raise errors.ServiceUnavailable(TOO_MANY)
        self._counts[party] = self._counts.get(party, 0) + 1
        self._count += 1

    def leave(self, party: Hashable) -> None:
        self._count -= 1
        self._answered_count += 1
        left_count = self._counts[party] - 1
        if left_count:
            self._counts[party] = left_count
        else:
            del self._counts[party]


class Overload(Admission):
    """Admits requests, and slows orders down while some are refused.

    Args:
        find_oldest_order: Returns when the oldest open order was made; raises ``ServiceUnavailable`` if unknown.
    """

    def __init__(
        self, clock: Clock, find_oldest_order: Callable[[], Awaitable[datetime | None]], under_way_max: int = UNDER_WAY_MAX
    ) -> None:
        super().__init__(under_way_max)
        self._most = under_way_max
        self._find_oldest_order = find_oldest_order
        self._now = clock.now
        self._monotonic_s = clock.monotonic_s
        self._looking: asyncio.Task[None] | None = None
        self._oldest_at: datetime | None = None
        self._stuck_count = 0
        self._made_count = 0
        # At the last readings, newest first.
        self._made_per_second: deque[float] = deque(maxlen=_KEPT_LOOKS)
        # When the next batch may begin: of the busy holder, and of all others, which need not wait for its requests.
        self._begin_at_s = {True: 0.0, False: 0.0}
        self.per_second: float | None = None

    async def wait(self, *, is_busy: bool) -> None:
        """Wait until the next batch of orders may begin."""
        # In steps, because the limit ends with the last refusal.
        while self.per_second is not None and (rest_s := self._begin_at_s[is_busy] - self._monotonic_s()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(min(rest_s, LOOK_EVERY_S))

    def bound_batch(self, size_max: int) -> int:
        """Return the maximum of orders in the next batch."""
        return min(size_max, BATCH_MAX) if self._has_refused or self._looking is not None else size_max

    def note(self, count: int, *, is_busy: bool) -> None:
        """Count the orders of a batch that was written."""
        self._made_count += count
        if self.per_second is not None:
            # Unused allowance is not saved up for long.
            begun_s = max(self._begin_at_s[is_busy], self._monotonic_s() - LOOK_EVERY_S)
            self._begin_at_s[is_busy] = begun_s + count / self.per_second
        if self._has_refused and self._looking is None:
            # In a separate context: it works for all parties.
            self._looking = asyncio.create_task(self._keep_looking(), name="overload", context=Context())

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])

    def learn(self, oldest_at: datetime | None, lasted_s: float) -> None:
        """Record the age of the oldest open order, this many seconds after the last reading."""
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
        # Orders settled meanwhile are as old as the oldest one.
        then = min(round(age_s / LOOK_EVERY_S), len(self._made_per_second) - 1)
        wanted = progress * self._made_per_second[then]
        wanted *= FASTER_WHILE_YOUNG if age_s <= AGE_MAX_S or progress > 1 else SLOWER_WHILE_OLD
        now_per_second = self.per_second or self._made_per_second[0]
        wanted = min(max(wanted, STEP_MIN * now_per_second), STEP_MAX * now_per_second)
        self.per_second = max(PER_SECOND_MIN, wanted)

    def _expect(self, per_second: float | None) -> None:
        """Admit a quarter of a second's answers at this rate; ``None`` removes the limit."""
        self._under_way_max = (
            self._most if per_second is None else min(self._most, max(UNDER_WAY_MIN, round(per_second * ANSWERED_IN_S)))
        )

    async def _keep_looking(self) -> None:
        counted_s = looked_s = self._monotonic_s()
        answered_count, self._made_count = self._answered_count, 0
        try:
            while self._has_refused:
                self._has_refused = False
                await asyncio.sleep(LOOK_EVERY_S)
                before_count, answered_count = answered_count, self._answered_count
                before_s, counted_s = counted_s, self._monotonic_s()
                # Of all that is admitted: a few orders among many charges do not show how fast those are.
                self._expect((answered_count - before_count) / (counted_s - before_s))
                with suppress(errors.ServiceUnavailable):
                    oldest_at = await self._find_oldest_order()
                    lasted_s, looked_s = self._monotonic_s() - looked_s, self._monotonic_s()
                    self.learn(oldest_at, lasted_s)
        finally:
            self._looking = self._oldest_at = None
            self._made_per_second.clear()
            self.per_second = None
            self._begin_at_s = {True: 0.0, False: 0.0}
            self._expect(None)


PACED: Final = frozenset({401, 403, 429, 503})  # statuses that a caller can cause again and again at no cost
PACED_BY_COST: Final = frozenset({400, 405, 413, 415, 422})
"""Statuses about a caller's own requests; an unidentified caller gets all refusals as those above."""
COST_TIMES: Final = 20
"""The delay before a party's next refusal, as a multiple of the time that reading the request took: that is 5 % of a core."""
COSTLY_EACH_MIN_S: Final = 0.005
AT_ONCE_COUNT: Final = 20
EACH_S: Final = 0.02  # between two refusals of a flood
LATER_MAX_S: Final = 1.0  # no refusal waits longer than this
_SPREAD: Final = 256
_OWING_MAX: Final = 1024
_OWING: Final = "too many malformed requests: wait for the answer to each"
# A token is one refusal sent at once; an overdraft is the next one's wait, and soon expires.
_REFUSALS: Final = RatePolicy(
    name="refusals", tokens_max=AT_ONCE_COUNT, refill_per_s=1 / EACH_S, overdraft_max=round(LATER_MAX_S / EACH_S)
)


class RefusalPace:
    """When each party's next refusal may be sent: a rate whose limit is a wait."""

    def __init__(self) -> None:
        self._buckets = TokenBuckets()
        self._spread = 0
        self.owing_until_s = dict[Hashable, float]()
        """Parties that did not wait for refusals that took work; usually there are none."""

    def refuse_owing(self, party: Hashable, now_s: float) -> None:
        """Raise ``RateLimited``, before any work, for a party that owes a wait, because it hung up instead of waiting."""
        if now_s < self.owing_until_s.get(party, 0.0):
            raise errors.RateLimited(_OWING, 1)
        # A party that has paid may never come back.
        if (oldest := next(iter(self.owing_until_s), None)) is not None and self.owing_until_s[oldest] <= now_s:
            del self.owing_until_s[oldest]

    def interval_s(self, status: int, cost_s: float, *, is_known: bool) -> float:
        """Return the interval of a flood's refusals after one with this cost of reading; 0 without a limit."""
        if status in PACED or (not is_known and 400 <= status < 500):
            return EACH_S
        if status not in PACED_BY_COST:
            return 0.0
        # At most what a caller waits for: one that waits would still owe if a busy machine took long to read its request.
        return min(max(COSTLY_EACH_MIN_S, cost_s * COST_TIMES), LATER_MAX_S)

    def is_due_now(self, party: Hashable, now_s: float) -> bool:
        """Count one more refusal if it may be sent without waiting."""
        bucket = self._buckets.find(_REFUSALS, party, now_s)
        if bucket.read(now_s) < 1:
            return False
        bucket.spend(1)
        return True

    def delay_s(self, party: Hashable, now_s: float, each_s: float = EACH_S, *, is_costly: bool = False) -> float:
        """Return how long to delay one more refusal to a holder, or an address without a token; each takes ``each_s``.

        Args:
            is_costly: Whether finding it took work, such as decoding a body.
        """
        bucket, tokens = self._buckets.find(_REFUSALS, party, now_s), each_s / EACH_S
        delay_s = max(0.0, (tokens - bucket.read(now_s)) * EACH_S)
        bucket.spend(tokens)
        if delay_s <= LATER_MAX_S:
            return delay_s
        if is_costly:
            if len(self.owing_until_s) >= _OWING_MAX:
                self.owing_until_s.clear()
            self.owing_until_s[party] = now_s + delay_s - LATER_MAX_S
        # Refusals that came together are sent one after the other, or they would come together again.
        self._spread = (self._spread + 1) % _SPREAD
        return LATER_MAX_S * (1 - self._spread / (2 * _SPREAD))
