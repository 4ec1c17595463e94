"""The tables of accounts at institutions, of the expiry of their certificates, and of their callbacks.

Callbacks have secrets, and replaced webhooks at the institutions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, LiteralString

import msgspec
from msgspec import Struct

from pixconnect.features.institutions.rules.account import (
    AccountCertificate,
    AccountState,
    Environment,
    InstitutionAccount,
    Option,
)
from pixconnect.features.institutions.rules.joining import CLOSING_PREFIX
from pixconnect.features.institutions.rules.sweep import CallbackSecret, KeptWebhook
from pixconnect.features.institutions.tables.books import DEBITED
from pixconnect.features.institutions.tables.day import POSITION
from pixconnect.kernel.tables.lookup import Column, Command, FindAll, FindOne, ReadAll, ReadOne, Value
from pixconnect.kernel.tables.table import Table
from pixconnect.platform.pool import Connection, Pool

_decode_options = msgspec.json.Decoder(dict[str, Option]).decode
_encode = msgspec.json.Encoder().encode

_NAMING_LOCK: Final = 0x7078_6108

ACCOUNT: Final = Table(
    "institution_account",
    InstitutionAccount,
    """
    id smallint, name text, kind text, profile text, environment text, state text, tax_id text, base_url text,
    token_url text, authorities text, account text, keys text[], poll_s integer, options jsonb, house_id bigint,
    opened_at timestamptz, opening_cents bigint, revision bigint, created_at timestamptz, paused_because text,
    lost_at timestamptz
    """,
    key=("id",),
    read={"options": (_decode_options, "options")},
    write={"options": lambda account: _encode(account.options).decode()},
)

CALLBACK: Final = Table(
    "institution_callback",
    CallbackSecret,
    "institution_id smallint, digest bytea, secret_sealed bytea, made_at timestamptz",
    key=("institution_id",),
)
KEPT: Final = Table(
    "institution_webhook_before",
    KeptWebhook,
    "institution_id smallint, key text, url text, kept_at timestamptz",
    key=("institution_id", "key"),
)


class SealedCredentials(Struct, frozen=True, kw_only=True):
    receiving: bytes
    sending: bytes | None


class ActiveCallback(Struct, frozen=True, kw_only=True):
    """Of an account that is not closed: a paused one is read too, so its calls count."""

    institution_id: int
    name: str
    needs_certificate: bool
    digest: bytes


# Written only on a change: a worker opens an account at each change of it.
_NOTE: Final[LiteralString] = """
    insert into institution_certificate as kept (institution_id, part, ends_at)
    select $1, part, ends_at from unnest($2::text[], $3::timestamptz[]) as used (part, ends_at)
    on conflict (institution_id, part) do update set ends_at = excluded.ends_at where kept.ends_at <> excluded.ends_at
"""
_FORGET_OTHERS: Final[LiteralString] = """
    delete from institution_certificate where institution_id = $1 and (part = 'sending') = $3 and part <> all($2)
"""

# Used ids stay referenced for ever, and a row here is never deleted.
next_id: Final = Value[int]("select coalesce(max(id), 0) + 1 from institution_account")
"""Return a number that no account has, nor had; the caller holds the lock of the installation."""

_INSERT: Final[LiteralString] = f"""
    insert into institution_account ({ACCOUNT.names}, receiving_sealed, sending_sealed)
    values ({ACCOUNT.parameters}, $22, $23) on conflict (name) where removed_at is null do nothing returning id
"""


async def insert(connection: Connection, account: InstitutionAccount, sealed: SealedCredentials) -> bool:
    """Insert a new account; ``False`` if its name is taken."""
    values = ACCOUNT.values(account)
    return await connection.fetchval(_INSERT, *values, sealed.receiving, sealed.sending) is not None


find: Final = FindOne[InstitutionAccount, int](ACCOUNT, "where id = $1")

lock: Final = FindOne[InstitutionAccount, int](ACCOUNT, "where id = $1 and removed_at is null for no key update")

find_named: Final = FindOne[InstitutionAccount, str](ACCOUNT, "where name = $1 and removed_at is null")

lock_named: Final = FindOne[InstitutionAccount, str](ACCOUNT, "where name = $1 and removed_at is null for no key update")

IS_ANY: Final[LiteralString] = "exists (select from institution_account where removed_at is null)"

list_all: Final = FindAll[InstitutionAccount](ACCOUNT, "where removed_at is null order by name")
"""List all but removed accounts, by name: there are few."""

read_sealed: Final = ReadOne[SealedCredentials, int](
    SealedCredentials,
    """
    select receiving_sealed as receiving, sending_sealed as sending from institution_account where id = $1
""",
)

set_state: Final = Command[int, AccountState]("""
    update institution_account set state = $2, paused_because = null, lost_at = null, revision = revision + 1 where id = $1
""")
"""Set the state on an operator's behalf, which ends any state set by a loss."""


pause: Final = Command[int]("""
    update institution_account set state = 'paused', paused_because = null, revision = revision + 1 where id = $1
""")
"""Pause an account as an operator; one that a loss has paused is still read, and stays paused afterwards."""

# An account paused by an operator, before the loss or since, stays paused.
recover: Final = ReadOne[InstitutionAccount, int](
    ACCOUNT,
    f"""
    update institution_account set state = case when paused_because is null then state else 'active' end,
        paused_because = null, lost_at = null, revision = revision + 1
    where id = $1 returning {ACCOUNT.select}
""",
)
"""Restore the account's state from before the database's loss."""

_CHANGED: Final = ACCOUNT.only("id", "base_url", "token_url", "authorities", "keys", "poll_s", "options")
_ROTATE: Final[LiteralString] = f"""
    update institution_account set {_CHANGED.assignments}, revision = revision + 1,
        receiving_sealed = $8, sending_sealed = $9
    from (select {_CHANGED.parameters}) as new ({_CHANGED.names}) where institution_account.id = new.id
"""


async def rotate(connection: Connection, account: InstitutionAccount, sealed: SealedCredentials) -> None:
    """Replace its addresses, keys, options and credentials."""
    await connection.execute(_ROTATE, *_CHANGED.values(account), sealed.receiving, sealed.sending)


async def set_addresses(connection: Connection, account_id: int, addresses: Mapping[str, object]) -> InstitutionAccount | None:
    how: LiteralString = "set base_url = $2, token_url = $3, authorities = $4, revision = revision + 1 where id = $1"
    values = (addresses[name] for name in ("base_url", "token_url", "authorities"))
    return await ACCOUNT.change(connection, how, account_id, *values)


reseal: Final = Command[int, bytes, bytes | None](
    "update institution_account set receiving_sealed = $2, sending_sealed = $3 where id = $1"
)
"""Store the same credentials, receiving and sending, sealed with other secret keys."""


async def name_alone(connection: Connection) -> None:
    """Lock adding and comparing accounts until this transaction has ended.

    PostgreSQL keeps the lock until a COMMIT is over, even if the client has died.

    Raises:
        asyncpg.LockNotAvailableError: Another transaction has the lock.
    """
    await connection.execute("select set_config('lock_timeout', '3s', true), pg_advisory_xact_lock($1)", _NAMING_LOCK)


# The lock also keeps two accounts from both being the first.
take_environment: Final = Value[Environment, Environment]("""
    with locked as materialized (select environment from installation for update),
    taken as (
        update installation set environment = $1 where environment is null
            and exists (select from locked where environment is null)
        returning environment
    )
    select environment from taken union all select environment from locked where environment is not null
""")
"""Return the environment of this installation, set to the given one if unset; blocks adding accounts until we end."""

# A return may be requested for 90 days, so one of the last 90 days is of a Pix of the last 180.
find_use: Final = Value[str | None, int, datetime]("""
    select case
        -- Holders stay on an account that is closed, with nothing.
        when exists (
            select from holder join institution_account as account on account.id = institution_id
            where account.id = $1 and account.state <> 'closed'
        ) then 'a holder is on it'
        when exists (
            select from charge_opening
            where institution_id = $1 and state in ('opening', 'opened') and created_at > $2::timestamptz - interval '90 days'
        ) then 'a charge was opened at it in the last 90 days'
        when exists (
            select from transfer where institution_id = $1 and network_settled_at > $2::timestamptz - interval '90 days'
        ) then 'money has moved on it in the last 90 days'
        when exists (
            select from transfer join refund on refund.transfer_id = transfer.id and refund.holder_id = transfer.holder_id
            where transfer.institution_id = $1 and transfer.network_settled_at > $2::timestamptz - interval '180 days'
                and refund.created_at > $2::timestamptz - interval '90 days'
        ) then 'something was returned on it in the last 90 days'
        when exists (
            select from institution_item where institution_id = $1 and day > ($2::timestamptz - interval '90 days')::date
        ) then 'its statement has lines of the last 90 days'
        when exists (
            select from kept_report join transfer on transfer.end_to_end_id = kept_report.name
            where kept_report.closed_at is null and transfer.institution_id = $1
        ) then 'a report about it waits for an operator'
        when exists (
            select from kept_case where institution_id = $1 and ended_at is null
        ) then 'a case of it is open'
    end
""")
"""Find why it cannot be removed; ``None`` if only long-ended rows reference it."""

# Without a credential no call is possible, even if a process still has its row.
remove: Final = Command[int, datetime]("""
    update institution_account
    set removed_at = $2, receiving_sealed = '', sending_sealed = null, revision = revision + 1,
        state = case when state = 'closed' then state else 'paused' end, paused_because = null
    where id = $1
""")
"""Remove it from all lists and delete its credentials; the row stays for rows that reference it."""

list_lying_on: Final = Column[int, int]("select id from holder where institution_id = $1 order by id")

_LIST_LEFT: Final[LiteralString] = f"""
    select holder.id, available_cents - deficit_cents as left_cents,
        (
            select coalesce(sum(case direction when 'OUT' then amount_cents else -amount_cents end), 0)
            from movement
            where movement.holder_id = holder.id and status = 'POSTED'
                and starts_with(item_id, '{CLOSING_PREFIX}' || $1::smallint || ':')
        )::bigint as taken_cents
    from holder join balance on balance.holder_id = holder.id where holder.institution_id = $1 order by holder.id
"""


async def list_left(connection: Connection, account_id: int) -> dict[int, tuple[int, int]]:
    """List each holder's funds on it less debts, and what an interrupted closing has moved out, in cents."""
    rows = await connection.fetch(_LIST_LEFT, account_id)
    return {row["id"]: (row["left_cents"], row["taken_cents"]) for row in rows}


has_money: Final = Value[bool, int]("""
    select exists (
        select from whole_balance as balance join holder on holder.id = balance.holder_id
        where holder.institution_id = $1 and (
            available_cents <> 0 or reserved_cents <> 0 or blocked_cents <> 0 or deficit_cents <> 0 or blocks_count > 0
        )
    )
""")
"""Whether any of its holders has money or a deficit on it."""

has_difference: Final = Value[bool, int]("""
    select exists (
        select from balance join holder on holder.id = balance.holder_id
        where holder.institution_id = $1 and difference_cents <> 0
    )
""")
"""Whether any of its holders has an adjustment that is not written off."""

sum_balance_here: Final = Value[int, int](f"""
    select coalesce(-sum(settlement_cents + difference_cents), 0)::bigint - ({POSITION}) - ({DEBITED})
    from whole_balance as balance
    join holder on holder.id = balance.holder_id where holder.institution_id = $1
""")
"""Sum our books' balance of it, in cents: minus its holders' settlement and differences, without money elsewhere."""


async def note_certificates(
    connection: Connection | Pool, institution_id: int, used: Sequence[AccountCertificate], *, of_sending: bool = False
) -> None:
    """Record the certificates of an account's receiving credential and its institution, or of its sending one."""
    parts = [one.part for one in used]
    await connection.execute(_FORGET_OTHERS, institution_id, parts, of_sending)
    await connection.execute(_NOTE, institution_id, parts, [one.ends_at for one in used])


_LIST: Final[LiteralString] = """
    select name, part, ends_at from institution_certificate join institution_account on id = institution_id
    where removed_at is null and state <> 'closed' order by name, part
"""


async def list_certificates(connection: Connection | Pool) -> list[tuple[str, AccountCertificate]]:
    """List certificates of all accounts in use, with each one's name."""
    return [
        (row["name"], AccountCertificate(part=row["part"], ends_at=row["ends_at"])) for row in await connection.fetch(_LIST)
    ]


list_callbacks: Final = ReadAll[ActiveCallback](
    ActiveCallback,
    """
    select institution_id, name, coalesce((options ->> 'webhook_mtls')::boolean, false) as needs_certificate, digest
    from institution_callback join institution_account as account on account.id = institution_id where state <> 'closed'
""",
)

find_callback: Final = FindOne[CallbackSecret, int](CALLBACK, "where institution_id = $1")

# Locked while secrets are sealed again: a secret made meanwhile would be overwritten with the earlier one.
lock_callbacks: Final = FindAll[CallbackSecret](CALLBACK, "order by institution_id for no key update")

list_kept_webhooks: Final = FindAll[KeptWebhook, int](KEPT, "where institution_id = $1")
forget_kept: Final = Command[int]("delete from institution_webhook_before where institution_id = $1")
forget_callback: Final = Command[int]("delete from institution_callback where institution_id = $1")
"""Delete an account's secret: calls with it are refused."""
