"""One read of something outside, shared by all concurrent callers; and waits with a timeout.

A caller that comes during a read waits for that one. Its failure is the failure of all of them. A caller that leaves does not
cancel it for the others.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from types import TracebackType
from typing import Any, Generic, TypeVar

from pixconnect.platform.base import errors

Seen = TypeVar("Seen")


class SharedLook(Generic[Seen]):
    def __init__(self, look: Callable[[], Coroutine[Any, Any, Seen]], name: str) -> None:
        self._look = look
        self._name = name
        self._looking: asyncio.Task[Seen] | None = None

    async def look(self) -> Seen:
        if self._looking is None or self._looking.done():
            # In a separate context: it must not queue behind the first caller's other work.
            self._looking = asyncio.create_task(self._look(), name=self._name, context=Context())
            self._looking.add_done_callback(retrieve)
        return await asyncio.shield(self._looking)

    def cancel(self) -> None:
        """End a running read, at the end of the process."""
        if self._looking is not None:
            self._looking.cancel()


def retrieve(task: asyncio.Future[Any]) -> None:
    """Take the error of a task for which no caller waits any more: asyncio logs an unretrieved one."""
    if not task.cancelled():
        task.exception()


Found = TypeVar("Found")


async def answer_in_time(asking: Awaitable[Found], within_s: float) -> Found:
    """Return the answer, or raise ``TimeoutError``.

    The caller does not wait for the end of the call that it gives up: a hanging server does not answer a cancel either.
    """
    task = asyncio.ensure_future(asking)
    try:
        await asyncio.wait([task], timeout=within_s)
    finally:
        if not task.done():
            task.cancel()
            task.add_done_callback(retrieve)
    if not task.done():
        raise TimeoutError
    return task.result()


# Waits with a timeout: for one event, and for very many tasks with the same timeout, which share one timer.


async def wait_for(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event at most this long; false if it did not come."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            return await event.wait()
    return False


class SharedTimeout:
    """Used as ``asyncio.timeout``: ``with timeout.begin(): await something()``."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        # In the order of their begin, which is that of their ends, because all timeouts are equal.
        self._ends_at_s: dict[_Wait, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> "_Wait":
        return _Wait(self)

    def add(self, wait: "_Wait") -> None:
        loop = asyncio.get_running_loop()
        ends_at_s = self._ends_at_s[wait] = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_at(ends_at_s, self._end_overdue)

    def remove(self, wait: "_Wait") -> None:
        self._ends_at_s.pop(wait, None)

    def _end_overdue(self) -> None:
        # Comes back when the next wait may be overdue. Waits that end in time leave the timer as it is.
        loop = asyncio.get_running_loop()
        self._timer = None
        for wait, ends_at_s in list(self._ends_at_s.items()):
            if ends_at_s > loop.time():
                self._timer = loop.call_at(ends_at_s, self._end_overdue)
                break
            del self._ends_at_s[wait]
            wait.end()


class _Wait:
    __slots__ = ("_cancelling_count", "_is_over", "_task", "_timeout")

    def __init__(self, timeout: SharedTimeout) -> None:
        self._timeout = timeout
        self._is_over = False

    def __enter__(self) -> None:
        self._task = errors.require(asyncio.current_task(), "used in a task")
        self._cancelling_count = self._task.cancelling()
        self._timeout.add(self)

    def end(self) -> None:
        self._is_over = True
        self._task.cancel()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._timeout.remove(self)
        # If another caller has cancelled the task meanwhile, it must stay cancelled.
        if self._is_over and self._task.uncancel() <= self._cancelling_count and kind is asyncio.CancelledError:
            raise TimeoutError from error
