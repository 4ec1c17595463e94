"""Lanes of their own for holders whose row somebody else holds: beside everybody else's groups, until they move again."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Generic, Protocol, TypeVar

import structlog

from pixconnect.domain.clock import Clock

LANES_MAX: Final = 64
"""Stalled holders that are tried beside the others; more are refused."""
LANES_AT_ONCE_MAX: Final = 4
"""Connections that stalled holders may keep waiting, in one process."""
LANE_KEPT_S: Final = 10.0
"""How long a lane of a holder that still stalls waits for more requests."""

_LOOK_AFTER_S: Final = 0.05

_log = structlog.get_logger(__name__)


class Waiting(Protocol):
    """One request and whoever waits for its answer."""

    @property
    def is_over(self) -> bool:
        """Whether nobody waits any more."""
        ...


WaitingT = TypeVar("WaitingT", bound=Waiting)
Stalled = Callable[[list[WaitingT]], Awaitable[None]]
"""What is done with a group that stalled."""


class StalledLanes(Generic[WaitingT]):
    """The lanes of one group commit.

    Args:
        answer: Writes a group and answers everybody in it, or hands it to what it is given for groups that stall.
        refuse: Answers a group that stalled in its lane.
        clock: For patience.
        size_max: Requests in a group at most.
        places: Shared by all that write over the same pool.
    """

    def __init__(
        self,
        answer: Callable[[list[WaitingT], Stalled[WaitingT]], Awaitable[None]],
        refuse: Callable[[list[WaitingT]], None],
        *,
        clock: Clock,
        size_max: int,
        places: asyncio.Semaphore,
    ) -> None:
        self._answer = answer
        self._refuse = refuse
        self._clock = clock
        self._size_max = size_max
        self._places = places
        self._lanes: dict[int, deque[WaitingT]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closing = False

    def find(self, holder_id: int) -> deque[WaitingT] | None:
        """The lane of a holder that stalls; what is put into it is tried there."""
        return self._lanes.get(holder_id) if self._lanes else None

    def open(self, holder_id: int) -> deque[WaitingT] | None:
        """The lane of a holder that stalls from now on; ``None`` where there are too many."""
        lane = self._lanes.get(holder_id)
        if lane is None and len(self._lanes) < LANES_MAX:
            lane = self._lanes[holder_id] = deque()
            task = asyncio.create_task(self._run(holder_id, lane), name="stalled lane")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return lane

    async def close(self) -> None:
        """Try what waits, and end."""
        self._is_closing = True
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, holder_id: int, lane: deque[WaitingT]) -> None:
        """Until the holder moves again and nothing of it waits; or nothing more has come for a while."""
        stalled_at_s = self._clock.monotonic_s()

        async def refuse(group: list[WaitingT]) -> None:
            nonlocal stalled_at_s
            stalled_at_s = self._clock.monotonic_s()
            self._refuse(group)

        try:
            while lane or (self._clock.monotonic_s() - stalled_at_s < LANE_KEPT_S and not self._is_closing):
                popped = [lane.popleft() for _ in range(min(len(lane), self._size_max))]
                group = [waiting for waiting in popped if not waiting.is_over]
                if not group:
                    await asyncio.sleep(_LOOK_AFTER_S)
                    continue
                async with self._places:
                    stalled_at_s = float("-inf")
                    await self._answer(group, refuse)
        except Exception:  # noqa: BLE001  there is nobody else to hear of it
            _log.exception("stalled lane failed")
        finally:
            # Whatever happened, the holder's next requests go with everybody else's, and nobody waits here for ever.
            del self._lanes[holder_id]
            self._refuse(list(lane))
