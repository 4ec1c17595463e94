"""Which nameless reversals return the debit of one of our orders: both cancel, and move nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import date, timedelta
from typing import Final

from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.rules.joining import NO_PIX, BookLine, ItemJoin, LineKey, are_near

BACK_WITHIN: Final = timedelta(days=10)
"""So long after an order a line may be its reversal."""


def is_nameless_reversal(item: InstitutionItem) -> bool:
    return item.kind == "reversal" and item.direction == "IN" and not item.names


def join_reversals(
    items: Sequence[InstitutionItem], orders: Sequence[BookLine], debited: Collection[LineKey]
) -> list[ItemJoin]:
    """Join nameless reversals, and the debits that they return, with orders that failed.

    Args:
        items: The unmatched ones.
        orders: Ours, that did not settle and were not reversed.
        debited: Those of them whose debit is joined.
    """
    joins: list[ItemJoin] = []
    failed, reversals = defaultdict[int, list[BookLine]](list), defaultdict[int, list[InstitutionItem]](list)
    for order in sorted(orders, key=lambda order: (order.day, str(order.key[1]))):
        if order.state == "failed":
            failed[order.amount_cents].append(order)
    for item in sorted(filter(is_nameless_reversal, items), key=lambda item: (item.day, item.item_id)):
        reversals[item.amount_cents].append(item)
    for cents, back in reversals.items():
        free = [order for order in failed[cents] if order.key in debited]
        alone = [order for order in failed[cents] if order.key not in debited]
        debits = [item for item in items if _may_be_debit(item, cents)]
        if len(alone) == len(debits) == 1 and are_near(debits[0], alone[0]) and debits[0].day <= back[-1].day:
            joins.append(ItemJoin(item_id=debits[0].item_id, key=alone[0].key, by="amount"))
            free.append(alone[0])
        # Of equal orders it does not matter which one a line gives back.
        for item in back:
            order = next((order for order in free if is_within(item, order)), None)
            if order is not None:
                free.remove(order)
                joins.append(ItemJoin(item_id=item.item_id, key=order.key, by="amount", is_reversal=True))
    backed = {join.key for join in joins if join.is_reversal}
    return [join for join in joins if join.key in backed]


def is_within(item: InstitutionItem, order: BookLine) -> bool:
    """Whether a line comes so soon after an order of its amount that it may give that back."""
    return item.amount_cents == order.amount_cents and order.day <= item.day <= order.day + BACK_WITHIN


def may_give_back(
    item: InstitutionItem, order: BookLine, debited: Collection[LineKey], whole: Collection[date]
) -> bool:
    """Whether a line may yet prove to reverse an order: the order may fail, or its debit is not read.

    Args:
        item: An unmatched nameless reversal.
        order: One of our orders, as for ``join_reversals``.
        debited: Those whose debit is joined.
        whole: Days that a statement has listed completely.
    """
    if not is_within(item, order):
        return False
    days = (order.day + timedelta(days=number) for number in range((item.day - order.day).days + 1))
    return order.state == "open" or (order.key not in debited and any(day not in whole for day in days))


def _may_be_debit(item: InstitutionItem, cents: int) -> bool:
    is_nameless = item.direction == "OUT" and not item.names and item.kind not in NO_PIX
    return is_nameless and item.amount_cents == cents
