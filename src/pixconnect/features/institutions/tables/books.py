"""The books of an account for a comparison with its balance at the institution: one snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from itertools import groupby
from typing import Final, LiteralString

import msgspec
from msgspec import convert

from pixconnect.features.institutions.rules.comparison import CLOCKS_APART, Books
from pixconnect.features.institutions.rules.joining import DAYS_APART_MAX, RecordedItem
from pixconnect.features.institutions.rules.special_line import BlockOfAccount
from pixconnect.features.institutions.rules.unmatched import ReversedMovement
from pixconnect.features.institutions.tables.day import POSITION
from pixconnect.features.institutions.tables.item import ITEM
from pixconnect.features.movements.tables import IS_KEPT
from pixconnect.kernel.tables.lookup import FindAll, Tuples, Value
from pixconnect.platform.base.clock import to_day
from pixconnect.platform.pool import Connection, Pool

# The debits for each block, by the first one's id, with their parts that were credited again, returned to payers (as the
# schema's ``taken_of_block``, which the proof must not trust), and kept.
DEBITS: Final[LiteralString] = """
    select debit.institution_id, debit.item_id, debit.day, debit.recorded_at, debit.joined_id::bigint as block_id,
        debited_cents, credited_cents, debited_at,
        (
            select coalesce(sum(step.amount_cents), 0)
            from block_step as step join block on block.id = step.block_id
            left join infraction_return as given on given.refund_id = step.refund_id and given.holder_id = step.holder_id
            left join infraction as own on own.id = infraction_id and own.holder_id = given.holder_id and own.name = reference
            where step.block_id = debit.joined_id::bigint and step.kind = 'taken' and own.id is null
        )::bigint + coalesce((
            -- The block's own contest's returns in full: perhaps less of them was covered here.
            select told.taken_cents from block join infraction as told on told.transfer_id = block.transfer_id
                and told.holder_id = block.holder_id and told.name = reference
            where block.id = debit.joined_id::bigint
        ), 0) as taken_cents,
        coalesce((
            select amount_cents from movement
            where movement.institution_id = debit.institution_id and direction = 'OUT' and movement.item_id
                = 'kept:' || left(encode(sha256(convert_to(debit.item_id, 'UTF8')), 'hex'), 48)
        ), 0) as kept_cents
    from institution_item as debit cross join lateral (
        select sum(amount_cents) filter (where not is_reversal)::bigint as debited_cents,
            coalesce(sum(amount_cents) filter (where is_reversal), 0)::bigint as credited_cents,
            max(recorded_at) filter (where not is_reversal) as debited_at,
            (array_agg(item_id order by day, item_id) filter (where not is_reversal))[1] as first_id
        from institution_item as part
        where part.joined_kind = 'block' and part.joined_id = debit.joined_id and part.institution_id = debit.institution_id
    ) as part
    where debit.joined_kind = 'block' and not debit.is_reversal and debit.item_id = first_id
"""
DEBITED: Final[LiteralString] = f"""
    select coalesce(sum(greatest(debited_cents - credited_cents - taken_cents - kept_cents, 0)), 0)::bigint
    from ({DEBITS} and institution_id = $1) as debit
"""
ABOUT_BLOCKS: Final[LiteralString] = """
    (kind = 'judicial' or kind not in ('fee', 'wire', 'boleto') and text ~* '\\m(DES)?BLOQ(?!UETO)'
        and (regexp_split_to_array(text, '\\m(DES)?BLOQ(?!UETO)', 'i'))[1] !~* case direction
            when 'IN' then '\\mRECEBID' else '\\m(ENVIAD|PAGO\\M|PAGAMENTO)' end)
"""
"""As ``is_about_block``."""
# A contest's debit may be read after the decision: what it returned, and the whole amount, are looked for too.
_LIST: Final[LiteralString] = f"""
    select block.id, block.holder_id, kind, case state when 'open' then held_cents else covered.cents end as held_cents,
        case state when 'ended' then array[
            (created_at at time zone 'America/Sao_Paulo')::date, (modified_at at time zone 'America/Sao_Paulo')::date
        ] end as days, debited_cents, coalesce(credited_cents, 0) as credited_cents,
        coalesce(debit.taken_cents, covered.taken_cents) as taken_cents, contested_cents,
        (select end_to_end_id from transfer where id = block.transfer_id and holder_id = block.holder_id) as end_to_end_id
    from block left join ({DEBITS} and institution_id = $1) as debit on debit.block_id = block.id
    cross join lateral (
        select coalesce(sum(amount_cents) filter (where kind = 'covered'), 0)::bigint as cents,
            coalesce(sum(amount_cents) filter (where kind = 'taken'), 0)::bigint as taken_cents, coalesce((
                select amount_cents from infraction as told where told.transfer_id = block.transfer_id
                    and told.holder_id = block.holder_id and told.name = reference
            ), 0) as contested_cents
        from block_step as step where step.block_id = block.id and step.holder_id = block.holder_id
    ) as covered
    where block.institution_id = $1 and line_id is null and kind <> 'precautionary' and coalesce(kept_cents, 0) = 0 and (
            -- The bank may give all of a debit back, and return the Pix by a line of its own.
            debited_cents > credited_cents and (debited_cents > credited_cents + debit.taken_cents or modified_at >= $2)
            or (state = 'open' or modified_at >= $2) and greatest(
                case state when 'open' then held_cents + coalesce(credited_cents + debit.taken_cents, covered.taken_cents)
                    else covered.cents end, contested_cents
            ) > coalesce(debited_cents, 0)
        )
    order by block.created_at, block.id
"""


list_about_blocks: Final = FindAll[RecordedItem, int, date, date](
    ITEM,
    f"""
    where institution_id = $1 and day between $2 and $3 and {ABOUT_BLOCKS} and case coalesce(joined_kind, '')
        when 'block' then true when 'movement' then joined_by <> 'answer' when '' then waits = 'could_be_ours'
    end order by day, item_id
    """,
)
"""List recorded lines of some days that are or may be of a block."""


async def list_blocks(connection: Connection, institution_id: int, ended_since: datetime) -> list[BlockOfAccount]:
    """List blocks of an account that a line may match, oldest first.

    Args:
        ended_since: Of ended blocks without all of their debits, those since then.
    """
    rows = await connection.fetch(_LIST, institution_id, ended_since)
    return [convert(dict(row), BlockOfAccount) for row in rows]


# In days of Sao Paulo; the institution may report a block some days after it has debited it.
_LIST_EARLY: Final[LiteralString] = f"""
    select item.institution_id, item.item_id as line_id, movement.holder_id, movement.item_id, block.id as block_id,
        block.reference, item.amount_cents, held_cents - coalesce(debited_cents - credited_cents - taken_cents, 0) as room_cents
    from block left join ({DEBITS} and institution_id = $1) as debit on debit.block_id = block.id
    cross join lateral (
        select * from institution_item as item where item.institution_id = block.institution_id
            and direction = 'OUT' and joined_kind = 'movement' and joined_by <> 'answer' and recorded_at < block.created_at
            and (item.kind = 'judicial') = (block.kind in ('judicial', 'administrative')) and {ABOUT_BLOCKS}
            and day between (block.created_at at time zone 'America/Sao_Paulo')::date - $2::integer
                and (block.created_at at time zone 'America/Sao_Paulo')::date
        offset 0
    ) as item
    join movement on movement.institution_id = item.institution_id and movement.item_id = item.joined_id
        and movement.status = 'POSTED' and movement.created_at < block.created_at and {IS_KEPT}
    where block.institution_id = $1 and block.state = 'open' and block.kind <> 'precautionary' and block.line_id is null
        and held_cents > 0
    order by block.id, item.day, item.item_id
"""


async def list_early(connection: Connection | Pool, institution_id: int) -> list[tuple[ReversedMovement, int, str]]:
    """List movements of debits, one or all of their block's amount, read before its report; with its id and reference."""
    rows = await connection.fetch(_LIST_EARLY, institution_id, DAYS_APART_MAX)
    found = dict[str, tuple[ReversedMovement, int, str]]()
    for block_id, group in groupby(rows, lambda row: row["block_id"]):
        parts = [row for row in group if row["line_id"] not in found]
        whole = [row for row in parts if row["amount_cents"] == row["room_cents"]][:1]
        if not whole and parts and sum(row["amount_cents"] for row in parts) == parts[0]["room_cents"]:
            whole = parts
        for row in whole:
            movement = ReversedMovement(**{name: row[name] for name in ReversedMovement.__struct_fields__})
            found[row["line_id"]] = movement, block_id, row["reference"]
    return [*found.values()]


list_kept: Final = Tuples[tuple[str, int, int], int, datetime, int](f"""
    select debit.item_id, block.holder_id, debited_cents - taken_cents - credited_cents
    from ({DEBITS} and institution_id = $1) as debit
    join block on block.id = debit.block_id and block.institution_id = $1 and state = 'ended'
    where taken_cents + credited_cents < debited_cents and kept_cents = 0 and block.modified_at <= $2 and debited_at <= $2
        and not exists (
            select from institution_item
            where institution_id = $1 and day >= debit.day and direction = 'IN' and waits is not null and {ABOUT_BLOCKS}
        ) and not exists (
            -- Another contest of the Pix returns the same money.
            select from block as other
            where other.transfer_id = block.transfer_id and other.holder_id = block.holder_id and other.id <> block.id
        ) and not exists (
            -- Whose debit this one may be, until its credit time is over.
            select from block as other where other.institution_id = $1 and other.holder_id = block.holder_id
                and other.kind = block.kind and other.line_id is null and other.created_at <= debited_at
                and (other.state = 'open' or other.modified_at > $2
                    and (other.modified_at at time zone 'America/Sao_Paulo')::date >= debit.day)
                and not exists (
                    select from institution_item as theirs
                    where theirs.institution_id = $1 and joined_kind = 'block' and joined_id = other.id::text
                )
        ) and not exists (
            select from generate_series(
                debit.day::timestamp, (block.modified_at at time zone 'America/Sao_Paulo')::date + $3::integer, interval '1 day'
            ) as span (day)
            -- Read whole, or without a file between two balances that agree; without a told opening a day closes only then.
            where not coalesce((
                select (read_at at time zone 'America/Sao_Paulo')::date > told.day or told.state like 'closed%'
                from institution_day as told where told.institution_id = $1 and told.day = span.day::date
            ), (
                select case when next.opening_cents is null then next.state = 'closed' else next.opening_cents = (
                    select closing_cents from institution_day where institution_id = $1 and day < span.day::date
                    order by day desc limit 1
                ) end
                from institution_day as next where next.institution_id = $1 and next.day > span.day::date
                order by next.day limit 1
            ), false)
        )
""")
"""List what nobody got back of debits whose block ended before an instant: the first debit's id, the block's holder, cents.

Args:
    days: After the block's end, of which each must be known, as all since the debit.
"""

_FEES_SINCE: Final = timedelta(days=90)
_FEES_MAX: Final = 10_000  # maximum of newest fee lines read
_decode = msgspec.json.Decoder(dict[str, int]).decode

_CALLED: Final[LiteralString] = """
    select coalesce(jsonb_object_agg(order_name, amount_cents), '{}') from open_order
    join rail_step on order_name = name where open_order.institution_id = $1 and called_at is not null
"""


async def read_called(pool: Pool, account_id: int) -> dict[str, int]:
    """Return cents by name of orders that were called at an account and have not ended."""
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
            select coalesce(sum(greatest(held_cents - greatest(debited_cents - credited_cents - taken_cents, 0), 0)), 0)::bigint
            from block left join ({DEBITS} and institution_id = $1) as debit on debit.block_id = block.id
            where block.institution_id = $1 and state = 'open' and line_id is null
        ) as held_cents, ({POSITION}) as invested_cents
    from booked, waiting
"""


async def read_books(pool: Pool, account_id: int, reading_began_at: datetime, *, tells_fees_later: bool) -> Books:
    """Read the present books.

    Args:
        reading_began_at: When the balance for the comparison was read.
        tells_fees_later: Fees come with a file of the day, not with a list that is read all the time.
    """
    (row,) = await pool.fetch(_READ, account_id, reading_began_at - CLOCKS_APART)
    fees_cents = 0
    if tells_fees_later:
        since = to_day(reading_began_at) - _FEES_SINCE
        fees_cents = await pool.fetchval(_BOUND_FEES, account_id, since, _FEES_MAX)
    return Books(**dict(row, called=_decode(row["called"])), fees_cents=fees_cents)


read_blocked: Final = Value[int, int, datetime, Sequence[int], Sequence[int]]("""
    select coalesce(sum(greatest(held.cents - greatest(debited.cents - held.taken_cents, 0), 0)), 0)::bigint
    from block cross join lateral (
        select sum(case when step.kind in ('covered', 'held') then amount_cents else -amount_cents end) as cents,
            coalesce(sum(amount_cents) filter (where step.kind = 'taken'), 0) as taken_cents
        from block_step as step
        where step.block_id = block.id and step.holder_id = block.holder_id
            -- The institution may have changed it before it was reported here; what income covers is not older than its step.
            and coalesce(step.reported_at, step.created_at) < $2
    ) as held cross join lateral (
        select coalesce(sum(case when is_reversal then -amount_cents else amount_cents end), 0) + coalesce((
                select sum(cents) from unnest($3::bigint[], $4::bigint[]) as own (id, cents) where own.id = block.id
            ), 0) as cents
        from institution_item as debit
        where debit.institution_id = block.institution_id and debit.joined_kind = 'block' and debit.joined_id = block.id::text
            and debit.day <= (($2 - interval '1 microsecond') at time zone 'America/Sao_Paulo')::date
    ) as debited
    where block.institution_id = $1 and block.line_id is null
""")
"""Return an account's blocked, undebited cents at an instant; ``$3`` are blocks, ``$4`` what unjoined debits of them took."""

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

find_last_fee: Final = Value[int | None, int]("""
    select amount_cents from institution_item where institution_id = $1 and fee_of_kind = 'transfer'
    order by day desc, recorded_at desc limit 1
""")
"""Find the last fee for a transfer, in cents."""
