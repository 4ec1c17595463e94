"""Creates the partitions of events and deliveries ahead of time, drops old ones, and empties expired personal texts.

It uses the database's real time, regardless of the sandbox clock. A new partition begins when the present one covers a tenth of
the retention, so events are kept at most a little too long. A partition is dropped when it has been closed for the whole
retention and no pending delivery needs it: these are failed first, and remain readable until the next pass.

Personal texts are emptied once no rule requires them, by a daily pass over all rows. Rows are dated by service time and checked
by real time, so a sandbox whose clock was moved ahead keeps them longer.
"""

from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Final

import asyncpg
import structlog

from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.register import RETENTIONS
from pixconnect.kernel.tables import origin as origin_store
from pixconnect.kernel.tables import partition as partition_store
from pixconnect.kernel.tables import tally as tally_store
from pixconnect.kernel.tables.clock import service_now_to_write
from pixconnect.kernel.tables.partition import SWEPT, RetentionPeriods
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import Clock
from pixconnect.platform.database_failure import DATABASE_AWAY
from pixconnect.platform.flow.shares import on_behalf_of_all
from pixconnect.platform.outgoing_text import name_database_error
from pixconnect.platform.pool import Pool

_GIVEN_UP_MAX: Final = 5_000  # deliveries given up in one transaction
_MISSED_PASSES: Final = timedelta(minutes=5)
_FORGOTTEN_AT_ONCE: Final = 1_000
_BATCHES_MAX: Final = 20

_log = structlog.get_logger(__name__)


async def keep_partitions(pool: Pool, clock: Clock, retention: timedelta) -> None:
    """Create the partitions that will be needed and drop the old ones, as the role ``pixconnect_service``.

    If a step fails, the others still run; its error is raised at the end.
    """
    failures: list[asyncpg.PostgresError] = []
    async with pool.acquire() as connection:
        for parent in partition_store.PARENTS:
            with _going_on(failures, "make", parent):
                for name in await partition_store.make(connection, parent):
                    _log.debug("partition made", name=name)
        if (jump := await partition_store.note(connection)) is not None:
            _log.warning("the clock jumped since the last look at the partitions: none is dropped for an hour", jump=str(jump))
        # From here on history is lost: a process whose clock is wrong raises ServiceUnavailable instead.
        now = await service_now_to_write(clock, connection)
        for parent in partition_store.PARENTS:
            # A longer retention set by the database's owner wins.
            with _going_on(failures, "close", parent):
                for name in await partition_store.close(connection, parent, retention):
                    _log.debug("partition closed", name=name)
            # Detached first, which is quick: a drop takes long, because it reads all that lists no longer count.
            with _going_on(failures, "detach", parent):
                while (name := await partition_store.detach_old(connection, parent, retention)) is not None:
                    _log.debug("partition detached", name=name)
        with _going_on(failures, "drop", "detached"):
            while (name := await partition_store.drop_detached(connection)) is not None:
                _log.info("partition dropped", name=name)
        while count := await partition_store.give_up_old(connection, retention, _GIVEN_UP_MAX, now):
            _log.warning("deliveries given up: they waited for longer than events are kept", deliveries_count=count)
    if failures:
        raise failures[0]


@contextmanager
def _going_on(failures: list[asyncpg.PostgresError], step: str, of: str) -> Generator[None]:
    try:
        yield
    except DATABASE_AWAY:
        raise
    except asyncpg.PostgresError as error:
        _log.warning("partitions wait", step=step, of=of, reason=name_database_error(error))
        failures.append(error)


async def check_partitions(pool: Pool) -> None:
    """Health check: partitions exist ahead of the events and deliveries to come."""
    counts, passed_for = await partition_store.read_ahead(pool)
    fewest = min(counts.values(), default=0)
    # One is enough while workers run, since they create the next; it is not when no pass has run for a while.
    if fewest < 1 or (fewest < 2 and passed_for > _MISSED_PASSES):
        raise errors.ServiceUnavailable(
            "partitions of events, deliveries or the feed are not made ahead: look at the worker's log"
        )


async def forget_origins(pool: Pool) -> None:
    """Delete expired origins of requests; the next passes take the rest."""
    for _ in range(_BATCHES_MAX):
        if await origin_store.forget(pool, _FORGOTTEN_AT_ONCE) < _FORGOTTEN_AT_ONCE:
            return


LOOKED_AT_MAX: Final = 5_000  # rows per step, in one transaction


def _find_end(data: str, now: datetime) -> timedelta:
    return errors.require(RETENTIONS.find(data, now).at_most, f"{data}: the register has no end for it")


async def sweep_texts(context: Context, looked_at_max: int = LOOKED_AT_MAX) -> int:
    """Run one step over each kind; return the number of rows checked, 0 once the day's pass is complete."""
    now, looked_count = context.clock.real_now(), 0
    ages = RetentionPeriods(
        unpaid=_find_end("debtor", now), message=_find_end("message", now), party=_find_end("counterparty", now)
    )
    for kind in SWEPT:
        # Belongs to no holder, so it takes its turn beside all holders.
        with on_behalf_of_all():
            async with context.pool.acquire() as connection:
                checked_count, erased_count = await partition_store.sweep_texts(connection, kind, ages, looked_at_max)
        looked_count += checked_count
        if erased_count:
            _log.info("texts about people were emptied, since no rule keeps them", kind=kind, count=erased_count)
    return looked_count


NOTES_MAX: Final = 20_000  # notes of one kind that one transaction adds up


async def fold_tallies(context: Context) -> int:
    """Add up the notes on new and changed rows and return their number; 0 also while another process does so."""
    return await tally_store.fold(context.pool, NOTES_MAX)
