"""One look at something outside, shared by all concurrent callers.

A caller that comes while a look is running waits for that one. Its failure is the failure of all of them. A caller that leaves
does not cancel it for the others.

Waits for an answer for a bounded time, also if the server hangs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from typing import Any, Generic, TypeVar

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
            self._looking.add_done_callback(_retrieve)
        return await asyncio.shield(self._looking)

    def cancel(self) -> None:
        """End a look that is under way, at the end of the process."""
        if self._looking is not None:
            self._looking.cancel()


def _retrieve(looked: asyncio.Task[Any]) -> None:
    # All waiting callers may be gone by now; asyncio logs an unretrieved error.
    if not looked.cancelled():
        looked.exception()


Found = TypeVar("Found")


async def answer_in_time(asking: Awaitable[Found], within_s: float) -> Found:
    """Return the answer, or raise ``TimeoutError``.

    The caller does not wait for the end of the call that it gives up: a server that hangs does not answer a cancel either.
    """
    task = asyncio.ensure_future(asking)
    try:
        await asyncio.wait([task], timeout=within_s)
    finally:
        if not task.done():
            task.cancel()
            task.add_done_callback(lambda given_up: given_up.cancelled() or given_up.exception())
    if not task.done():
        raise TimeoutError
    return task.result()
