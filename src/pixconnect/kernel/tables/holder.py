"""Holders, their present and pending limits, their flags, and the directory of their Pix keys."""

from collections.abc import Collection
from datetime import datetime
from typing import Final, LiteralString

from pixconnect.kernel.rules.holder import Holder, KeyHolding, PixKey, Quarantine
from pixconnect.kernel.rules.ledger import Funds
from pixconnect.kernel.rules.limit import LIMIT_COLUMNS
from pixconnect.kernel.tables.lookup import Command, FindOne, Pairs, ReadAll, ReadOne, Value
from pixconnect.kernel.tables.table import Table
from pixconnect.platform.pool import Connection, Pool

HOLDER: Final = Table(
    "holder",
    Holder,
    """
    id bigint, name text, tax_id text, city text, branch text, account_number text, account_type text,
    may_deposit boolean, may_withdraw boolean, may_lend boolean, transfer_limit_cents bigint, day_limit_cents bigint,
    night_limit_cents bigint, disabled_at timestamptz, created_at timestamptz, institution_id smallint,
    approve_above_cents bigint, approve_new_payees boolean, street text, state text, postal_code text,
    night_begins_late boolean, family_id bigint, successor_id bigint
    """,
    key=("id",),
)

next_id: Final = Value[int]("select nextval('holder_id')")

# One statement: every holder has a balance and a statement.
_INSERT: LiteralString = f"""
with made as (
    insert into holder ({HOLDER.names}) values ({HOLDER.parameters})
    on conflict (account_number) do nothing
    returning id, created_at
),
opened as (
    insert into balance (holder_id, modified_at) select id, created_at from made returning holder_id
)
insert into statement_head (holder_id) select holder_id from opened returning holder_id
"""


async def insert(connection: Connection, holder: Holder) -> bool:
    """Insert a new holder and open its balance; ``False`` if the account number is taken."""
    return await connection.fetchval(_INSERT, *HOLDER.values(holder)) is not None


find: Final = FindOne[Holder, int](HOLDER, "where id = $1")

_LIST: LiteralString = f"""
select {HOLDER.select}, available_cents, reserved_cents, blocked_cents, deficit_cents from holder
join whole_balance on whole_balance.holder_id = holder.id
where id > $1 order by id limit $2
"""


async def list_with_funds(pool: Pool, after_id: int, count_max: int) -> list[tuple[Holder, Funds]]:
    rows = await pool.fetch(_LIST, after_id, count_max)
    names = Funds.__struct_fields__
    return [(HOLDER.read(row), Funds(**{name: row[name] for name in names})) for row in rows]


find_by_account: Final = FindOne[Holder, str, str](HOLDER, "where account_number = $2 and branch = $1")


async def lock(connection: Connection, holder_id: int, *, alone: bool = False) -> Holder | None:
    """Lock one holder against changes until the transaction ends.

    Args:
        alone: Also lock out new rows without entries on its account, such as charges.
    """
    if alone:
        return await HOLDER.find(connection, "where id = $1 for update", holder_id)
    return await HOLDER.find(connection, "where id = $1 for no key update", holder_id)


# Nothing else of a holder ever changes.
update: Final = HOLDER.updating(
    HOLDER.only(
        "id, may_deposit, may_withdraw, may_lend, disabled_at, approve_above_cents, approve_new_payees, street, city, state",
        "postal_code",
        *LIMIT_COLUMNS,
    )
)

set_institution: Final = Command[int, int]("update holder set institution_id = $2 where id = $1")


async def find_past(connection: Connection, holder_id: int) -> str | None:
    """Find why a holder has to stay on its account; its balance stays locked until the transaction ends."""
    # The lock keeps batches from posting meanwhile.
    await connection.execute("select from balance where holder_id = $1 for update", holder_id)
    return await connection.fetchval("select find_past_of_holder($1)", holder_id)


move_to_successor: Final = Command[int, int, datetime, datetime]("select move_to_successor($1, $2, $3, $4)")
"""Move a holder's keys, clients and webhooks to its successor; both stay one family."""

# Newest first: of two on one account, the earlier one was left before.
_FIND_MEMBER: LiteralString = """
    select member.id from holder as asked
    join holder as member on member.id = asked.id or member.family_id = asked.family_id
    where asked.id = $1 and member.institution_id is not distinct from $2
    order by member.id = asked.id desc, member.id desc limit 1
"""

find_member_on: Final = Value[int | None, int, int | None](_FIND_MEMBER)
"""Find the holder, or one of its family, that is on this account."""

_LIST_FAMILY: LiteralString = """
    select member.id, first_id from holder_family join holder as member on member.id = holder_id or member.family_id = first_id
    where holder_id = $1 order by member.id
"""


async def list_family(connection: Connection | Pool, holder_id: int) -> list[int]:
    """List the holder's family, in order of succession."""
    return [row["id"] for row in await connection.fetch(_LIST_FAMILY, holder_id)]


async def find_family(pool: Pool, holder_id: int) -> tuple[int, list[int]]:
    """Find the holder's family and its first member."""
    rows = await pool.fetch(_LIST_FAMILY, holder_id)
    return rows[0]["first_id"], [row["id"] for row in rows]


find_first: Final = Pairs[int, int, Collection[int]]("select holder_id, first_id from holder_family where holder_id = any($1)")
"""Find the first of each holder's family; the holder itself without a succession."""


# After a loss any account of the same owner counts, since the loss can have forgotten a succession. The holder's own account
# counts too if the account, or the first of the family, was added after the loss: if it was added again, the institution knows
# its former orders by other names.
_LIST_DOUBTFUL_ACCOUNTS: LiteralString = """
    select member.institution_id from holder as asked join holder as member on member.family_id = asked.family_id
    where asked.id = $1 and member.institution_id is distinct from asked.institution_id
    union
    select account.id from holder as asked
    join holder_family on holder_id = asked.id join holder as first on first.id = first_id
    join institution_account as account on is_same_owner(account.tax_id, asked.tax_id)
    where asked.id = $1 and exists (select from database_loss where noticed_at > $2) and (
        account.id is distinct from asked.institution_id or exists (
            select from database_loss
            where noticed_at > $2 and noticed_at < greatest(account.created_at, first.created_at)
        )
    )
"""


async def list_doubtful_accounts(pool: Pool, holder_id: int, lost_since: datetime) -> list[int]:
    """List the accounts that may have paid a request of this holder's client under a name that its own account does not use.

    Args:
        lost_since: Losses of the database that were detected since then count.
    """
    rows = await pool.fetch(_LIST_DOUBTFUL_ACCOUNTS, holder_id, lost_since)
    return [row["institution_id"] for row in rows if row["institution_id"] is not None]


find_in_family: Final = Value[int | None, int, str]("""
    select member.id from holder as asked
    join holder as member on member.id = asked.id or member.family_id = asked.family_id
    where asked.id = $1 and member.account_number = $2
""")
"""Find the holder, or one of its family, that has this account number."""

# Another holder's key stays with that holder; the caller compares the owner afterwards.
insert_key: Final = Command[str, str, int, datetime]("""
insert into pix_key (key, key_type, holder_id, created_at) values ($1, $2, $3, $4)
on conflict (key) do nothing
""")
"""Register a key, unless it is registered already."""

find_key_owners: Final = Pairs[str, int, list[str]]("select key, holder_id from pix_key where key = any($1)")
"""Find the holders of these keys; keys of none of our holders are left out."""

list_pix_keys: Final = ReadAll[PixKey, int](
    PixKey, "select key, key_type from pix_key where holder_id = $1 order by created_at, key"
)

# The same statement records the former owner: a removed key always leaves a trace.
remove_key: Final = ReadOne[PixKey, str, int](
    PixKey,
    """
with removed as (delete from pix_key where key = $1 and holder_id = $2 returning key, key_type, holder_id, created_at),
kept as (insert into removed_pix_key (key, holder_id, given_at) select key, holder_id, created_at from removed)
select key, key_type from removed
""",
)
"""Delete a holder's key; ``None`` if it has no such key."""

find_former_owner: Final = Value[int | None, str](
    "select holder_id from removed_pix_key where key = $1 order by removed_at desc limit 1"
)
"""Find the last holder of a key that is free now."""

list_key_holdings: Final = ReadAll[KeyHolding, str, int](
    KeyHolding,
    f"""
    select ({_FIND_MEMBER.replace("$1", "held.holder_id")}) as member_id, given_at, removed_at
    from (
        select holder_id, given_at, removed_at from removed_pix_key where key = $1
        union all select holder_id, created_at, null from pix_key where key = $1
    ) as held
    order by given_at
""",
)
"""List the periods in which holders had a key, in their order, as members of their families that are on an account."""


read_quarantine: Final = ReadOne[Quarantine, str, int | None](Quarantine, "select * from read_quarantine($1, $2)")
"""Read the quarantine of a removed key; ``None`` if the given holder had it last, or no holder had it."""
