"""The installation's mode, its server, the server's durability, and whether its sequences are ahead of its ids.

Also the heartbeat: the primary's clock, which shows readers of a standby how old its tables are.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal, LiteralString

from msgspec import Struct

from pixconnect.kernel.rules.order import FirstIds
from pixconnect.kernel.tables.lookup import Command, ReadOne, Value
from pixconnect.kernel.tables.table import fetch_row
from pixconnect.platform.base.database_server import DatabaseServer
from pixconnect.platform.pool import Connection

Mode = Literal["sandbox", "live"]

_READ_MODE: Final[LiteralString] = "select mode from installation"
_TAKE_MODE: Final[LiteralString] = """
    with taken as (insert into installation (mode) values ($1) on conflict do nothing returning mode)
    select mode from taken union all select mode from installation limit 1
"""


async def take_mode(connection: Connection, mode: Mode) -> Mode:
    """Return the mode of these tables; set the given one if they have none yet."""
    found: Mode | None = await connection.fetchval(_READ_MODE)
    if found is None:
        found = await connection.fetchval(_TAKE_MODE, mode)
    # It finds nothing if another process has set it in the same moment.
    return found or await connection.fetchval(_READ_MODE)


begin_times: Final = Command[()]("""
    with noted as (update id_high_water set noted_at = clock_timestamp() where not exists (select from installation))
    update partition_pass set passed_at = clock_timestamp() where not exists (select from installation)
""")
"""As the owner, let tables without a mode begin now: those of a copied cluster were made long ago."""

list_inherited: Final = Value[Sequence[str]]("""
    select coalesce(array_agg(
        format('grant %I to %I with inherit false granted by %s', ours.rolname, login.rolname, grantor::regrole)
        order by login.rolname, ours.rolname
    ), '{}')
    from pg_auth_members join pg_roles as login on login.oid = member join pg_roles as ours on ours.oid = roleid
    where inherit_option and ours.rolname ~ '^pixconnect_(service|operator|console|funding|verifier)$'
        and login.rolname !~ '^pixconnect_(service|operator|console|funding|verifier)$'
""")
"""List the statements that end logins' inheriting of our roles: the schema tells operators from others by the role taken."""

# A sandbox that was killed before it recorded its mode has left its simulated network.
_FIND_MODE: Final[LiteralString] = """
    select coalesce((select mode from installation), case when to_regnamespace('sandbox') is not null then 'sandbox' end)
"""


async def find_mode(connection: Connection) -> Mode | None:
    """The mode of the database before migration; ``None`` if it is empty."""
    if not await connection.fetchval("select to_regclass('installation') is not null"):
        return None
    return await connection.fetchval(_FIND_MODE)


# At COMMIT a session waits at least for its own disk, and for all that the server demands.
_DURABLE: Final[LiteralString] = """
    case when current_setting('synchronous_commit') in ('off', 'local', 'remote_write') then 'on'
    else current_setting('synchronous_commit') end
"""


demand_durable_commits: Final = Command[()](f"select set_config('synchronous_commit', {_DURABLE}, false)")
"""Make this session's commits wait for the disk, and for the standbys that the server names."""


_SERVER: Final[LiteralString] = """
    system_identifier, case
        when pg_is_in_recovery() then (select timeline_id from pg_control_checkpoint())
        else ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint
    end as timeline,
    (select oid::bigint from pg_database where datname = current_database()) as database_oid,
    to_regclass('installation')::bigint as tables_oid,
    coalesce((select notes_count from installation), 0) as notes_count,
    (select made_at from installation) as made_at,
    (select seen_at from installation) as here_since,
    clock_timestamp() as seen_at,
    pg_postmaster_start_time() as started_at,
    case when pg_is_in_recovery() then 0 else pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::bigint end as position
"""


async def read_server(connection: Connection) -> DatabaseServer:
    """Read the server's present state; raises as for a standby if the tables were restored after this session had read them."""
    row = await fetch_row(connection, f"select {_SERVER} from pg_control_system() where refuse_old_session()")
    return DatabaseServer(**row)


# One round trip, which each new connection costs. If the tables are restored after this, the session is refused.
_PREPARE_SESSION: Final[LiteralString] = f"""
    select {_SERVER}, pg_is_in_recovery() as is_standby, set_config('synchronous_commit', {_DURABLE}, false) as commits,
        array(select name from unnest(array['fsync', 'full_page_writes']) as name where current_setting(name) <> 'on') as weak,
        current_setting('cluster_name') as cluster,
        set_config('session.tables_oid', to_regclass('installation')::bigint::text, false) as tables
    from pg_control_system() where refuse_old_session()
"""


class PreparedSession(Struct, frozen=True, kw_only=True):
    """A session that commits durably, and writes only to the tables that it has found."""

    server: DatabaseServer
    is_standby: bool
    weak: Sequence[str]  # the server's settings that may lose committed data
    cluster: str  # the name of its cluster; empty without one


async def prepare_session(connection: Connection) -> PreparedSession:
    """Make a new connection's session safe to use, and read its server; raises as ``read_server``."""
    row = dict(await fetch_row(connection, _PREPARE_SESSION))
    del row["commits"], row["tables"]
    beside = {name: row.pop(name) for name in ("is_standby", "weak", "cluster")}
    return PreparedSession(server=DatabaseServer(**row), **beside)


_FIND_NOTED_SERVER: Final[LiteralString] = """
    select system_identifier, timeline, coalesce(database_oid, $1) as database_oid, coalesce(tables_oid, $2) as tables_oid,
        coalesce(started_at, to_timestamp(0)) as started_at, 0::bigint as position
    from installation where system_identifier is not null
"""


async def find_noted_server(
    connection: Connection, found: DatabaseServer, latest: DatabaseServer | None
) -> DatabaseServer | None:
    """Read the recorded server of these tables; missing facts of an older program count as known or found."""
    is_known = latest is not None and latest.tables_oid and latest.identity[:3] == found.identity[:3]
    tables_oid = latest.tables_oid if latest is not None and is_known else found.tables_oid
    row = await connection.fetchrow(_FIND_NOTED_SERVER, found.database_oid, tables_oid)
    return None if row is None else DatabaseServer(**row)


note_location_prefix: Final = Command[str]("""
    update installation set location_prefixes = location_prefixes || $1::text where $1 <> all (location_prefixes)
""")
"""Store the prefix of codes' locations: ``verify`` compares charges with it."""

_LOCK_TIMEOUT_S: Final = 60


async def lock_noted_server(connection: Connection) -> None:
    """Lock the check of the server until the transaction ends."""
    # Another process that has it may have many orders to mark.
    await connection.execute(f"set local lock_timeout = '{_LOCK_TIMEOUT_S}s'")
    await connection.execute("set local statement_timeout = 0")
    await connection.execute("select from installation for update", timeout=_LOCK_TIMEOUT_S + 5)


_NOTE_SERVER: Final[LiteralString] = """
    update installation
    set system_identifier = $1, timeline = $2, database_oid = $3, tables_oid = $4, started_at = $5,
        seen_at = case when $6 then clock_timestamp() else coalesce(seen_at, clock_timestamp()) end,
        -- It was another server's clock.
        beat_at = null
"""


async def note_server(connection: Connection, server: DatabaseServer, *, has_come: bool) -> None:
    """Record the server of the tables; ``has_come`` if they are known to have been elsewhere, or in another state."""
    await connection.execute(_NOTE_SERVER, *server.identity, server.started_at, has_come)


find_waiting_cluster: Final = Value[str | None]("select waiting_cluster from installation")
"""The cluster whose commits waited for a standby at the last check."""

_NOTE_CLUSTER: Final[LiteralString] = """
    with found as (
        select nullif(current_setting('cluster_name'), '') as name where current_setting('synchronous_standby_names') <> ''
        union all select null where current_setting('synchronous_standby_names') = ''
    )
    update installation set waiting_cluster = found.name from found where waiting_cluster is distinct from found.name
"""


async def note_cluster(connection: Connection) -> bool:
    """Record whether commits wait for a standby, and in which cluster; return whether that changed."""
    return await connection.execute(_NOTE_CLUSTER) != "UPDATE 0"


# Its record follows everything visible to this session, and its COMMIT waits for the standbys.
WRITE_RECORD: Final[LiteralString] = "select pg_logical_emit_message(true, 'pixconnect', '')"


async def read_server_at_standbys(connection: Connection) -> DatabaseServer:
    """Read the server once a standby has the whole log up to that state."""
    async with connection.transaction():
        found = await read_server(connection)
        await connection.execute(WRITE_RECORD)
    return found


async def read_first_ids(connection: Connection) -> FirstIds:
    row = await connection.fetchrow("select first_transfer_id as transfer_id, first_refund_id as refund_id from installation")
    return FirstIds() if row is None else FirstIds(**row)


# The durability of our answers depends on these.
DURABILITY: Final = (
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "synchronous_standby_names",
    "default_transaction_isolation",
)


async def read_durability(connection: Connection) -> dict[str, str]:
    """Read the server's settings of ``DURABILITY`` in this session."""
    return {name: await connection.fetchval("select current_setting($1)", name) for name in DURABILITY}


class Counted(Struct, frozen=True):
    """A sequence and its assigned ids, in blocks of its increment."""

    sequence: LiteralString
    tables: tuple[LiteralString, ...]
    column: LiteralString = "id"


COUNTED: Final = (
    Counted("charge_id", ("charge",)),
    Counted("transfer_id", ("transfer",)),
    Counted("refund_id", ("refund",)),
    Counted("location_id", ("location",)),
    Counted("write_group_id", ("ledger_entry", "event")),
    Counted("delivery_id", ("delivery",)),
    Counted("webhook_endpoint_id", ("webhook_endpoint",)),
    # Programs keep cursors: a position that they have read must not be assigned to another event.
    Counted("event_feed_position", ("event_feed",), "position"),
)


def select_reach(counted: Counted) -> LiteralString:
    """Selects the largest id in use as ``taken``, and the sequence's next one as ``next``."""
    largest: LiteralString = ", ".join(f"(select max({counted.column}) from {table})" for table in counted.tables)
    return f"""
        select greatest({largest}) as taken, coalesce(pg_sequence_last_value(seqrelid) + seqincrement, seqstart) as next
        from pg_sequence where seqrelid = '{counted.sequence}'::regclass
    """


_FIND_BEHIND: Final[LiteralString] = " union all ".join(
    [f"select '{counted.sequence}' as name from ({select_reach(counted)}) as reach where taken >= next" for counted in COUNTED]
)


async def catch_up_sequences(connection: Connection) -> list[str]:
    """Move sequences that were set back above the largest id in use; return which ones."""
    behind = [row["name"] for row in await connection.fetch(_FIND_BEHIND)]
    for name in behind:
        await connection.execute("select catch_up_sequence($1)", name)
    return behind


move_ids_ahead: Final = Command[()]("select move_ids_ahead()")
"""Skip ids that may have been assigned before this start of the server although no row here has them."""

note_high_water: Final = Command[()]("select note_high_water() where refuse_old_session()")
"""Record the highest ids in use: the next start of the server detects missing ones from here."""

BEAT_EVERY_S: Final = 1.0  # minimum interval of the primary's clock records, for any number of processes


class Heartbeat(Struct, frozen=True, kw_only=True):
    """The state of the installation as one server shows it."""

    is_standby: bool
    now: datetime  # its clock, in real time
    beat_at: datetime | None  # the primary's clock as last recorded here
    noted: str  # the server on which the tables were last written: another one after a failover or a restore


_READ: Final[LiteralString] = """
    select pg_is_in_recovery() as is_standby, clock_timestamp() as now, beat_at, concat_ws(' ', system_identifier, timeline,
        database_oid, tables_oid, extract(epoch from started_at)) as noted
    from installation
"""
_BEAT: Final[LiteralString] = """
    update installation set beat_at = clock_timestamp()
    where beat_at is null or beat_at not between clock_timestamp() - $1 * interval '1 second' and clock_timestamp()
"""


async def make_heartbeat(connection: Connection) -> Heartbeat:
    """Record the primary's clock, unless that was just done; return what it shows then."""
    async with connection.transaction():
        # No answer depends on it, so it waits neither for the disk nor for a standby.
        await connection.execute("set local synchronous_commit = off")
        await connection.execute(_BEAT, BEAT_EVERY_S)
    return Heartbeat(**await fetch_row(connection, _READ))


find_heartbeat: Final = ReadOne[Heartbeat](Heartbeat, _READ)
"""Read a server's heartbeat; ``None`` if the installation has not reached it yet."""
