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

# A statement of its own: it also finds a key or account that a holder got while it waited.
_FIND_OWNED: Final[LiteralString] = """
    select account from unnest($1::text[]) as held (account)
    where exists (select from pix_key where key = account) or exists (select from removed_pix_key where key = account)
        or exists (
            select from holder where account_number = split_part(account, ' ', 2) and branch = split_part(account, ' ', 1)
        )
"""


async def hold_accounts(connection: Connection, accounts: Collection[str]) -> frozenset[str]:
    """Let nobody be given these keys or accounts (``0001 123``) until the transaction ends; return those that holders had."""
    wanted = sorted(accounts)
    # Sorted, so that two processes never wait for each other.
    await connection.execute("select hold_account(account) from unnest($1::text[]) as held (account)", wanted)
    return frozenset(row["account"] for row in await connection.fetch(_FIND_OWNED, wanted))


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
