"""How often the recording of a report has failed in this process.

Forgetting one costs only time: a report that is not acknowledged comes again.
"""

from typing import Final

from pixconnect.foundation.bounded_cache import BoundedCache

TRIES_MIN: Final = 3
LASTING_MIN_S: Final = 10.0
"""Both must be reached: three tries alone pass in a moment, and the scheme waits 40 s for an answer."""
OVERTAKEN_MIN_S: Final = 300.0
"""So long one is waited for that is told later than what is said of it; by then it was never here."""
REMEMBERED_MAX: Final = 4096
"""The one that has not failed for longest is forgotten first."""


class FailedReports:
    def __init__(self, lasting_min_s: float = LASTING_MIN_S, overtaken_min_s: float = OVERTAKEN_MIN_S) -> None:
        self._lasting_min_s = lasting_min_s
        self._overtaken_min_s = overtaken_min_s
        self._failures = BoundedCache[str, tuple[int, float]](REMEMBERED_MAX)

    def is_enough(self, name: str, now_s: float) -> bool:
        """Count a failure; answers whether this report has failed often and long enough."""
        return self._count(name, now_s, self._lasting_min_s)

    def is_about_nothing(self, name: str, now_s: float) -> bool:
        """Count that what this report is about is not known; answers whether it was waited for long enough."""
        # Of a name of its own: having waited for it is no failure to record it.
        return self._count(f"about {name}", now_s, self._overtaken_min_s)

    def _count(self, name: str, now_s: float, lasting_min_s: float) -> bool:
        count, first_s = self._failures.get(name, (0, now_s))
        self._failures.keep(name, (count + 1, first_s))
        return count + 1 >= TRIES_MIN and now_s - first_s >= lasting_min_s

    def forget_all(self) -> None:
        self._failures.clear()
