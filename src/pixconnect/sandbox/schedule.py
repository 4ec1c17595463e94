"""What falls due when: a heap of groups, kept in memory and rebuilt from the tables at start."""

import heapq
from collections.abc import Sequence
from datetime import datetime
from itertools import count

from pixconnect.sandbox.outbox import Pending


class Schedule:
    """Reports in the order of their time."""

    def __init__(self) -> None:
        self._heap: list[tuple[datetime, int, Sequence[Pending]]] = []
        self._number = count()

    def clear(self) -> None:
        """Forget everything; the tables still have it."""
        self._heap.clear()

    def add(self, due_at: datetime, group: Sequence[Pending]) -> None:
        """Remember a group of one time."""
        heapq.heappush(self._heap, (due_at, next(self._number), group))

    def pop_due(self, now: datetime) -> list[Pending]:
        """Take out what is due, in order."""
        due: list[Pending] = []
        while self._heap and self._heap[0][0] <= now:
            due.extend(heapq.heappop(self._heap)[2])
        return due

    @property
    def next_due_at(self) -> datetime | None:
        """When the next group falls due."""
        return self._heap[0][0] if self._heap else None
