"""Keeps the partitions of events and deliveries: some ahead, none that is old.

Real time, whatever the sandbox clock says. A delivery's and its attempts' partitions have the same bounds, and a new one is
begun when the present one has taken a tenth of the retention, so that what is kept too long is not much. The one that is being
filled stays, however long nothing has happened: nothing more could be written without it.
"""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import structlog

from pixconnect.store import partition as partition_store
from pixconnect.store.partition import DELIVERY, EVENT, TABLES, PartitionedTable

if TYPE_CHECKING:
    from pixconnect.foundation.pool import Connection

_AHEAD_COUNT: Final = 2
"""Partitions after the one that is being filled."""
_FILLED_DURING_PARTS: Final = 10
_SKIP_DISTANCE_PARTS: Final = 16
"""Ids are skipped only where others cannot run past the place meanwhile: not in the last of so many parts."""

_log = structlog.get_logger(__name__)


async def keep_partitions(connection: "Connection", retention: timedelta, real_now: datetime) -> None:
    """Make what will be needed and drop what is old.

    Args:
        connection: Of the tables' owner, with no transaction open.
        retention: How long events and deliveries are kept.
        real_now: The machine's time.
    """
    if not await partition_store.try_lock(connection):
        return
    for table in TABLES:
        await _make_ahead(connection, table)
    for table in (EVENT, DELIVERY):
        await _begin_anew(connection, table, retention, real_now)
    for table in TABLES:
        await _drop_old(connection, table, real_now - retention)


async def _make_ahead(connection: "Connection", table: PartitionedTable) -> None:
    partitions = await partition_store.list_all(connection, table)
    empty_count = 0
    for partition in reversed(partitions):
        if await partition_store.read_last(connection, table, partition) is not None:
            break
        empty_count += 1
    for number in range(_AHEAD_COUNT - empty_count):
        first_id = partitions[-1].end_id + number * table.span
        await partition_store.add(connection, table, first_id)
        _log.debug("partition made", table=table.name, first_id=first_id)


async def _begin_anew(
    connection: "Connection", table: PartitionedTable, retention: timedelta, real_now: datetime
) -> None:
    """Go on in the next partition when the present one has been filled for long enough."""
    last_id = await partition_store.read_last_id(connection, table)
    for partition in await partition_store.list_all(connection, table):
        if not partition.first_id <= last_id < partition.end_id - table.span // _SKIP_DISTANCE_PARTS:
            continue
        began_at = await partition_store.read_first_time(connection, table, partition)
        if began_at is not None and real_now - began_at > retention / _FILLED_DURING_PARTS:
            await partition_store.skip_ids(connection, table, partition.end_id)


async def _drop_old(connection: "Connection", table: PartitionedTable, kept_from: datetime) -> None:
    """Drop the leading partitions whose last row is old; one that is still to be filled ends the search."""
    last_id = await partition_store.read_last_id(connection, table)
    for partition in await partition_store.list_all(connection, table):
        if partition.end_id > last_id and not partition.is_detaching:
            break
        last = None if partition.is_detaching else await partition_store.read_last(connection, table, partition)
        if not partition.is_detaching and (last is None or last[1] >= kept_from):
            break
        await partition_store.detach(connection, table, partition)
    for name in await partition_store.list_detached(connection, table):
        await partition_store.drop(connection, table, name)
        _log.debug("partition dropped", table=table.name, name=name)
