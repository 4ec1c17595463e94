"""Group commit: requests that wait together are written together.

::

    submit ─┐
    submit ─┼─► queue ──► group ──► BEGIN, write(connection, group), COMMIT ──► each request its own answer
    submit ─┘    └─ admit ─┘        (what arrived while the last group was committing, of each holder in turn; no timer)

One account is one balance row: a commit per request would make that row, and the disk, the limit. Groups of several processes
take turns at it, and what arrives while a group waits for its turn still goes with it: once its rows are locked it admits
whatever else concerns them. A refusal is an outcome of one request and never touches its group. One request alone is a group
of one: there is no second path.

What can go wrong, and who is touched by it:

- Data that PostgreSQL refuses, or a defect of ours: the group is halved until the poisoned request stands alone; the others
  are written.
- A holder's row locked by somebody else: the group is parted by holder, each part is tried briefly, and a stalled holder gets
  a lane of its own, beside everybody else's groups, until it moves again.
- The connection is lost before COMMIT was sent: nothing was done, the group is tried again.
- The connection is lost during COMMIT: nobody knows. All ids were made before the first try, so the group runs again with
  the same ids: either it finds its own rows, or the unique keys wait for the lost transaction and then tell. A request of
  which this is not known is never told that nothing was done.
- The client goes away: before its group starts it is dropped, after that it is committed all the same.
- A holder sends more than can be written: groups are filled from all holders in turn, a holder that is alone has the whole
  queue, and while others wait half of it. A queue that is full is full for whoever has filled it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextvars import Context
from functools import partial
from typing import Generic, Protocol, TypeVar

import asyncpg
import structlog

from pixconnect.domain import errors
from pixconnect.domain.clock import Clock
from pixconnect.foundation.database_failure import DATABASE_AWAY
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.foundation.shares import FairQueue
from pixconnect.usecases.stalled_lanes import StalledLanes


class Groupable(Protocol):
    """What can be written in a group."""

    @property
    def holder_id(self) -> int:
        """Whose balance or charges it concerns."""
        ...

    @property
    def external_id(self) -> str | None:
        """What to repeat it under when its outcome is unknown."""
        ...


Request = TypeVar("Request", bound=Groupable)
Answer = TypeVar("Answer")
Outcomes = Sequence[Answer | errors.PixConnectError]

UNKNOWN_OUTCOME_PATIENCE_S = 10.0
"""How long we try to find out what a lost COMMIT did."""
UNREACHABLE_PATIENCE_S = 3.0
"""How long a group waits for a database that is away."""
BRIEF_LOCK_TIMEOUT_MS = 100
"""How long the parts of a stalled group wait for a lock, before those that wait get lanes."""
PARTS_AT_ONCE_MAX = 4
RERUNS_MAX = 5
"""How often a group that met another process's rows or locks starts over."""

_START_OVER = (
    asyncpg.UniqueViolationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.InvalidCachedStatementError,
)
_STALLED = (asyncpg.LockNotAvailableError, asyncpg.QueryCanceledError)

_log = structlog.get_logger(__name__)


class _Waiting(Generic[Request, Answer]):
    """One request and whoever waits for its answer."""

    __slots__ = ("answer", "lost_at_s", "request")

    def __init__(self, request: Request, answer: asyncio.Future[Answer]) -> None:
        self.request = request
        self.answer = answer
        self.lost_at_s: float | None = None
        """When a COMMIT with this request in it was lost; from then on it may have taken effect."""

    @property
    def is_over(self) -> bool:
        """Whether nobody waits any more."""
        return self.answer.done()

    def resolve(self, outcome: Answer | errors.PixConnectError) -> None:
        """Tell the answer, unless whoever waited has gone."""
        if self.is_over:
            return
        if not isinstance(outcome, errors.PixConnectError):
            self.answer.set_result(outcome)
        elif self.lost_at_s is not None and isinstance(outcome, errors.ServiceUnavailable | errors.InternalError):
            self.answer.set_exception(_unknown(self.request.external_id))
        else:
            self.answer.set_exception(outcome)


class Group(list[Request]):
    """The requests that are written together.

    Args:
        requests: Those it begins with.
        find_latecomers: Takes out of the queue what fits, in order.
    """

    def __init__(
        self, requests: Iterable[Request], find_latecomers: Callable[[Callable[[Request], bool]], Iterable[Request]]
    ) -> None:
        super().__init__(requests)
        self._find_latecomers = find_latecomers

    def admit(self, fits: Callable[[Request], bool]) -> None:
        """Take in what has arrived meanwhile and needs no lock that is not held."""
        self.extend(self._find_latecomers(fits))


Write = Callable[["Connection", Group[Request]], Awaitable[Outcomes[Answer]]]


class GroupCommit(Generic[Request, Answer]):
    """Writes requests of one kind in groups.

    Args:
        write: Writes a group in the transaction it is given: one outcome a request, in order, those included that it has
            admitted. It may be called again with the same requests, and must then find what it wrote.
        pool: Connections.
        clock: For patience; its time cannot be moved by the sandbox.
        size_max: Requests in a group at most.
        queue_length_max: Requests waiting at most, of all holders together.
        on_commit: Hears of each commit, with its connection.
        lane_places: Shared by all that write over the same pool.
    """

    def __init__(
        self,
        write: Write[Request, Answer],
        *,
        pool: Pool,
        clock: Clock,
        size_max: int,
        queue_length_max: int,
        on_commit: Callable[[Connection], None],
        lane_places: asyncio.Semaphore,
    ) -> None:
        self._on_commit = on_commit
        self._write = write
        self._pool = pool
        self._clock = clock
        self._size_max = size_max
        self._queue: FairQueue[_Waiting[Request, Answer]] = FairQueue(queue_length_max, _refuse_for_room)
        self._lanes: StalledLanes[_Waiting[Request, Answer]] = StalledLanes(
            self._answer_surely, _refuse, clock=clock, size_max=size_max, places=lane_places
        )
        self._part_places = asyncio.Semaphore(PARTS_AT_ONCE_MAX)
        self._wake = asyncio.Event()
        self._is_closing = False
        self._task: asyncio.Task[None] | None = None
        self.commits_by_size: Counter[int] = Counter()

    @property
    def queue_length(self) -> int:
        """Requests that wait for their group."""
        return len(self._queue)

    async def submit(self, request: Request) -> Answer:
        """Have one request written in the next group.

        Returns:
            Its answer, once it is durable.

        Raises:
            Refusal: Whatever ``write`` refused it with.
            ServiceUnavailable: The queue is full for this holder, or the database is away; nothing was done.
            OutcomeUnknown: The database went away during the commit and did not come back in time.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if self._is_closing or not self._queue.put(request.holder_id, _Waiting(request, answer)):
            raise _queue_full()
        if self._task is None:
            # In a context of its own: what it does is everybody's, and not of whoever asked first.
            self._task = asyncio.create_task(self._run(), name="group commit", context=Context())
        self._wake.set()
        return await answer

    async def close(self) -> None:
        """Write what waits, and take no more."""
        self._is_closing = True
        self._wake.set()
        if self._task is not None:
            await self._task
        await self._lanes.close()

    async def _run(self) -> None:
        while True:
            group = self._next_group()
            if group:
                await self._answer_surely(group, self._refuse_stalled)
            elif self._is_closing:
                return
            else:
                self._wake.clear()
                await self._wake.wait()

    def _next_group(self) -> list[_Waiting[Request, Answer]]:
        """What waits now, of each holder in turn, without those who have gone and those of stalled holders."""
        group: list[_Waiting[Request, Answer]] = []
        while len(self._queue) and len(group) < self._size_max:
            for waiting in self._queue.take(self._size_max - len(group)):
                if waiting.is_over:
                    continue
                lane = self._lanes.find(waiting.request.holder_id)
                if lane is None:
                    group.append(waiting)
                elif len(lane) < self._size_max:
                    lane.append(waiting)
                else:
                    waiting.resolve(_stalled())
        return group

    async def _answer_surely(
        self,
        group: list[_Waiting[Request, Answer]],
        otherwise: Callable[[list[_Waiting[Request, Answer]]], Awaitable[None]],
    ) -> None:
        """As ``_answer``; a defect of this very file is its group's alone, and everybody else's requests are still written."""
        try:
            await self._answer(group, otherwise)
        except Exception:  # noqa: BLE001  a committer that ends leaves everybody waiting for ever
            _log.exception("group commit failed")
            for waiting in group:
                waiting.resolve(_unknown(waiting.request.external_id))

    async def _answer(
        self,
        group: list[_Waiting[Request, Answer]],
        otherwise: Callable[[list[_Waiting[Request, Answer]]], Awaitable[None]],
        *,
        is_brief: bool = False,
    ) -> None:
        """Write a group and give everybody in it an answer; raises nothing. ``otherwise`` takes what stalled."""
        try:
            outcomes = await self._write_durably(group, is_brief=is_brief)
        except _STALLED:
            await otherwise(group)
        except errors.PixConnectError as error:
            for waiting in group:
                waiting.resolve(error)
        except Exception as error:  # noqa: BLE001  whatever it is, those who wait must hear of it
            await self._answer_poisoned(group, otherwise, error)
        else:
            for waiting, outcome in zip(group, outcomes, strict=True):
                waiting.resolve(outcome)

    async def _write_durably(self, group: list[_Waiting[Request, Answer]], *, is_brief: bool) -> Outcomes[Answer]:
        """Run the group until its outcome is known or patience ends; it grows by what is admitted to it."""
        started_s = self._clock.monotonic_s()
        reruns_count = 0
        while True:
            attempt = _Attempt(is_brief=is_brief)
            try:
                return await self._write_once(group, attempt)
            except _START_OVER:
                reruns_count += 1
                if reruns_count > RERUNS_MAX:
                    raise
            except _STALLED:
                # After a lost COMMIT the lock is most likely our own lost transaction's: wait for it.
                if not self._may_find_out(group):
                    raise
            except DATABASE_AWAY as error:
                now_s = self._clock.monotonic_s()
                if attempt.is_committing:
                    for waiting in group:
                        waiting.lost_at_s = waiting.lost_at_s or now_s
                if not self._may_find_out(group) and now_s - started_s > UNREACHABLE_PATIENCE_S:
                    raise errors.ServiceUnavailable("the database cannot be reached; nothing was done") from error
                await asyncio.sleep(min(0.05 + (now_s - started_s) / 10, 0.5))

    def _may_find_out(self, group: list[_Waiting[Request, Answer]]) -> bool:
        """Whether a COMMIT with these was lost so lately that it is worth asking on."""
        lost_at_s = min((waiting.lost_at_s for waiting in group if waiting.lost_at_s is not None), default=None)
        return lost_at_s is not None and self._clock.monotonic_s() - lost_at_s <= UNKNOWN_OUTCOME_PATIENCE_S

    async def _write_once(self, group: list[_Waiting[Request, Answer]], attempt: _Attempt) -> Outcomes[Answer]:
        requests = Group((waiting.request for waiting in group), partial(self._find_latecomers, group))
        async with self._pool.acquire(timeout=UNREACHABLE_PATIENCE_S) as connection:
            transaction = connection.transaction()
            await transaction.start()
            try:
                if attempt.is_brief:
                    await connection.execute(f"set local lock_timeout = {BRIEF_LOCK_TIMEOUT_MS}")
                outcomes = await self._write(connection, requests)
                _check_outcomes(outcomes, requests)
            except DATABASE_AWAY:
                raise
            except BaseException:
                await transaction.rollback()
                raise
            attempt.is_committing = True
            await transaction.commit()
            self.commits_by_size[len(requests)] += 1
            self._tell_committed(connection)
            return outcomes

    def _tell_committed(self, connection: Connection) -> None:
        try:
            self._on_commit(connection)
        except Exception:  # noqa: BLE001  whoever is told looks anyway; these requests are written
            _log.exception("nobody was told of a commit")

    def _find_latecomers(
        self, group: list[_Waiting[Request, Answer]], fits: Callable[[Request], bool]
    ) -> Iterator[Request]:
        """What waits now and fits, of each holder in turn, moved into the group; the others keep their order."""

        def may_join(waiting: _Waiting[Request, Answer]) -> bool:
            if waiting.is_over:
                return True  # out of the queue with it
            return self._lanes.find(waiting.request.holder_id) is None and fits(waiting.request)

        for waiting in self._queue.take(self._size_max - len(group), may_join):
            if not waiting.is_over:
                group.append(waiting)
                yield waiting.request

    async def _refuse_stalled(self, group: list[_Waiting[Request, Answer]]) -> None:
        """Part a stalled group by holder; of one holder alone, refuse it, and try what comes next of it beside."""
        parts: dict[int, list[_Waiting[Request, Answer]]] = {}
        for waiting in group:
            parts.setdefault(waiting.request.holder_id, []).append(waiting)
        if len(parts) > 1:
            await asyncio.gather(*(self._try_part(part) for part in parts.values()))
            return
        _refuse(group)
        for holder_id in parts:
            self._lanes.open(holder_id)

    async def _try_part(self, part: list[_Waiting[Request, Answer]]) -> None:
        async with self._part_places:
            await self._answer(part, self._wait_beside, is_brief=True)

    async def _wait_beside(self, part: list[_Waiting[Request, Answer]]) -> None:
        lane = self._lanes.open(part[0].request.holder_id)
        if lane is None:
            _refuse(part)
        else:
            lane.extend(part)

    async def _answer_poisoned(
        self,
        group: list[_Waiting[Request, Answer]],
        otherwise: Callable[[list[_Waiting[Request, Answer]]], Awaitable[None]],
        error: Exception,
    ) -> None:
        """Halve the group; what fails alone is our defect, and only its own sender hears of it."""
        if len(group) > 1:
            middle = len(group) // 2
            await self._answer(group[:middle], otherwise)
            await self._answer(group[middle:], otherwise)
            return
        for waiting in group:
            _log.error("request failed", exc_info=error)
            failure = errors.InternalError("internal error")
            failure.__cause__ = error
            waiting.resolve(failure)


class _OutcomesMissingError(Exception):
    """Whoever wrote a group has not said what became of each request: it must not be committed."""


class _Attempt:
    """How long one try may wait, and how far it came."""

    __slots__ = ("is_brief", "is_committing")

    def __init__(self, *, is_brief: bool) -> None:
        self.is_brief = is_brief
        self.is_committing = False


def _check_outcomes(outcomes: Sequence[object], requests: Sequence[object]) -> None:
    if len(outcomes) != len(requests):
        raise _OutcomesMissingError(f"{len(outcomes)} outcomes of {len(requests)} requests")


def _refuse(group: Sequence[_Waiting[Request, Answer]]) -> None:
    for waiting in group:
        waiting.resolve(_stalled())


def _refuse_for_room(waiting: _Waiting[Request, Answer]) -> None:
    waiting.resolve(_queue_full())


def _queue_full() -> errors.ServiceUnavailable:
    return errors.ServiceUnavailable("the write queue is full: try again shortly; nothing was done")


def _stalled() -> errors.ServiceUnavailable:
    return errors.ServiceUnavailable("the account is locked by another operation; nothing was done")


def _unknown(external_id: str | None) -> errors.OutcomeUnknown:
    lost = "the database was lost during the commit and what happened is unknown"
    if external_id is None:
        return errors.OutcomeUnknown(lost)
    return errors.OutcomeUnknown(
        f'{lost}: repeat the request with external_id "{external_id}", which cannot take effect twice'
    )
