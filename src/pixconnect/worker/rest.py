"""How long a part of the worker waits for news before it looks all the same: a wake-up may be lost, and time passes."""

from __future__ import annotations


class Rest:
    """Longer from look to look while nothing is found, so that a service without work hardly wakes up."""

    def __init__(self, shortest_s: float, longest_s: float) -> None:
        self._shortest_s = shortest_s
        self._longest_s = longest_s
        self._next_s = shortest_s

    def after(self, *, has_found: bool) -> float:
        """Seconds to wait after a look."""
        if has_found:
            self._next_s = self._shortest_s
            return self._shortest_s
        rest_s, self._next_s = self._next_s, min(2 * self._next_s, self._longest_s)
        return rest_s
