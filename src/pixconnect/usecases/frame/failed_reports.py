"""How often the recording of a report has failed in this process.

Forgetting one costs only time: a report that is not acknowledged comes again.
"""

from typing import Final

TRIES_MIN: Final = 3
LASTING_MIN_S: Final = 10.0
"""Both must be reached: three tries alone pass in a moment, and the scheme waits 40 s for an answer."""
REMEMBERED_MAX: Final = 4096
"""The oldest is forgotten first."""


class FailedReports:
    def __init__(self) -> None:
        self._failures: dict[str, tuple[int, float]] = {}

    def is_enough(self, name: str, now_s: float) -> bool:
        """Count a failure; answers whether this report has failed often and long enough."""
        count, first_s = self._failures.pop(name, (0, now_s))
        self._failures[name] = (count + 1, first_s)
        while len(self._failures) > REMEMBERED_MAX:
            del self._failures[next(iter(self._failures))]
        return count + 1 >= TRIES_MIN and now_s - first_s >= LASTING_MIN_S

    def forget_all(self) -> None:
        self._failures.clear()
