"""The slots that this worker leases, renewed for as long as it lives.

::

    join ──► renew every 2 s: remove dead workers, release, take ──► ... ──► leave
     ▲                            │
     └── connection lost, not renewed for 15 s, or the clock wrong: nothing is held, work in progress stops

The worker's own connection carries its advisory lock, so its slots are free at once when it dies. The same connection listens
for wake-ups of other processes. Leases keep real time: the sandbox clock does not move them.

All workers share the slots evenly. A worker with more than its share releases the rest once no work in them is in progress; a
worker with less takes free ones.

A part of the worker waits for notifications only so long: a wake-up may be lost, and time passes. Parts at rest share one
query a second (``parts.DueLook``), which wakes those with due work. The remaining pollers share one beat of the machine's
clock, each shortly after the one before: a poller that wakes alone finds its code and data gone from the caches, which costs
more than its query; all at the same time would need a connection each.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from datetime import datetime
from enum import IntEnum
from typing import Final, LiteralString

import structlog
from msgspec import Struct

from pixconnect.kernel.rules.event import SLOTS_COUNT
from pixconnect.kernel.tables import lease as lease_store
from pixconnect.kernel.tables.clock import DatabaseClock, check_skew, is_clock_right, is_right_by, was_right
from pixconnect.platform.base.clock import Clock
from pixconnect.platform.database_failure import DATABASE_FAILED
from pixconnect.platform.notifier import CHANNEL, Connect
from pixconnect.platform.pool import Connection
from pixconnect.platform.shared_look import wait_for
from pixconnect.platform.shared_pool import Look

APART_S: Final = 0.005  # between two parts at one beat
EARLY_S: Final = 0.01  # a timer may end this much before its time: then the beat is the one that it waited for


class Poller(IntEnum):
    """In the order in which they wake."""

    DUE = 0
    LEASES = 1
    CHORES = 2


def until_beat(every_s: float, looker: Poller, now_s: float) -> float:
    """Return seconds until a poller's next beat, which comes ``every_s``: not less than ``EARLY_S``; ``now_s`` is monotonic."""
    return every_s - (now_s + EARLY_S - looker * APART_S) % every_s + EARLY_S


LEASE_S = lease_store.LEASE.total_seconds()  # a worker that could not renew for this long has lost its slots

_RENEW_EVERY_S = 2.0
_REJOIN_AFTER_S = 0.5
_WOKEN_APART_S = 0.05
_RESTS_APART_S = 0.3

_log = structlog.get_logger(__name__)


class LeaseLost(Exception):  # noqa: N818  it is what happens to a worker that was too slow
    """A slot belongs to another worker by now: nothing more may be written for it."""


class Share(Struct, frozen=True, kw_only=True):
    epochs: dict[int, int]  # slots, each with the epoch of its lease
    workers_count: int

    @property
    def slots_count(self) -> int:
        # Rounded up: otherwise some slots would have no worker.
        return -(-SLOTS_COUNT // self.workers_count)


REST_MAX_S: Final = 60.0  # how long a part that finds nothing waits where ``DueLook`` wakes it


class Member(ABC):
    """A part of a worker that works in leased slots."""

    # Whether anything is due, in SQL; ``$1`` is the array of slots, ``$2`` the service time. Empty: this part looks itself.
    due_if: LiteralString = ""
    is_looked_after = False  # whether ``DueLook`` asks for this part
    is_resting = False
    place = 0  # among the parts of the worker

    async def rest(self, news: asyncio.Event, rest_s: float, *, has_found: bool) -> None:
        """Wait for news: after work for ``rest_s`` at most, otherwise until ``DueLook`` finds something."""
        self.is_resting = True
        try:
            if self.is_looked_after and not has_found:
                # Until its own beat: parts that look at the same time open a connection each, which PostgreSQL needs 6 MiB for.
                began_s = asyncio.get_running_loop().time() - (self.place + 0.5) * _RESTS_APART_S
                rest_s = REST_MAX_S - began_s % REST_MAX_S
            await wait_for(news, rest_s)
        finally:
            self.is_resting = False

    def looked(self, *, is_due: bool) -> None:
        """Take what ``DueLook`` found for this part."""
        if is_due:
            self.wake()

    @abstractmethod
    def wake(self, news: str = "") -> None:
        """Poll: there may be work, or other slots; or only what a payload of ``platform/notifier.py`` names."""

    def busy_slots(self) -> AbstractSet[int]:
        """Return slots with work in progress that another worker must not do concurrently; they are not released yet."""
        return frozenset()

    def slots_lost(self) -> None:  # noqa: B027  most parts have nothing to stop: the fence refuses their work in progress
        """Stop all work: this worker holds no slot any more."""

    def oldest_due_at(self) -> datetime | None:
        """Return when the oldest untried delivery became due, for the part that sends them; real time."""
        return None


class TimedMember(Member):
    """A part whose work no write makes due, only time: wake-ups of writers do not concern it."""

    def __init__(self) -> None:
        self.is_due = asyncio.Event()

    def wake(self, news: str = "") -> None:
        pass

    def looked(self, *, is_due: bool) -> None:
        if is_due:
            self.is_due.set()


class SlotLeases:
    """One worker's slots.

    Args:
        silent_max_s: How long the database may leave a beat unanswered before its connection is given up.
        look: Called with each new connection; raises if its server must not be used.
    """

    def __init__(self, connect: Connect, clock: Clock, silent_max_s: float = LEASE_S / 2, *, look: Look | None = None) -> None:
        self._silent_max_s = silent_max_s
        self._look = look
        self._connect = connect
        self._clock = clock
        self.members: list[Member] = []
        self._listeners: list[tuple[str, Callable[..., None]]] = [(CHANNEL, self._receive)]
        self._epochs: dict[int, int] = {}
        self._releasing: frozenset[int] = frozenset()
        self._confirmed_s = float("-inf")
        self._is_stopping = asyncio.Event()
        self.workers_count = 1

    def add(self, member: Member) -> None:
        member.place = len(self.members)
        self.members.append(member)

    def listen(self, channel: str, hear: Callable[..., None]) -> None:
        """Listen on another channel with the connection of the leases, from its next opening on."""
        self._listeners.append((channel, hear))

    @property
    def held(self) -> dict[int, int]:
        """Return the slots in which work may start, each with its epoch; empty once the leases may have expired."""
        if self._clock.monotonic_s() - self._confirmed_s >= LEASE_S:
            return {}
        if not self._releasing:
            return self._epochs
        return {slot: epoch for slot, epoch in self._epochs.items() if slot not in self._releasing}

    def may_start(self, slot: int, epoch: int) -> bool:
        """Whether work that was read under an epoch may start; not in a slot that is about to be released."""
        return slot not in self._releasing and self.is_held(slot, epoch)

    def is_held(self, slot: int, epoch: int) -> bool:
        """Whether work that was started under an epoch may be finished."""
        return self._epochs.get(slot) == epoch and self._clock.monotonic_s() - self._confirmed_s < LEASE_S

    def epochs_of(self, slots: Sequence[int]) -> dict[int, int]:
        """Return the epochs under which work in these slots is written.

        Raises:
            ServiceUnavailable: This machine's clock was wrong when last compared with the database's.
        """
        check_skew(self._clock)
        held = self._epochs
        if not all(slot in held for slot in slots):
            raise LeaseLost("the slot is not held")
        return {slot: held[slot] for slot in slots}

    async def fence(self, connection: Connection, slots: Sequence[int]) -> None:
        """Lock our slots until a transaction ends; raises as ``epochs_of``. This must be its first lock."""
        await fence(connection, self.epochs_of(slots))

    async def run(self) -> None:
        """Hold slots until ``stop``, and join again after every failure."""
        while not self._is_stopping.is_set():
            try:
                await self._run_session()
            except DATABASE_FAILED as error:
                _log.warning("leases lost", error=type(error).__name__)
            # However the session ended, another worker may have the slots by now.
            self._lose()
            await wait_for(self._is_stopping, _REJOIN_AFTER_S)

    def stop(self) -> None:
        """Release all slots and end; to be called when no work is in progress any more."""
        self._is_stopping.set()

    async def _run_session(self) -> None:
        connection = await self._connect()
        try:
            with self._abort_if_silent(connection):
                # A pool checks only its own connections, and slots leased on another server would be missing to the workers
                # there.
                if self._look is not None:
                    await self._look(connection)
                if not await is_clock_right(self._clock, connection):
                    return  # a worker with a wrong clock may not write, so other workers need the slots
                for channel, hear in self._listeners:
                    await connection.add_listener(channel, hear)
                worker_id = await lease_store.join(connection)
            while not self._is_stopping.is_set():
                # A hanging renewal is given up before the lease expires.
                with self._abort_if_silent(connection):
                    # A clock that the renewal finds wrong ends the lease below.
                    if not (was_right(self._clock) and await self._renew(connection, worker_id)):
                        break
                pause_s = until_beat(_RENEW_EVERY_S, Poller.LEASES, self._clock.monotonic_s())
                await wait_for(self._is_stopping, pause_s)
                if connection.is_closed():
                    return
            self._lose()
            with self._abort_if_silent(connection):
                await lease_store.leave(connection, worker_id)
        finally:
            connection.terminate()

    @contextmanager
    def _abort_if_silent(self, connection: Connection) -> Generator[None]:
        """End all calls that wait on a silently dead connection."""
        # Cancelling is not enough: the driver then waits for the server's answer to that, before it rolls back.
        timer = asyncio.get_running_loop().call_later(self._silent_max_s, connection.terminate)
        try:
            yield
        finally:
            timer.cancel()

    async def _renew(self, connection: Connection, worker_id: int) -> bool:
        # The lease counts from before the query: the database may have renewed it at any moment after.
        asked_s = self._clock.monotonic_s()
        busy = frozenset[int]().union(*(member.busy_slots() for member in self.members))
        released = sorted(self._releasing - busy)
        oldest = min(filter(None, (member.oldest_due_at() for member in self.members)), default=None)
        asked_at = self._clock.real_now()
        share = await renew(connection, worker_id, released, oldest, lambda read: is_right_by(self._clock, asked_at, read))
        if share is None:
            return False
        before = self._epochs
        self._epochs, self._confirmed_s = share.epochs, asked_s
        self.workers_count = share.workers_count
        # Slots beyond our share start no new work from now on; a later renewal releases them.
        self._releasing = frozenset(sorted(share.epochs)[share.slots_count :])
        if self._epochs.keys() != before.keys():
            _log.debug("slots held", slots_count=len(self.held), workers_count=self.workers_count)
            # One after the other: concurrent polls would each open a connection, which PostgreSQL needs 6 MiB for.
            for number, member in enumerate(self.members):
                asyncio.get_running_loop().call_later(number * _WOKEN_APART_S, member.wake)
        return True

    def _receive(self, _connection: object, _process_id: int, _channel: str, payload: object) -> None:
        self._wake(str(payload))

    def on_local_wakeup(self, news: str) -> bool:
        """Receive this process's own wake-up of all workers; return whether no other worker can have work."""
        self._wake(news)
        # A worker that gets slots reads everything in them.
        return len(self.held) == SLOTS_COUNT

    def _wake(self, news: str) -> None:
        for member in self.members:
            member.wake(news)

    def _lose(self) -> None:
        had = bool(self._epochs)
        self._epochs, self._releasing, self._confirmed_s = {}, frozenset(), float("-inf")
        if had:
            for member in self.members:
                member.slots_lost()


async def renew(
    connection: Connection,
    worker_id: int,
    released: Sequence[int],
    oldest_due_at: datetime | None,
    may_work: Callable[[DatabaseClock], bool] = lambda _: True,
) -> Share | None:
    """Renew a worker's leases, release some slots, and take others up to its share.

    ``oldest_due_at`` is for the health check, in real time. Returns ``None`` when the worker came too late, or its clock is
    wrong, and must join again.
    """
    # Each statement holds by itself: a worker that dies after any of them has only slots that the next one takes.
    renewed = await lease_store.renew(connection, worker_id, oldest_due_at)
    if renewed is None:
        return None
    held, workers_count, read = renewed
    if not may_work(read):
        return None
    if released:
        await lease_store.release(connection, worker_id, released)
        held = {slot: epoch for slot, epoch in held.items() if slot not in set(released)}
    share = Share(epochs=held, workers_count=workers_count)
    missing_count = share.slots_count - len(held)
    if missing_count > 0:
        taken = await lease_store.take(connection, worker_id, missing_count)
        share = Share(epochs=held | taken, workers_count=workers_count)
    return share


async def fence(connection: Connection, epochs: Mapping[int, int]) -> None:
    """Lock our slots until a transaction ends, each with the epoch under which its work was read."""
    held = await lease_store.fence(connection, epochs)
    if len(held) < len(epochs):
        raise LeaseLost("another worker has taken over")
