"""Tells the refusals of a flood slowly, so that refusing costs the others little.

A caller that asks again at once after each refusal could fill the event loop with nothing but refusals. So each party gets its
first refusals at once, and each further one a little after the one before; where the caller has made a mistake of its own, the
longer its request took to read, the longer the next refusal waits. Nothing that is accepted waits for it, and no refusal
becomes another one. Public operations also have limits of their own (``api/frame/rates.py``). The number of connections
bounds how many answers wait, since each connection has one request at a time.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from pixconnect.domain.frame.rate import RatePolicy, TokenBuckets

PACED: Final = frozenset({401, 403, 429, 503})
"""Statuses that cost nothing to get, again and again."""
PACED_BY_COST: Final = frozenset({400, 405, 413, 415, 422})
"""Statuses that tell a caller something about its own requests; a caller that is not known gets all refusals as those above."""
COST_TIMES: Final = 20
"""The delay before a party's next refusal, as a multiple of the time that reading the request took: that is 5 % of a core."""
COSTLY_EACH_MIN_S: Final = 0.005
AT_ONCE_COUNT: Final = 20
EACH_S: Final = 0.02
"""Between two refusals of a flood."""
LATER_MAX_S: Final = 1.0
"""No refusal waits longer than this."""
_SPREAD: Final = 256
# A token is one refusal told at once; an overdraft is what the next one waits for, and is soon forgotten.
_REFUSALS: Final = RatePolicy(
    name="refusals", tokens_max=AT_ONCE_COUNT, refill_per_s=1 / EACH_S, overdraft_max=round(LATER_MAX_S / EACH_S)
)


class RefusalPace:
    """When the next refusal of each party may be told: a rate whose limit is a wait."""

    def __init__(self) -> None:
        self._buckets = TokenBuckets()
        self._spread = 0

    def interval_s(self, status: int, cost_s: float, *, is_known: bool) -> float:
        """How long it is from a refusal that cost so much to read to the next one of a flood; 0 where it is not paced."""
        if status in PACED or (not is_known and 400 <= status < 500):
            return EACH_S
        return max(COSTLY_EACH_MIN_S, cost_s * COST_TIMES) if status in PACED_BY_COST else 0.0

    def is_due_now(self, party: Hashable, now_s: float) -> bool:
        """Count one more refusal if it may be told without waiting."""
        bucket = self._buckets.find(_REFUSALS, party, now_s)
        if bucket.read(now_s) < 1:
            return False
        bucket.spend(1)
        return True

    def delay_s(self, party: Hashable, now_s: float, each_s: float = EACH_S) -> float:
        """How long to wait before telling a holder, or an address without a token, one more refusal; each takes ``each_s``."""
        bucket, tokens = self._buckets.find(_REFUSALS, party, now_s), each_s / EACH_S
        delay_s = max(0.0, (tokens - bucket.read(now_s)) * EACH_S)
        bucket.spend(tokens)
        if delay_s <= LATER_MAX_S:
            return delay_s
        # Refusals that came together are sent one after the other, or they would come together again.
        self._spread = (self._spread + 1) % _SPREAD
        return LATER_MAX_S * (1 - self._spread / (2 * _SPREAD))
