"""Service time: the database's clock, plus the offset by which the sandbox has moved it; its deadlines, and ids in blocks.

It dates everything that is written. A process whose own clock differs too much from the database's writes nothing: its own
deadlines and retries would be wrong by as much.

A ``Deadline`` is a feature's rows at which the sandbox's clock stops, and which it moves back.

Each process keeps blocks of ids for new rows: one round trip for hundreds of ids. Each batch takes its own block for its events
and entries once it has locked the changed rows, so that ids rise in the order in which a resource changed; it reads the clock
in the same round trip.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final, LiteralString, TypeAlias

import asyncpg
import structlog
from msgspec import Struct

from pixconnect.kernel.rules.event import SLOTS_COUNT
from pixconnect.kernel.tables.lookup import AdvisoryLocks, Command, Value
from pixconnect.kernel.tables.table import fetch_row
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import SKEW_MAX, Clock, Reading
from pixconnect.platform.flow.shares import on_behalf_of_all
from pixconnect.platform.pool import COMMIT_TIMEOUT_S, Connection, Pool

_log = structlog.get_logger(__name__)

MoveBack: TypeAlias = Callable[[Connection, datetime, timedelta], Awaitable[object]]
"""Adjusts rows after the clock was moved back to an instant, by a period."""


class Deadline(Struct, frozen=True, kw_only=True):
    """The deadlines in one feature's rows."""

    first: LiteralString | None = None  # selects the earliest open instant, or null
    last: LiteralString | None = None  # selects the latest open instant up to ``$1``, or null
    is_undone: LiteralString | None = None  # selects whether undated work is pending
    move_back: MoveBack | None = None


CHANNEL: Final = "pixconnect_clock"  # the notification channel of all processes: ``<revision>:<offset in microseconds>``


class DatabaseClock(Struct, frozen=True):
    """This server's clock, and how far the sandbox has moved the service's time."""

    real_now: datetime
    offset: timedelta
    revision: int  # number of moves


READ: Final[LiteralString] = "select clock_timestamp() as real_now, offset_us, revision from clock where refuse_old_session()"


async def read(connection: Connection | Pool) -> DatabaseClock:
    return clock_of(await fetch_row(connection, READ))


def clock_of(row: asyncpg.Record) -> DatabaseClock:
    """Read the clock from a row that has its columns among others."""
    return DatabaseClock(row["real_now"], timedelta(microseconds=row["offset_us"]), row["revision"])


def take_time(clock: Clock, asked_at: datetime, read: DatabaseClock) -> datetime:
    """Return service time for a write, from a clock read after ``asked_at`` of our own one; raises as ``check_skew``."""
    now = take_reading(clock, asked_at, read)
    check_skew(clock)
    return now


def check_skew(clock: Clock) -> None:
    """Raise ``ServiceUnavailable`` if this process's clock was wrong at its last comparison with the database's."""
    if not was_right(clock):
        raise errors.ServiceUnavailable(
            f"the clock of this machine is {clock.skew.total_seconds():+.1f} s from the database's; nothing was done"
        )


async def service_now(clock: Clock, connection: Connection | Pool) -> datetime:
    """Return service time for reading, and correct this process's estimate."""
    asked_at = clock.real_now()
    return take_reading(clock, asked_at, await read(connection))


async def service_now_to_write(clock: Clock, connection: Connection | Pool) -> datetime:
    """Return service time for a write outside of a batch; raises as ``check_skew``."""
    now = await service_now(clock, connection)
    check_skew(clock)
    return now


async def is_clock_right(clock: Clock, connection: Connection) -> bool:
    """Whether this process may write."""
    asked_at = clock.real_now()
    return is_right_by(clock, asked_at, await read(connection))


def is_right_by(clock: Clock, asked_at: datetime, read: DatabaseClock) -> bool:
    """The same by a clock read after ``asked_at``."""
    take_reading(clock, asked_at, read)
    return was_right(clock)


def was_right(clock: Clock) -> bool:
    """The same by its last comparison with the database's."""
    return abs(clock.skew) <= SKEW_MAX


def take_reading(clock: Clock, asked_at: datetime, read: DatabaseClock) -> datetime:
    """Return service time from a clock read after ``asked_at``, and correct this process's estimate."""
    before = was_right(clock)
    reading = Reading(
        database_now=read.real_now, asked_at=asked_at, answered_at=clock.real_now(), offset=read.offset, revision=read.revision
    )
    now = clock.take(reading)
    # Logged once per change, not with each batch.
    is_right = was_right(clock)
    if before and not is_right:
        _log.error("the clock is wrong: nothing is written", skew_s=clock.skew.total_seconds())
    elif is_right and not before:
        _log.info("the clock is right again", skew_s=clock.skew.total_seconds())
    return now


_MOVE: Final[LiteralString] = """
    with moved as (update clock set offset_us = $1, revision = revision + 1 returning offset_us, revision)
    select pg_notify($2, revision || ':' || offset_us), revision from moved
"""


async def move(connection: Connection | Pool, offset: timedelta) -> int:
    """Set the offset, notify every process, and return its revision."""
    row = await fetch_row(connection, _MOVE, offset // timedelta(microseconds=1), CHANNEL)
    return row["revision"]


def read_offset_notice(notice: str) -> tuple[timedelta, int]:
    """Parse a notification: the offset of a move and its revision."""
    revision, _, offset_us = notice.partition(":")
    return timedelta(microseconds=int(offset_us)), int(revision)


moving_alone: Final = AdvisoryLocks(0x7069_7874).holding
"""Lock the clock against other movers; yields ``False`` if another one is moving it."""

# The kernel's deadlines. A held charge has none: it waits until the rail ends the payment that holds it.
_FIRST_DUE: Final[tuple[LiteralString, ...]] = (
    "select min(expires_at) from charge where status = 'PENDING' and held_by is null",
    "select min(due_at) from open_order",
)


async def find_first_due(pool: Pool, deadlines: Sequence[Deadline]) -> datetime | None:
    """Find the earliest deadline of charges, transfers, refunds and features, without deliveries."""
    parts: list[LiteralString] = [*_FIRST_DUE, *(each.first for each in deadlines if each.first is not None)]
    return await pool.fetchval("select least((" + "), (".join(parts) + "))")


_LAST_DUE: Final[tuple[LiteralString, ...]] = (
    "select max(expires_at) from charge where status = 'PENDING' and held_by is null and expires_at <= $1",
    "select max(due_at) from open_order where due_at <= $1",
    """
    select max(last.due_at) from generate_series(0, $2::integer - 1) as slots (wanted), lateral (
        select due_at from delivery where slot = wanted and status = 'pending' and due_at <= $1
        order by due_at desc limit 1
    ) as last
    """,
)


async def find_last_due(pool: Pool, deadlines: Sequence[Deadline], until: datetime) -> datetime | None:
    parts: list[LiteralString] = [*_LAST_DUE, *(each.last for each in deadlines if each.last is not None)]
    return await pool.fetchval("select greatest((" + "), (".join(parts) + "))", until, SLOTS_COUNT)


async def is_anything_undone(pool: Pool, deadlines: Sequence[Deadline]) -> bool:
    parts: list[LiteralString] = [each.is_undone for each in deadlines if each.is_undone is not None]
    return bool(parts) and await pool.fetchval("select (" + ") or (".join(parts) + ")")


move_deadlines_back: Final = Command[datetime, timedelta, timedelta, timedelta]("""
    with charge_moved as (
        -- A due date stays the day that it is.
        update charge set expires_at = expires_at - $2::interval
        where status = 'PENDING' and created_at > $1 and due_on is null
    )
    update open_order set due_at = due_at - $2::interval,
        give_up_at = case when ordered_at > $1 then give_up_at - $2::interval else give_up_at end
    where greatest(ordered_at, handed_at) > $1
        -- The last query set its deadline, and the wait doubles each time: so the instant of that query follows.
        or due_at - least($3::interval * 2 ^ least(greatest(asked_count - 1, 0), 16), $4::interval) > $1
""")
"""Move deadlines of charges and orders back that were set at an instant which is in the future now.

Other instants of the rows stay.
"""

# As ``increment`` of the sequences in the schema.
_BLOCK_SIZES: dict[LiteralString, int] = {"charge_id": 512, "transfer_id": 512, "refund_id": 512, "location_id": 512}


class IdBlocks:
    """Assigns ids below 2^53, never twice, roughly in order of time."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._left: dict[str, list[int]] = {name: [] for name in _BLOCK_SIZES}
        self._forgotten_count = 0
        self._locks = {name: asyncio.Lock() for name in _BLOCK_SIZES}
        self.charge_id = partial(self._take, "charge_id")
        self.transfer_id = partial(self._take, "transfer_id")
        self.refund_id = partial(self._take, "refund_id")
        self.location_id = partial(self._take, "location_id")

    def forget(self) -> None:
        """Discard the remaining ids: after a loss the database may assign them again."""
        for left in self._left.values():
            left.clear()
        self._forgotten_count += 1

    async def _take(self, name: LiteralString) -> int:
        left = self._left[name]
        # A block may be used up, or discarded, between its arrival and our turn.
        while not left:
            await self._fill(name, left)
        return left.pop()

    async def _fill(self, name: LiteralString, left: list[int]) -> None:
        async with self._locks[name]:
            # Another caller has filled it while we waited for the lock.
            if left:
                return
            forgotten_count = self._forgotten_count
            # A block serves every later caller, so it does not wait in one holder's queue.
            with on_behalf_of_all():
                # It is a separate commit, which may wait for a standby.
                take: LiteralString = f"select nextval('{name}') where refuse_old_session()"
                first = await self._pool.fetchval(take, timeout=COMMIT_TIMEOUT_S)
            if forgotten_count != self._forgotten_count:
                # The sequence may be that of a database that was replaced since.
                return
            left.extend(range(first + _BLOCK_SIZES[name] - 1, first - 1, -1))


BLOCK_SIZE: Final = 2048  # ids of one group for its events, and as many for its entries; as ``increment`` in the schema

_OPEN: Final[LiteralString] = """
    select clock_timestamp() as real_now, offset_us, revision, nextval('write_group_id') as first_id from clock
    where refuse_old_session()
"""


async def open_group(connection: Connection) -> tuple[DatabaseClock, int]:
    """Begin a group, with all changed rows locked; return the clock and the first id of the group's block."""
    row = await fetch_row(connection, _OPEN)
    return clock_of(row), row["first_id"]


take_block: Final = Value[int]("select nextval('write_group_id') where refuse_old_session()")
"""Return the first id of a dedicated block, for an entry whose id is needed before its group's."""
