"""The table of payments that were refused without a transfer, because nobody here had the account."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Final, LiteralString

from msgspec import Struct

from pixconnect.domain.money.kept_report import Kind
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.frame.table import Table


class RefusedCredit(Struct, frozen=True, kw_only=True):
    name: str
    """Its end-to-end id."""
    kind: Kind
    """That of the report which we refused first."""
    refusal_code: str


REFUSED_CREDIT: Final = Table("refused_credit", RefusedCredit, "name text, kind text, refusal_code text", key=("name",))

# Sorted, so that two processes never wait for each other.
# Whoever gives it to a holder of this cell waits for the first, whoever says that it is another cell's for the second.
_HOLD: Final[LiteralString] = """
    select hold_account(account), hold_name(kind, name)
    from unnest($1::text[], $2::text[], $3::text[]) as held (account, kind, name)
"""
# A statement of its own: it also finds a key or account that a holder got while it waited.
_FIND_GIVEN: Final[LiteralString] = """
    select account,
        exists (select from pix_key where key = account) or exists (select from removed_pix_key where key = account)
        or exists (
            select from holder where account_number = split_part(account, ' ', 2) and branch = split_part(account, ' ', 1)
        ) as is_owned,
        case kind when 'key' then exists (select from key_cell where key = name)
            else exists (select from account_cell where account_number = name) end as is_elsewhere
    from unnest($1::text[], $2::text[], $3::text[]) as held (account, kind, name)
"""


class HeldAccounts(Struct, frozen=True, kw_only=True):
    """What nobody can be given until the transaction is over."""

    owned: frozenset[str]
    """A holder's of this cell, or were."""
    elsewhere: frozenset[str]
    """Another cell's, or are about to be; found at home alone."""


async def hold_accounts(connection: Connection, accounts: Collection[str]) -> HeldAccounts:
    """Let nobody be given these keys or accounts (``0001 123``) meanwhile."""
    wanted = sorted(accounts)
    split = [account.partition(" ") for account in wanted]
    names = [number or key for key, _, number in split]
    held = wanted, ["account" if number else "key" for *_, number in split], names
    await connection.execute(_HOLD, *held)
    rows = await connection.fetch(_FIND_GIVEN, *held)
    return HeldAccounts(
        owned=frozenset(row["account"] for row in rows if row["is_owned"]),
        elsewhere=frozenset(row["account"] for row in rows if row["is_elsewhere"]),
    )


_INSERT: Final[LiteralString] = f"""
    insert into refused_credit ({REFUSED_CREDIT.names}) select * from unnest($1::text[], $2::text[], $3::text[])
    on conflict (name) do nothing
"""


async def insert(connection: Connection, refused: Sequence[RefusedCredit]) -> None:
    """Remember refusals, unless the same payment was refused before."""
    rows = sorted(refused, key=lambda each: each.name)
    await connection.execute(_INSERT, *REFUSED_CREDIT.arrays(rows))


_FORGET: Final[LiteralString] = """
    with forgotten as (
        delete from refused_credit where name = any(array(
            select name from refused_credit where refused_at < clock_timestamp() - $1::interval order by refused_at limit $2
        )) returning 1
    )
    select count(*) from forgotten
"""


async def forget(pool: Pool, kept_for: timedelta, count_max: int) -> int:
    """Forget the oldest, at most so many; how many there were."""
    return await pool.fetchval(_FORGET, kept_for, count_max)
