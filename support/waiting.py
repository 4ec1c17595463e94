"""Wait for facts that nothing announces."""

import asyncio
import time
from collections.abc import Callable
from typing import Final, TypeVar
from urllib.request import urlopen

Read = TypeVar("Read")
PATIENCE_S: Final = 300.0
"""Seconds to wait for other processes on a busy machine. Only failures take that long."""


async def until(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds, at most a minute."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110  no event to await
            await asyncio.sleep(0.001)


def wait_until(is_so: Callable[[], object], what: object = "it never came about", *, every_s: float = 0.1) -> None:
    read_until(is_so, bool, what, every_s=every_s)


def read_until(read: Callable[[], Read], is_wanted: Callable[[Read], bool], what: object = "", *, every_s: float = 0.1) -> Read:
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_wanted(found := read()):
        assert time.monotonic() < deadline_s, what or found
        time.sleep(every_s)
    return found


def is_ready(url: str) -> bool:
    try:
        with urlopen(url, timeout=60) as answer:  # noqa: S310  our own
            return answer.status == 200
    except OSError:
        return False
