"""Rows of before a rule, which break it: found before the rule is made, and listed where an operator keeps them.

Each rule is looked at by one pass over its tables, which are joined as wholes: ten million rows take minutes, not days. A rule
about a column that the tables do not have yet is broken by nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, LiteralString

import asyncpg
from msgspec import Struct

SHOWN_MAX: Final = 100
"""Rows that are named of each rule that is broken."""


class NewRule(Struct, frozen=True, kw_only=True):
    table: LiteralString
    says: LiteralString
    broken: LiteralString
    """Selects ``id`` and ``holder_id`` of the rows that break it."""
    needs: tuple[str, str] | None = None
    """A table and a column of it that came later than the first tables."""


class Broken(Struct, frozen=True, kw_only=True):
    rule: NewRule
    rows_count: int
    shown: Sequence[tuple[int, int]]
    """Id and holder of the first ones."""


# Table, its name on the network, its direction, and what it is called.
_NAMED: Final[Sequence[tuple[LiteralString, LiteralString, LiteralString, LiteralString]]] = (
    ("transfer", "end_to_end_id", "direction", "payment"),
    ("refund", "return_id", "flow", "return"),
)
# What a rule says of both, the column that it needs, and what breaks it.
_OF_BOTH: Final[Sequence[tuple[LiteralString, LiteralString | None, LiteralString]]] = (
    (
        "its name on the network is of one {what} in each direction, whoever the holder is",
        None,
        """
            select id, holder_id from (
                select id, holder_id, count(*) over (partition by {name}, {direction}) as rows_count from {table}
            ) as named where rows_count > 1
        """,
    ),
    (
        "one name that goes out and comes in is of one amount",
        None,
        """
            select received.id, received.holder_id from {table} as received
            join {table} as sent on sent.{name} = received.{name}
            where received.{direction} = 'IN' and sent.{direction} = 'OUT' and sent.amount_cents <> received.amount_cents
        """,
    ),
    (
        "a name that was told later is of no other, but of the same amount coming in",
        "network_id",
        """
            select sent.id, sent.holder_id from {table} as sent
            join {table} as other on other.{name} = sent.network_id
            where other.{direction} = 'OUT' or other.amount_cents <> sent.amount_cents
        """,
    ),
    (
        "while it is under way it has its order",
        None,
        """
            select id, own.holder_id from {table} as own
            left join open_order on open_order.name = {name} and resource_id = id and open_order.holder_id = own.holder_id
                and open_order.slot = own.slot
            where {direction} = 'OUT' and status = 'PROCESSING' and not is_book and open_order.name is null
        """,
    ),
)

RULES: Final = (
    NewRule(
        table="transfer",
        says="what was returned of it, or is being returned, is the sum of its refunds",
        broken="""
            select transfer.id, transfer.holder_id from transfer
            left join (
                select transfer_id, holder_id,
                    coalesce(sum(amount_cents) filter (where status = 'RETURNED'), 0) as returned_sum,
                    coalesce(sum(amount_cents) filter (where status = 'PROCESSING' and flow = 'OUT'), 0) as returning_sum
                from refund group by 1, 2
            ) as given on given.transfer_id = transfer.id and given.holder_id = transfer.holder_id
            where returned_cents <> coalesce(returned_sum, 0) or returning_cents <> coalesce(returning_sum, 0)
        """,
    ),
    *(
        NewRule(
            table=table,
            says=says.format(what=what),
            needs=needed and (table, needed),
            broken=broken.format(table=table, name=name, direction=direction),
        )
        for says, needed, broken in _OF_BOTH
        for table, name, direction, what in _NAMED
    ),
    NewRule(
        table="open_order",
        says="it is of a transfer or refund that is under way",
        broken="""
            select resource_id as id, holder_id from open_order
            where not exists (
                select from transfer where id = resource_id and transfer.holder_id = open_order.holder_id
                    and end_to_end_id = name and direction = 'OUT' and status = 'PROCESSING' and not is_book
            ) and not exists (
                select from refund where id = resource_id and refund.holder_id = open_order.holder_id
                    and return_id = name and flow = 'OUT' and status = 'PROCESSING' and not is_book
            )
        """,
    ),
    NewRule(
        table="open_order",
        says="it is called what its transfer or refund is called",
        needs=("open_order", "network_id"),
        broken="""
            select resource_id as id, open_order.holder_id from open_order
            left join transfer on end_to_end_id = name and transfer.id = resource_id
                and transfer.holder_id = open_order.holder_id
            left join refund on return_id = name and refund.id = resource_id and refund.holder_id = open_order.holder_id
            where open_order.network_id is distinct from coalesce(transfer.network_id, refund.network_id)
        """,
    ),
    NewRule(
        table="transfer",
        says="when it has settled its charge is paid, or returned with it, and of the same amount",
        broken="""
            select transfer.id, transfer.holder_id from transfer
            left join charge on charge.id = charge_id and charge.holder_id = transfer.holder_id
            where charge_id is not null and settled_at is not null and (
                charge.amount_cents is distinct from transfer.amount_cents
                or charge.status <> case transfer.status when 'RETURNED' then 'RETURNED' else 'APPROVED' end
            )
        """,
    ),
    NewRule(
        table="charge",
        says="each of its revisions has what was before it",
        needs=("charge", "revision"),
        broken="""
            select id, charge.holder_id from charge
            full join (
                select charge_id, holder_id, count(*) as kept_count, max(revision) as last_kept
                from charge_revision group by 1, 2
            ) as kept on charge_id = id and kept.holder_id = charge.holder_id
            where (charge.revision is not null or charge_id is not null)
                and (coalesce(revision, 0) <> coalesce(kept_count, 0) or last_kept >= coalesce(revision, 0))
        """,
    ),
)

_HAS_COLUMN: Final = "select exists (select from pg_attribute where attrelid = to_regclass($1) and attname = $2)"
_HAS_LIST: Final = "select to_regclass('offending_row') is not null"
# Tables that are read whole are joined by hashes; connections of ours forbid that for all that is done every day.
_READ_WHOLE: Final = """
    set local enable_seqscan = on; set local enable_hashjoin = on; set local enable_mergejoin = on;
    set local work_mem = '256MB'; set local statement_timeout = 0
"""
_LOOK: Final = """
    select id, holder_id, count(*) over () as rows_count from ({broken}) as broken {unlisted}
    order by id, holder_id limit {limit}
"""
_UNLISTED: Final = """
    where not exists (
        select from offending_row as listed
        where listed.table_name = '{table}' and listed.id = broken.id and listed.holder_id = broken.holder_id
    )
"""


async def find_broken(connection: asyncpg.Connection) -> list[Broken]:
    """The rules that rows break which are on no list yet; nothing is changed."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        await connection.execute(_READ_WHOLE)
        has_list = await connection.fetchval(_HAS_LIST)
        found: list[Broken] = []
        for rule in RULES:
            if rule.needs is not None and not await connection.fetchval(_HAS_COLUMN, *rule.needs):
                continue
            unlisted = _UNLISTED.format(table=rule.table) if has_list else ""
            rows = await connection.fetch(_LOOK.format(broken=rule.broken, unlisted=unlisted, limit=SHOWN_MAX))
            if rows:
                shown = [(row["id"], row["holder_id"]) for row in rows]
                found.append(Broken(rule=rule, rows_count=rows[0]["rows_count"], shown=shown))
        return found


_LIST: Final = """
    insert into offending_row (table_name, id, holder_id, rule)
    select distinct '{table}', id, holder_id, $1 from ({broken}) as broken on conflict do nothing
"""
# The first of one name keeps the number 0, as all rows have that are alone.
_TELL_APART: Final = """
    update {table} set namesake = numbered.namesake from (
        select id, holder_id, row_number() over (partition by {name}, {direction} order by id, holder_id) - 1 as namesake
        from {table}
        where {name} in (
            select {name} from {table} join offending_row as listed using (id, holder_id) where table_name = '{table}'
        )
    ) as numbered
    where {table}.id = numbered.id and {table}.holder_id = numbered.holder_id and numbered.namesake > 0
"""


async def list_all(connection: asyncpg.Connection, broken: Sequence[Broken]) -> None:
    """List the rows that break these rules, as the owner, so that the rules pass them over."""
    async with connection.transaction():
        await connection.execute(_READ_WHOLE)
        for each in broken:
            await connection.execute(_LIST.format(table=each.rule.table, broken=each.rule.broken), each.rule.says)
        for table, name, direction, _ in _NAMED:
            await connection.execute(_TELL_APART.format(table=table, name=name, direction=direction))
