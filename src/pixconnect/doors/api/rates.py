"""Rate limits of requests: per address for public operations, and per client and holder for the others.

The operator may set the latter; every answer then has the limit and the remainder in its headers. The former are constants, one
for each kind of public operation, so that a flood of one kind uses up no other. An address that exceeds one gets 429 before any
work is done, on any connection. Each process counts for itself, in memory.
"""

from collections.abc import Iterator
from typing import Final

from pixconnect.doors.api.envelope import Headers, rate_headers
from pixconnect.kernel.rules.access import Caller
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import Clock, RatePolicy, TokenBucket, TokenBuckets

PUBLIC: Final = RatePolicy(name="public", tokens_max=2000, refill_per_s=100)
"""For a public operation without another in its row: logins, key sets, health.

Hundreds of clients behind one address may start at once; nginx, in our configuration, passes 200 requests a second of an
address to two processes.
"""
PAGES: Final = RatePolicy(name="pages", tokens_max=1000, refill_per_s=20)
"""Documentation: 1,200 requests a minute. A page loads with its style sheets, script and pictures by about five, and the
search by about fifteen, so an office behind one address opens 200 pages at once; a program may read all pages at once. Octets
count too."""
PROBES: Final = RatePolicy(name="probes", tokens_max=2000, refill_per_s=200)
"""``/livez`` and ``/readyz``: a hundred times the rate of balancers and supervisors at one address, also if callers share the
address of a balancer missing in the settings."""
LOCATIONS: Final = RatePolicy(name="locations", tokens_max=1000, refill_per_s=100)
"""Payloads of QR codes: each is looked up and signed, which costs six times as much as ``/livez``. The largest payers'
institutions read from several addresses, and nginx passes 200 a second of each to two processes."""
CALLBACKS: Final = RatePolicy(name="callbacks", tokens_max=2000, refill_per_s=200)
"""Callbacks of institutions, which may stop calling after refusals: everything that nginx passes on, in each process."""
OCTETS_EACH: Final = 64 * 1024  # an answer counts as one more request for each such number of octets in its body
WINDOW_S: Final = 60
_OWED_MAX: Final = 1000  # the maximum beyond a limit: one request's further work counts in full


class PublicRates:
    """Each address's remaining requests for public operations in this process."""

    def __init__(self, clock: Clock) -> None:
        self._monotonic_s = clock.monotonic_s
        self._buckets = TokenBuckets()

    def spend(self, policy: RatePolicy, address: str) -> None:
        """Count a request, before anything is done for it."""
        now_s = self._monotonic_s()
        bucket = self._buckets.find(policy, address, now_s)
        if bucket.read(now_s) < 1:
            message = f"too many requests ({policy.name}): this address may make {policy.refill_a_minute} a minute"
            raise errors.RateLimited(message, bucket.seconds_until(1), policy)
        bucket.spend(1)

    def spend_octets(self, policy: RatePolicy, address: str, octets: int) -> None:
        """Count an answer's octets: the address may owe some of them."""
        self._buckets.find(policy, address, self._monotonic_s()).spend(octets / OCTETS_EACH)


class RequestRates:
    """Each client's and holder's remaining requests in this process; limits are requests a minute, 0 means none."""

    def __init__(self, clock: Clock, client_max: int, holder_max: int) -> None:
        self._monotonic_s = clock.monotonic_s
        self._client_policy = _policy("client", client_max)
        self._holder_policy = _policy("holder", holder_max)
        self._buckets = TokenBuckets()

    def spend(self, caller: Caller) -> None:
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
        """Count an admitted request's further work; a bucket may owe some of it."""
        for _, bucket in self._find(caller):
            bucket.spend(count)

    def headers(self, caller: Caller) -> Headers:
        now_s = self._monotonic_s()
        left = [
            (policy, int(bucket.read(now_s)), bucket.seconds_until(policy.tokens_max)) for policy, bucket in self._find(caller)
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
