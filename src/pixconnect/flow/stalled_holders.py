"""Holders whose row another transaction has locked: each gets a queue of its own and does not delay other batches."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Generic, Protocol, TypeVar

import structlog

from pixconnect.domain.frame.clock import Clock

STALLED_MAX: Final = 64
"""Stalled holders with a queue of their own; requests of more are refused."""
TRIED_AT_ONCE_MAX: Final = 4
"""Connections that stalled holders may occupy, in one process."""
KEPT_S: Final = 10.0
"""How long the queue of a stalled holder stays open without requests."""

_LOOK_AFTER_S: Final = 0.05

_log = structlog.get_logger(__name__)


class Waiter(Protocol):
    """One request and its caller, which waits for the answer."""

    @property
    def is_over(self) -> bool: ...


WaiterT = TypeVar("WaiterT", bound=Waiter)
OnStall = Callable[[list[WaiterT]], Awaitable[None]]
"""Takes requests that met a lock."""


class StalledHolders(Generic[WaiterT]):
    """The queues of stalled holders of one operation; ``tries`` limits those of all operations over the same pool."""

    def __init__(
        self,
        answer: Callable[[list[WaiterT], OnStall[WaiterT]], Awaitable[None]],
        refuse: Callable[[list[WaiterT]], None],
        *,
        clock: Clock,
        size_max: int,
        tries: asyncio.Semaphore,
    ) -> None:
        self._answer = answer
        self._refuse = refuse
        self._clock = clock
        self._size_max = size_max
        self._tries = tries
        self._queues: dict[int, deque[WaiterT]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closing = False

    def find(self, holder_id: int) -> deque[WaiterT] | None:
        return self._queues.get(holder_id) if self._queues else None

    def open(self, holder_id: int) -> deque[WaiterT] | None:
        """The queue of a holder that stalls, made if it has none; ``None`` if too many holders stall."""
        queue = self._queues.get(holder_id)
        if queue is None and len(self._queues) < STALLED_MAX:
            queue = self._queues[holder_id] = deque()
            task = asyncio.create_task(self._run(holder_id, queue), name="stalled holder")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return queue

    async def close(self) -> None:
        """Try what is queued once more, and end."""
        self._is_closing = True
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, holder_id: int, queue: deque[WaiterT]) -> None:
        """Write the holder's requests until its queue is empty and its row is free, or until none has come for a while."""
        stalled_at_s = self._clock.monotonic_s()

        async def refuse(waiters: list[WaiterT]) -> None:
            nonlocal stalled_at_s
            stalled_at_s = self._clock.monotonic_s()
            self._refuse(waiters)

        try:
            while queue or (self._clock.monotonic_s() - stalled_at_s < KEPT_S and not self._is_closing):
                popped = [queue.popleft() for _ in range(min(len(queue), self._size_max))]
                waiters = [waiter for waiter in popped if not waiter.is_over]
                if not waiters:
                    await asyncio.sleep(_LOOK_AFTER_S)
                    continue
                async with self._tries:
                    # A try that succeeds leaves this in the past, and the queue ends; one that stalls sets it anew.
                    stalled_at_s = float("-inf")
                    await self._answer(waiters, refuse)
        except Exception:  # noqa: BLE001  nobody awaits this task, so the log must have it
            _log.exception("stalled holder failed")
        finally:
            # Whatever happened, the holder's next requests go through the common queue, and no request here stays
            # unanswered.
            del self._queues[holder_id]
            self._refuse(list(queue))
