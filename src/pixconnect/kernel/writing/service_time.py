"""Service time: the database's clock, plus the offset by which the sandbox has moved it.

It dates everything that is written. A process whose own clock differs too much from the database's writes nothing: its own
deadlines and retries would be wrong by as much.
"""

from datetime import datetime

import structlog

from pixconnect.kernel.tables import clock as clock_store
from pixconnect.kernel.tables.clock import DatabaseClock
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import SKEW_MAX, Clock, Reading
from pixconnect.platform.pool import Connection, Pool

_log = structlog.get_logger(__name__)


def take_time(clock: Clock, asked_at: datetime, read: DatabaseClock) -> datetime:
    """Return service time for a write, from a clock read after ``asked_at`` of our own one; raises as ``check_skew``."""
    now = take_reading(clock, asked_at, read)
    check_skew(clock)
    return now


def check_skew(clock: Clock) -> None:
    """Raise ``ServiceUnavailable`` if this process's clock was wrong at its last comparison with the database's."""
    if not _is_right(clock):
        raise errors.ServiceUnavailable(
            f"the clock of this machine is {clock.skew.total_seconds():+.1f} s from the database's; nothing was done"
        )


async def service_now(clock: Clock, connection: Connection | Pool) -> datetime:
    """Return service time for reading, and correct this process's estimate."""
    asked_at = clock.real_now()
    return take_reading(clock, asked_at, await clock_store.read(connection))


async def service_now_to_write(clock: Clock, connection: Connection | Pool) -> datetime:
    """Return service time for a write outside of a batch; raises as ``check_skew``."""
    now = await service_now(clock, connection)
    check_skew(clock)
    return now


async def is_clock_right(clock: Clock, connection: Connection) -> bool:
    """Whether this process may write."""
    await service_now(clock, connection)
    return _is_right(clock)


def _is_right(clock: Clock) -> bool:
    return abs(clock.skew) <= SKEW_MAX


def take_reading(clock: Clock, asked_at: datetime, read: DatabaseClock) -> datetime:
    """Return service time from a clock read after ``asked_at``, and correct this process's estimate."""
    was_right = _is_right(clock)
    reading = Reading(
        database_now=read.real_now,
        asked_at=asked_at,
        answered_at=clock.real_now(),
        offset=read.offset,
        revision=read.revision,
    )
    now = clock.take(reading)
    # Logged once per change, not with each batch.
    is_right = _is_right(clock)
    if was_right and not is_right:
        _log.error("the clock is wrong: nothing is written", skew_s=clock.skew.total_seconds())
    elif is_right and not was_right:
        _log.info("the clock is right again", skew_s=clock.skew.total_seconds())
    return now
