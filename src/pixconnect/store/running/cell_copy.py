"""The SQL of copying a cell's tables by PostgreSQL's logical replication, as ``usecases/running/cell_move.py`` has it done.

The tables at the *source* are published, all but ``schema_version``; the *target*, whose tables are made by migrations,
subscribes. Both are reached as their owner, with our schema as the path. Publication, slot and subscription have the same name.
A server shows the subscriptions of all its databases: here each statement is about those of its own database only.

Transactions arrive in the order of their commits. So one row that is written at the source, the mark, says once it is at the
target that all before it is there. It is ``partition_pass.jumped_at``: for an hour after that instant a cell takes no partition
out of its tables, which would be at one side only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, LiteralString

from msgspec import Struct

from pixconnect.domain.running.known_cell import COPY_PREFIX
from pixconnect.foundation.pool import Connection
from pixconnect.store.running import database_loss as loss_store

_LIST_TABLES: Final[LiteralString] = """
    select format('%s.%I', relnamespace::regnamespace, relname) as name, relreplident = 'f' or exists (
        select from pg_index where indrelid = pg_class.oid and indisprimary
    ) as has_key
    from pg_class
    where relnamespace::regnamespace::text = any($1) and relkind in ('r', 'p') and not relispartition
        and relname <> 'schema_version'
    order by 1
"""


async def list_tables(connection: Connection, schemas: Sequence[str]) -> Mapping[str, bool]:
    """All tables that are copied, and whether a row of each can be found at the target."""
    return {row["name"]: row["has_key"] for row in await connection.fetch(_LIST_TABLES, schemas)}


async def find_rows(connection: Connection) -> bool:
    """Whether somebody has a holder here."""
    return await connection.fetchval("select exists (select from holder)")


async def empty(connection: Connection, tables: Sequence[str]) -> None:
    """Take away what migrations have put into the target: it comes with the copy."""
    async with connection.transaction():
        # Triggers that keep rows would refuse it.
        await connection.execute("set local session_replication_role = replica")
        await connection.execute(f"truncate {', '.join(tables)}")


async def _execute(connection: Connection, statement: LiteralString, *words: str) -> None:
    """Run a statement that takes no parameters, with words that PostgreSQL quotes."""
    given = ", ".join(f"${number}::text" for number in range(2, len(words) + 2))
    await connection.execute(await connection.fetchval(f"select format($1, {given})", statement, *words))


async def is_published(connection: Connection, name: str) -> bool:
    return await connection.fetchval("select exists (select from pg_publication where pubname = $1)", name)


async def publish(connection: Connection, name: str, tables: Sequence[str]) -> None:
    # By the names of whole tables, whose partitions need not be the same at both sides.
    options = "with (publish_via_partition_root = true)"
    await _execute(connection, "create publication %I for table %s " + options, name, ", ".join(tables))
    await _execute(connection, "comment on publication %I is %L", name, await loss_store.find_last_id(connection))


async def unpublish(connection: Connection, name: str) -> None:
    await _execute(connection, "drop publication if exists %I", name)


async def find_publication(connection: Connection) -> str | None:
    """The publication by which this database is being copied, if it is."""
    found = "select pubname::text from pg_publication where starts_with(pubname, $1)"
    return await connection.fetchval(found, COPY_PREFIX)


_FIND_SLOT: Final[LiteralString] = """
    select pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::bigint as behind_bytes, wal_status = 'lost' as is_lost
    from pg_replication_slots where slot_name = $1 and database = current_database()
"""


class CopySlot(Struct, frozen=True):
    behind_bytes: int | None
    """How much of the source's log the target has not said to have."""
    is_lost: bool
    """The source has thrown away what the target lacks."""


async def find_slot(connection: Connection, name: str) -> CopySlot | None:
    row = await connection.fetchrow(_FIND_SLOT, name)
    return None if row is None else CopySlot(**row)


async def make_slot(connection: Connection, name: str) -> None:
    # Two databases of one server would wait for each other if the subscription made it.
    # It waits for all who write at that server, however long that takes.
    await connection.execute("set lock_timeout = 0; set statement_timeout = 0")
    try:
        await connection.execute("select pg_create_logical_replication_slot($1, 'pgoutput')", name)
    finally:
        if not connection.is_closed():
            await connection.execute("reset lock_timeout")


_DESCRIBE_OLDEST: Final[LiteralString] = """
    select format('process %s of %s in the database %s, for %s s', pid, usename, datname,
        extract(epoch from clock_timestamp() - xact_start)::integer)
    from pg_stat_activity where backend_xid is not null and pid <> pg_backend_pid() order by xact_start limit 1
"""


async def describe_oldest_write(beside: Connection) -> str | None:
    """Which transaction of this server has been writing for the longest time, as an operator is told it."""
    return await beside.fetchval(_DESCRIBE_OLDEST)


# While tables are copied there are more of them.
_END_SENDERS: Final[LiteralString] = """
    select pg_terminate_backend(active_pid) from pg_replication_slots
    where (slot_name = $1 or slot_name ~ '^pg_[0-9]+_sync_') and database = current_database() and active_pid is not null
"""
_DROP_SLOTS: Final[LiteralString] = """
    select pg_drop_replication_slot(slot_name) from pg_replication_slots
    where (slot_name = $1 or slot_name ~ '^pg_[0-9]+_sync_') and database = current_database() and active_pid is null
"""
_HAS_SLOTS: Final[LiteralString] = """
    select exists (
        select from pg_replication_slots
        where (slot_name = $1 or slot_name ~ '^pg_[0-9]+_sync_') and database = current_database()
    )
"""
_POLL_S: Final = 0.02


async def drop_slots(connection: Connection, name: str) -> None:
    """Let the source keep its log for nobody, once there is no subscription."""
    while await connection.fetchval(_HAS_SLOTS, name):
        await connection.execute(_END_SENDERS, name)
        await connection.execute(_DROP_SLOTS, name)
        await asyncio.sleep(_POLL_S)


_OWN: Final[LiteralString] = "subdbid = (select oid from pg_database where datname = current_database())"
_OWN_ID: Final[LiteralString] = f"(select oid from pg_subscription where subname = $1 and {_OWN})"
_FIND_SUBSCRIPTION: Final[LiteralString] = f"""
    select subname::text from pg_subscription where starts_with(subname, $1) and {_OWN}
"""


async def find_subscription(connection: Connection) -> str | None:
    """The subscription by which this database is a copy, if it is."""
    return await connection.fetchval(_FIND_SUBSCRIPTION, COPY_PREFIX)


async def subscribe(connection: Connection, name: str, source_url: str) -> None:
    """Let the target copy the source's tables, and follow it."""
    # A target that is killed should know of which tables the slot is gone: see ``find_lost_slots``.
    options = "with (create_slot = false, slot_name = %I, streaming = off, synchronous_commit = 'on')"
    await _execute(
        connection, "create subscription %I connection %L publication %I " + options, name, source_url, name, name
    )


_HAS_WORKERS: Final[LiteralString] = (
    f"select exists (select from pg_stat_subscription where subid = {_OWN_ID} and pid is not null)"
)


async def pause(connection: Connection, name: str) -> None:
    """Let the target ask the source for nothing, and wait until it does not.

    One that is cut off in place of that would be away for five seconds.
    """
    await _execute(connection, "alter subscription %I disable", name)
    while await connection.fetchval(_HAS_WORKERS, name):  # noqa: ASYNC110  the server tells nobody
        await asyncio.sleep(_POLL_S)


async def follow(connection: Connection, name: str, source_url: str) -> None:
    """Let the target follow the source by this address."""
    await _execute(connection, "alter subscription %I connection %L", name, source_url)
    await _execute(connection, "alter subscription %I enable", name)


async def read_source_url(connection: Connection, name: str) -> str:
    """The address by which the target follows the source."""
    return await connection.fetchval(f"select subconninfo from pg_subscription where subname = $1 and {_OWN}", name)


async def unsubscribe(connection: Connection, name: str) -> None:
    """End the subscription, whether the source answers or not; the slot stays, which only the source can drop."""
    await _execute(connection, "alter subscription %I disable", name)
    await _execute(connection, "alter subscription %I set (slot_name = none)", name)
    await _execute(connection, "drop subscription %I", name)


_LIST_COPIED: Final[LiteralString] = f"""
    select format('%s.%I', relnamespace::regnamespace, relname) as name, srsubstate = 'r' as is_ready,
        srsubstate in ('f', 's', 'r') as is_copied,
        coalesce(tuples_processed, 0) as rows_count
    from pg_subscription_rel join pg_class on pg_class.oid = srrelid
    left join pg_stat_progress_copy on relid = srrelid and datname = current_database() and command = 'COPY FROM'
    where srsubid = {_OWN_ID}
"""
# All partitions of a table as one.
_MEASURE_TABLES: Final[LiteralString] = """
    select format('%s.%I', relnamespace::regnamespace, relname) as name, bytes_count, rows_count
    from pg_publication_rel join pg_publication on pg_publication.oid = prpubid and pubname = $1
    join pg_class on pg_class.oid = prrelid
    cross join lateral (
        select sum(pg_total_relation_size(part))::bigint as bytes_count,
            sum(pg_stat_get_live_tuples(part))::bigint as rows_count
        from (select prrelid union select relid from pg_partition_tree(prrelid)) as parts (part)
    ) as measured
"""
_COUNT_ERRORS: Final[LiteralString] = f"""
    select coalesce(sum(apply_error_count + sync_error_count), 0)::bigint
    from pg_stat_subscription_stats where subid = {_OWN_ID}
"""


_LIST_TABLE_SLOTS: Final[LiteralString] = f"""
    select format('pg_%s_sync_%s_%s', srsubid, srrelid, (select system_identifier from pg_control_system())) as name
    from pg_subscription_rel where srsubid = {_OWN_ID} and srsubstate = 'f'
"""


async def find_lost_slots(source: Connection, target: Connection, name: str) -> set[str]:
    """Slots of single tables that the target asks for, and the source has dropped: killed just then, it asks for ever."""
    wanted = {row["name"] for row in await target.fetch(_LIST_TABLE_SLOTS, name)}
    if not wanted:
        return wanted
    return wanted - {row["slot_name"] for row in await source.fetch("select slot_name::text from pg_replication_slots")}


class CopyProgress(Struct, frozen=True, kw_only=True):
    tables_count: int
    tables_ready: int
    rows_count: int
    """As PostgreSQL estimates them at the source."""
    rows_copied: int
    bytes_count: int
    """With indexes, at the source."""
    bytes_copied: int
    behind_bytes: int
    errors_count: int
    """What the target has met since the copy was begun; its log says what."""

    @property
    def is_complete(self) -> bool:
        return 0 < self.tables_count == self.tables_ready


async def is_all_copied(connection: Connection, name: str) -> bool:
    """Whether the target has had all tables, and lacks only what the source has written since."""
    states = await connection.fetch(_LIST_COPIED, name)
    return bool(states) and all(state["is_ready"] for state in states)


async def measure_copy(source: Connection, target: Connection, name: str, behind_bytes: int) -> CopyProgress:
    sizes = {row["name"]: (row["rows_count"], row["bytes_count"]) for row in await source.fetch(_MEASURE_TABLES, name)}
    states = await target.fetch(_LIST_COPIED, name)
    rows_copied = bytes_copied = 0
    for state in states:
        rows_count, bytes_count = sizes.get(state["name"], (0, 0))
        copied = rows_count if state["is_copied"] else min(state["rows_count"], rows_count)
        rows_copied += copied
        if state["is_copied"] or rows_count:
            bytes_copied += bytes_count if state["is_copied"] else bytes_count * copied // rows_count
    return CopyProgress(
        tables_count=len(states),
        tables_ready=sum(state["is_ready"] for state in states),
        rows_count=sum(rows_count for rows_count, _ in sizes.values()),
        rows_copied=rows_copied,
        bytes_count=sum(bytes_count for _, bytes_count in sizes.values()),
        bytes_copied=bytes_copied,
        behind_bytes=behind_bytes,
        errors_count=await target.fetchval(_COUNT_ERRORS, name),
    )


async def write_mark(source: Connection) -> datetime:
    """Write what says, once it is at the target, that all before it is there; no partition is dropped for an hour."""
    return await source.fetchval("update partition_pass set jumped_at = clock_timestamp() returning jumped_at")


async def read_mark(target: Connection) -> datetime | None:
    return await target.fetchval("select jumped_at from partition_pass")


_LIST_PARTITIONS: Final[LiteralString] = r"""
    select parent.relname::text as parent, child.relname::text as name,
        (regexp_match(pg_get_expr(child.relpartbound, child.oid), 'FROM \(''?(\d+)''?\)'))[1]::bigint as first_id,
        (regexp_match(pg_get_expr(child.relpartbound, child.oid), 'TO \(''?(\d+)''?\)'))[1]::bigint as end_id
    from pg_inherits join pg_class as parent on parent.oid = inhparent join pg_class as child on child.oid = inhrelid
    where parent.relkind = 'p' and parent.relnamespace = to_regnamespace(current_schema())
"""


class Partition(Struct, frozen=True):
    parent: str
    name: str
    first_id: int
    end_id: int


async def list_partitions(connection: Connection) -> set[Partition]:
    return {Partition(**row) for row in await connection.fetch(_LIST_PARTITIONS)}


async def add_partitions(target: Connection, partitions: set[Partition]) -> None:
    """Make what the source has made meanwhile, of which the log says nothing."""
    for each in sorted(partitions, key=lambda partition: partition.first_id):
        await target.execute("select add_partition($1, $2, $3)", each.parent, each.first_id, each.end_id)


async def drop_partitions(target: Connection, partitions: set[Partition]) -> None:
    """Drop what the source has dropped; what counted its rows comes with the copy."""
    # Attempts before their deliveries.
    for each in sorted(partitions, key=lambda partition: partition.name, reverse=True):
        await _execute(target, "drop table %I", each.name)


_SMALL_BYTES: Final = 65_536
_DESCRIBE_TABLES: Final[LiteralString] = """
    select name, pg_relation_size(name::regclass) <= $2 and not relkind = 'p' as is_small, (
        select string_agg(quote_ident(attname) || ' desc', ', ' order by array_position(indkey::int2[], attnum))
        from pg_index join pg_attribute on attrelid = indrelid and attnum = any(indkey)
        where indrelid = pg_class.oid and indisprimary
    ) as newest_first
    from unnest($1::text[]) as name join pg_class on pg_class.oid = name::regclass
    order by name
"""


async def write_comparison(source: Connection, tables: Sequence[str]) -> str:
    """A query that answers the same at both sides: of a small table all rows, of another the one with the largest key.

    Where a move was cut off after the target's server was noted, that note is in its ``installation``.
    """
    looks: list[str] = []
    for row in await source.fetch(
        _DESCRIBE_TABLES, [each for each in tables if not each.endswith(".installation")], _SMALL_BYTES
    ):
        found = "sum(hashtextextended(row::text, 0)::numeric)"
        if row["is_small"]:
            looks.append(f"select '{row['name']}' as name, count(*) as count, {found} as sum from {row['name']} as row")
        elif row["newest_first"]:
            newest = f"(select * from {row['name']} order by {row['newest_first']} limit 1)"
            looks.append(f"select '{row['name']}' as name, count(*) as count, {found} as sum from {newest} as row")
    return " union all ".join(looks)


async def find_unlike(source: Connection, target: Connection, comparison: str) -> str | None:
    """The first table that is not the same at both sides."""
    here, there = await asyncio.gather(source.fetch(comparison), target.fetch(comparison))
    return next((name for name, _, _ in sorted({*map(tuple, here)} ^ {*map(tuple, there)})), None)
