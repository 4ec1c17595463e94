"""Waits for an answer for a bounded time, also where the asked server hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

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
