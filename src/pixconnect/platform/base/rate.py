"""Rate limits by token buckets."""

import math
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from msgspec import Struct

BUCKETS_MAX: Final = 20_000


class RatePolicy(Struct, frozen=True, kw_only=True):
    name: str
    tokens_max: int
    refill_per_s: float
    overdraft_max: int | None = None
    """How many more may be spent than there are, because a cost may be known only afterwards; ``None`` is ``tokens_max``."""

    @property
    def window_s(self) -> int:
        """How long an empty bucket takes to fill."""
        return math.ceil(self.tokens_max / self.refill_per_s)

    @property
    def refill_a_minute(self) -> int:
        return round(self.refill_per_s * 60)

    def seconds_until(self, tokens: float, left: float) -> int:
        """Whole seconds until this many tokens exist, if none are spent or added."""
        return max(1, math.ceil((tokens - left) / self.refill_per_s))


class TokenBucket:
    __slots__ = ("_level", "_policy", "_read_at_s")

    def __init__(self, policy: RatePolicy, now_s: float) -> None:
        self._policy = policy
        self._level = float(policy.tokens_max)
        self._read_at_s = now_s

    def read(self, now_s: float) -> float:
        self.add((now_s - self._read_at_s) * self._policy.refill_per_s)
        self._read_at_s = now_s
        return self._level

    def spend(self, tokens: float) -> None:
        policy = self._policy
        overdraft_max = policy.tokens_max if policy.overdraft_max is None else policy.overdraft_max
        self._level = max(self._level - tokens, -float(overdraft_max))

    def add(self, tokens: float) -> None:
        self._level = min(self._level + tokens, float(self._policy.tokens_max))

    def seconds_until(self, tokens: float) -> int:
        """Whole seconds until this many tokens exist, if none are spent or added."""
        return self._policy.seconds_until(tokens, self._level)


class TokenBuckets:
    """A bucket for each of many, full at first sight."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[Hashable, TokenBucket] = OrderedDict()

    def find(self, policy: RatePolicy, whose: Hashable, now_s: float) -> TokenBucket:
        key = policy.name, whose
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(policy, now_s)
            # The one that was used longest ago goes: it is the likeliest to be full again, as a new one is.
            if len(self._buckets) > BUCKETS_MAX:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(key)
        return bucket
