"""Debits of statements that wait, and the blocks that reserve their sums: ``features/institutions/service/line_reserve.py``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, LiteralString

from pixconnect.platform.pool import Connection, Pool

# Those that the table of outcomes asks about.
WAITING: Final[LiteralString] = """
    select * from institution_item
    where joined_kind is null and direction = 'OUT' and waits in ('changed', 'perhaps_balance', 'perhaps_known', 'contradicts',
        'perhaps_struck', 'perhaps_back', 'perhaps_text',
        'opening_day', 'not_yet_read', 'order_unknown', 'could_be_ours', 'day_not_over')
"""
RESERVED: Final[LiteralString] = "select * from block where state = 'open' and line_id is not null"

_DIFFERS: Final[LiteralString] = f"""
    select exists (
        select from ({WAITING} and institution_id = $1) as item
        full join ({RESERVED} and institution_id = $1) as block on block.line_id = item.item_id
        where item.item_id is null or block.line_id is null
    )
"""


async def differs(pool: Pool, institution_id: int) -> bool:
    """Whether a debit of an account waits and has no block, or no longer waits and has one."""
    return await pool.fetchval(_DIFFERS, institution_id)


async def list_waiting(connection: Connection, institution_id: int) -> dict[str, int]:
    """The debits that wait by their ids, with their cents, the oldest first."""
    rows = await connection.fetch(
        f"select item_id, amount_cents from ({WAITING} and institution_id = $1) as item order by day, item_id",
        institution_id,
    )
    return {row["item_id"]: row["amount_cents"] for row in rows}


async def list_reserved(connection: Connection, institution_id: int, item_ids: Sequence[str]) -> dict[str, int]:
    """The cents that are reserved for some debits, by their ids; a debit that has none is left out."""
    rows = await connection.fetch(f"{RESERVED} and institution_id = $1 and line_id = any($2)", institution_id, item_ids)
    return {row["line_id"]: row["covered_cents"] for row in rows}
