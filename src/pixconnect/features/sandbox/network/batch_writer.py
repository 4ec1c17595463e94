"""Gathers writes into batches: the next batch is what arrives while the last one is being written."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")

BATCH_MAX: Final = 256


class BatchWriter(Generic[Item]):
    def __init__(self, write: Callable[[Sequence[Item]], Awaitable[None]]) -> None:
        self._write = write
        self._queue: list[tuple[Item, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def add(self, item: Item) -> None:
        """Return once the item's batch is written, or raise what its write raised."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((item, written))
        if self._writing is None:
            self._writing = asyncio.create_task(self._run())
        # Shielded: others are in the same batch, so a caller that leaves must not stop it.
        await asyncio.shield(written)

    async def _run(self) -> None:
        try:
            while self._queue:
                batch, self._queue = self._queue[:BATCH_MAX], self._queue[BATCH_MAX:]
                await self._write_batch(batch)
        finally:
            self._writing = None

    async def _write_batch(self, batch: Sequence[tuple[Item, asyncio.Future[None]]]) -> None:
        try:
            await self._write([item for item, _ in batch])
        except Exception as error:  # noqa: BLE001 every request of the batch gets the batch's failure
            for _, written in batch:
                written.set_exception(error)
        else:
            for _, written in batch:
                written.set_result(None)
