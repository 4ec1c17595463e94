"""Partitions of events and deliveries, created ahead and dropped once all rows are old; and erasure of personal texts.

Functions of the schema do it, as the owner and by PostgreSQL's own clock. None of them blocks other transactions for more than
a tenth of a second: if a lock is not free, the next pass tries again.

They enforce at least the minimum times of the register of personal data, even if the caller passes shorter ones; and the
chained facts of a row remain provable by a digest. So the service's password does not permit erasing more.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, LiteralString

from msgspec import Struct

from pixconnect.kernel.feature import list_features
from pixconnect.kernel.tables.lookup import Column, Command, Value
from pixconnect.kernel.tables.table import split_pairs
from pixconnect.platform.pool import Connection, Pool

PARENTS: Final = ("event", "delivery", "event_feed")
"""The tables that have partitions; attempts have those of their deliveries."""

make: Final = Column[str, str]("select make_partitions($1)")
"""Adopt partitions made by others, create missing ones ahead, and return the new names."""

note: Final = Value[timedelta | None]("select note_partitions()")
"""Record begun and filled partitions; return how far the clock jumped since the last pass, if it did."""

close: Final = Column[str, str, timedelta]("select close_partitions($1, $2)")
"""Switch to the next partition once the present one has been filled for long enough."""

detach_old: Final = Value[str | None, str, timedelta]("select detach_old_partition($1, $2)")
"""Detach an old partition without pending rows from its table; return its name."""


async def drop_detached(connection: Connection) -> str | None:
    """Drop a detached partition and remove its rows from the counts; return its name."""
    async with connection.transaction():
        # It reads every row that it takes from the totals, however long that takes.
        await connection.execute("set local statement_timeout = 0")
        return await connection.fetchval("select drop_detached_partition()")


give_up_old: Final = Value[int, timedelta, int, datetime]("""
    with old as (
        select first_id, end_id from event_partition, partition_pass
        where parent = 'delivery' and detached_at is null and closed_at < clock_timestamp() - greatest(retention, $1::interval)
    ),
    waiting as (
        select id, holder_id from old
        cross join lateral (
            select id, holder_id from delivery where id >= first_id and id < end_id and status = 'pending' order by id limit $2
        ) as delivery
        order by id limit $2
    ),
    given_up as (
        update delivery set status = 'failed', due_at = null, attempts_count = attempts_count + 1, modified_at = $3
        from waiting
        where delivery.id = waiting.id and delivery.holder_id = waiting.holder_id and delivery.status = 'pending'
        returning delivery.id, attempts_count
    ),
    noted as (
        insert into delivery_attempt (delivery_id, number, started_at, status_code, duration_us, response, error)
        select id, attempts_count, $3, null, 0, '', 'not sent: it waited for longer than events are kept' from given_up
    )
    select count(*) from given_up
""")
"""Fail pending deliveries in partitions that are due to be dropped, with an attempt that states why; return their number."""


_READ_AHEAD: Final[LiteralString] = """
    select parent, count(*) filter (where first_id > last_id_given(parent)) as ahead_count,
        clock_timestamp() - min(passed_at) as passed_for
    from event_partition, partition_pass group by parent
"""


async def read_ahead(connection: Connection | Pool) -> tuple[dict[str, int], timedelta]:
    """Count the partitions of each table that were created and not begun yet; and read the time since a worker's last pass."""
    rows = await connection.fetch(_READ_AHEAD)
    passed_for = [row["passed_for"] for row in rows if row["passed_for"] is not None]
    return {row["parent"]: row["ahead_count"] for row in rows}, max(passed_for, default=timedelta())


set_retention: Final = Command[timedelta]("update partition_pass set retention = $1")
"""Set, as the owner, the minimum retention of events."""

SWEPT: Final = ("transfer", "refund", "charge", *(one.kind for feature in list_features() for one in feature.erasures))
"""The rows of ``text_sweep``."""


class RetentionPeriods(Struct, frozen=True, kw_only=True):
    """When texts expire; never less than the functions' own minimum."""

    unpaid: timedelta  # for an unpaid charge, from its end
    message: timedelta
    party: timedelta


class Erased(Struct, frozen=True, kw_only=True):
    """A row whose texts were emptied."""

    id: int
    holder_id: int
    part: str  # ``message``, or ``all``: the person too


# Locks the pass's row with ``skip locked``: of two workers the second finds nothing to do, and does not wait.
_SWEEP: Final[LiteralString] = "select * from sweep_texts($1, $2, $3, $4, $5)"


async def sweep_texts(connection: Connection, kind: str, ages: RetentionPeriods, count_max: int) -> tuple[int, int]:
    """Check the next rows of a pass over all of a kind, and return how many were checked, and how many of them emptied.

    None are checked at the end of a walk, and while none is due or another worker walks. A new pass starts each day.
    """
    row = await connection.fetchrow(_SWEEP, kind, count_max, ages.unpaid, ages.message, ages.party)
    return (row["looked_count"], row["erased_count"]) if row else (0, 0)


_ERASE: Final = {kind: f"select * from erase_{kind}s($1, $2, $3, $4, $5)" for kind in SWEPT}


async def erase(connection: Connection, kind: str, rows: Sequence[tuple[int, int]], ages: RetentionPeriods) -> list[Erased]:
    """Empty the erasable texts of rows of a kind of ``SWEPT``, each by id and holder; return the changed ones."""
    found = await connection.fetch(_ERASE[kind], *split_pairs(rows), ages.unpaid, ages.message, ages.party)
    return [Erased(**row) for row in found]
