"""Words: requests that are each written as one row, to test a queue."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import asyncpg
from msgspec import Struct

from pixconnect.kernel.writing.batch import Batch, WriteOperation
from pixconnect.kernel.writing.batch_queue import BatchQueue
from pixconnect.platform.base import errors
from pixconnect.platform.flow import stalled_holders
from pixconnect.platform.flow.overload import Overload
from support.service import Service


class Word(Struct, frozen=True, kw_only=True):
    """A request that is written as one row of a test table."""

    holder_id: int = 1
    external_id: str | None = None
    text: str = "good"


class Words:
    """Writes words as a use case would; ``locked`` holders are waited for."""

    def __init__(self) -> None:
        self.admits = False
        self.on_commit: Callable[[], None] | None = None
        self.batches: list[list[str]] = []
        self.lock_timeouts: list[str] = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.at_once_count = 0
        self.is_lost_at_once = False

    async def write_at_once(self, batch: Batch[Word]) -> list[str] | None:
        """Good words are one statement."""
        if any(word.text != "good" for word in batch):
            return None
        self.at_once_count += 1
        insert = "insert into tally_change select 1, 'charge', 'good', now(), 1 from generate_series(1, $1::int)"
        await batch.connection.execute(insert, len(batch))
        if self.is_lost_at_once:
            await asyncio.sleep(0.1)
            raise asyncpg.ConnectionDoesNotExistError("the connection was lost")
        return ["good"] * len(batch)

    async def write(self, batch: Batch[Word]) -> list[str | errors.PixConnectError]:
        if self.on_commit is not None:
            batch.on_commit(self.on_commit)
        self.batches.append([word.text for word in batch])
        await self.may_go_on.wait()
        self.lock_timeouts.append(await batch.connection.fetchval("show lock_timeout"))
        holder_ids = sorted({word.holder_id for word in batch})
        await batch.connection.fetch(
            "select holder_id from balance where holder_id = any($1) order by holder_id for no key update", holder_ids
        )
        if self.admits:
            batch.admit(lambda word: word.holder_id in holder_ids)
            self.batches[-1] = [word.text for word in batch]
        if any(word.text == "defect" for word in batch):
            raise KeyError("a defect of ours")
        if any(word.text == "no memory" for word in batch):
            # As the driver raises it.
            raise asyncpg.DataError("invalid input") from MemoryError()
        await batch.connection.executemany(
            "insert into tally_change select $1, 'charge', $2, now(), 1", [(word.holder_id, word.text) for word in batch]
        )
        return [errors.InsufficientFunds("refused") if word.text == "refused" else word.text for word in batch]

    async def first_batch(self) -> None:
        async with asyncio.timeout(60):
            while not self.batches:  # noqa: ASYNC110  nothing tells
                await asyncio.sleep(0.01)

    async def written(self, service: Service) -> list[str]:
        return [row["status"] for row in await service.context.pool.fetch("select status from tally_change order by status")]


@asynccontextmanager
async def open_words(
    service: Service, *, overload: Overload | None = None, is_at_once: bool = False, **limits: int
) -> AsyncIterator[tuple[Words, BatchQueue[Word, str]]]:
    words = Words()
    queue: BatchQueue[Word, str] = BatchQueue(
        WriteOperation(
            "write_words",
            words.write,
            write_at_once=words.write_at_once if is_at_once else None,
            external_id_of=lambda word: word.external_id,
        ),
        pool=service.context.pool,
        clock=service.clock,
        wake_workers=lambda orders_count=0, *, only_deliveries=False: None,
        wake_sequencer=lambda: None,
        stalled_tries=asyncio.Semaphore(stalled_holders.TRIED_AT_ONCE_MAX),
        overload=overload,
        **({"size_max": 256, "queue_length_max": 4096} | limits),
    )
    try:
        yield words, queue
    finally:
        words.may_go_on.set()
        await queue.close()


async def outcomes_of(queue: BatchQueue[Word, str], words: Sequence[Word]) -> list[str | BaseException]:
    return await asyncio.gather(*(queue.submit(word) for word in words), return_exceptions=True)
