"""Keeps parts running: a part that ends is restarted with backoff, and the supervisor gives up when that does not help.

A part is a child process or the embedded database. When a part ends because one that it depends on is down, that does not count
as a separate failure: it is restarted when the other is back. Nor does a database count that runs and does not answer, as while
it recovers from the death of one of its processes: a part that reports so is restarted until it does.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

RESTARTS_MAX = 5
RESTARTS_WINDOW_S = 60.0
PAUSES_S = (0.0, 0.2, 0.5, 1.0, 2.0)
DATABASE_TIMEOUT_S = 300.0
"""How long parts wait for a database that does not answer; after that they fail by it. A recovery takes less."""


class SupervisedPart(Protocol):
    name: str

    @property
    def lacked_database(self) -> bool:
        """Return whether only an unreachable database caused its last failure or end."""
        ...

    async def start(self) -> None:
        """Start and wait until ready; any exception is a failed start."""

    async def wait_for_end(self) -> str:
        """Wait until the part has ended and describe why."""
        ...

    async def stop(self, timeout_s: float) -> None: ...


class PartKeepsFailingError(Exception):
    """A part ended too often in a short time, or no restart can help."""


class Supervisor:
    """Watches running parts; of the pauses before a first, second... restart the last one is repeated."""

    def __init__(self, report: Callable[[str], None], pauses_s: Sequence[float] = PAUSES_S) -> None:
        self._report = report
        self._pauses_s = pauses_s
        self._tasks: list[asyncio.Task[None]] = []
        self._up: dict[str, asyncio.Event] = {}

    def watch(self, part: SupervisedPart, depends_on: Sequence[SupervisedPart] = ()) -> None:
        """Keep a running part running; ``depends_on`` are watched parts without which it cannot run."""
        self._up[part.name] = asyncio.Event()
        self._up[part.name].set()
        self._tasks.append(asyncio.create_task(self._keep(part, depends_on), name=part.name))

    async def run_until(self, stop: asyncio.Event) -> None:
        """Keep everything running until ``stop`` is set; ``PartKeepsFailingError`` if a part cannot be kept."""
        stopping = asyncio.create_task(stop.wait())
        try:
            done, _ = await asyncio.wait([stopping, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            stopping.cancel()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep(self, part: SupervisedPart, depends_on: Sequence[SupervisedPart]) -> None:
        up = self._up[part.name]
        failed_at: deque[float] = deque()
        while True:
            reason = await part.wait_for_end()
            up.clear()
            waits_since, waits_count = time.monotonic(), 0
            while not up.is_set():
                if part.lacked_database and time.monotonic() < waits_since + DATABASE_TIMEOUT_S:
                    waits_count += 1
                    if waits_count == 1:
                        self._report(f"{part.name} waits for the database ({reason})")
                # Otherwise it ended because of the other one, which is not its failure.
                elif all(self._up[other.name].is_set() for other in depends_on):
                    _count_failure(part, failed_at, reason)
                    self._report(f"{part.name} ended ({reason}): starting it again")
                tries_count = max(len(failed_at), waits_count, 1)
                await asyncio.sleep(self._pauses_s[min(tries_count, len(self._pauses_s)) - 1])
                for other in depends_on:
                    await self._up[other.name].wait()
                try:
                    await part.start()
                except PartKeepsFailingError:
                    raise
                except Exception as error:  # noqa: BLE001 - any error is a failed start, and is counted
                    reason = str(error) or type(error).__name__
                else:
                    up.set()
                    self._report(f"{part.name} is back")


def _count_failure(part: SupervisedPart, failed_at: deque[float], reason: str) -> None:
    now = time.monotonic()
    failed_at.append(now)
    while failed_at[0] < now - RESTARTS_WINDOW_S:
        failed_at.popleft()
    if len(failed_at) > RESTARTS_MAX:
        raise PartKeepsFailingError(f"{part.name} keeps failing: {reason}")
