"""Joins lines that take blocked money off the account to its blocks: none is posted as a movement beside its block.

If a block has ended for some days and no line gave its money back, a court has it: the debit is a movement then. If a part of
it was returned to payers, the rest is (``list_kept``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, time, timedelta

from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.debited_block import CREDITED_WITHIN, is_about_block, join_blocks, name_kept
from pixconnect.features.institutions.rules.joining import DAYS_APART_MAX, RecordedItem, Waiting
from pixconnect.features.institutions.service.own_investment import report_part
from pixconnect.features.institutions.tables import debited_block as debited_store
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.features.movements import service as movement_usecases
from pixconnect.kernel.flows.context import Writer
from pixconnect.platform.base.civil_time import SAO_PAULO
from pixconnect.platform.pool import Connection


async def join_debits(
    connection: Connection,
    account: InstitutionAccount,
    left: Sequence[RecordedItem],
    open_cents: Collection[int],
    now: datetime,
) -> tuple[list[RecordedItem], dict[str, Waiting]]:
    """Join what can be joined; the items that are left, and why some of them wait, by their ids.

    Args:
        open_cents: Amounts of orders under way: a debit of one that names nothing may be the order's.
    """
    released = await debited_store.release_ended(connection, account.id, now - CREDITED_WITHIN)
    left = [*left, *(await item_store.find(connection, account.id, [*released])).values()]
    about = [item for item in left if is_about_block(item)]
    if not about:
        return left, {}
    waiting: dict[str, Waiting] = {
        item.item_id: "order_unknown"
        for item in about
        if item.direction == "OUT" and not item.names and item.amount_cents in open_cents
    }
    since = datetime.combine(min(item.day for item in about) - timedelta(days=DAYS_APART_MAX), time(0), SAO_PAULO)
    blocks = await debited_store.list_blocks(connection, account.id, since, [*released.values()])
    joins, may_be_of_block = join_blocks([item for item in about if item.item_id not in waiting], blocks)
    await item_store.join(connection, account.id, joins)
    joined_ids = {join.item_id for join in joins}
    waiting |= dict.fromkeys(may_be_of_block, "could_be_ours")
    return [item for item in left if item.item_id not in joined_ids], waiting


async def post_kept(context: Writer, account: InstitutionAccount, now: datetime) -> None:
    """Post the unreturned remainder of debits of which a part was returned to payers; done once for each."""
    async with context.pool.acquire() as connection:
        kept = await debited_store.list_kept(connection, account.id, now - CREDITED_WITHIN)
        items = await item_store.find(connection, account.id, [*kept])
    for item_id, item in items.items():
        report = await report_part(context, account, item, (name_kept(item_id), "judicial", kept[item_id]))
        await movement_usecases.post_statement_item(context, account.house_id, report)
