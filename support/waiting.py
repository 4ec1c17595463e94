"""Waiting for facts that nobody tells of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something has become so; a minute is far more than it takes."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.001)
