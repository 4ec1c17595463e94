"""Joins nameless reversals with the orders that they give back; they wait for the end and for the debit of such an order."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.joining import RecordedItem
from pixconnect.features.institutions.rules.nameless_reversal import (
    BACK_WITHIN,
    is_nameless_reversal,
    join_reversals,
    may_give_back,
)
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.features.institutions.tables import item_part as part_store
from pixconnect.features.institutions.tables import line as line_store
from pixconnect.platform.pool import Connection


class NamelessReversals(Struct, frozen=True, kw_only=True):
    joined_ids: frozenset[str] = frozenset()
    waiting_ids: frozenset[str] = frozenset()
    """Of lines that may give back an order which is open, or whose debit may be on a day that was not read whole."""


async def join_nameless(
    connection: Connection, account: InstitutionAccount, left: Sequence[RecordedItem]
) -> NamelessReversals:
    back = [item for item in left if is_nameless_reversal(item)]
    if not back:
        return NamelessReversals()
    days = min(item.day for item in back) - BACK_WITHIN, max(item.day for item in back)
    orders = await line_store.list_unsettled(connection, account.id, days, sorted({one.amount_cents for one in back}))
    debited, reversed_, _ = await part_store.find_joined(connection, account.id, [order.key for order in orders])
    orders = [order for order in orders if order.key not in reversed_]
    joins = join_reversals(left, orders, debited)
    await item_store.join(connection, account.id, joins)
    joined_ids = {join.item_id for join in joins}
    whole = {day.day for day in await day_store.list_days(connection, account.id, *days) if day.was_read_whole}
    waiting = [item for item in back if any(may_give_back(item, order, debited, whole) for order in orders)]
    return NamelessReversals(
        joined_ids=frozenset(joined_ids),
        waiting_ids=frozenset(item.item_id for item in waiting) - joined_ids,
    )
