"""Partitions of events and deliveries: made ahead, and dropped when everything in them is old.

All of it needs the tables' owner, and none of it keeps anybody waiting: a partition is built beside its table and attached, and
detached concurrently before it is dropped. For the latter no transaction may be open, and one that was cut off is finished.
"""

from collections.abc import Sequence
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
        span: Ids of one partition.
    """

    name: LiteralString
    id_column: LiteralString
    time_column: LiteralString
    span: int


EVENT: Final = PartitionedTable(name="event", id_column="id", time_column="created_at", span=1 << 34)
"""A write group takes a block of 2048 ids, however few events it has."""
DELIVERY: Final = PartitionedTable(name="delivery", id_column="id", time_column="created_at", span=1 << 24)
DELIVERY_ATTEMPT: Final = PartitionedTable(
    name="delivery_attempt", id_column="delivery_id", time_column="started_at", span=1 << 24
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


async def drop(connection: "Connection", table: PartitionedTable, partitions: Sequence[Partition]) -> None:
    """Drop partitions without making anybody wait; called with no transaction open."""
    for partition in partitions:
        way = "finalize" if partition.is_detaching else "concurrently"
        await connection.execute(f"alter table {table.name} detach partition {partition.name} {way}")
        await connection.execute(f"drop table {partition.name}")


_READ_DELIVERY_ID: Final[LiteralString] = "select last_value from delivery_id"
_SKIP_DELIVERY_IDS: Final[LiteralString] = "select setval('delivery_id', $1, false)"


async def read_delivery_id(connection: "Connection") -> int:
    """The last id that a delivery got."""
    return await connection.fetchval(_READ_DELIVERY_ID)


async def skip_delivery_ids(connection: "Connection", first_id: int) -> None:
    """Give the next delivery this id; it must be far ahead of those that are given out now."""
    await connection.execute(_SKIP_DELIVERY_IDS, first_id)
