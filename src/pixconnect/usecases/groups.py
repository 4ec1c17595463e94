"""The group commits of one process: each way of writing has its queue, made when it is first asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from pixconnect.domain import errors
from pixconnect.domain.clock import Clock
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.usecases import stalled_lanes
from pixconnect.usecases.group_commit import Group, Groupable, GroupCommit, Outcomes

if TYPE_CHECKING:  # which holds one of these
    from pixconnect.usecases.context import Context

Request = TypeVar("Request", bound=Groupable)
Answer = TypeVar("Answer")
ContextWrite = Callable[["Context", "Connection", Group[Request]], Awaitable[Outcomes[Answer]]]


class GroupFigures(Struct, frozen=True, kw_only=True):
    """One way of writing, for who watches.

    Attributes:
        name: Of the function that writes.
        commits_by_size: How many groups of each size were committed.
        queue_length: Requests that wait for their group.
    """

    name: str
    commits_by_size: Mapping[int, int]
    queue_length: int


class GroupCommits:
    """The group commits of one process, one for each way of writing.

    Args:
        pool: Connections.
        clock: Time.
        size_max: Requests in a group at most.
        queue_length_max: Requests waiting for one of them at most.
        wake_workers: Says, without waiting, that there is something to do.
    """

    def __init__(
        self, *, pool: Pool, clock: Clock, size_max: int, queue_length_max: int, wake_workers: Callable[[], None]
    ) -> None:
        self._wake_workers = wake_workers
        self._waking: set[int] = set()
        self._pool = pool
        self._clock = clock
        self._size_max = size_max
        self._queue_length_max = queue_length_max
        self._lane_places = asyncio.Semaphore(stalled_lanes.LANES_AT_ONCE_MAX)
        self._by_write: dict[object, GroupCommit[Any, Any]] = {}

    async def submit(self, write: ContextWrite[Request, Answer], context: Context, request: Request) -> Answer:
        """Have one request written in the next group of its kind; errors as in ``GroupCommit.submit``."""
        return await self._commit_of(write, context).submit(request)

    async def submit_all(
        self, write: ContextWrite[Request, Answer], context: Context, requests: Sequence[Request]
    ) -> list[Answer | errors.PixConnectError]:
        """Have requests that are known together written together; one outcome each, in order."""
        commit = self._commit_of(write, context)
        return await asyncio.gather(*(_outcome_of(commit.submit(request)) for request in requests))

    def _commit_of(self, write: ContextWrite[Request, Answer], context: Context) -> GroupCommit[Request, Answer]:
        commit: GroupCommit[Request, Answer] | None = self._by_write.get(write)
        if commit is None:
            commit = self._by_write[write] = GroupCommit(
                partial(write, context),
                pool=self._pool,
                clock=self._clock,
                size_max=self._size_max,
                queue_length_max=self._queue_length_max,
                on_commit=self._wake_if_asked,
                lane_places=self._lane_places,
            )
        return commit

    def wake_after_commit(self, connection: Connection) -> None:
        """Wake workers when the transaction that is open on this connection has become durable, and not before."""
        self._waking.add(id(connection))

    def _wake_if_asked(self, connection: Connection) -> None:
        if id(connection) in self._waking:
            self._waking.discard(id(connection))
            self._wake_workers()

    def read_figures(self) -> list[GroupFigures]:
        """How each way of writing has been used by now."""
        return [
            GroupFigures(
                name=getattr(write, "__name__", "").strip("_"),
                commits_by_size=commit.commits_by_size,
                queue_length=commit.queue_length,
            )
            for write, commit in self._by_write.items()
        ]

    async def close(self) -> None:
        """Write what waits, and take no more."""
        await asyncio.gather(*(commit.close() for commit in self._by_write.values()))


async def _outcome_of(answer: Awaitable[Answer]) -> Answer | errors.PixConnectError:
    try:
        return await answer
    except errors.PixConnectError as error:
        return error
