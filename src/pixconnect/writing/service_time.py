"""Service time as the database has it: its own clock, and how far the sandbox has moved it.

Whatever is written is dated and judged by it. A process whose own clock is too far from it writes nothing: what it would decide
without asking, from deadlines to retries, would be wrong by as much.
"""

from __future__ import annotations

from datetime import datetime

import structlog

from pixconnect.domain import errors
from pixconnect.domain.clock import SKEW_MAX, Clock, Reading
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store import clock as clock_store
from pixconnect.store.clock import DatabaseClock

_log = structlog.get_logger(__name__)


def take_time(clock: Clock, asked_at: datetime, read: DatabaseClock) -> datetime:
    """Service time for what is about to be written.

    Args:
        clock: Of this process; it takes over what was read.
        asked_at: By this process's own clock, before the database was asked.
        read: What it has just answered.

    Raises:
        ServiceUnavailable: The process's own clock is too far from the database's.
    """
    now = _take(clock, asked_at, read)
    check_skew(clock)
    return now


def check_skew(clock: Clock) -> None:
    """Refuse where this process's clock was too far from the database's when they were last compared.

    Raises:
        ServiceUnavailable: It was.
    """
    if not _is_right(clock):
        raise errors.ServiceUnavailable(
            f"the clock of this machine is {clock.skew.total_seconds():+.1f} s from the database's; nothing was done"
        )


async def service_now(clock: Clock, connection: Connection | Pool) -> datetime:
    """Service time as it is now, for who only reads."""
    asked_at = clock.real_now()
    return _take(clock, asked_at, await clock_store.read(connection))


async def service_now_to_write(clock: Clock, connection: Connection | Pool) -> datetime:
    """Service time for what is about to be written outside of a group.

    Raises:
        ServiceUnavailable: The process's own clock is too far from the database's.
    """
    now = await service_now(clock, connection)
    check_skew(clock)
    return now


async def is_clock_right(clock: Clock, connection: Connection) -> bool:
    """Whether this process's clock agrees with the database's, so that it may write."""
    await service_now(clock, connection)
    return _is_right(clock)


def _is_right(clock: Clock) -> bool:
    return abs(clock.skew) <= SKEW_MAX


def _take(clock: Clock, asked_at: datetime, read: DatabaseClock) -> datetime:
    was_right = _is_right(clock)
    reading = Reading(
        database_now=read.real_now,
        asked_at=asked_at,
        answered_at=clock.real_now(),
        offset=read.offset,
        revision=read.revision,
    )
    now = clock.take(reading)
    is_right = _is_right(clock)
    if was_right and not is_right:
        _log.error("the clock is wrong: nothing is written", skew_s=clock.skew.total_seconds())
    elif is_right and not was_right:
        _log.info("the clock is right again", skew_s=clock.skew.total_seconds())
    return now
