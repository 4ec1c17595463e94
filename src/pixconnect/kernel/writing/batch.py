"""A batch: requests that are written together, the operations that write them, and one try to write it.

::

    START_TRANSFERS = WriteOperation("start_transfers", _start_transfers)
    ...
    transfer = await context.writes.submit(START_TRANSFERS, new)
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import asyncpg
import structlog

from pixconnect.kernel.tables.installation import WRITE_RECORD
from pixconnect.platform import pool
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import Clock
from pixconnect.platform.database_failure import DATABASE_AWAY
from pixconnect.platform.notifier import WakeWorkers
from pixconnect.platform.pool import Connection

Item = TypeVar("Item")

_log = structlog.get_logger(__name__)


def _wake_none(orders_count: int = 0, *, only_deliveries: bool = False) -> None:
    """For processes without a connection to wake workers; these poll too."""


class Batch(list[Item]):
    """Requests of one kind; each try to write them has its own batch."""

    def __init__(
        self,
        requests: Iterable[Item],
        connection: Connection,
        clock: Clock,
        wake_workers: WakeWorkers = _wake_none,
        wake_sequencer: Callable[[], None] = _wake_none,
        find_latecomers: Callable[[Callable[[Item], bool]], Iterable[Item]] = lambda _: (),
    ) -> None:
        super().__init__(requests)
        self.connection = connection
        self.clock = clock
        self.wake_workers = wake_workers
        self.wake_sequencer = wake_sequencer
        self._find_latecomers = find_latecomers
        self._commit_hooks: list[Callable[[], None]] = []

    def admit(self, fits: Callable[[Item], bool]) -> None:
        """Add requests that have arrived meanwhile and need only our locks."""
        self.extend(self._find_latecomers(fits))

    def on_commit(self, hook: Callable[[], None]) -> None:
        """Register a callback for after the commit; it is never called if the batch does not commit."""
        self._commit_hooks.append(hook)

    def run_commit_hooks(self) -> None:
        for hook in self._commit_hooks:
            try:
                hook()
            # The batch is committed, so nothing may fail it any more; workers poll too.
            except Exception:  # noqa: BLE001
                _log.exception("a notification after a commit failed")


class OfHolder(Protocol):
    """A request that can wait in a queue: queues are shared fairly among holders."""

    @property
    def holder_id(self) -> int: ...


Request = TypeVar("Request", bound=OfHolder)
Answer = TypeVar("Answer")
Answer_contra = TypeVar("Answer_contra", contravariant=True)
Outcomes = Sequence[Answer | errors.PixConnectError]


class PendingReply(Protocol[Answer_contra]):
    """Receives a request's outcome: a future, or something cheaper that raises nothing."""

    def done(self) -> bool:
        """Whether no caller waits any more."""
        ...

    def set_result(self, result: Answer_contra, /) -> None: ...

    def set_exception(self, exception: errors.PixConnectError, /) -> None: ...


class WriteOperation(Generic[Request, Answer]):
    """One way of writing.

    Args:
        write: Writes a batch in its transaction and returns one outcome for each request, in order, admitted ones
            included. It may be called again with the same requests, and must then find what it wrote.
        write_at_once: Writes a batch by a single statement, without a transaction around it; ``None`` if it cannot, and has
            written nothing. What it writes, ``write`` must find.
        makes_orders: Whether workers have to hand over what it writes.
        external_id_of: The idempotency key under which a client can repeat a request.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[Batch[Request]], Awaitable[Outcomes[Answer]]],
        *,
        write_at_once: Callable[[Batch[Request]], Awaitable[Outcomes[Answer] | None]] | None = None,
        makes_orders: bool = False,
        external_id_of: Callable[[Request], str | None] = lambda _: None,
    ) -> None:
        self.name = name
        self.write = write
        self.write_at_once = write_at_once
        self.makes_orders = makes_orders
        self.external_id_of = external_id_of

    async def write_within(self, connection: Connection, clock: Clock, requests: Sequence[Request]) -> Outcomes[Answer]:
        """Write one request in the caller's own transaction, which may hold other locks and write more."""
        return await self.write(Batch(list(requests), connection, clock))


class PendingRequest(Generic[Request, Answer]):
    """One request and its waiting caller."""

    __slots__ = ("answer", "asked_at_s", "is_over", "lost_at_s", "operation", "request")

    def __init__(
        self, operation: WriteOperation[Request, Answer], request: Request, answer: PendingReply[Answer], asked_at_s: float
    ) -> None:
        self.operation = operation
        self.request = request
        self.answer = answer
        self.is_over = answer.done  # whether it was answered, or its client has gone
        self.asked_at_s = asked_at_s
        # Set when a COMMIT of this request was lost: since then it may have taken effect.
        self.lost_at_s: float | None = None

    def resolve(self, outcome: Answer | errors.PixConnectError) -> None:
        if self.is_over():
            return
        if not isinstance(outcome, errors.PixConnectError):
            self.answer.set_result(outcome)
        elif self.lost_at_s is not None and isinstance(outcome, errors.ServiceUnavailable | errors.InternalError):
            # Both errors promise that nothing was done, but the lost COMMIT may have written this one.
            self.resolve_unknown()
        else:
            self.answer.set_exception(outcome)

    def resolve_unknown(self) -> None:
        """Answer ``OutcomeUnknown``, which explains how to repeat the request."""
        if self.is_over():
            return
        message = "the database was lost during the commit and what happened is unknown"
        if (external_id := self.operation.external_id_of(self.request)) is not None:
            message += f': repeat the request with external_id "{external_id}", which cannot take effect twice'
        self.answer.set_exception(errors.OutcomeUnknown(message))


def refuse_stalled(waiters: Sequence[PendingRequest[Request, Answer]]) -> None:
    for waiter in waiters:
        waiter.resolve(account_stalled())


def queue_full() -> errors.ServiceUnavailable:
    return errors.ServiceUnavailable("the write queue is full: try again shortly; nothing was done")


def account_stalled() -> errors.ServiceUnavailable:
    return errors.ServiceUnavailable("the account is locked by another operation; nothing was done")


UNKNOWN_OUTCOME_TIMEOUT_S: Final = 4.0
"""How long a batch is retried after a lost COMMIT to learn its outcome; then callers get the error."""
UNREACHABLE_TIMEOUT_S: Final = 3.0  # how long a batch waits for an unreachable database
SILENT_TIMEOUT_S: Final = 4.5
"""How long a batch waits for the answer to a statement before its COMMIT.

A silently dead connection is detected by nothing else soon, and all later requests wait behind it. Longer than one wait for a
lock, which the server ends.
"""
LOCKED_TIMEOUT_S: Final = 4.5  # how long a request waits, over all tries, for a row that another transaction has locked
LAST_LOCK_S: Final = 0.5  # how long its last try may wait for the lock: longer than other batches that write the same row take
LAST_TRY_S: Final = 0.25  # how long its last try may take to connect: enough if the database is back

_Waiters: TypeAlias = Sequence[PendingRequest[Any, Any]]


def may_find_out(waiters: _Waiters, now_s: float) -> bool:
    """Whether a COMMIT of these was lost recently enough to go on trying."""
    lost_at_s = _find_loss(waiters)
    return lost_at_s is not None and now_s - lost_at_s <= UNKNOWN_OUTCOME_TIMEOUT_S


def has_ended(waiters: _Waiters, now_s: float, away_for_s: float) -> bool:
    """Whether these have waited long enough for an unreachable database."""
    return _measure_wait(waiters, now_s, away_for_s) > UNREACHABLE_TIMEOUT_S and not may_find_out(waiters, now_s)


def find_reach_timeout_s(waiters: _Waiters, now_s: float, away_for_s: float, *, is_first: bool) -> float:
    """Return how long the next try may take to get a connection."""
    # A wait in a long queue does not shorten it.
    if is_first and not away_for_s:
        return UNREACHABLE_TIMEOUT_S
    lost_at_s = _find_loss(waiters)
    if lost_at_s is not None:
        left_s = UNKNOWN_OUTCOME_TIMEOUT_S - (now_s - lost_at_s)
    else:
        left_s = UNREACHABLE_TIMEOUT_S - _measure_wait(waiters, now_s, away_for_s)
    return max(left_s, LAST_TRY_S)


def find_lock_timeout_ms(waiters: _Waiters, now_s: float) -> int | None:
    """Return how long the next try may wait for a lock; ``None`` for the limit of any statement."""
    left_s = max(LOCKED_TIMEOUT_S - _measure_wait(waiters, now_s, 0), LAST_LOCK_S)
    return int(left_s * 1000) if left_s * 1000 < pool.LOCK_TIMEOUT_MS else None


def _measure_wait(waiters: _Waiters, now_s: float, away_for_s: float) -> float:
    # Since the request: a stalled server, or an earlier batch, has used some of the time.
    return max(now_s - min([waiter.asked_at_s for waiter in waiters]), away_for_s)


def _find_loss(waiters: _Waiters) -> float | None:
    return min((waiter.lost_at_s for waiter in waiters if waiter.lost_at_s is not None), default=None)


class BatchAttempt:
    """One try's limits for locks and connections, and whether it has reached COMMIT."""

    __slots__ = ("committing_at_s", "lock_timeout_ms", "reach_timeout_s")

    def __init__(self, *, lock_timeout_ms: int | None, reach_timeout_s: float) -> None:
        self.lock_timeout_ms = lock_timeout_ms
        self.reach_timeout_s = reach_timeout_s
        self.committing_at_s: float | None = None
        """Set before the committing statement is sent: from then on a lost connection leaves the outcome unknown."""

    def may_have_committed(self, error: Exception) -> bool:
        """Whether the batch may have committed although the try ended with this error: only the server can exclude it."""
        # A server that reports an error of the statement has rolled back. A lost connection proves nothing about the COMMIT.
        is_refusal = isinstance(error, asyncpg.PostgresError) and not isinstance(error, DATABASE_AWAY)
        return self.committing_at_s is not None and not is_refusal


async def write_at_once(
    operation: WriteOperation[Request, Answer], batch: Batch[Request], waiters: _Waiters, attempt: BatchAttempt
) -> Outcomes[Answer] | None:
    """Write a batch by a single statement; return ``None``, with nothing written, if the operation cannot."""
    # A retry may find a lost commit, or has its own lock timeout: a transaction handles both.
    if operation.write_at_once is None or attempt.lock_timeout_ms is not None or _find_loss(waiters) is not None:
        return None
    attempt.committing_at_s = batch.clock.monotonic_s()
    with ended_if_silent(batch.connection):
        outcomes = await operation.write_at_once(batch)
    if outcomes is None:
        attempt.committing_at_s = None
    else:
        check_outcomes(outcomes, batch)
    return outcomes


async def write_in_transaction(
    operation: WriteOperation[Request, Answer], batch: Batch[Request], waiters: _Waiters, attempt: BatchAttempt
) -> Outcomes[Answer]:
    """Write a batch between BEGIN and COMMIT; ``waiters`` may grow meanwhile."""
    connection = batch.connection
    transaction = connection.transaction()
    with ended_if_silent(connection):
        await transaction.start()
        try:
            if attempt.lock_timeout_ms is not None:
                await connection.execute(f"set local lock_timeout = {attempt.lock_timeout_ms}")
            outcomes = await operation.write(batch)
            check_outcomes(outcomes, batch)
            if _find_loss(waiters) is not None:
                # This COMMIT waits for an earlier one's writes, although this one finds them written and writes nothing: if an
                # operator cancelled its wait for the standby, a lost COMMIT may exist on its own server alone.
                await connection.execute(WRITE_RECORD)
        except DATABASE_AWAY as error:
            if is_intact(connection, error):
                await transaction.rollback()
            raise  # no connection is left to roll back on
        except BaseException:
            await transaction.rollback()
            raise
    attempt.committing_at_s = batch.clock.monotonic_s()
    await transaction.commit()
    return outcomes


@contextmanager
def ended_if_silent(connection: Connection, timeout_s: float = SILENT_TIMEOUT_S) -> Generator[None]:
    """Close a pool's connection if its server leaves a statement of the block unanswered for so long."""
    began_s = time.monotonic()

    def look() -> None:
        nonlocal timer
        # A batch of many statements may take longer, as long as each is answered.
        left_s = max(began_s, connection.answered_s) + timeout_s - time.monotonic()  # type: ignore[union-attr]  a pool's has it
        if left_s > 0:
            timer = loop.call_later(left_s, look)
        else:
            # Cancelling is not enough: the driver then waits for the server's answer to that.
            connection.terminate()

    loop = asyncio.get_running_loop()
    timer = loop.call_later(timeout_s, look)
    try:
        yield
    finally:
        timer.cancel()


def is_intact(connection: Connection, error: Exception) -> bool:
    """Whether the server itself reported the failure, such as a full disk, and the connection is still usable."""
    if not isinstance(error, asyncpg.PostgresError) or isinstance(error, asyncpg.PostgresConnectionError):
        return False  # a closed connection of a pool raises on any access
    return not connection.is_closed()


def check_outcomes(outcomes: Sequence[object], requests: Sequence[object]) -> None:
    """Refuse to commit a batch whose operation did not return one outcome for each request."""
    errors.ensure(len(outcomes) == len(requests), f"{len(outcomes)} outcomes of {len(requests)} requests")
