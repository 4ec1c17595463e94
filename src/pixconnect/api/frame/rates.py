"""Rate limits that the operator may set: requests a minute of one client, and of one holder.

Each process counts for itself. Every answer says in its headers how many requests are allowed and left.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pixconnect.api.frame.envelope import Headers, rate_headers
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.clock import Clock
from pixconnect.domain.frame.rate import RatePolicy, TokenBucket, TokenBuckets
from pixconnect.domain.identity.access import Caller

WINDOW_S: Final = 60
_OWED_MAX: Final = 1000
"""As many as one request may do beside itself: all of them count, whatever the limit is."""


class RequestRates:
    """Each client's and holder's remaining requests in this process; limits are requests a minute, 0 means none."""

    def __init__(self, clock: Clock, client_max: int, holder_max: int) -> None:
        self._monotonic_s = clock.monotonic_s
        self._client_policy = _policy("client", client_max)
        self._holder_policy = _policy("holder", holder_max)
        self._buckets = TokenBuckets()

    def spend(self, caller: Caller) -> None:
        """Count a request."""
        now_s = self._monotonic_s()
        # Nothing is spent of either bucket when one of them is empty.
        found = list(self._find(caller))
        for policy, bucket in found:
            if bucket.read(now_s) < 1:
                message = f"too many requests: this {policy.name} may make {policy.tokens_max} a minute"
                raise errors.RateLimited(message, bucket.seconds_until(1), policy)
        for _, bucket in found:
            bucket.spend(1)

    def spend_more(self, caller: Caller, count: int) -> None:
        """Count what a request that was let through does beside itself; a bucket may owe some of it."""
        for _, bucket in self._find(caller):
            bucket.spend(count)

    def headers(self, caller: Caller) -> Headers:
        now_s = self._monotonic_s()
        left = [
            (policy, int(bucket.read(now_s)), bucket.seconds_until(policy.tokens_max))
            for policy, bucket in self._find(caller)
        ]
        return rate_headers(*left) if left else []

    def _find(self, caller: Caller) -> Iterator[tuple[RatePolicy, TokenBucket]]:
        for policy, whose in ((self._client_policy, caller.client_id), (self._holder_policy, caller.holder_id)):
            if policy is None or not caller.holder_id:
                continue
            yield policy, self._buckets.find(policy, whose, self._monotonic_s())


def make_request_rates(clock: Clock, client_max: int, holder_max: int) -> RequestRates | None:
    """The operator's limits; ``None`` where there are none."""
    return RequestRates(clock, client_max, holder_max) if client_max or holder_max else None


def _policy(name: str, requests_max: int) -> RatePolicy | None:
    if not requests_max:
        return None
    return RatePolicy(name=name, tokens_max=requests_max, refill_per_s=requests_max / WINDOW_S, overdraft_max=_OWED_MAX)
