"""Isolates holders whose row another transaction has locked, and the holder that sends most.

A stalled holder gets its own queue and does not delay other batches. The holder that sends more than all others together has
separate batches, written beside theirs.

A batch waits for the slowest of its balances, and workers and other processes also lock the balance of the holder that sends
most. So the others' requests must neither be in one batch with its requests nor behind one::

    queue ─► a1 a2 a3 a4 a5 ─► batches of a ───────────────┐ at the same time
          └► b1 c1 ──────────► batches of all other holders┘

Its batches follow one another like all others, so it loses nothing; and later requests find it separated already.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, Final, Generic, Protocol, TypeVar

import structlog

from pixconnect.platform.base.clock import Clock
from pixconnect.platform.flow.shares import FairQueue

STALLED_MAX: Final = 64  # maximum of stalled holders with a queue; requests of more are refused
TRIED_AT_ONCE_MAX: Final = 4  # connections that stalled holders may occupy, in one process
KEPT_S: Final = 10.0  # how long the queue of a stalled holder stays open without requests

_LOOK_AFTER_S: Final = 0.05

_log = structlog.get_logger(__name__)


class Waiter(Protocol):
    """One request and its caller, which waits for the answer."""

    def is_over(self) -> bool: ...


WaiterT = TypeVar("WaiterT", bound=Waiter)
OnStall = Callable[[list[WaiterT]], Awaitable[None]]  # takes requests that met a lock


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
        """Try the queued requests once more, and end."""
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
                waiters = [waiter for waiter in popped if not waiter.is_over()]
                if not waiters:
                    await asyncio.sleep(_LOOK_AFTER_S)
                    continue
                async with self._tries:
                    # A try that succeeds leaves this in the past, and the queue ends; one that stalls sets it again.
                    stalled_at_s = float("-inf")
                    await self._answer(waiters, refuse)
        except Exception:  # noqa: BLE001  no caller awaits this task, so the log must have it
            _log.exception("stalled holder failed")
        finally:
            # After any outcome, the holder's next requests go through the common queue, and no request here stays unanswered.
            del self._queues[holder_id]
            self._refuse(list(queue))


SENT_MIN: Final = 7  # its minimum of requests in the last batch and waiting: separate batches cost commits of their own
BUSY_KEPT_S: Final = 1.0  # how long it has them after its last request


class BusyHolder:
    """The busy holder in the queue of one operation, if there is one.

    Args:
        write_next: Writes and answers this holder's waiting requests and returns whether there were any; raises nothing.
        on_end: Called when the holder's requests rejoin the common queue.
    """

    def __init__(self, queue: FairQueue[Any], write_next: Callable[[], Awaitable[bool]], on_end: Callable[[], None]) -> None:
        self._queue = queue
        self._write_next = write_next
        self._on_end = on_end
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_closing = False
        self.holder_id: int | None = None

    def choose(self, written: Iterable[int]) -> None:
        """Begin separate batches for the holder that sends most; called while no common batch is being written.

        Args:
            written: The holders of the requests in the last common batch. Fewer than that may have come meanwhile.
        """
        if self.holder_id is not None:
            return
        holder_id = self._queue.find_dominant(Counter(written), SENT_MIN)
        if isinstance(holder_id, int):
            self.holder_id = holder_id
            self._task = asyncio.create_task(self._run(), name="batches of a busy holder")

    def wake(self) -> None:
        self._wake.set()

    def end_soon(self) -> None:
        """Write its waiting requests, and then wait for no more."""
        self._is_closing = True
        self._wake.set()

    async def _run(self) -> None:
        try:
            while await self._write_next() or await self._has_more():
                pass
        finally:
            # Nothing is awaited between the last check and this, so nothing is left behind.
            self.holder_id = None
            self._on_end()

    async def _has_more(self) -> bool:
        self._wake.clear()
        if self._queue.has(self.holder_id):
            return True
        if not self._is_closing:
            with suppress(TimeoutError):
                async with asyncio.timeout(BUSY_KEPT_S):
                    await self._wake.wait()
        return self._queue.has(self.holder_id)
