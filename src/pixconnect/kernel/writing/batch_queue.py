"""Requests of one kind wait in a queue, and those that wait together are written together.

::

    submit ─┐
    submit ─┼─► queue ──► batch ──► BEGIN, operation.write(batch), COMMIT ──► each request its own answer
    submit ─┘    └─ admit ─┘        (what arrived while the last batch was committing, of each holder in turn; no timer)

One account is one balance row: a commit per request would make that row, and the disk, the limit. Batches of several processes
take turns at it, and requests that arrive while a batch waits for its turn still join it: once its rows are locked it admits
all that concern them, and one that locks nothing admits all. A refusal is an outcome of one request and never touches its
batch. One request alone is a batch of one: there is no second path.

Failures, and the affected requests:

- Data that PostgreSQL refuses, or an internal defect: the batch is halved until the poisoned request stands alone; the others
  are written.
- A holder's row locked by another transaction: the batch is parted by holder, each part is tried briefly, and a stalled holder
  gets its own queue, beside the common batches, until it moves again.
- The connection is lost before COMMIT was sent: nothing was done, the batch is tried again.
- The connection is lost during COMMIT: the outcome is unknown. All ids were made before the first try, so the batch runs again
  with the same ids: either it finds its own rows, or the unique keys wait for the lost transaction and then decide. A request
  with an unknown outcome is never answered as if nothing was done.
- The client goes away: before its batch starts it is dropped, after that it is committed all the same.
- A holder sends more than can be written: batches are filled from all holders in turn, a holder that is alone has the whole
  queue, and while others wait half of it. A full queue refuses the holder that has filled it. And a holder that sends more than
  all others together gets separate batches, written beside theirs: other processes and workers wait for its balance too, and
  a batch waits for the slowest of its balances.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextvars import Context
from functools import partial
from typing import Final, Generic, TypeAlias

import asyncpg
import structlog

from pixconnect.kernel.tables.table import find_refusal
from pixconnect.kernel.writing.batch import (
    Answer,
    Batch,
    BatchAttempt,
    Outcomes,
    PendingReply,
    PendingRequest,
    Request,
    WriteOperation,
    account_stalled,
    find_lock_timeout_ms,
    find_reach_timeout_s,
    has_ended,
    may_find_out,
    queue_full,
    refuse_stalled,
    write_at_once,
    write_in_transaction,
)
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import Clock
from pixconnect.platform.database_failure import DATABASE_AWAY, explain_undone, lacks_memory
from pixconnect.platform.flow.overload import Overload
from pixconnect.platform.flow.shares import FairQueue
from pixconnect.platform.flow.stalled_holders import BusyHolder, StalledHolders
from pixconnect.platform.logging import has_written
from pixconnect.platform.notifier import WakeWorkers
from pixconnect.platform.pool import Pool

BRIEF_LOCK_TIMEOUT_MS: Final = 100
"""How long the parts of a stalled batch wait for a lock, before stalled holders get queues of their own."""
PARTS_AT_ONCE_MAX: Final = 4
RETRIES_MAX: Final = 5  # how often a batch that conflicts with another process's rows or locks starts over

_RETRIED = (
    asyncpg.UniqueViolationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.InvalidCachedStatementError,
)
_STALLED = (asyncpg.LockNotAvailableError, asyncpg.QueryCanceledError)

_Waiters: TypeAlias = list[PendingRequest[Request, Answer]]
_OnStall: TypeAlias = Callable[[list[PendingRequest[Request, Answer]]], Awaitable[None]]  # gets requests that met a lock

_log = structlog.get_logger(__name__)


class BatchQueue(Generic[Request, Answer]):
    """Writes the requests of one operation in batches.

    Args:
        queue_length_max: Maximum of waiting requests, of all holders together.
        overload: Slows the writing of orders down; ``None`` for operations that make none.
        stalled_tries: Limits the tries for stalled holders of all queues over the same pool.
    """

    def __init__(  # noqa: PLR0913  most of them every queue of a process has
        self,
        operation: WriteOperation[Request, Answer],
        *,
        pool: Pool,
        clock: Clock,
        size_max: int,
        queue_length_max: int,
        wake_workers: WakeWorkers,
        wake_sequencer: Callable[[], None],
        stalled_tries: asyncio.Semaphore,
        overload: Overload | None = None,
    ) -> None:
        self._operation = operation
        self._overload = overload
        self._wake_workers = wake_workers
        self._wake_sequencer = wake_sequencer
        self._pool = pool
        self._clock = clock
        self._size_max = size_max
        self._queue: FairQueue[PendingRequest[Request, Answer]] = FairQueue(
            queue_length_max, lambda waiter: waiter.resolve(queue_full())
        )
        self._stalled: StalledHolders[PendingRequest[Request, Answer]] = StalledHolders(
            self._answer_surely, refuse_stalled, clock=clock, size_max=size_max, tries=stalled_tries
        )
        self._part_tries = asyncio.Semaphore(PARTS_AT_ONCE_MAX)
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._busy = BusyHolder(self._queue, self._write_busy, self._wake.set)
        self._is_closing = False
        self._task: asyncio.Task[None] | None = None
        self.commits_by_size: Counter[int] = Counter()

    @property
    def name(self) -> str:
        return self._operation.name

    @property
    def queue_length(self) -> int:
        return len(self._queue)

    async def submit(self, request: Request) -> Answer:
        """Write one request in the next batch; returns when it is durable.

        Raises:
            ServiceUnavailable: The queue is full for this holder, or the database is unreachable; nothing was done.
            OutcomeUnknown: The database went away during the commit and did not come back in time.
        """
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self.put(request, answer)
        written = await answer
        has_written.set(True)
        return written

    def put(self, request: Request, reply: PendingReply[Answer]) -> None:
        """As ``submit``, with a reply object; a full queue, or an unreachable database, is raised at once."""
        if self._pool.is_away:
            raise errors.ServiceUnavailable(explain_undone(self._pool.away_error()))
        waiter = PendingRequest(self._operation, request, reply, self._clock.monotonic_s())
        if self._is_closing or not self._queue.put(request.holder_id, waiter):
            raise queue_full()
        # A dead task, for example after a MemoryError, would keep all callers waiting.
        if self._task is None or self._task.done():
            # In a separate context: the task works for all, and must not count as the first caller's.
            self._task = asyncio.create_task(self._run(), name=f"batches of {self._operation.name}", context=Context())
        if request.holder_id == self._busy.holder_id:
            self._busy.wake()
        else:
            self._wake.set()

    async def close(self) -> None:
        """Write the queued requests, and refuse later ones."""
        self._is_closing = True
        self._wake.set()
        self._busy.end_soon()
        if self._task is not None:
            await self._task
        await self._stalled.close()

    async def _run(self) -> None:
        waiters: _Waiters[Request, Answer] = []
        while True:
            if self._overload is not None:
                await self._overload.wait(is_busy=False)
            self._busy.choose(waiter.request.holder_id for waiter in waiters)
            waiters = self._take_next(is_busy=False)
            if waiters:
                await self._answer_surely(waiters, self._part_stalled)
            elif self._is_closing and self._busy.holder_id is None:
                return
            else:
                self._wake.clear()
                await self._wake.wait()

    async def _write_busy(self) -> bool:
        """Write the busy holder's requests, and return whether there were any."""
        if self._overload is not None:
            await self._overload.wait(is_busy=True)
        waiters = self._take_next(is_busy=True)
        if waiters:
            # A part that meets a lock gets one more try before it is refused, as in a batch with others.
            await self._answer_surely(waiters, self._wait_beside)
        return bool(waiters)

    def _take_next(self, *, is_busy: bool) -> _Waiters[Request, Answer]:
        """Take the next batch, of the busy holder or the others in turn; stalled holders' requests go to their own queues."""
        waiters: _Waiters[Request, Answer] = []
        size_max = self._size_now()
        while len(self._queue) and len(waiters) < size_max:
            taken = self._queue.take(size_max - len(waiters), may_have=self._lane(is_busy=is_busy))
            if not taken:
                break
            for waiter in taken:
                if waiter.is_over():
                    continue  # its client has gone before anything was written: dropping it is safe
                own_queue = self._stalled.find(waiter.request.holder_id)
                if own_queue is None:
                    waiters.append(waiter)
                # At most one batch of a stalled holder waits; more are refused at once.
                elif len(own_queue) < self._size_max:
                    own_queue.append(waiter)
                else:
                    waiter.resolve(account_stalled())
        return waiters

    def _size_now(self) -> int:
        return self._size_max if self._overload is None else self._overload.bound_batch(self._size_max)

    def _lane(self, *, is_busy: bool) -> Callable[[Hashable], bool] | None:
        """Return the holders of the next batch: the busy one or all others; ``None`` while no holder is busy."""
        busy_id = self._busy.holder_id
        return None if busy_id is None else lambda holder_id: (holder_id == busy_id) is is_busy

    async def _answer_surely(self, waiters: _Waiters[Request, Answer], on_stall: _OnStall[Request, Answer]) -> None:
        try:
            await self._answer(waiters, on_stall)
        # A defect of this very file fails one batch. If the task ended, all callers would wait for ever.
        except Exception:  # noqa: BLE001
            _log.exception("batch failed", operation=self._operation.name)
            for waiter in waiters:
                waiter.resolve_unknown()

    async def _answer(
        self, waiters: _Waiters[Request, Answer], on_stall: _OnStall[Request, Answer], *, is_brief: bool = False
    ) -> None:
        """Write a batch and answer all its callers; raises nothing."""
        try:
            outcomes = await self._write_durably(waiters, is_brief=is_brief)
        except _STALLED:
            await on_stall(waiters)
        except errors.PixConnectError as error:
            for waiter in waiters:
                waiter.resolve(error)
        except Exception as error:  # noqa: BLE001  after any error, the clients must get an answer
            await self._answer_poisoned(waiters, on_stall, error)
        else:
            for waiter, outcome in zip(waiters, outcomes, strict=True):
                waiter.resolve(outcome)

    async def _write_durably(self, waiters: _Waiters[Request, Answer], *, is_brief: bool) -> Outcomes[Answer]:
        """Retry until the outcome is known or time is up; ``waiters`` grows by the requests that are admitted."""
        started_s = self._clock.monotonic_s()
        retries_count = 0
        is_first = True
        while True:
            now_s, away_for_s = self._clock.monotonic_s(), self._pool.away_for_s
            reach_timeout_s = find_reach_timeout_s(waiters, now_s, away_for_s, is_first=is_first)
            # A lost transaction may hold its locks while it waits for a standby, and its callers are answered before that.
            is_quick = is_brief or self._may_find_out(waiters)
            lock_timeout_ms = BRIEF_LOCK_TIMEOUT_MS if is_quick else find_lock_timeout_ms(waiters, now_s)
            attempt = BatchAttempt(lock_timeout_ms=lock_timeout_ms, reach_timeout_s=reach_timeout_s)
            try:
                return await self._write_once(waiters, attempt)
            except _RETRIED:
                # Another process wrote the same key, or deadlocked with us: the next try sees its rows.
                retries_count += 1
                if retries_count > RETRIES_MAX:
                    raise
            except _STALLED:
                # After a lost COMMIT the lock is most likely our own lost transaction's: wait for it.
                if not self._may_find_out(waiters):
                    raise
            except Exception as error:  # noqa: BLE001  after any error of a COMMIT, it may have been done
                await self._outlast(error, waiters, attempt, started_s)
                is_first = False

    async def _outlast(
        self, error: Exception, waiters: _Waiters[Request, Answer], attempt: BatchAttempt, started_s: float
    ) -> None:
        """Wait before the next try; raise if there must be none."""
        now_s = self._clock.monotonic_s()
        if attempt.may_have_committed(error):
            _log.warning("the outcome of a commit is unknown", error=type(error).__name__)
            # The first loss counts: a second one gives no more time.
            for waiter in waiters:
                waiter.lost_at_s = waiter.lost_at_s or attempt.committing_at_s
        elif not isinstance(error, DATABASE_AWAY):
            raise error
        # A full disk needs a person, and requests do not wait for people.
        away_for_s = float("inf") if isinstance(error, asyncpg.DiskFullError) else self._pool.away_for_s
        if has_ended(waiters, now_s, away_for_s):
            raise errors.ServiceUnavailable(explain_undone(error)) from error
        await asyncio.sleep(min(0.05 + (now_s - started_s) / 10, 0.5))

    def _may_find_out(self, waiters: _Waiters[Request, Answer]) -> bool:
        return may_find_out(waiters, self._clock.monotonic_s())

    async def _write_once(self, waiters: _Waiters[Request, Answer], attempt: BatchAttempt) -> Outcomes[Answer]:
        async with self._pool.acquire(timeout=attempt.reach_timeout_s, insists=True) as connection:
            requests, find_latecomers = [waiter.request for waiter in waiters], partial(self._find_latecomers, waiters)
            wakes = self._wake_workers, self._wake_sequencer
            batch = Batch(requests, connection, self._clock, *wakes, find_latecomers)
            outcomes = await write_at_once(self._operation, batch, waiters, attempt)
            if outcomes is None:
                outcomes = await write_in_transaction(self._operation, batch, waiters, attempt)
            self.commits_by_size[len(batch)] += 1
            if self._overload is not None:
                self._overload.note(len(batch), is_busy=waiters[0].request.holder_id == self._busy.holder_id)
            batch.run_commit_hooks()
            return outcomes

    def _find_latecomers(self, waiters: _Waiters[Request, Answer], fits: Callable[[Request], bool]) -> Iterator[Request]:
        """Move queued requests that fit into the batch, of each holder in turn; the others keep their order."""

        def may_join(waiter: PendingRequest[Request, Answer]) -> bool:
            if waiter.is_over():
                return True  # takes it out of the queue; it does not join the batch
            return self._stalled.find(waiter.request.holder_id) is None and fits(waiter.request)

        is_busy = waiters[0].request.holder_id == self._busy.holder_id
        for waiter in self._queue.take(max(0, self._size_now() - len(waiters)), may_join, self._lane(is_busy=is_busy)):
            if not waiter.is_over():
                waiters.append(waiter)
                yield waiter.request

    async def _part_stalled(self, waiters: _Waiters[Request, Answer]) -> None:
        """Split a stalled batch by holder, to find out whose row is locked."""
        parts: dict[int, _Waiters[Request, Answer]] = {}
        for waiter in waiters:
            parts.setdefault(waiter.request.holder_id, []).append(waiter)
        if len(parts) > 1:
            await asyncio.gather(*(self._try_part(part) for part in parts.values()))
            return
        # One holder alone has already waited for the whole lock timeout: refuse it, and try its next requests apart.
        refuse_stalled(waiters)
        for holder_id in parts:
            self._stalled.open(holder_id)

    async def _try_part(self, part: _Waiters[Request, Answer]) -> None:
        async with self._part_tries:
            await self._answer(part, self._wait_beside, is_brief=True)

    async def _wait_beside(self, part: _Waiters[Request, Answer]) -> None:
        own_queue = self._stalled.open(part[0].request.holder_id)
        if own_queue is None:
            refuse_stalled(part)
        else:
            own_queue.extend(part)

    async def _answer_poisoned(
        self, waiters: _Waiters[Request, Answer], on_stall: _OnStall[Request, Answer], error: Exception
    ) -> None:
        """Halve the batch until the poisoned request is alone; only its sender gets the error."""
        if len(waiters) > 1:
            middle = len(waiters) // 2
            await self._answer(waiters[:middle], on_stall)
            await self._answer(waiters[middle:], on_stall)
            return
        for waiter in waiters:
            failure = find_refusal(error)
            if failure is None:
                _log.error("request failed", exc_info=error)
                failure = errors.InternalError("internal error")
            if lacks_memory(error):
                failure = errors.ServiceUnavailable("the service has no memory left; nothing was done")
            failure.__cause__ = error
            waiter.resolve(failure)
