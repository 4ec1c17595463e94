"""Holders, their limits and flags, and the directory of their Pix keys."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import LiteralString

import asyncpg

from pixconnect.domain.holder import Holder
from pixconnect.domain.pix_key import PixKey
from pixconnect.foundation.pool import Connection, Pool

_NEXT_ID: LiteralString = "select nextval('holder_id')"


async def next_id(connection: Connection) -> int:
    """The id of a new holder."""
    return await connection.fetchval(_NEXT_ID)


_INSERT: LiteralString = """
with made as (
    insert into holder (
        id, name, tax_id, city, branch, account_number, account_type, may_deposit, may_withdraw, may_lend,
        transfer_limit_cents, day_limit_cents, night_limit_cents, disabled_at, created_at
    )
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
    on conflict (account_number) do nothing
    returning id, created_at
)
insert into balance (holder_id, modified_at) select id, created_at from made returning holder_id
"""


async def insert(connection: Connection, holder: Holder) -> bool:
    """Remember a new holder and open its balance; ``False`` if the account number is taken."""
    made = await connection.fetchval(
        _INSERT,
        holder.id,
        holder.name,
        holder.tax_id,
        holder.city,
        holder.branch,
        holder.account_number,
        holder.account_type,
        holder.may_deposit,
        holder.may_withdraw,
        holder.may_lend,
        holder.transfer_limit_cents,
        holder.day_limit_cents,
        holder.night_limit_cents,
        holder.disabled_at,
        holder.created_at,
    )
    return made is not None


_FIND: LiteralString = "select * from holder where id = $1"


async def find(connection: Connection | Pool, holder_id: int) -> Holder | None:
    """One holder."""
    row = await connection.fetchrow(_FIND, holder_id)
    return _holder(row) if row is not None else None


_FIND_BY_ACCOUNT: LiteralString = "select * from holder where account_number = $2 and branch = $1"


async def find_by_account(connection: Connection | Pool, branch: str, account_number: str) -> Holder | None:
    """The holder of an account with us."""
    row = await connection.fetchrow(_FIND_BY_ACCOUNT, branch, account_number)
    return _holder(row) if row is not None else None


_LOCK: LiteralString = "select * from holder where id = $1 for no key update"


async def lock(connection: Connection, holder_id: int) -> Holder | None:
    """One holder, which nobody else can change until the transaction ends."""
    row = await connection.fetchrow(_LOCK, holder_id)
    return _holder(row) if row is not None else None


_UPDATE: LiteralString = """
update holder set may_deposit = $2, may_withdraw = $3, may_lend = $4, transfer_limit_cents = $5, day_limit_cents = $6,
    night_limit_cents = $7, disabled_at = $8
where id = $1
"""


async def update(connection: Connection, holder: Holder) -> None:
    """Write a holder's flags, limits and ``disabled_at``; nothing else of it ever changes."""
    await connection.execute(
        _UPDATE,
        holder.id,
        holder.may_deposit,
        holder.may_withdraw,
        holder.may_lend,
        holder.transfer_limit_cents,
        holder.day_limit_cents,
        holder.night_limit_cents,
        holder.disabled_at,
    )


_INSERT_KEY: LiteralString = """
insert into pix_key (key, key_type, holder_id, created_at) values ($1, $2, $3, $4)
on conflict (key) do nothing
"""


async def insert_key(connection: Connection, key: PixKey, holder_id: int, created_at: datetime) -> None:
    """Register a key, unless it is registered already."""
    await connection.execute(_INSERT_KEY, key.key, key.key_type, holder_id, created_at)


_OWNERS: LiteralString = "select key, holder_id from pix_key where key = any($1)"


async def find_key_owners(connection: Connection | Pool, keys: list[str]) -> Mapping[str, int]:
    """Whose keys these are; those that are nobody's here are left out."""
    return {row["key"]: row["holder_id"] for row in await connection.fetch(_OWNERS, keys)}


_KEYS: LiteralString = "select key, key_type from pix_key where holder_id = $1 order by created_at, key"


async def list_keys(connection: Connection, holder_id: int) -> list[PixKey]:
    """A holder's keys, oldest first."""
    return [PixKey(key=row["key"], key_type=row["key_type"]) for row in await connection.fetch(_KEYS, holder_id)]


def _holder(row: asyncpg.Record) -> Holder:
    return Holder(
        id=row["id"],
        name=row["name"],
        tax_id=row["tax_id"],
        city=row["city"],
        branch=row["branch"],
        account_number=row["account_number"],
        account_type=row["account_type"],
        may_deposit=row["may_deposit"],
        may_withdraw=row["may_withdraw"],
        may_lend=row["may_lend"],
        transfer_limit_cents=row["transfer_limit_cents"],
        day_limit_cents=row["day_limit_cents"],
        night_limit_cents=row["night_limit_cents"],
        disabled_at=row["disabled_at"],
        created_at=row["created_at"],
    )
