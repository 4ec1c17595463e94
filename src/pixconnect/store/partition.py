"""Partitions of events and deliveries: made ahead, and dropped when everything in them is old.

All of it needs the tables' owner, and none of it keeps anybody waiting: a partition is built beside its table and attached, and
detached concurrently before it is dropped. For the latter no transaction may be open, and one that was cut off is finished.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Final, LiteralString

from msgspec import Struct

if TYPE_CHECKING:
    from pixconnect.foundation.pool import Connection


class PartitionedTable(Struct, frozen=True, kw_only=True):
    """A table that is partitioned by ranges of an id.

    Attributes:
        name: Of the table.
        id_column: What its rows are parted by.
        time_column: When a row was made.
        sequence: Where its ids come from.
        span: Ids of one partition.
    """

    name: LiteralString
    id_column: LiteralString
    time_column: LiteralString
    sequence: LiteralString
    span: int


EVENT: Final = PartitionedTable(
    name="event", id_column="id", time_column="created_at", sequence="write_group_id", span=1 << 34
)
"""A write group takes a block of 2048 ids, however few events it has."""
DELIVERY: Final = PartitionedTable(
    name="delivery", id_column="id", time_column="created_at", sequence="delivery_id", span=1 << 24
)
DELIVERY_ATTEMPT: Final = PartitionedTable(
    name="delivery_attempt",
    id_column="delivery_id",
    time_column="started_at",
    sequence="delivery_id",
    span=1 << 24,
)
TABLES: Final = (EVENT, DELIVERY, DELIVERY_ATTEMPT)


class Partition(Struct, frozen=True, kw_only=True):
    """A part of a table.

    Attributes:
        name: Of its own table.
        first_id: The first id that it may hold.
        end_id: The first that it may not.
        is_detaching: A detachment was begun and cut off.
    """

    name: str
    first_id: int
    end_id: int
    is_detaching: bool


_LOCK: Final[LiteralString] = "select pg_try_advisory_lock($1, 0)"
_LOCK_KEY: Final = 0x7078_7074


async def try_lock(connection: "Connection") -> bool:
    """Be the only one who changes partitions, for as long as the connection lives."""
    return await connection.fetchval(_LOCK, _LOCK_KEY)


_LIST: Final[LiteralString] = r"""
    select relname as name, inhdetachpending as is_detaching,
        (regexp_match(pg_get_expr(relpartbound, oid), 'FROM \(''?(\d+)''?\)'))[1]::bigint as first_id,
        (regexp_match(pg_get_expr(relpartbound, oid), 'TO \(''?(\d+)''?\)'))[1]::bigint as end_id
    from pg_inherits join pg_class on pg_class.oid = inhrelid
    where inhparent = $1::text::regclass
    order by first_id
"""


async def list_all(connection: "Connection", table: PartitionedTable) -> list[Partition]:
    """The partitions of a table in order."""
    return [
        Partition(name=row["name"], first_id=row["first_id"], end_id=row["end_id"], is_detaching=row["is_detaching"])
        for row in await connection.fetch(_LIST, table.name)
    ]


async def read_last(
    connection: "Connection", table: PartitionedTable, partition: Partition
) -> tuple[int, datetime] | None:
    """The last row of a partition: its id and when it was made."""
    row = await connection.fetchrow(
        f"select {table.id_column} as id, {table.time_column} as made_at from {partition.name}"
        f" order by {table.id_column} desc limit 1"
    )
    return None if row is None else (row["id"], row["made_at"])


async def read_first_time(connection: "Connection", table: PartitionedTable, partition: Partition) -> datetime | None:
    """When the first row of a partition was made."""
    return await connection.fetchval(
        f"select {table.time_column} from {partition.name} order by {table.id_column} limit 1"
    )


async def add(connection: "Connection", table: PartitionedTable, first_id: int) -> None:
    """Make the partition that begins with an id."""
    name = f"{table.name}_{first_id}"
    async with connection.transaction():
        await connection.execute(f"create table {name} (like {table.name} including defaults including constraints)")
        await connection.execute(
            f"alter table {table.name} attach partition {name} for values from ({first_id}) to ({first_id + table.span})"
        )


async def detach(connection: "Connection", table: PartitionedTable, partition: Partition) -> None:
    """Take a partition out of its table without making anybody wait; called with no transaction open."""
    way = "finalize" if partition.is_detaching else "concurrently"
    await connection.execute(f"alter table {table.name} detach partition {partition.name} {way}")


_LIST_DETACHED: Final[LiteralString] = r"""
    select relname from pg_class
    where relnamespace = current_schema()::regnamespace and relkind = 'r' and not relispartition
        and relname ~ ('^' || $1::text || '_\d+$')
    order by oid
"""


async def list_detached(connection: "Connection", table: PartitionedTable) -> list[str]:
    """Names of partitions that were detached and not dropped yet."""
    return [row["relname"] for row in await connection.fetch(_LIST_DETACHED, table.name)]


_NOTE_DROPPED: Final[dict[str, LiteralString]] = {
    "event": """
        insert into webhook_tally_change (kind, owner_id, status, hour, change)
        select 'event', holder_id, 'made', date_trunc('hour', created_at, 'UTC'), -count(*) from {name} group by holder_id, 4
    """,
    "delivery": """
        insert into webhook_tally_change (kind, owner_id, status, hour, change)
        select 'delivery', endpoint_id, word, hour, -sum(count) from (
            select endpoint_id, status, date_trunc('hour', created_at, 'UTC') as hour, count(*) as count from {name}
            group by 1, 2, 3
        ) as dropped
        cross join lateral (values ('made'), (nullif(status, 'pending'))) as counted (word)
        where word is not null group by 1, 2, 3, 4
    """,
}
_FORGET_EMPTY_HOURS: Final[LiteralString] = "delete from webhook_tally where count = 0"


async def drop(connection: "Connection", table: PartitionedTable, name: str) -> None:
    """Drop a partition that was detached, and count what was in it no more."""
    async with connection.transaction():
        if table.name in _NOTE_DROPPED:
            await connection.execute(_NOTE_DROPPED[table.name].format(name=name))
            await connection.execute(_FORGET_EMPTY_HOURS)
        await connection.execute(f"drop table {name}")


async def read_last_id(connection: "Connection", table: PartitionedTable) -> int:
    """The last id, or the first of the last block of ids, that was given out."""
    return await connection.fetchval(f"select last_value from {table.sequence}")


_SKIP_IDS: Final[LiteralString] = "select setval($1::text::regclass, $2, false)"


async def skip_ids(connection: "Connection", table: PartitionedTable, first_id: int) -> None:
    """Give out this id next; it must be far ahead of those that are given out now."""
    await connection.execute(_SKIP_IDS, table.sequence, first_id)
