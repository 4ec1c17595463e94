"""A rate limit for look-ups that lead to no payment, so that nobody can scan the directory or our own accounts.

As in the directory's own rules (DICT API 2.12.1, ENTRIES_READ_USER_ANTISCAN): a key that is not found costs 20 tokens, one
that is found and not paid 1, and tokens come back with time and with payments that settle. So whoever pays never runs dry, at
whatever rate. Each process counts for itself.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Final, Protocol

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.clock import Clock
from pixconnect.domain.frame.rate import RatePolicy, TokenBucket
from pixconnect.flow.shares import FairSemaphore
from pixconnect.foundation.bounded_cache import BoundedCache
from pixconnect.foundation.pool import Pool
from pixconnect.store.money import transfer as transfer_store
from pixconnect.usecases.frame.policy import Policy


class LookupContext(Protocol):
    """What a budget needs; ``context`` cannot say it, because it holds the budgets."""

    @property
    def pool(self) -> Pool: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def policy(self) -> Policy: ...


MISSED_COST: Final = 20
UNPAID_COST: Final = 1
SETTLED_TOKENS: Final = 2
"""One settled payment puts these back."""
DIRECTORY_AT_ONCE_MAX: Final = 128
"""Look-ups in the directory under way at once, in one process: half of the connections that a rail has."""

_WAITING_MAX: Final = 4096
_HOLDERS_MAX: Final = 20_000
_SETTLED_LOOK_INTERVAL_S: Final = 1.0
_SETTLED_LOOKED_AT_MAX: Final = 1000


class Lookup:
    """What the look-up of one request costs if nothing is paid."""

    __slots__ = ("cost",)

    def __init__(self) -> None:
        self.cost = 0


class _Budget:
    __slots__ = ("bucket", "looked_at_s", "settled_until")

    def __init__(self, bucket: TokenBucket, settled_until: datetime) -> None:
        self.bucket = bucket
        # Settled payments that were made until then are in the bucket already.
        self.settled_until = settled_until
        # When they were last counted, in monotonic time.
        self.looked_at_s = float("-inf")


class LookupBudgets:
    def __init__(self) -> None:
        self._budgets = BoundedCache[int, _Budget](_HOLDERS_MAX)
        self._semaphore = FairSemaphore(
            DIRECTORY_AT_ONCE_MAX, waiting_max=_WAITING_MAX, what="look-ups in the directory"
        )

    async def check(self, context: LookupContext, holder_id: int) -> None:
        """Raise ``RateLimited`` if the holder has used up its budget."""
        budget = self._budgets.get(holder_id)
        if budget is None:  # nothing was ever spent
            return
        now_s = context.clock.monotonic_s()
        if budget.bucket.read(now_s) <= 0:
            await self._add_settled(context, holder_id, budget, now_s)
        if budget.bucket.read(now_s) <= 0:
            message = "too many look-ups of keys or accounts that were not found or not paid: pay, or try again later"
            raise errors.RateLimited(message, budget.bucket.seconds_until(1), _policy(context))

    def read_left(self, context: LookupContext, holder_id: int) -> int:
        """How many look-ups the holder has left in this process."""
        budget = self._budgets.get(holder_id)
        tokens = context.policy.lookup_tokens_max
        return tokens if budget is None else max(0, int(budget.bucket.read(context.clock.monotonic_s())))

    def spend(self, context: LookupContext, holder_id: int, lookup: Lookup) -> None:
        """Charge a look-up that has led to no payment."""
        if not lookup.cost or not context.policy.lookup_tokens_max:
            return
        now_s = context.clock.monotonic_s()
        budget = self._budgets.get(holder_id)
        if budget is None:
            # Only what is paid from now on puts tokens back: those that are there are the holder's already.
            bucket = TokenBucket(_policy(context), now_s)
            budget = _Budget(bucket, context.clock.now())
        self._budgets.keep(holder_id, budget)
        budget.bucket.read(now_s)
        budget.bucket.spend(lookup.cost)

    def asking_directory(self, holder_id: int) -> AbstractAsyncContextManager[None]:
        """Limits the questions under way, in turn by holder; raises ServiceUnavailable if too many wait already."""
        return self._semaphore.hold(holder_id)

    async def _add_settled(self, context: LookupContext, holder_id: int, budget: _Budget, now_s: float) -> None:
        # A holder without tokens may ask very often; we ask the database once a second.
        if now_s - budget.looked_at_s < _SETTLED_LOOK_INTERVAL_S:
            return
        budget.looked_at_s = now_s
        count, until = await transfer_store.count_settled_out(
            context.pool, holder_id, budget.settled_until, _SETTLED_LOOKED_AT_MAX
        )
        budget.settled_until = until or budget.settled_until
        budget.bucket.add(count * SETTLED_TOKENS)


def _policy(context: LookupContext) -> RatePolicy:
    return RatePolicy(
        name="lookups",
        tokens_max=context.policy.lookup_tokens_max,
        refill_per_s=context.policy.lookup_refill_count / 60,
    )
