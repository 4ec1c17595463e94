"""Blocks of accounts at institutions, with the lines of the statement that took their money off the account."""

from __future__ import annotations

from datetime import datetime
from typing import Final, LiteralString

from msgspec import convert

from pixconnect.domain.institutions.debited_block import BlockOfAccount
from pixconnect.foundation.pool import Connection

# The debits for blocks, less the money given back or returned to payers.
_DEBITS: Final[LiteralString] = """
    select debit.institution_id, debit.item_id, debit.joined_id::bigint as block_id, debit.amount_cents as debited_cents,
        coalesce((
            select amount_cents from institution_item as credit
            where credit.institution_id = debit.institution_id and credit.joined_kind = 'block'
                and credit.joined_id = debit.joined_id and credit.is_reversal
        ), 0) as credited_cents,
        coalesce((
            select sum(amount_cents) from block_step where block_id = debit.joined_id::bigint and kind = 'taken'
        ), 0)::bigint as taken_cents
    from institution_item as debit where debit.joined_kind = 'block' and not debit.is_reversal
"""
DEBITED: Final[LiteralString] = f"""
    select coalesce(sum(greatest(debited_cents - credited_cents - taken_cents, 0)), 0)::bigint
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
    select block.id, kind, held_cents, debited_cents, coalesce(taken_cents, 0) as taken_cents
    from block left join ({_DEBITS} and institution_id = $1) as debit on debit.block_id = block.id
    where block.institution_id = $1 and line_id is null and kind <> 'precautionary' and (
        debit.block_id is null and state = 'open' and held_cents > 0 or debited_cents > 0 and credited_cents = 0
    )
    order by block.created_at, block.id
"""


async def list_blocks(connection: Connection, institution_id: int) -> list[BlockOfAccount]:
    """Blocks of an account to which a line may be joined, the oldest first."""
    return [convert(dict(row), BlockOfAccount) for row in await connection.fetch(_LIST, institution_id)]


_RELEASE_ENDED: Final[LiteralString] = f"""
    update institution_item as item set (joined_kind, joined_id, joined_by) = (null, null, null)
    from ({_DEBITS} and institution_id = $1) as debit join block on block.id = debit.block_id
    where item.institution_id = $1 and item.item_id = debit.item_id and block.institution_id = $1
        and state = 'ended' and block.modified_at <= $2 and credited_cents = 0 and taken_cents = 0
    returning item.item_id
"""


async def release_ended(connection: Connection, institution_id: int, before: datetime) -> list[str]:
    """Separate debits from blocks that ended before an instant, and whose money was neither returned nor given back."""
    return [row["item_id"] for row in await connection.fetch(_RELEASE_ENDED, institution_id, before)]
