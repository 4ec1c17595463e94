"""Joins lines that take blocked money off the account to its blocks: none is posted as a movement beside its block.

If a block has ended for some days and no line gave its money back, a court has it: the debit is a movement then.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pixconnect.domain.institutions.account import InstitutionAccount
from pixconnect.domain.institutions.debited_block import CREDITED_WITHIN, is_about_block, join_blocks
from pixconnect.domain.institutions.joining import RecordedItem
from pixconnect.foundation.pool import Connection
from pixconnect.store.institutions import debited_block as debited_store
from pixconnect.store.institutions import item as item_store


async def join_debits(
    connection: Connection, account: InstitutionAccount, left: Sequence[RecordedItem], now: datetime
) -> tuple[list[RecordedItem], set[str]]:
    """Join what can be joined; the items that are left, and the ids of those among them that wait for a person."""
    released = await debited_store.release_ended(connection, account.id, now - CREDITED_WITHIN)
    left = [*left, *(await item_store.find(connection, account.id, released)).values()]
    if not any(map(is_about_block, left)):
        return left, set()
    joins, waiting_ids = join_blocks(left, await debited_store.list_blocks(connection, account.id))
    await item_store.join(connection, account.id, joins)
    joined_ids = {join.item_id for join in joins}
    return [item for item in left if item.item_id not in joined_ids], waiting_ids
