"""OAuth clients, their present validity, and failed token requests.

Also holders that callers make for tests, in a sandbox only, by a function that runs as the owner.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, LiteralString

import asyncpg
from msgspec import Struct

from pixconnect.kernel.rules.access import FAILURES_MAX, FAILURES_WINDOW_S, Caller, Client
from pixconnect.kernel.rules.holder import PixKey
from pixconnect.kernel.tables.lookup import Command, FindAll, FindOne, Value
from pixconnect.kernel.tables.table import Table, fetch_row
from pixconnect.platform import privileges
from pixconnect.platform.pool import Connection, Pool

ADDRESS_LOCKS = 0x7078_6101
CLIENT_LOCKS = 0x7078_6102
"""Classes of advisory locks. A transaction that takes both takes the address's first, to avoid deadlocks."""
_WINDOW: Final = timedelta(seconds=FAILURES_WINDOW_S)
_FORGOTTEN_AT_ONCE_MAX: Final = 100  # old failures deleted with new ones: more than one, so that the table shrinks


class StoredClient(Struct, frozen=True, kw_only=True):
    client: Client
    secret_hash: bytes
    secret_key_id: bytes | None  # the key of the hash; ``None`` in old rows, which did not record it
    may_log_in: bool  # neither the client nor its holder is disabled


class ClientStates(Struct, frozen=True, kw_only=True):
    revision: int  # the value of ``access_revision`` in the same snapshot
    # From when on issued tokens are valid, in Unix seconds; disabled clients, and those of disabled holders, are missing.
    tokens_from_s: Mapping[str, int]
    certificates: Mapping[str, str | None]  # the certificate that each of these clients' tokens must be bound to

    def is_good(self, caller: Caller, issued_at_s: int) -> bool:
        tokens_from_s = self.tokens_from_s.get(caller.client_id)
        return (
            tokens_from_s is not None
            and issued_at_s >= tokens_from_s
            # A token may have been signed while its client got a certificate. One issued for a certificate alone is bound to
            # that, whether or not its client has one.
            and self.certificates[caller.client_id] in (None, caller.certificate)
        )


_CLIENT: Final = Table(
    "client",
    Client,
    """
    client_id text, holder_id bigint, name text, scopes text[], created_at timestamptz, rotated_at timestamptz,
    disabled_at timestamptz, tokens_from timestamptz, certificate text, certificate_expires_at timestamptz
    """,
    key=("client_id",),
    read={"scopes": (tuple, "scopes")},
)

_INSERT: LiteralString = f"""
insert into client ({_CLIENT.names}, secret_hash, secret_key_id) values ({_CLIENT.parameters}, $11, $12)
"""


async def insert(connection: Connection, client: Client, secret_hash: bytes, secret_key_id: bytes) -> None:
    await connection.execute(_INSERT, *_CLIENT.values(client), secret_hash, secret_key_id)


_FIND: LiteralString = f"""
select {_CLIENT.select}, secret_hash, secret_key_id,
    disabled_at is null and not exists (
        select from holder where holder.id = client.holder_id and holder.disabled_at is not null
    ) as may_log_in
from client where client_id = $1
"""


async def find(connection: Connection | Pool, client_id: str) -> StoredClient | None:
    row = await connection.fetchrow(_FIND, client_id)
    return None if row is None else _read_stored(row)


def _read_stored(row: asyncpg.Record) -> StoredClient:
    return StoredClient(
        client=_CLIENT.read(row),
        secret_hash=row["secret_hash"],
        secret_key_id=row["secret_key_id"],
        may_log_in=row["may_log_in"],
    )


_FIND_LOGGING_IN: LiteralString = f"""
select {_CLIENT.select}, secret_hash, secret_key_id, true as may_log_in
from find_clients_logging_in($1, $2, $3, $4, $5, $6) as client
"""


async def find_logging_in(
    pool: Pool, addresses: Collection[bytes], client_ids: Collection[str], window_s: int, failures_max: int
) -> Mapping[str, StoredClient]:
    """Find those of the clients that may log in; none while an address of these is limited, or its failure is being counted."""
    rows = await pool.fetch(
        _FIND_LOGGING_IN,
        ADDRESS_LOCKS,
        [_lock_key(address) for address in addresses],
        list(addresses),
        timedelta(seconds=window_s),
        failures_max,
        list(client_ids),
    )
    return {row["client_id"]: _read_stored(row) for row in rows}


# The old hash is compared: a concurrent rotation must not be undone.
rehash: Final = Command[str, bytes, bytes, bytes](
    "update client set secret_hash = $3, secret_key_id = $4 where client_id = $1 and secret_hash = $2"
)
"""Store the secret's hash under another key, unless the secret was replaced meanwhile."""

list_hashed_otherwise: Final = FindAll[Client, bytes, str, int](
    _CLIENT, "where secret_key_id is distinct from $1 and client_id > $2 order by client_id limit $3"
)
"""Clients whose secret may be hashed under another key, in order of ``client_id``."""
count_hashed_otherwise: Final = Value[int, bytes]("select count(*) from client where secret_key_id is distinct from $1")
list_of_holder: Final = FindAll[Client, int](_CLIENT, "where holder_id = $1 order by created_at, client_id")

lock: Final = FindOne[Client, str](_CLIENT, "where client_id = $1 for no key update")

# Changes of a client by its ``client_id``. Tokens never become valid again: of two concurrent ends the later instant stands.
ROTATE: Final[LiteralString] = """
set secret_hash = $2, secret_key_id = $3, rotated_at = $4, tokens_from = greatest(tokens_from, $5) where client_id = $1
"""
# An already disabled client keeps its instant.
DISABLE: Final[LiteralString] = """
set disabled_at = coalesce(disabled_at, $2), tokens_from = greatest(tokens_from, $3) where client_id = $1
"""
ENABLE: Final[LiteralString] = "set disabled_at = null where client_id = $1"
SET_CERTIFICATE: Final[LiteralString] = """
set certificate = $2, certificate_expires_at = $3, tokens_from = greatest(tokens_from, $4) where client_id = $1
"""
# greatest() ignores null, where no tokens are to end.
SET_SCOPES: Final[LiteralString] = "set scopes = $2, tokens_from = greatest(tokens_from, $3) where client_id = $1"
END_TOKENS: Final[LiteralString] = "set tokens_from = greatest(tokens_from, $2) where client_id = $1"

change: Final = _CLIENT.change

# No caller waits for a new certificate of a disabled client.
_COUNT_CERTIFICATES: LiteralString = """
select count(*) filter (where certificate_expires_at <= $1) as ended,
    count(*) filter (where certificate_expires_at > $1 and certificate_expires_at <= $2) as ending,
    count(*) filter (where certificate_expires_at > $2) as valid
from client where certificate_expires_at is not null and disabled_at is null
"""


async def count_certificates(connection: Connection | Pool, now: datetime, soon: datetime) -> Mapping[str, int]:
    """Certificates of enabled clients: *ended* ones, those *ending* soon, and those *valid* for longer."""
    return dict(await fetch_row(connection, _COUNT_CERTIFICATES, now, soon))


delete: Final = Command[str]("delete from client where client_id = $1")
"""Delete a client; its tokens are refused from then on."""
read_revision: Final = Value[int]("select revision from access_revision")

# One statement is one snapshot: the states are those of this revision. Zero stands for tokens that were never revoked.
_CLIENT_STATES: LiteralString = """
select revision, active.client_ids, active.tokens_from_s, active.certificates
from access_revision, (
    select array_agg(client_id) as client_ids,
        array_agg(coalesce(extract(epoch from tokens_from)::bigint, 0)) as tokens_from_s, array_agg(certificate) as certificates
    from client join holder on holder.id = client.holder_id
    where client_id = any($1) and client.disabled_at is null and holder.disabled_at is null
) as active
"""


async def read_client_states(pool: Pool, client_ids: Sequence[str]) -> ClientStates:
    """The state of these clients and its revision, in one snapshot."""
    row = await fetch_row(pool, _CLIENT_STATES, list(client_ids))
    active: Sequence[str] = row["client_ids"] or ()
    return ClientStates(
        revision=row["revision"],
        tokens_from_s=dict(zip(active, row["tokens_from_s"] or (), strict=True)),
        certificates=dict(zip(active, row["certificates"] or (), strict=True)),
    )


def _lock_key(subject: bytes) -> int:
    # The lock has four bytes: two subjects that share them wait for each other, and nothing worse.
    return int.from_bytes(subject[:4], signed=True)


# The oldest failure in the window decides: when it leaves, there is room for one more.
_LIMITED_FOR: LiteralString = """
select extract(epoch from failed_at + $2::interval - clock_timestamp())::float8 as left_s
from token_failure where subject = $1 and failed_at > clock_timestamp() - $2::interval
order by failed_at desc offset $3 - 1 limit 1
"""


async def lock_subject(connection: Connection, lock_class: int, subject: bytes) -> float | None:
    """Lock the counting of this subject's failures until the transaction ends.

    Returns seconds until it may fail again; ``None`` while it has failures left.
    """
    await connection.execute("select pg_advisory_xact_lock($1, $2)", lock_class, _lock_key(subject))
    # The database's clock is one for all processes.
    return await connection.fetchval(_LIMITED_FOR, subject, _WINDOW, FAILURES_MAX)


# Each request deletes a few, so that the table never grows past its minute; rows that another one deletes are skipped.
_DELETE_OLD_FAILURES: LiteralString = """
delete from token_failure where id in (
    select id from token_failure where failed_at < clock_timestamp() - $1::interval
    order by failed_at limit $2 for update skip locked
)
"""


async def append_failures(connection: Connection, subjects: Sequence[bytes]) -> None:
    """Count failures, and delete a few that no longer count."""
    await connection.execute("insert into token_failure (subject) select unnest($1::bytea[])", subjects)
    await connection.execute(_DELETE_OLD_FAILURES, _WINDOW, _FORGOTTEN_AT_ONCE_MAX)


async def open_sandbox_holder(
    connection: Connection,
    name: str,
    tax_id: str,
    key: PixKey,
    client: StoredClient,
    *,
    now: datetime,
    asked_by: str,
    holders_max: int,
) -> int | None:
    """Create a holder with an empty account, this key and this client, and record it in the audit.

    Returns its id, or ``None`` at the maximum of holders. Outside of a sandbox PostgreSQL refuses it.
    """
    own = client.client
    # As for deposits, this role is assumed for one statement.
    await connection.execute(f"set local role {privileges.FUNDING_ROLE}")
    holder_id: int | None = await connection.fetchval(
        "select open_sandbox_holder($1, $2, $3, $4, $5, $6::text[], $7, $8, $9, $10, $11, $12)",
        *(name, tax_id, key.key, now, own.name, list(own.scopes), own.client_id),
        *(client.secret_hash, client.secret_key_id, own.created_at, asked_by, holders_max),
    )
    await connection.execute(f"set local role {privileges.SERVICE_ROLE}")
    return holder_id
