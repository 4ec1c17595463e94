"""Bounds what a process has under way, so that what it takes is answered in time and the rest is refused at once.

Without it requests wait where nothing counts them, in sockets and between the steps of others, for as long as more come than
can be answered. Each party may have its share of the bound: so a process that is full is full for whoever has filled it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from pixconnect.domain.frame import errors

UNDER_WAY_MAX: Final = 512
"""Of a process that refuses nothing: as many as are answered in half a second where the service is slow."""
UNDER_WAY_MIN: Final = 128
ANSWERED_IN_S: Final = 0.25
"""How long what a process lets in while it refuses others takes about."""
TOO_MANY: Final = "too many requests are under way: try again shortly; nothing was done"


class Admission:
    def __init__(self, under_way_max: int = UNDER_WAY_MAX) -> None:
        self._most = self._under_way_max = under_way_max
        self._counts: dict[Hashable, int] = {}
        self._count = 0
        self.has_refused = False
        self.answered_count = 0

    @property
    def is_full(self) -> bool:
        return self._count >= self._under_way_max

    def refuses(self, party: Hashable) -> bool:
        """Whether ``enter`` would raise."""
        # Whoever has nothing under way is let in however full it is: there are no more parties than connections.
        if self._count < self._under_way_max or self._counts.get(party, 0) * len(self._counts) < self._under_way_max:
            return False
        self.has_refused = True
        return True

    def expect(self, per_second: float | None) -> None:
        """Let in what is answered in a quarter of a second if so many are in one; ``None`` for as many as ever."""
        self._under_way_max = (
            self._most if per_second is None else min(self._most, max(UNDER_WAY_MIN, round(per_second * ANSWERED_IN_S)))
        )

    def enter(self, party: Hashable) -> None:
        """Count a request until ``leave``.

        Raises:
            ServiceUnavailable: Too much is under way, and this party has its share of it.
        """
        if self.refuses(party):
            raise errors.ServiceUnavailable(TOO_MANY)
        self._counts[party] = self._counts.get(party, 0) + 1
        self._count += 1

    def leave(self, party: Hashable) -> None:
        self._count -= 1
        self.answered_count += 1
        left_count = self._counts[party] - 1
        if left_count:
            self._counts[party] = left_count
        else:
            del self._counts[party]
