"""How long a part of the worker waits for news before it looks all the same: a wake-up may be lost, and time passes.

Pollers that find nothing share one beat of the machine's clock, each shortly after the one before. A poller that wakes
alone finds its code and data gone from the caches, which costs more than its query; all at the same time would need a
connection each.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

APART_S: Final = 0.005
"""Between two parts at one beat."""
EARLY_S: Final = 0.01
"""A timer may end that much before its time: then the beat is the one that it waited for."""


class Poller(IntEnum):
    """The pollers, in the order in which they wake."""

    DELIVERIES = 0
    ORDERS = 1
    EXPIRY = 2
    POSITIONS = 3
    LEASES = 4
    CHORES = 5
    LOTS = 6
    DEFENCES = 7


def until_beat(every_s: float, looker: Poller, now_s: float) -> float:
    """Seconds until a looker's next beat, which comes ``every_s``: not less than ``EARLY_S``; ``now_s`` is monotonic."""
    return every_s - (now_s + EARLY_S - looker * APART_S) % every_s + EARLY_S


class Rest:
    """Longer from look to look while nothing is found, so that a service without work hardly wakes up."""

    def __init__(self, shortest_s: float, longest_s: float, looker: Poller) -> None:
        self._shortest_s = shortest_s
        self._longest_s = longest_s
        self._next_s = shortest_s
        self._looker = looker

    def after(self, now_s: float, *, has_found: bool) -> float:
        """Seconds to wait after a look; ``now_s`` is monotonic."""
        if has_found:
            self._next_s = self._shortest_s
            return self._shortest_s
        rest_s, self._next_s = self._next_s, min(2 * self._next_s, self._longest_s)
        return until_beat(rest_s, self._looker, now_s)
