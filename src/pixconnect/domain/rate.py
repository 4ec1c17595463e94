"""Rates: so many tokens, which come back with time. Each thing costs some of them."""

import math

from msgspec import Struct


class RatePolicy(Struct, frozen=True, kw_only=True):
    """A rate, as it is told to who has reached it.

    Attributes:
        name: Of what is limited.
        tokens_max: In a full bucket.
        refill_per_s: Tokens that come back each second.
    """

    name: str
    tokens_max: int
    refill_per_s: float

    @property
    def window_s(self) -> int:
        """How long an empty bucket takes to be full."""
        return math.ceil(self.tokens_max / self.refill_per_s)


class TokenBucket:
    """What one party has left of a rate.

    It may be overdrawn, because what something costs may be known only when it is done; never by more than it holds.

    Args:
        policy: The rate.
        now_s: Now, by a clock that only goes on.
    """

    __slots__ = ("_level", "_policy", "_read_at_s")

    def __init__(self, policy: RatePolicy, now_s: float) -> None:
        self._policy = policy
        self._level = float(policy.tokens_max)
        self._read_at_s = now_s

    def read(self, now_s: float) -> float:
        """How many tokens are there now."""
        self.add((now_s - self._read_at_s) * self._policy.refill_per_s)
        self._read_at_s = now_s
        return self._level

    def spend(self, tokens: float) -> None:
        """Take some out."""
        self._level = max(self._level - tokens, -float(self._policy.tokens_max))

    def add(self, tokens: float) -> None:
        """Put some in, as far as there is room."""
        self._level = min(self._level + tokens, float(self._policy.tokens_max))

    def seconds_until(self, tokens: float) -> int:
        """Whole seconds until so many are there, if nothing else is spent or put in."""
        return max(1, math.ceil((tokens - self._level) / self._policy.refill_per_s))
