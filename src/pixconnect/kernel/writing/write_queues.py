"""The write queues of one process: one for each operation, made on its first request."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from pixconnect.kernel.tables import order as order_store
from pixconnect.kernel.writing.batch import Answer, Batch, PendingReply, Request, WriteOperation
from pixconnect.kernel.writing.batch_queue import BatchQueue
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import Clock
from pixconnect.platform.database_failure import DATABASE_FAILED, explain_undone
from pixconnect.platform.flow import stalled_holders
from pixconnect.platform.flow.overload import Overload
from pixconnect.platform.notifier import WakeWorkers
from pixconnect.platform.pool import Pool

GROUP_SIZE_MAX: Final = 256  # maximum of requests that one transaction writes
QUEUE_LENGTH_MAX: Final = 4096
"""Maximum of waiting requests: 16 batches of the largest size. More would wait longer than their callers do."""


class QueueFigures(Struct, frozen=True, kw_only=True):
    name: str
    commits_by_size: Mapping[int, int]
    queue_length: int


class WriteQueues:
    def __init__(
        self,
        *,
        pool: Pool,
        clock: Clock,
        queue_length_max: int = QUEUE_LENGTH_MAX,
        wake_workers: WakeWorkers,
        wake_sequencer: Callable[[], None],
    ) -> None:
        self.overload = Overload(clock, self._find_oldest_order)
        self._pool = pool
        self._clock = clock
        self._queue_length_max = queue_length_max
        self._wake_workers = wake_workers
        self._wake_sequencer = wake_sequencer
        # One for all operations: each try waits for the locks of a stalled holder, and keeps a connection meanwhile.
        self._stalled_tries = asyncio.Semaphore(stalled_holders.TRIED_AT_ONCE_MAX)
        self._by_operation: dict[object, BatchQueue[Any, Any]] = {}

    def submit(self, operation: WriteOperation[Request, Answer], request: Request) -> Coroutine[Any, Any, Answer]:
        """Write one request in the next batch of its operation; errors as in ``BatchQueue.submit``."""
        return self._queue_of(operation).submit(request)

    def put(self, operation: WriteOperation[Request, Answer], request: Request, reply: PendingReply[Answer]) -> None:
        """As ``submit``, for callers that do not wait as a coroutine."""
        self._queue_of(operation).put(request, reply)

    async def submit_all(
        self, operation: WriteOperation[Request, Answer], requests: Sequence[Request]
    ) -> list[Answer | errors.PixConnectError]:
        """Submit several requests at once; one outcome each, in order."""
        queue = self._queue_of(operation)
        return await asyncio.gather(*(_outcome_of(queue.submit(request)) for request in requests))

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Batch[Any]]:
        """Commit a batch without requests at the end: for due work without a caller, such as expiry."""
        async with self._pool.acquire() as connection:
            batch = Batch[Any]((), connection, self._clock, self._wake_workers, self._wake_sequencer)
            async with connection.transaction():
                yield batch
            # After the COMMIT: a worker woken earlier finds nothing.
            batch.run_commit_hooks()

    def read_figures(self) -> list[QueueFigures]:
        return [
            QueueFigures(name=queue.name, commits_by_size=queue.commits_by_size, queue_length=queue.queue_length)
            for queue in self._by_operation.values()
        ]

    async def close(self) -> None:
        """Write the queued requests, and refuse later ones."""
        await self.overload.close()
        await asyncio.gather(*(queue.close() for queue in self._by_operation.values()))

    async def _find_oldest_order(self) -> datetime | None:
        try:
            return await order_store.find_oldest(self._pool)
        except DATABASE_FAILED as error:
            raise errors.ServiceUnavailable(explain_undone(error)) from error

    def _queue_of(self, operation: WriteOperation[Request, Answer]) -> BatchQueue[Request, Answer]:
        # Nothing is awaited between the check and the creation, so two first requests get one queue.
        queue: BatchQueue[Request, Answer] | None = self._by_operation.get(operation)
        if queue is None:
            queue = self._by_operation[operation] = BatchQueue(
                operation,
                pool=self._pool,
                clock=self._clock,
                size_max=GROUP_SIZE_MAX,
                queue_length_max=self._queue_length_max,
                wake_workers=self._wake_workers,
                wake_sequencer=self._wake_sequencer,
                stalled_tries=self._stalled_tries,
                # Operations that make no orders, such as a charge, add nothing to the workers' backlog.
                overload=self.overload if operation.makes_orders else None,
            )
        return queue


async def _outcome_of(answer: Awaitable[Answer]) -> Answer | errors.PixConnectError:
    try:
        return await answer
    except errors.PixConnectError as error:
        return error
