"""Waits with an end: for one event, and for very many tasks with the same timeout, which cost one timer together."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType

from pixconnect.platform.base import errors


async def wait_for(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event at most so long; false if it did not come."""
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

    def begin(self) -> _Wait:
        return _Wait(self)

    def add(self, wait: _Wait) -> None:
        loop = asyncio.get_running_loop()
        ends_at_s = self._ends_at_s[wait] = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_at(ends_at_s, self._end_overdue)

    def remove(self, wait: _Wait) -> None:
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._timeout.remove(self)
        # If another caller has cancelled the task meanwhile, it must stay cancelled.
        if self._is_over and self._task.uncancel() <= self._cancelling_count and kind is asyncio.CancelledError:
            raise TimeoutError from error
