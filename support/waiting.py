"""Wait for facts that nothing announces."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

PATIENCE_S: Final = 300.0
"""Seconds to wait for other processes on a busy machine. Only failures take that long."""


async def until(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds, at most a minute."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.001)


def wait_until(is_so: Callable[[], bool], what: str, *, every_s: float = 0.3) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline_s, what
        time.sleep(every_s)
