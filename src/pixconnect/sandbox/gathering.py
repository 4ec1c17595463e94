"""Writes that arrive one by one and are made together: the next group is what came while the last one was written."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")

GROUP_MAX: Final = 256


class Gathering(Generic[Item]):
    """Gathers items into groups.

    Args:
        write: Writes one group, all or nothing.
    """

    def __init__(self, write: Callable[[Sequence[Item]], Awaitable[None]]) -> None:
        self._write = write
        self._queue: list[tuple[Item, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def add(self, item: Item) -> None:
        """Return when the item's group is written, or raise what its write raised."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((item, written))
        if self._writing is None:
            self._writing = asyncio.create_task(self._run())
        await asyncio.shield(written)

    async def _run(self) -> None:
        try:
            while self._queue:
                group, self._queue = self._queue[:GROUP_MAX], self._queue[GROUP_MAX:]
                await self._write_group(group)
        finally:
            self._writing = None

    async def _write_group(self, group: Sequence[tuple[Item, asyncio.Future[None]]]) -> None:
        try:
            await self._write([item for item, _ in group])
        except Exception as error:  # noqa: BLE001  each of the group is told what happened to all
            for _, written in group:
                written.set_exception(error)
        else:
            for _, written in group:
                written.set_result(None)
