"""Keeps the partitions of events and deliveries: some ahead, none that is old.

The database's real time, whatever the sandbox clock says. A new partition is begun when the present one has taken a tenth of
the retention, so that what is kept too long is not much. One goes when it was closed for as long as events are kept, and when
nothing pending needs it: what still waits in it is given up first, and can be seen as that until the next pass.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import structlog

from pixconnect.domain import errors
from pixconnect.domain.clock import Clock
from pixconnect.foundation.pool import Pool
from pixconnect.store import partition as partition_store
from pixconnect.writing.service_time import service_now_to_write

_GIVEN_UP_MAX: Final = 5_000
"""Deliveries given up in one transaction."""
_MISSED_PASSES: Final = timedelta(minutes=5)

_log = structlog.get_logger(__name__)


async def keep_partitions(pool: Pool, clock: Clock, retention: timedelta) -> None:
    """Make what will be needed and drop what is old.

    Args:
        pool: Connections as ``pixconnect_service``.
        clock: Of this process; while it is wrong nothing is given up or dropped.
        retention: How long events and deliveries are kept; where the owner said a longer time, that counts.

    Raises:
        ServiceUnavailable: The process's own clock is too far from the database's.
    """
    async with pool.acquire() as connection:
        for name in await partition_store.make(connection):
            _log.debug("partition made", name=name)
        jump = await partition_store.note(connection)
        if jump is not None:
            _log.warning(
                "the clock jumped since partitions were looked after: none is dropped for an hour", jump=str(jump)
            )
        now = await service_now_to_write(clock, connection)
        for name in await partition_store.close(connection, retention):
            _log.debug("partition closed", name=name)
        while (name := await partition_store.detach_old(connection, retention)) is not None:
            _log.debug("partition detached", name=name)
        while (name := await partition_store.drop_detached(connection)) is not None:
            _log.info("partition dropped", name=name)
        while count := await partition_store.give_up_old(connection, retention, now, _GIVEN_UP_MAX):
            _log.warning("deliveries given up: they waited for longer than events are kept", deliveries_count=count)


async def check_partitions(pool: Pool) -> None:
    """See whether there is room for events and deliveries to come.

    Raises:
        ServiceUnavailable: There soon is none, and nobody makes any.
    """
    ahead = await partition_store.read_ahead(pool)
    fewest = min(ahead.counts.values(), default=0)
    if fewest < 1 or (fewest < 2 and ahead.passed_for > _MISSED_PASSES):
        raise errors.ServiceUnavailable(
            "partitions of events or deliveries are not made ahead: look at the worker's log"
        )
