"""What the tables are of, which server they are on, how durable that is, and whether its sequences are ahead of its ids."""

from __future__ import annotations

from typing import Final, Literal, LiteralString

from msgspec import Struct

from pixconnect.foundation.pool import Connection

Mode = Literal["sandbox", "live"]

_TAKE_MODE: Final[LiteralString] = """
    with taken as (insert into installation (mode) values ($1) on conflict do nothing returning mode)
    select mode from taken union all select mode from installation limit 1
"""


async def take_mode(connection: Connection, mode: Mode) -> Mode:
    """The mode of these tables; the given one if they have none yet."""
    found: Mode | None = await connection.fetchval(_TAKE_MODE, mode)
    # Nothing is found where somebody else has taken it in the same moment.
    return found or await connection.fetchval("select mode from installation")


_LOOK_FOR_TABLES: Final[LiteralString] = """
    select to_regclass('installation') is not null as has_mode,
        to_regclass('holder') is not null as has_tables,
        to_regnamespace('sandbox') is not null as has_sandbox
"""


async def find_mode(connection: Connection) -> Mode | None:
    """The mode of what is in the database before it is migrated; ``None`` where there is nothing."""
    found = await connection.fetchrow(_LOOK_FOR_TABLES)
    if found is None or not found["has_tables"]:
        return None
    kept: Mode | None = None
    if found["has_mode"]:
        kept = await connection.fetchval("select mode from installation")
    # Tables from before the mode was kept are the sandbox's where its own stand beside them: live makes none.
    if kept is not None or found["has_sandbox"]:
        return kept or "sandbox"
    # Tables without holders may become either.
    return "live" if await connection.fetchval("select exists (select from holder)") else None


class Server(Struct, frozen=True):
    """Which server this is, and which of its histories."""

    system_identifier: int
    timeline: int


_READ_SERVER: Final[LiteralString] = """
    select system_identifier, case
        when pg_is_in_recovery() then (select timeline_id from pg_control_checkpoint())
        else ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint
    end as timeline
    from pg_control_system()
"""


async def read_server(connection: Connection) -> Server:
    row = await connection.fetchrow(_READ_SERVER)
    if row is None:
        raise AssertionError("pg_control_system has one row")
    return Server(row["system_identifier"], row["timeline"])


_FIND_NOTED_SERVER: Final[LiteralString] = (
    "select system_identifier, timeline from installation where system_identifier is not null"
)


async def find_noted_server(connection: Connection) -> Server | None:
    """The server that these tables were last seen on."""
    row = await connection.fetchrow(_FIND_NOTED_SERVER)
    return None if row is None else Server(row["system_identifier"], row["timeline"])


_NOTE_SERVER: Final[LiteralString] = (
    "update installation set system_identifier = $1, timeline = $2, seen_at = clock_timestamp()"
)


async def note_server(connection: Connection, server: Server) -> None:
    await connection.execute(_NOTE_SERVER, server.system_identifier, server.timeline)


# What an answer of ours is worth depends on these.
DURABILITY: Final = (
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "synchronous_standby_names",
    "default_transaction_isolation",
)


async def read_durability(connection: Connection) -> dict[str, str]:
    """The server's settings of ``DURABILITY``, as they hold in this session."""
    return {name: await connection.fetchval("select current_setting($1)", name) for name in DURABILITY}


# What a session waits for at COMMIT is never less than our own disk, and never less than the server wants.
_DEMAND_COMMITS: Final[LiteralString] = """
    select set_config('synchronous_commit', 'on', false)
    where current_setting('synchronous_commit') in ('off', 'local', 'remote_write')
"""


async def demand_durable_commits(connection: Connection) -> None:
    """Let this session's commits wait for the disk, and for the standbys that the server names."""
    await connection.execute(_DEMAND_COMMITS)


class Counted(Struct, frozen=True):
    """A sequence and the ids that it has given out, in blocks of its increment."""

    sequence: LiteralString
    tables: tuple[LiteralString, ...]
    column: LiteralString = "id"
    skipped_factor: int = 1
    """How many times as much is skipped after a change of servers."""


_COUNTED: Final = (
    Counted("charge_id", ("charge",)),
    Counted("transfer_id", ("transfer",)),
    Counted("refund_id", ("refund",)),
    Counted("location_id", ("location",)),
    Counted("write_group_id", ("ledger_entry", "event")),
    Counted("delivery_id", ("delivery",)),
    Counted("webhook_endpoint_id", ("webhook_endpoint",)),
    # Programs keep cursors: a position that they have read must not be given to another event.
    Counted("event_feed_position", ("event_feed",), "position", skipped_factor=16_384),
)


# Moved by asking for the next one, again and again: so it never goes back, whoever else asks meanwhile.
def _catch_up(counted: Counted) -> LiteralString:
    largest: LiteralString = ", ".join(f"(select max({counted.column}) from {table})" for table in counted.tables)
    return f"""
        with state as (
            select seqincrement as step,
                coalesce(pg_sequence_last_value(seqrelid), seqstart - seqincrement) as last,
                coalesce(greatest({largest}), 0) as largest
            from pg_sequence where seqrelid = '{counted.sequence}'::regclass
        )
        select count(nextval('{counted.sequence}'))
        from state, generate_series(1, greatest(0, (largest - last) / step))
        where largest >= last + step
    """


_CATCH_UP: Final = {counted.sequence: _catch_up(counted) for counted in _COUNTED}


async def catch_up_sequences(connection: Connection) -> list[str]:
    """Move sequences that were set back above the largest id in use; returns which ones."""
    return [name for name, statement in _CATCH_UP.items() if await connection.fetchval(statement)]


_SKIP: Final = {
    counted.sequence: (
        f"select max(nextval('{counted.sequence}')) from generate_series(1, $1)",
        counted.skipped_factor,
    )
    for counted in _COUNTED
}


async def skip_blocks(connection: Connection, count: int) -> None:
    """Leave out ids that a server which is gone may have given out, although they are nowhere in these tables."""
    # One by one: a sequence that was moved stays moved, should the next one fail.
    for statement, factor in _SKIP.values():
        await connection.fetchval(statement, count * factor)
