"""Rate limits of an account's calls: a budget per route, and pauses after errors or on the institution's request.

A call that would wait longer than its caller can is not sent at all.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final

from pixconnect.features.institutions.profiles.account_traits import AccountTraits, Pace, Route
from pixconnect.platform.base.clock import Clock, RatePolicy, TokenBucket
from pixconnect.platform.base.entropy import Entropy

PAUSE_MAX_S: Final = 600.0
"""Maximum pause, even if the institution requests more."""
_PAUSE_FIRST_S: Final = 1.0
_PAUSE_GROWN_MAX_S: Final = 60.0
_MINUTE_S: Final = 60


class BudgetSpent(Exception):  # noqa: N818  nothing failed
    """The budget is spent, or the institution requested a pause; nothing was sent."""

    def __init__(self, reason: str, wait_s: float) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = timedelta(seconds=wait_s)


class _Budget:
    def __init__(self, pace: Pace, now_s: float) -> None:
        policy = RatePolicy(
            name="calls",
            tokens_max=pace.burst,
            refill_per_s=pace.per_minute / _MINUTE_S,
            # Waiting calls have spent already; the maximum wait bounds their number.
            overdraft_max=1_000_000,
        )
        self.refill_per_s = policy.refill_per_s
        self.bucket = TokenBucket(policy, now_s)
        self.paused_until_s = 0.0
        self.failures_count = 0


class CallPaces:
    def __init__(self, traits: AccountTraits, clock: Clock, entropy: Entropy, *, is_homologation: bool) -> None:
        self._traits = traits
        self._clock = clock
        self._entropy = entropy
        self._is_homologation = is_homologation
        self._budgets: dict[tuple[Route, ...], _Budget] = {}

    async def take(self, route: Route, patience_s: float) -> None:
        """Wait until a call may be made, and count it; raises ``BudgetSpent`` after ``patience_s``, or in a pause."""
        spent = list[_Budget]()
        try:
            # Its own share first, so that waiting for that takes nothing of the common budget.
            for budget in self._find(route):
                patience_s -= await self._spend(budget, patience_s)
                spent.append(budget)
        except (BudgetSpent, asyncio.CancelledError):
            for budget in spent:
                budget.bucket.add(1)
            raise

    async def wait(self, route: Route, patience_s: float) -> None:
        """Wait, at most this long, until a call could be made; counts nothing."""
        now_s = self._clock.monotonic_s()
        wait_s = max(_find_wait(budget, now_s) for budget in self._find(route))
        if 0 < wait_s <= patience_s:
            await asyncio.sleep(wait_s)

    async def _spend(self, budget: _Budget, patience_s: float) -> float:
        now_s = self._clock.monotonic_s()
        if budget.paused_until_s > now_s:
            raise BudgetSpent("the institution asked us to wait, or gave no answer", budget.paused_until_s - now_s)
        wait_s = _find_wait(budget, now_s)
        if wait_s > patience_s:
            raise BudgetSpent("the budget of calls is spent", wait_s)
        budget.bucket.spend(1)
        if wait_s <= 0:
            return 0
        try:
            await asyncio.sleep(wait_s)
        except asyncio.CancelledError:
            budget.bucket.add(1)
            raise
        return wait_s

    def pause(self, route: Route, asked_s: float | None) -> float:
        """Pause this route as long as requested, or longer each time; return how long."""
        now_s = self._clock.monotonic_s()
        budgets = self._find(route)
        failures_count = max(budget.failures_count for budget in budgets)
        grown_s = min(_PAUSE_FIRST_S * 2**failures_count, _PAUSE_GROWN_MAX_S)
        # Jittered, so that accounts that failed together do not come back together; never earlier than requested.
        jitter = 0.5 + self._entropy.fraction() / 2
        pause_s = grown_s * jitter if asked_s is None else min(asked_s + jitter, PAUSE_MAX_S)
        for budget in budgets:
            budget.failures_count = min(failures_count + 1, 16)
            budget.paused_until_s = max(budget.paused_until_s, now_s + pause_s)
        return pause_s

    def note_success(self, route: Route) -> None:
        for budget in self._find(route):
            budget.failures_count = 0

    def _find(self, route: Route) -> list[_Budget]:
        found = list[_Budget]()
        for pace in self._traits.find_paces(route, is_homologation=self._is_homologation):
            key = tuple(pace.routes)
            if key not in self._budgets:
                self._budgets[key] = _Budget(pace, self._clock.monotonic_s())
            found.append(self._budgets[key])
        return found


def _find_wait(budget: _Budget, now_s: float) -> float:
    return (1 - budget.bucket.read(now_s)) / budget.refill_per_s
