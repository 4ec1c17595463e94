"""A flood of requests that are refused is answered slowly, so that refusing costs the others little.

Whoever asks again at once after each refusal could fill the event loop with nothing but refusals. Each party has a pace for
them: the first ones are answered at once, and then each a little after the one before, of a caller's own mistakes the later
the more it took to read them. Nothing that is accepted waits for it, and no refusal becomes another one. What waits is bounded
by the number of connections, since each has one request at a time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

PACED: Final = frozenset({401, 403, 429, 503})
"""Statuses that cost nothing to get, again and again."""
PACED_BY_COST: Final = frozenset({400, 405, 413, 415, 422})
"""Statuses that tell a caller something about its own requests; a caller that is not known gets all refusals as those above."""
COST_TIMES: Final = 20
"""How many times as long as reading a request took it is until the next one's refusal is told: that is 5 % of a core."""
COSTLY_EACH_MIN_S: Final = 0.005
AT_ONCE_COUNT: Final = 20
EACH_S: Final = 0.02
"""Between two refusals of a flood."""
LATER_MAX_S: Final = 1.0
"""No refusal is told later than this."""
_SPREAD: Final = 256
_PARTIES_MAX: Final = 4096


class RefusalPace:
    """When the next refusal of each party is due, in this process."""

    def __init__(self) -> None:
        self._due_at_s: OrderedDict[Hashable, float] = OrderedDict()
        self._spread = 0

    def interval_s(self, status: int, cost_s: float, *, is_known: bool) -> float:
        """How long it is from this refusal to the next one of a flood; 0 where it is not paced.

        Args:
            cost_s: What reading the request has taken.
            is_known: Whether it came with a valid token.
        """
        if status in PACED or (not is_known and 400 <= status < 500):
            return EACH_S
        return max(COSTLY_EACH_MIN_S, cost_s * COST_TIMES) if status in PACED_BY_COST else 0.0

    def is_due_now(self, party: Hashable, now_s: float) -> bool:
        """Count one more refusal if it may be told without waiting."""
        due_at_s = self._due_at_s.get(party, now_s)
        return due_at_s + EACH_S <= now_s + AT_ONCE_COUNT * EACH_S and not self.delay_s(party, now_s)

    def delay_s(self, party: Hashable, now_s: float, each_s: float = EACH_S) -> float:
        """How long to wait before telling one more refusal.

        Args:
            party: A holder; without a token, an address.
            now_s: Monotonic.
            each_s: How long it is from this refusal to the next one.
        """
        lead_s = AT_ONCE_COUNT * EACH_S
        due_at_s = max(self._due_at_s.get(party, now_s), now_s) + each_s
        # However long a flood lasts, it is forgotten soon after it has ended.
        self._due_at_s[party] = min(due_at_s, now_s + lead_s + LATER_MAX_S)
        self._due_at_s.move_to_end(party)
        if len(self._due_at_s) > _PARTIES_MAX:
            self._due_at_s.popitem(last=False)
        delay_s = max(0.0, due_at_s - now_s - lead_s)
        if delay_s <= LATER_MAX_S:
            return delay_s
        # Those that came together are told one after the other, or they would come together again.
        self._spread = (self._spread + 1) % _SPREAD
        return LATER_MAX_S * (1 - self._spread / (2 * _SPREAD))
