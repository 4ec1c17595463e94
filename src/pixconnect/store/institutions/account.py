"""The table of accounts at institutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, LiteralString

import msgspec
from msgspec import Struct

from pixconnect.domain.institutions.account import AccountState, Environment, InstitutionAccount, Option
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.frame.table import Table

_decode_options = msgspec.json.Decoder(dict[str, Option]).decode
_encode = msgspec.json.Encoder().encode

ACCOUNT: Final = Table(
    "institution_account",
    InstitutionAccount,
    """
    id smallint, name text, kind text, profile text, environment text, state text, tax_id text, base_url text,
    token_url text, authorities text, account text, keys text[], poll_s integer, options jsonb, house_id bigint,
    opened_at timestamptz, opening_cents bigint, revision bigint, created_at timestamptz
    """,
    key=("id",),
    read={"options": (_decode_options, "options")},
    write={"options": lambda account: _encode(account.options).decode()},
)


class SealedCredentials(Struct, frozen=True, kw_only=True):
    receiving: bytes
    sending: bytes | None


# Names are few and ids never come again: an id that was used stands in rows for ever.
_NEXT_ID: Final[LiteralString] = """
    select 1 + greatest(
        (select coalesce(max(id), 0) from institution_account),
        (select coalesce(max(institution_id), 0) from transfer where institution_id is not null)
    )
"""


async def next_id(connection: Connection) -> int:
    """A number that no account has, nor had one whose transfers are here; the caller holds the lock of the installation."""
    return await connection.fetchval(_NEXT_ID)


_INSERT: Final[LiteralString] = f"""
    insert into institution_account ({ACCOUNT.names}, receiving_sealed, sending_sealed)
    values ({ACCOUNT.parameters}, $20, $21) on conflict (name) do nothing returning id
"""


async def insert(connection: Connection, account: InstitutionAccount, sealed: SealedCredentials) -> bool:
    """Remember a new account; ``False`` if its name is taken."""
    values = ACCOUNT.values(account)
    return await connection.fetchval(_INSERT, *values, sealed.receiving, sealed.sending) is not None


_FIND: Final[LiteralString] = f"select {ACCOUNT.select} from institution_account where id = $1"
_FIND_NAMED: Final[LiteralString] = f"select {ACCOUNT.select} from institution_account where name = $1"
_LOCK_NAMED: Final[LiteralString] = f"{_FIND_NAMED} for no key update"
_LIST: Final[LiteralString] = f"select {ACCOUNT.select} from institution_account order by name"


async def find(connection: Connection | Pool, account_id: int) -> InstitutionAccount | None:
    return ACCOUNT.read_found(await connection.fetchrow(_FIND, account_id))


async def find_named(connection: Connection | Pool, name: str) -> InstitutionAccount | None:
    return ACCOUNT.read_found(await connection.fetchrow(_FIND_NAMED, name))


async def lock_named(connection: Connection, name: str) -> InstitutionAccount | None:
    return ACCOUNT.read_found(await connection.fetchrow(_LOCK_NAMED, name))


async def list_all(connection: Connection | Pool) -> list[InstitutionAccount]:
    """All of them, by name: there are few."""
    return [ACCOUNT.read(row) for row in await connection.fetch(_LIST)]


_READ_SEALED: Final[LiteralString] = """
    select receiving_sealed, sending_sealed from institution_account where id = $1
"""


async def read_sealed(connection: Connection | Pool, account_id: int) -> SealedCredentials | None:
    row = await connection.fetchrow(_READ_SEALED, account_id)
    return None if row is None else SealedCredentials(receiving=row["receiving_sealed"], sending=row["sending_sealed"])


_SET_STATE: Final[LiteralString] = """
    update institution_account set state = $2, revision = revision + 1 where id = $1
"""


async def set_state(connection: Connection, account_id: int, state: AccountState) -> None:
    await connection.execute(_SET_STATE, account_id, state)


_CHANGED: Final = ACCOUNT.only("id", "base_url", "token_url", "authorities", "keys", "poll_s", "options")
_ROTATE: Final[LiteralString] = f"""
    update institution_account set {_CHANGED.assignments}, revision = revision + 1,
        receiving_sealed = $8, sending_sealed = $9
    from (select {_CHANGED.parameters}) as new ({_CHANGED.names}) where institution_account.id = new.id
"""


async def rotate(connection: Connection, account: InstitutionAccount, sealed: SealedCredentials) -> None:
    """Write its addresses, keys, options and credentials anew."""
    await connection.execute(_ROTATE, *_CHANGED.values(account), sealed.receiving, sealed.sending)


_RESEAL: Final[LiteralString] = "update institution_account set receiving_sealed = $2 where id = $1"


async def reseal(connection: Connection, account_id: int, receiving_sealed: bytes) -> None:
    """Keep the same credential, sealed with another secret key."""
    await connection.execute(_RESEAL, account_id, receiving_sealed)


# The lock also keeps two accounts from being the first at once.
_TAKE_ENVIRONMENT: Final[LiteralString] = """
    with locked as materialized (select environment from installation for update),
    taken as (
        update installation set environment = $1 where environment is null
            and exists (select from locked where environment is null)
        returning environment
    )
    select environment from taken union all select environment from locked where environment is not null
"""


async def take_environment(connection: Connection, environment: Environment) -> Environment:
    """The environment of this installation; the given one if it has none yet. Nobody adds an account until we have ended."""
    return await connection.fetchval(_TAKE_ENVIRONMENT, environment)


_DELETE: Final[LiteralString] = "delete from institution_account where id = $1"
_FIND_USE: Final[LiteralString] = """
    select case
        when exists (select from holder where institution_id = $1) then 'a holder is on it'
        when exists (select from charge_opening where institution_id = $1) then 'charges were opened at it'
        when exists (select from transfer where institution_id = $1) then 'money has moved on it'
    end
"""


async def find_use(connection: Connection, account_id: int) -> str | None:
    """Why it cannot be forgotten; ``None`` if nothing names it."""
    return await connection.fetchval(_FIND_USE, account_id)


async def delete(connection: Connection, account_id: int) -> None:
    await connection.execute(_DELETE, account_id)


_HOLDERS: Final[LiteralString] = "select id from holder where institution_id = $1 order by id"


async def list_lying_on(connection: Connection | Pool, account_id: int) -> Sequence[int]:
    """The ids of the holders whose money lies on it."""
    return [row["id"] for row in await connection.fetch(_HOLDERS, account_id)]


_BALANCE: Final[LiteralString] = """
    select coalesce(-sum(settlement_cents), 0)::bigint from balance
    join holder on holder.id = balance.holder_id where holder.institution_id = $1
"""


async def sum_balance_here(connection: Connection | Pool, account_id: int) -> int:
    """What our books say is on it, in cents: minus the sum of its holders' settlement."""
    return await connection.fetchval(_BALANCE, account_id)
