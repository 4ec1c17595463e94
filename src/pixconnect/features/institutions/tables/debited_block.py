"""Blocks of accounts at institutions, with the lines of the statement that took their money off the account."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString

from msgspec import convert

from pixconnect.features.institutions.rules.debited_block import BlockOfAccount
from pixconnect.platform.pool import Connection

# The debits for blocks, with their parts that were given back, returned to payers, and kept.
_DEBITS: Final[LiteralString] = """
    select debit.institution_id, debit.item_id, debit.joined_id::bigint as block_id, debit.amount_cents as debited_cents,
        coalesce((
            select amount_cents from institution_item as credit
            where credit.institution_id = debit.institution_id and credit.joined_kind = 'block'
                and credit.joined_id = debit.joined_id and credit.is_reversal
        ), 0) as credited_cents,
        coalesce((
            select sum(amount_cents) from block_step where block_id = debit.joined_id::bigint and kind = 'taken'
        ), 0)::bigint as taken_cents,
        coalesce((
            select amount_cents from movement
            where movement.institution_id = debit.institution_id and direction = 'OUT' and movement.item_id
                = 'kept:' || left(encode(sha256(convert_to(debit.item_id, 'UTF8')), 'hex'), 48)
        ), 0) as kept_cents
    from institution_item as debit where debit.joined_kind = 'block' and not debit.is_reversal
"""
DEBITED: Final[LiteralString] = f"""
    select coalesce(sum(greatest(debited_cents - credited_cents - taken_cents - kept_cents, 0)), 0)::bigint
    from ({_DEBITS} and institution_id = $1) as debit
"""
NOT_DEBITED: Final[LiteralString] = """
    block.line_id is null and not exists (
        select from institution_item as debit
        where debit.institution_id = block.institution_id and debit.joined_kind = 'block'
            and debit.joined_id = block.id::text
    )
"""
_LIST: Final[LiteralString] = f"""
    select block.id, kind, case state when 'open' then held_cents else covered.cents end as held_cents,
        case state when 'ended' then array[
            (created_at at time zone 'America/Sao_Paulo')::date, (modified_at at time zone 'America/Sao_Paulo')::date
        ] end as days, debited_cents, coalesce(debit.taken_cents, covered.taken_cents) as taken_cents
    from block left join ({_DEBITS} and institution_id = $1) as debit on debit.block_id = block.id
    cross join lateral (
        select coalesce(sum(amount_cents) filter (where kind = 'covered'), 0)::bigint as cents,
            coalesce(sum(amount_cents) filter (where kind = 'taken'), 0)::bigint as taken_cents
        from block_step as step where step.block_id = block.id and step.holder_id = block.holder_id
    ) as covered
    where block.institution_id = $1 and line_id is null and kind <> 'precautionary' and block.id <> all($2) and case
        when debit.block_id is not null then credited_cents = 0 and kept_cents = 0
        when state = 'open' then held_cents > 0
        else covered.cents > 0 and modified_at >= $3
    end
    order by block.created_at, block.id
"""


async def list_blocks(
    connection: Connection, institution_id: int, ended_since: datetime, without: Sequence[int]
) -> list[BlockOfAccount]:
    """Blocks of an account, without some, to which a line may be joined, the oldest first.

    Args:
        ended_since: Of those that have ended and have no debit, these.
    """
    rows = await connection.fetch(_LIST, institution_id, without, ended_since)
    return [convert(dict(row), BlockOfAccount) for row in rows]


# What ended so long ago, and whose debit has been known so long, and was not given back.
_ENDED: Final[LiteralString] = f"""
    ({_DEBITS} and institution_id = $1) as debit join block on block.id = debit.block_id and block.institution_id = $1
        and state = 'ended' and block.modified_at <= $2 and credited_cents = 0
    join institution_item as line on line.institution_id = $1 and line.item_id = debit.item_id and line.recorded_at <= $2
"""
_RELEASE_ENDED: Final[LiteralString] = f"""
    update institution_item as item set (joined_kind, joined_id, joined_by) = (null, null, null)
    from (select debit.* from {_ENDED}) as debit
    where item.institution_id = $1 and item.item_id = debit.item_id and taken_cents = 0
    returning item.item_id, debit.block_id
"""


async def release_ended(connection: Connection, institution_id: int, before: datetime) -> dict[str, int]:
    """Separate debits from blocks that ended before an instant, and whose money was neither returned nor given back."""
    rows = await connection.fetch(_RELEASE_ENDED, institution_id, before)
    return {row["item_id"]: row["block_id"] for row in rows}


_LIST_KEPT: Final[LiteralString] = f"""
    select debit.item_id, debited_cents - taken_cents as cents from {_ENDED}
    where taken_cents > 0 and taken_cents < debited_cents and kept_cents = 0
"""


async def list_kept(connection: Connection, institution_id: int, before: datetime) -> dict[str, int]:
    """The unreturned cents of debits whose block ended before an instant after a part was returned, by id."""
    rows = await connection.fetch(_LIST_KEPT, institution_id, before)
    return {row["item_id"]: row["cents"] for row in rows}
