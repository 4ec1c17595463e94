"""The tables of returns: automatic ones, and those of the institution, by their request names (``return_name``).

Also movements whose items proved to be transfers or refunds, or may be orders that the database lost, and the debits of
orders that failed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date, datetime, timedelta
from typing import Final, LiteralString

from pixconnect.features.institutions.rules.joining import DAYS_APART_MAX, NO_PIX
from pixconnect.features.institutions.rules.unmatched import CreditedItem, GiveBack, ReversedMovement, UnmatchedCredit
from pixconnect.features.movements.tables import IS_KEPT
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.tables.lookup import Column, FindAll, Pairs, ReadAll
from pixconnect.kernel.tables.refund import REFUND
from pixconnect.kernel.tables.table import Table, split_pairs
from pixconnect.platform.base.clock import to_day
from pixconnect.platform.pool import Connection, Pool

GIVE_BACK: Final = Table(
    "give_back",
    GiveBack,
    """
    transfer_id bigint, holder_id bigint, institution_id smallint, state text, reason text, due_at timestamptz,
    created_at timestamptz
    """,
    key=("transfer_id", "holder_id"),
)

# Words for a kind may be a payer's. A network name is stronger; but a fee has the name of its Pix.
_MAY_BE_PIX: Final[LiteralString] = """
    (item.kind <> all({no_pix}) or item.return_id is not null or item.end_to_end_id is not null and item.kind <> 'fee')
"""

# A process that died after posting the movement has not matched its line yet. The line is found by its names if it has some.
# Without names it has the amount and a day of its order, without other marks.
_FIND_MISTAKEN: Final[LiteralString] = f"""
    select item.institution_id, item.item_id as line_id, movement.holder_id, movement.item_id,
        item.end_to_end_id is not null or item.return_id is not null as is_named
    from (
        select * from institution_item
        where institution_id = $1 and joined_kind = 'movement' and direction = 'OUT' and amount_cents = $2
        union all select * from institution_item
        where institution_id = $1 and joined_kind is null and direction = 'OUT' and amount_cents = $2
    ) as item
    join movement on movement.institution_id = item.institution_id
        and movement.item_id = coalesce(item.joined_id, item.item_id)
    where {_MAY_BE_PIX.format(no_pix="$7")}
        and case
            when item.return_id is not null then item.return_id = any($3)
            when item.end_to_end_id is not null then item.end_to_end_id = any($3) or item.end_to_end_id = any($4)
            else item.day between $8 and $5 and item.joined_by is distinct from 'answer' and (
                (item.recorded_at >= $9) is not false
                -- An order that the database lost is made again after its line is read.
                or exists (select from database_loss where noticed_at between $9 - interval '35 days' and $9)
            )
        end
        and item.day between least($8, $5 - $6::integer) and $5 + $6::integer
        and movement.status = 'POSTED' and movement.opposite_of is null and {IS_KEPT}
    order by is_named desc, item.day, item.item_id
"""


async def find_mistaken(
    connection: Connection | Pool,
    institution_id: int,
    amount_cents: int,
    names: Sequence[str],
    of: Sequence[str],
    day: date,
    made_at: datetime | None = None,
) -> list[ReversedMovement]:
    """List movements that may really be this transfer or refund, if its line was read before; one, if it has a name of it.

    Args:
        names: Of the transfer or refund on the network.
        of: The names of the returned payment.
        day: On which it settled, in Sao Paulo.
        made_at: The earlier of its order and its settlement: a line without a name that was read before is another's.
    """
    since = day if made_at is None else min(to_day(made_at), day)
    days = day, DAYS_APART_MAX, list(NO_PIX), since, made_at
    rows = await connection.fetch(_FIND_MISTAKEN, institution_id, amount_cents, names, of, *days)
    rows = rows[:1] if rows and rows[0]["is_named"] else rows
    return [ReversedMovement(**{name: row[name] for name in ReversedMovement.__struct_fields__}) for row in rows]


_LIST_MOVED: Final[LiteralString] = f"""
    select distinct item.amount_cents from institution_item as item
    join movement on movement.institution_id = item.institution_id and movement.item_id = item.joined_id
    where item.institution_id = $1 and item.day between $2 and $3 and item.joined_kind = 'movement' and item.direction = 'OUT'
        and {_MAY_BE_PIX.format(no_pix="$4")} and {IS_KEPT}
"""


async def list_moved_amounts(connection: Connection, institution_id: int, days: tuple[date, date]) -> list[int]:
    """Return amounts of some days' outgoing items that could be a Pix and are unreversed movements."""
    rows = await connection.fetch(_LIST_MOVED, institution_id, *days, list(NO_PIX))
    return [row["amount_cents"] for row in rows]


_LIST_CREDITED: Final[LiteralString] = f"""
    select item.institution_id, item.item_id as line_id, movement.holder_id, movement.item_id, item.day, item.amount_cents
    from institution_item as item
    join movement on movement.institution_id = item.institution_id and movement.item_id = item.joined_id
    where item.institution_id = $1 and item.day between $2 and $3 and item.joined_kind = 'movement' and item.direction = 'IN'
        and item.kind <> all($4) and item.end_to_end_id is null and item.return_id is null
        and item.joined_by is distinct from 'answer' and movement.opposite_of is null and {IS_KEPT}
    order by item.day, item.item_id
"""


async def list_credited(connection: Connection | Pool, institution_id: int, days: tuple[date, date]) -> list[CreditedItem]:
    """List nameless credits of some days that are unreversed movements, and could be Pix that the API lists late."""
    rows = await connection.fetch(_LIST_CREDITED, institution_id, *days, list(NO_PIX))
    return [CreditedItem(**row) for row in rows]


release_failed: Final = Column[date, int, datetime]("""
    with failed as materialized (
        select 'transfer' as kind, id::text as id from transfer
        where institution_id = $1 and direction = 'OUT' and network_settled_at is null and status in ('ERROR', 'CANCELLED')
            and modified_at >= $2
        union all
        select 'refund', id::text from refund
        where (holder_id + 0) in (select id from holder where institution_id = $1) and status = 'ERROR' and flow = 'OUT'
            and modified_at >= $2
    )
    update institution_item as debit set (joined_kind, joined_id, joined_by) = (null, null, null) from failed
    where institution_id = $1 and joined_kind = failed.kind and joined_id = failed.id and not is_reversal and not exists (
        select from institution_item as back
        where back.institution_id = $1 and back.joined_kind = failed.kind and back.joined_id = failed.id and back.is_reversal
    ) returning debit.day
""")
"""Detach debits of orders that failed since then, without a line that gives them back; one may fail while it is matched."""

# An order is committed before its line can be read: no line from before the loss is a lost order's. The hour allows for clocks.
_OF_A_LOSS: Final[LiteralString] = f"""
    join institution_item as item on item.institution_id = $1
        and item.day between (coalesce(known_until, noticed_at - $3::interval) at time zone 'America/Sao_Paulo')::date
            and (noticed_at at time zone 'America/Sao_Paulo')::date + $4::integer
        and item.recorded_at > coalesce(known_until - interval '1 hour', '-infinity')
        and item.direction = 'OUT' and {_MAY_BE_PIX.format(no_pix="$5")}
"""

_MAY_BE_FORGOTTEN: Final[LiteralString] = f"""
    select exists (
        select from database_loss {_OF_A_LOSS}
        left join movement on movement.institution_id = item.institution_id and movement.item_id = item.joined_id
        where noticed_at > $6::timestamptz - $3::interval and item.amount_cents = $2
            and coalesce(item.joined_kind, 'movement') = 'movement' and {IS_KEPT}
    )
"""


async def may_be_forgotten(pool: Pool, institution_id: int, amount_cents: int, now: datetime, known_for: timedelta) -> bool:
    """Whether this amount left an account, without one of our orders, in a span that the database lost.

    Args:
        known_for: The loss was detected at most this long ago; it bounds the lost span if its length is unknown.
    """
    return await pool.fetchval(_MAY_BE_FORGOTTEN, institution_id, amount_cents, known_for, DAYS_APART_MAX, list(NO_PIX), now)


_LIST_FORGOTTEN: Final[LiteralString] = f"""
    select distinct item.item_id from database_loss {_OF_A_LOSS}
    where item.item_id = any($2) and 1 < (select count(*) from holder where institution_id = $1)
"""


async def list_forgotten(
    connection: Connection, institution_id: int, item_ids: Sequence[str], known_for: timedelta
) -> set[str]:
    """Return which lines may be lost orders of any of an account's holders; with one holder it is known whose they are."""
    asked = (institution_id, item_ids, known_for, DAYS_APART_MAX, list(NO_PIX))
    return {row["item_id"] for row in await connection.fetch(_LIST_FORGOTTEN, *asked)}


_INSERT: Final[LiteralString] = """
    insert into return_name (asked_as, transfer_id, holder_id, refund_id) values ($1, $2, $3, $4)
"""


async def insert(connection: Connection, refund: Refund, asked_as: str) -> None:
    await connection.execute(_INSERT, asked_as, refund.transfer_id, refund.holder_id, refund.id)


_FIND: Final[LiteralString] = f"""
    select asked_as, {REFUND.select}
    from return_name join refund on refund.id = refund_id and refund.holder_id = return_name.holder_id
    where asked_as = any($1) and return_name.holder_id = any($2)
"""


async def find_made(connection: Connection | Pool, names: Sequence[str], holder_ids: Sequence[int]) -> dict[str, Refund]:
    """Find the refunds recorded under names, by name; each of our names has one request and so one refund."""
    return {row["asked_as"]: REFUND.read(row) for row in await connection.fetch(_FIND, names, holder_ids)}


read_keys: Final = Pairs[int, bytes, Sequence[int]]("""
    select institution_id, naming_key from institution_allowance where institution_id = any($1)
""")

read_keys_of_holders: Final = Pairs[int, bytes, Sequence[int]]("""
    select institution_id, naming_key from institution_allowance join holder using (institution_id) where holder.id = any($1)
""")

_FIND_OF_TRANSFERS: Final[LiteralString] = f"""
    select asked_as, {REFUND.select}
    from unnest($1::bigint[], $2::bigint[]) as wanted (transfer_id, holder_id)
    join refund using (transfer_id, holder_id)
    join return_name on return_name.refund_id = refund.id and return_name.holder_id = refund.holder_id
"""


async def find_of_transfers(
    connection: Connection | Pool, wanted: Collection[tuple[int, int]]
) -> dict[tuple[str, int, int], Refund]:
    """Find the institution's recorded returns of payments, by request name and payment."""
    rows = await connection.fetch(_FIND_OF_TRANSFERS, *split_pairs(wanted))
    return {(row["asked_as"], row["transfer_id"], row["holder_id"]): REFUND.read(row) for row in rows}


find_due: Final = FindAll[GiveBack, int, datetime, int](
    GIVE_BACK, "where institution_id = $1 and state = 'waiting' and due_at <= $2 order by due_at limit $3"
)

# Only from *waiting*: if two check one payment, the first records how it ended.
_MOVE: Final[LiteralString] = """
    update give_back set state = $3, reason = $4, due_at = $5 where transfer_id = $1 and holder_id = $2 and state = 'waiting'
"""


async def move(pool: Pool, after: GiveBack) -> None:
    """Record how it ended, or its next try; ended ones stay."""
    await pool.execute(_MOVE, after.transfer_id, after.holder_id, after.state, after.reason, after.due_at)


list_standing: Final = FindAll[GiveBack, int, datetime, int](
    GIVE_BACK,
    """
    where institution_id = $1 and state = 'waiting' and reason is not null and created_at <= $2 order by created_at limit $3
""",
)
"""List an account's failed automatic returns since an instant, oldest first."""

list_without_charge: Final = ReadAll[UnmatchedCredit, int, datetime, int](
    UnmatchedCredit,
    """
    select transfer.id as transfer_id, transfer.holder_id, end_to_end_id, txid, amount_cents, returned_cents, returning_cents,
        coalesce(network_settled_at, settled_at) as settled_at, give_back.state as given_back, give_back.reason
    from transfer left join give_back on give_back.transfer_id = transfer.id and give_back.holder_id = transfer.holder_id
    where transfer.institution_id = $1 and direction = 'IN' and charge_id is null and settled_at is not null
        and network_settled_at >= $2
    order by network_settled_at desc limit $3
""",
)
"""List an account's credits since then without a charge, newest first."""
