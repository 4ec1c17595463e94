"""A rate limit for look-ups without a payment, against scans of the directory and of our own accounts.

A token bucket, as in the directory's own rules (``kernel/register/__init__.py``): a missing key costs many tokens, a found and
unpaid one costs one. Tokens come back with time and with settled payments, so a holder that pays never runs dry.

Pending look-ups count as misses: a holder has as many at once as its tokens pay for, and the others wait. Otherwise a thousand
concurrent look-ups would all be answered before the first is counted.

All processes share one count in the database. A process spends from the last known level and reports to the database at once,
without delaying the caller. It reads others' spending once a second; what is overspent meanwhile is owed afterwards.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

from pixconnect.kernel.register import LookupAllowance, find_lookup_allowance
from pixconnect.kernel.tables import lookup as lookup_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.kernel.tables.lookup import KeptBudget
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import RatePolicy
from pixconnect.platform.bounded_cache import BoundedCache
from pixconnect.platform.database_failure import DATABASE_FAILED
from pixconnect.platform.flow.shares import FairSemaphore

if TYPE_CHECKING:
    from pixconnect.kernel.flows.context import Context

Found = Literal["nobody", "somebody"]

DIRECTORY_AT_ONCE_MAX: Final = 128  # concurrent look-ups in the directory per process: half of the connections that a rail has

_WAITING_MAX: Final = 4096
_HOLDERS_MAX: Final = 20_000
_ASKED_AGAIN_AFTER_S: Final = 1.0
_SETTLED_LOOK_INTERVAL_S: Final = 1.0
_SETTLED_LOOKED_AT_MAX: Final = 1000


class Lookup(Struct):
    """The result of one request's look-up, which costs something if nothing is paid; ``None`` costs nothing."""

    found: Found | None = None


class _Budget:
    """A holder's remaining tokens, as this process knows them."""

    def __init__(self, allowance: LookupAllowance, now: datetime) -> None:
        self.allowance = allowance
        self.asked_at_s = float("-inf")
        # When settled payments were last counted, in monotonic time.
        self.looked_at_s = float("-inf")
        self.settled_until: datetime | None = None
        # Spent here and not yet reported to the database.
        self.unreported = 0
        self.reporting: asyncio.Task[None] | None = None
        self.under_way = 0
        self.waiting = deque[asyncio.Future[None]]()
        self._tokens = float(allowance.policy.tokens_max)
        self._read_at = now

    def read(self, now: datetime) -> float:
        policy = self.allowance.policy
        refilled = self._tokens + max(0.0, (now - self._read_at).total_seconds()) * policy.refill_per_s
        return min(float(policy.tokens_max), refilled) - self.unreported

    def adopt(self, kept: KeptBudget) -> None:
        self._tokens, self._read_at, self.settled_until = kept.tokens, kept.read_at, kept.settled_until

    def wake_next(self) -> None:
        """Wake the longest-waiting look-up, to check whether its turn has come."""
        while self.waiting:
            turn = self.waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    async def wait_for_turn(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.wake_next()
            raise


class LookupBudgets:
    def __init__(self) -> None:
        self._budgets = BoundedCache[int, _Budget](_HOLDERS_MAX)
        self.directory_queries = FairSemaphore(
            DIRECTORY_AT_ONCE_MAX, waiting_max=_WAITING_MAX, what="look-ups in the directory"
        )
        """Limits concurrent queries, in turn by holder."""

    @asynccontextmanager
    async def looking_up(self, context: Context, holder_id: int, lookup: Lookup) -> AsyncGenerator[None]:
        """Look up a party within the holder's budget; a failed look-up, or one whose caller hangs up, is charged at the end.

        Raises:
            RateLimited: The holder has used up its budget.
            ServiceUnavailable: Too many of its look-ups wait already.
        """
        budget = await self._find(context, holder_id)
        await self._take_turn(context, holder_id, budget)
        may_be_paid = False
        try:
            yield
            may_be_paid = lookup.found == "somebody"
        finally:
            if not may_be_paid:
                self.spend(context, holder_id, lookup)
                lookup.found = None
            budget.under_way -= 1
            budget.wake_next()

    async def _take_turn(self, context: Context, holder_id: int, budget: _Budget) -> None:
        while True:
            if budget.read(context.clock.real_now()) <= 0:
                await self._add_settled(context, holder_id, budget)
            left = budget.read(context.clock.real_now())
            if left <= 0:
                budget.wake_next()
                message = "too many look-ups of keys or accounts that were not found or not paid: pay, or try again later"
                policy = budget.allowance.policy
                raise errors.RateLimited(message, policy.seconds_until(1, left), policy)
            if budget.under_way * budget.allowance.missed_cost < left:
                break
            if len(budget.waiting) >= _WAITING_MAX:
                raise errors.ServiceUnavailable("too many look-ups wait; nothing was done")
            await budget.wait_for_turn()
        budget.under_way += 1
        if budget.under_way * budget.allowance.missed_cost < left:
            budget.wake_next()

    async def read_left(self, context: Context, holder_id: int) -> tuple[RatePolicy, int]:
        """Read how many look-ups of how many the holder has left."""
        budget = await self._find(context, holder_id)
        return budget.allowance.policy, max(0, int(budget.read(context.clock.real_now())))

    def recall_left(self, context: Context, holder_id: int) -> tuple[RatePolicy, int, int] | None:
        """Return the policy, the last known remainder, and seconds until all is back; ``None`` if nothing was spent."""
        budget = self._budgets.get(holder_id)
        if budget is None:
            return None
        policy, left = budget.allowance.policy, budget.read(context.clock.real_now())
        if left >= policy.tokens_max:
            return None
        return policy, max(0, int(left)), policy.seconds_until(policy.tokens_max, left)

    def spend(self, context: Context, holder_id: int, lookup: Lookup) -> None:
        """Charge a look-up that has led to no payment."""
        budget = self._budgets.get(holder_id)
        # It was checked a moment ago: it is missing only if twenty thousand other holders have evicted it since.
        if lookup.found is None or budget is None:
            return
        allowance = budget.allowance
        budget.unreported += allowance.found_cost if lookup.found == "somebody" else allowance.missed_cost
        if budget.reporting is None:
            # In a separate task: a caller that hangs up is charged all the same.
            reporting = self._report_spending(context, holder_id, budget, made_at=context.clock.now())
            budget.reporting = asyncio.get_running_loop().create_task(reporting, context=contextvars.Context())

    async def _find(self, context: Context, holder_id: int) -> _Budget:
        now_s = context.clock.monotonic_s()
        budget = self._budgets.recall(holder_id) or await self._open(context, holder_id)
        if now_s - budget.asked_at_s >= _ASKED_AGAIN_AFTER_S:
            # One of several concurrent callers queries; the others use the known level.
            budget.asked_at_s = now_s
            kept = await lookup_store.find_budget(context.pool, holder_id)
            # While a report is on its way, the answer may be from before or after it; that report's answer will show.
            if kept is not None and budget.reporting is None:
                budget.adopt(kept)
        return budget

    async def _open(self, context: Context, holder_id: int) -> _Budget:
        account = await context.directory.read_account(holder_id)
        now = context.clock.real_now()
        budget = self._budgets.recall(holder_id) or _Budget(find_lookup_allowance(account.party.tax_id, now), now)
        self._budgets.keep(holder_id, budget)
        return budget

    async def _report_spending(self, context: Context, holder_id: int, budget: _Budget, made_at: datetime) -> None:
        policy = budget.allowance.policy
        try:
            while budget.unreported:
                cost = budget.unreported
                kept = await lookup_store.spend_budget(
                    context.pool, holder_id, policy, cost, now=context.clock.real_now(), made_at=made_at
                )
                budget.unreported -= cost
                budget.adopt(kept)
        except (*DATABASE_FAILED, errors.ServiceUnavailable):
            # It stays spent here, and is reported with the next.
            pass
        finally:
            budget.reporting = None

    async def _add_settled(self, context: Context, holder_id: int, budget: _Budget) -> None:
        # A holder without tokens may ask very often; we count its payments once a second.
        now_s, settled_from = context.clock.monotonic_s(), budget.settled_until
        if settled_from is None or now_s - budget.looked_at_s < _SETTLED_LOOK_INTERVAL_S:
            return
        budget.looked_at_s = now_s
        count, until = await transfer_store.count_settled_out(context.pool, holder_id, settled_from, _SETTLED_LOOKED_AT_MAX)
        if until is None:
            return
        policy, tokens = budget.allowance.policy, count * budget.allowance.paid_tokens
        now = context.clock.real_now()
        kept = await lookup_store.put_back_budget(
            context.pool, holder_id, tokens, now, policy.tokens_max, policy.refill_per_s, until, settled_from
        )
        kept = kept or await lookup_store.find_budget(context.pool, holder_id)
        if kept is not None:
            budget.adopt(kept)
