"""The slots that this worker holds, kept up for as long as it lives.

::

    join ──► renew every 2 s: clear away the gone, give back, take ──► ... ──► leave
     ▲                            │
     └── connection lost, not renewed for 15 s, or the clock wrong: nothing is held, whatever is under way stops

One connection of its own carries the worker's advisory lock, so that its slots move at once when it dies, and hears the
wake-ups of other processes. Real time only: the sandbox clock moves no lease.

All workers share the slots evenly. Whoever has more than its part gives the rest back once nothing of it is under way; whoever
has less takes what is free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Protocol

import asyncpg
import structlog
from msgspec import Struct

from pixconnect.domain.clock import Clock
from pixconnect.domain.event import SLOTS_COUNT
from pixconnect.foundation.database_failure import DATABASE_FAILED
from pixconnect.foundation.notifier import CHANNEL
from pixconnect.foundation.pool import Connection
from pixconnect.store import lease as lease_store
from pixconnect.writing.service_time import check_skew, is_clock_right

Connect = Callable[[], Awaitable["asyncpg.Connection[asyncpg.Record]"]]

LEASE_S = lease_store.LEASE.total_seconds()
"""A worker that has not been able to renew for this long has lost its slots."""

"""Where processes say that there is something to do."""
_RENEW_EVERY_S = 2.0
_REJOIN_AFTER_S = 0.5

_log = structlog.get_logger(__name__)


class LeaseLost(Exception):  # noqa: N818  it is what happens to a worker that was too slow
    """A slot belongs to another worker by now: nothing more may be written for it."""


class Share(Struct, frozen=True, kw_only=True):
    """What one of several workers holds."""

    epochs: dict[int, int]
    """Its slots, each with the epoch of its lease."""
    workers_count: int

    @property
    def slots_count(self) -> int:
        """How many slots a worker should hold."""
        return -(-SLOTS_COUNT // self.workers_count)


class Member(Protocol):
    """A part of a worker that works in leased slots."""

    def busy_slots(self) -> AbstractSet[int]:
        """Slots in which something is under way: they are not given back yet."""
        ...

    def slots_lost(self) -> None:
        """Nothing is held any more: stop what is under way."""
        ...

    def wake(self) -> None:
        """There may be something to do, or other slots to do it in."""
        ...

    def oldest_due_at(self) -> datetime | None:
        """Since when the oldest delivery waits that could be tried and was not; real time."""
        ...


class SlotLeases:
    """The leases of one worker.

    Args:
        connect: Opens the worker's own connection.
        clock: For patience.
    """

    def __init__(self, connect: Connect, clock: Clock) -> None:
        self._connect = connect
        self._clock = clock
        self._members: list[Member] = []
        self._epochs: dict[int, int] = {}
        self._leaving: frozenset[int] = frozenset()
        self._confirmed_s = float("-inf")
        self._is_stopping = asyncio.Event()
        self.workers_count = 1

    def add(self, member: Member) -> None:
        """Let a part of the worker work in the slots."""
        self._members.append(member)

    @property
    def held(self) -> dict[int, int]:
        """The slots in which work may start, each with its epoch; none once the lease may have run out."""
        if self._clock.monotonic_s() - self._confirmed_s >= LEASE_S:
            return {}
        if not self._leaving:
            return self._epochs
        return {slot: epoch for slot, epoch in self._epochs.items() if slot not in self._leaving}

    def may_start(self, slot: int, epoch: int) -> bool:
        """Whether what was read under an epoch may be started; not in a slot that is about to be given back."""
        return slot not in self._leaving and self.is_held(slot, epoch)

    def is_held(self, slot: int, epoch: int) -> bool:
        """Whether what was started under an epoch may be finished."""
        return self._epochs.get(slot) == epoch and self._clock.monotonic_s() - self._confirmed_s < LEASE_S

    async def fence(self, connection: Connection, slots: Sequence[int]) -> None:
        """Hold a transaction to slots of ours; the first lock that it takes.

        Raises:
            LeaseLost: One of them is not ours any more.
            ServiceUnavailable: This machine's clock was wrong when it was looked at last.
        """
        check_skew(self._clock)
        held = self._epochs
        if not all(slot in held for slot in slots):
            raise LeaseLost("the slot is not held")
        await fence(connection, {slot: held[slot] for slot in slots})

    async def run(self) -> None:
        """Hold slots until ``stop``; joins again as often as it must."""
        while not self._is_stopping.is_set():
            try:
                await self._run_session()
            except DATABASE_FAILED as error:
                _log.warning("leases lost", error=type(error).__name__)
            self._lose()
            await self._pause(_REJOIN_AFTER_S)

    def stop(self) -> None:
        """Give everything back and end; called when nothing is under way any more."""
        self._is_stopping.set()

    async def _run_session(self) -> None:
        """Be one worker, for as long as one connection lives."""
        connection = await self._connect()
        try:
            if not await is_clock_right(self._clock, connection):
                return  # it could not write: others can
            await connection.add_listener(CHANNEL, self._heard)
            worker_id = await lease_store.join(connection)
            while not self._is_stopping.is_set() and await is_clock_right(self._clock, connection):
                if not await self._renew(connection, worker_id):
                    return
                await self._pause(_RENEW_EVERY_S)
                if connection.is_closed():
                    return
            self._lose()
            await lease_store.leave(connection, worker_id)
        finally:
            connection.terminate()

    async def _renew(self, connection: Connection, worker_id: int) -> bool:
        asked_s = self._clock.monotonic_s()
        busy = frozenset[int]().union(*(member.busy_slots() for member in self._members))
        given_back = sorted(self._leaving - busy)
        oldest = min(filter(None, (member.oldest_due_at() for member in self._members)), default=None)
        async with asyncio.timeout(LEASE_S / 2):
            share = await renew(connection, worker_id, given_back, oldest)
        if share is None:
            return False
        before = self._epochs
        self._epochs, self._confirmed_s = share.epochs, asked_s
        self.workers_count = share.workers_count
        self._leaving = frozenset(sorted(share.epochs)[share.slots_count :])
        if self._epochs.keys() != before.keys():
            _log.debug("slots held", slots_count=len(self.held), workers_count=self.workers_count)
            self._wake()
        return True

    def _heard(self, *_: object) -> None:
        self._wake()

    def _wake(self) -> None:
        for member in self._members:
            member.wake()

    def _lose(self) -> None:
        had = bool(self._epochs)
        self._epochs, self._leaving, self._confirmed_s = {}, frozenset(), float("-inf")
        if had:
            for member in self._members:
                member.slots_lost()

    async def _pause(self, seconds: float) -> None:
        """Wait, unless it is time to stop."""
        try:
            async with asyncio.timeout(seconds):
                await self._is_stopping.wait()
        except TimeoutError:
            return


async def renew(
    connection: Connection, worker_id: int, given_back: Sequence[int], oldest_due_at: datetime | None
) -> Share | None:
    """Go on being a worker: renew, clear away those that are gone, give back, take.

    Args:
        connection: The one that joined.
        worker_id: The worker's own.
        given_back: Slots in which nothing is under way.
        oldest_due_at: For the health check, real time.

    Returns:
        What it holds now; ``None`` when it came too late and must join again.
    """
    async with connection.transaction():
        if not await lease_store.renew(connection, worker_id, oldest_due_at):
            return None
        await lease_store.remove_gone(connection, worker_id)
        if given_back:
            await lease_store.release(connection, worker_id, given_back)
        held = await lease_store.read_held(connection, worker_id)
        share = Share(epochs=held, workers_count=await lease_store.count_workers(connection))
        missing_count = share.slots_count - len(held)
        if missing_count > 0:
            taken = await lease_store.take(connection, worker_id, missing_count)
            share = Share(epochs=held | taken, workers_count=share.workers_count)
    return share


async def fence(connection: Connection, epochs: Mapping[int, int]) -> None:
    """Hold slots for what a transaction writes next; the first lock that it takes.

    Args:
        connection: In a transaction.
        epochs: The slots, each with the epoch under which its work was read.

    Raises:
        LeaseLost: One of them belongs to another worker by now.
    """
    held = await lease_store.fence(connection, epochs)
    if len(held) < len(epochs):
        raise LeaseLost("another worker has taken over")
