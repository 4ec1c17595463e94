"""Reports in the order in which they fall due: a heap in memory, rebuilt from the tables at start."""

import heapq
from collections.abc import Sequence
from datetime import datetime
from itertools import count

from pixconnect.sandbox.outbox import Pending


class Schedule:
    def __init__(self) -> None:
        # The number keeps groups of one instant in the order in which they were added.
        self._heap: list[tuple[datetime, int, Sequence[Pending]]] = []
        self._number = count()

    def clear(self) -> None:
        """Forget all reports; the tables still have them."""
        self._heap.clear()

    def add(self, due_at: datetime, group: Sequence[Pending]) -> None:
        heapq.heappush(self._heap, (due_at, next(self._number), group))

    def pop_due(self, now: datetime) -> list[Pending]:
        due: list[Pending] = []
        while self._heap and self._heap[0][0] <= now:
            due.extend(heapq.heappop(self._heap)[2])
        return due

    @property
    def next_due_at(self) -> datetime | None:
        return self._heap[0][0] if self._heap else None
