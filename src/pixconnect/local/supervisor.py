"""Keeps parts running: one that ends is started again, with longer and longer pauses, and given up when that never helps.

A part is anything that can be started, ends at some time, and can be stopped: a child process or the embedded database.
While a part that others stand on is down, theirs is no failure: they are started again when it is back.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

RESTARTS_MAX = 5
RESTARTS_WINDOW_S = 60.0
PAUSES_S = (0.0, 0.2, 0.5, 1.0, 2.0)


class Part(Protocol):
    """What can be kept running."""

    name: str

    async def start(self) -> None:
        """Start it and wait until it is ready; any exception is a failed start."""
        ...

    async def wait_for_end(self) -> str:
        """Wait until it is gone; why, in a few words."""
        ...

    async def stop(self, timeout_s: float) -> None:
        """Let it finish, for so long."""
        ...


class PartKeepsFailingError(Exception):
    """A part was started again and again and does not stay."""


class Supervisor:
    """Watches parts that were started already.

    Args:
        tell: Hears one line about each restart.
        pauses_s: Before the first, second... start after failures that follow each other closely.
    """

    def __init__(self, tell: Callable[[str], None], pauses_s: Sequence[float] = PAUSES_S) -> None:
        self._tell = tell
        self._pauses_s = pauses_s
        self._tasks: list[asyncio.Task[None]] = []
        self._up: dict[str, asyncio.Event] = {}

    def watch(self, part: Part, stands_on: Sequence[Part] = ()) -> None:
        """Keep a part running that is running now.

        Args:
            part: The part.
            stands_on: Watched parts without which it cannot run.
        """
        self._up[part.name] = asyncio.Event()
        self._up[part.name].set()
        self._tasks.append(asyncio.create_task(self._keep(part, stands_on), name=part.name))

    async def run_until(self, stop: asyncio.Event) -> None:
        """Keep everything running until told to stop; from then on nothing is started again.

        Raises:
            PartKeepsFailingError: A part does not stay.
        """
        stopping = asyncio.create_task(stop.wait())
        try:
            done, _ = await asyncio.wait([stopping, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await self._stop_watching(stopping)

    async def _keep(self, part: Part, stands_on: Sequence[Part]) -> None:
        up = self._up[part.name]
        failed_at: deque[float] = deque()
        while True:
            reason = await part.wait_for_end()
            up.clear()
            while not up.is_set():
                if all(self._up[other.name].is_set() for other in stands_on):
                    _count_failure(part, failed_at, reason)
                    self._tell(f"{part.name} ended ({reason}): starting it again")
                await asyncio.sleep(self._pauses_s[min(max(len(failed_at), 1), len(self._pauses_s)) - 1])
                for other in stands_on:
                    await self._up[other.name].wait()
                try:
                    await part.start()
                except Exception as error:  # noqa: BLE001 - whatever it was, it is a failed start, and is counted
                    reason = str(error) or type(error).__name__
                else:
                    up.set()
                    self._tell(f"{part.name} is back")

    async def _stop_watching(self, stopping: asyncio.Task[bool]) -> None:
        stopping.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _count_failure(part: Part, failed_at: deque[float], reason: str) -> None:
    """Remember that the part failed now.

    Raises:
        PartKeepsFailingError: It did so too often of late.
    """
    now = time.monotonic()
    failed_at.append(now)
    while failed_at[0] < now - RESTARTS_WINDOW_S:
        failed_at.popleft()
    if len(failed_at) > RESTARTS_MAX:
        raise PartKeepsFailingError(f"{part.name} keeps failing: {reason}")
