"""The books of an account for a comparison with its balance at the institution: one snapshot."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, LiteralString

import msgspec

from pixconnect.features.institutions.rules.comparison import CLOCKS_APART, Books
from pixconnect.features.institutions.tables.debited_block import DEBITED, NOT_DEBITED
from pixconnect.features.institutions.tables.own_investment import POSITION
from pixconnect.platform.base.civil_time import to_day
from pixconnect.platform.pool import Connection, Pool

_FEES_SINCE: Final = timedelta(days=90)
_FEES_MAX: Final = 10_000
"""The maximum of newest fee lines read."""
_decode = msgspec.json.Decoder(dict[str, int]).decode

_CALLED: Final[LiteralString] = """
    select coalesce(jsonb_object_agg(order_name, amount_cents), '{}') from open_order
    join rail_step on order_name = name where open_order.institution_id = $1 and called_at is not null
"""


async def read_called(pool: Pool, account_id: int) -> dict[str, int]:
    """Cents by name of orders that were called at an account and have not ended."""
    return _decode(await pool.fetchval(_CALLED, account_id))


# Each holder's entries by its index: entries that move the account's money are numbered, except a deficit's part, which comes
# beside or after numbered ones, and in a single comparison only.
_READ: Final[LiteralString] = f"""
    with lying as materialized (select id as holder_id from holder where institution_id = $1),
    booked as (
        select coalesce(sum(amount_cents) filter (where debit_account in ('settlement', 'difference')), 0)::bigint as in_cents,
            coalesce(sum(amount_cents) filter (where credit_account in ('settlement', 'difference')), 0)::bigint as out_cents
        from lying cross join lateral (
            select * from ledger_entry
            where holder_id = lying.holder_id and number is not null and created_at > $2 offset 0
        ) as entry
    ),
    waiting as (
        select coalesce(sum(amount_cents) filter (where direction = 'IN'), 0)::bigint as in_cents,
            coalesce(sum(amount_cents) filter (where direction = 'OUT'), 0)::bigint as out_cents
        from institution_item
        where institution_id = $1 and joined_kind is null
            and not coalesce(waits, '') in ('before_opening', 'no_money', 'struck')
    )
    select (
            select coalesce(-sum(settlement_cents + difference_cents), 0)::bigint - ({DEBITED})
            from lying join whole_balance using (holder_id)
        ) as here_cents,
        booked.in_cents as booked_in_cents, booked.out_cents as booked_out_cents, ({_CALLED}) as called,
        waiting.in_cents as waiting_in_cents, waiting.out_cents as waiting_out_cents,
        (
            select coalesce(sum(held_cents), 0)::bigint from block
            where institution_id = $1 and state = 'open' and {NOT_DEBITED}
        ) as held_cents, ({POSITION}) as invested_cents
    from booked, waiting
"""


async def read_books(pool: Pool, account_id: int, reading_began_at: datetime, *, tells_fees_later: bool) -> Books:
    """The books as of now.

    Args:
        pool: Where to look.
        account_id: The account.
        reading_began_at: When the balance was read that they are compared with.
        tells_fees_later: Fees come with a file of the day, not with a list that is read all the time.
    """
    (row,) = await pool.fetch(_READ, account_id, reading_began_at - CLOCKS_APART)
    fees_cents = 0
    if tells_fees_later:
        since = to_day(reading_began_at) - _FEES_SINCE
        fees_cents = await pool.fetchval(_BOUND_FEES, account_id, since, _FEES_MAX)
    return Books(**dict(row, called=_decode(row["called"])), fees_cents=fees_cents)


_READ_BLOCKED: Final[LiteralString] = f"""
    select coalesce(sum(
        case when step.kind in ('covered', 'held') then step.amount_cents else -step.amount_cents end
    ), 0)::bigint
    from block join block_step as step on step.block_id = block.id and step.holder_id = block.holder_id
    where block.institution_id = $1 and step.created_at < $2 and {NOT_DEBITED}
"""


async def read_blocked(connection: Connection | Pool, account_id: int, before: datetime) -> int:
    """The blocked money of an account at an instant, in cents."""
    return await connection.fetchval(_READ_BLOCKED, account_id, before)


# Each Pix since the last day covered by a statement costs at most the highest recent fee.
_BOUND_FEES: Final[LiteralString] = """
    select (coalesce((
            select max(amount_cents) from (
                select amount_cents from institution_item
                where institution_id = $1 and day > $2 and kind = 'fee' order by day desc limit $3
            ) as fee
        ), 0) * (
            select count(*) from transfer where institution_id = $1 and not is_book and network_settled_at > coalesce((
                select max(day + 1) at time zone 'America/Sao_Paulo' from institution_day
                where institution_id = $1 and (read_at at time zone 'America/Sao_Paulo')::date > day
            ), '-infinity')
        ))::bigint
"""


_LAST_FEE: Final[LiteralString] = """
    select amount_cents from institution_item where institution_id = $1 and fee_of_kind = 'transfer'
    order by day desc, recorded_at desc limit 1
"""


async def find_last_fee(connection: Connection, institution_id: int) -> int | None:
    """The last fee for a transfer, in cents."""
    return await connection.fetchval(_LAST_FEE, institution_id)
