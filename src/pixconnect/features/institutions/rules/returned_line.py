"""Returned money on an account: automatic returns, debits for blocks, and reversals of orders.

Automatic returns are of received Pix without a charge, if the account's option ``give_back`` is *always*.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import date, datetime, timedelta
from typing import Final, Literal

from msgspec import Struct, structs

from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.rules.joining import DAYS_APART_MAX, NO_PIX, BookLine, ItemJoin, LineKey, are_near
from pixconnect.kernel.rules.block_report import BlockKind
from pixconnect.kernel.rules.refund import (
    NewRefund,
    RefundRequest,
    plan_automatic_refund,
)
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.platform.base import errors

State = Literal["waiting", "made", "not_made"]
REASON: Final = "MD06"
AGAIN_AFTER: Final = timedelta(minutes=1)
_AGAIN_AFTER_MAX: Final = timedelta(hours=1)
_PASSING: Final = (
    errors.RefundInfractionOpen,
    errors.HolderBlocked,
    errors.LimitExceeded,
    errors.InsufficientFunds,
)
"""Temporary refusals: a contest is decided, a holder or a day is allowed more, money comes in."""
_TEXT_LENGTH_MAX: Final = 1000


class GiveBack(Struct, frozen=True, kw_only=True):
    transfer_id: int
    holder_id: int
    institution_id: int
    state: State
    reason: str | None = None
    """Why it was not made, so that it stays credited, or why it cannot be made now; ``None`` before the first try."""
    due_at: datetime
    created_at: datetime


class UnmatchedCredit(Struct, frozen=True, kw_only=True):
    """A received Pix that pays no charge."""

    transfer_id: int
    holder_id: int
    end_to_end_id: str
    txid: str | None
    amount_cents: int
    returned_cents: int
    returning_cents: int
    settled_at: datetime
    given_back: State | None
    """``None`` if the account returns nothing automatically."""
    reason: str | None


def gives_back(account: InstitutionAccount) -> bool:
    return account.options.get("give_back", "never") == "always"


def plan_giving_back(received: Transfer, refund_id: int, return_id: str) -> NewRefund:
    """Plan the refund of all of it, without a caller's request: one per Pix, however often it is begun."""
    request = RefundRequest(end_to_end_id=received.end_to_end_id, amount_cents=received.amount_cents, reason=REASON)
    return plan_automatic_refund(received, request, refund_id, return_id)


def leave(waiting: GiveBack, reason: str) -> GiveBack:
    """Give up a return: the payment stays credited."""
    return structs.replace(waiting, state="not_made", reason=reason[:_TEXT_LENGTH_MAX])


def wait_longer(waiting: GiveBack, now: datetime) -> GiveBack:
    """Postpone a return, longer with its age."""
    after = min(max(now - waiting.created_at, AGAIN_AFTER), _AGAIN_AFTER_MAX)
    return structs.replace(waiting, due_at=now + after)


def judge_refusal(waiting: GiveBack, refusal: errors.RuleBroken, now: datetime) -> GiveBack:
    """Postpone a return if the reason may pass, otherwise give it up."""
    if isinstance(refusal, _PASSING):
        return wait_longer(structs.replace(waiting, reason=str(refusal)[:_TEXT_LENGTH_MAX]), now)
    return leave(waiting, str(refusal))


# Debits for blocks, and the credits that return them: the money stays the holder's, blocked, until the institution reports the
# block's end. The line may be read after that.

CREDITED_WITHIN: Final = timedelta(days=5)
"""How long after the end of a block its money may be credited again."""
KEPT_PREFIX: Final = "kept:"
_DIGEST_LENGTH: Final = 48
_APART: Final = timedelta(days=DAYS_APART_MAX)
_WORDS: Final = re.compile(r"\b(DES)?BLOQ(?!UETO)", re.IGNORECASE)
_ORDERED: Final = frozenset[BlockKind]({"judicial", "administrative"})


class BlockOfAccount(Struct, frozen=True, kw_only=True):
    """A block whose debit is unknown, or is matched and not returned."""

    id: int
    kind: BlockKind
    held_cents: int
    """Its amount; for an ended block, what it had covered."""
    days: tuple[date, date] | None = None
    """The first and the last day of an ended block."""
    debited_cents: int | None = None
    """By the line matched with it."""
    taken_cents: int = 0
    """Including returns that the institution made."""

    def may_be(self, item: InstitutionItem) -> bool:
        """Whether a line is the debit or the return of such a block."""
        days = self.days or (item.day, item.day)
        is_then = self.debited_cents is not None or days[0] - _APART <= item.day <= days[1] + _APART
        return is_then and (item.kind == "judicial") == (self.kind in _ORDERED)


def is_about_block(item: InstitutionItem) -> bool:
    return item.kind == "judicial" or _WORDS.search(item.text) is not None


def join_blocks(items: Iterable[InstitutionItem], blocks: Sequence[BlockOfAccount]) -> tuple[list[ItemJoin], set[str]]:
    """Match lines with blocks of their amount, oldest first; also return ids of debits that may be of another open block."""
    joins: list[ItemJoin] = []
    waiting = set[str]()
    debited = {block.id: block.debited_cents for block in blocks}
    for item in sorted(filter(is_about_block, items), key=lambda one: (one.day, one.direction == "IN", one.item_id)):
        is_debit = item.direction == "OUT"
        own = [block for block in blocks if block.id in debited and block.may_be(item)]
        own = [block for block in own if (debited[block.id] is None) == is_debit]
        block = next((one for one in own if _find_cents(one, debited[one.id]) == item.amount_cents), None)
        if block is not None:
            joins.append(ItemJoin(item_id=item.item_id, key=("block", block.id), by="amount", is_reversal=not is_debit))
            debited[block.id] = item.amount_cents
            if not is_debit:
                del debited[block.id]
        elif is_debit and own:
            waiting.add(item.item_id)
    return joins, waiting


def _find_cents(block: BlockOfAccount, debited_cents: int | None) -> int:
    """Return the amount of a block's next line."""
    return block.held_cents if debited_cents is None else debited_cents - block.taken_cents


def name_kept(item_id: str) -> str:
    """Name the movement of a debit's remainder that was not returned, after a part of it was returned to payers."""
    return KEPT_PREFIX + hashlib.sha256(item_id.encode()).hexdigest()[:_DIGEST_LENGTH]


# Nameless reversals of debits of our orders: both cancel, and move nothing.

BACK_WITHIN: Final = timedelta(days=10)
"""How long after an order a line may be its reversal."""


def is_nameless_reversal(item: InstitutionItem) -> bool:
    return item.kind == "reversal" and item.direction == "IN" and not item.names


def join_reversals(
    items: Sequence[InstitutionItem], orders: Sequence[BookLine], debited: Collection[LineKey]
) -> list[ItemJoin]:
    """Match nameless reversals, and the debits that they return, with orders that failed.

    Args:
        items: The unmatched ones.
        orders: Our orders that neither settled nor were reversed.
        debited: Those of them whose debit is matched.
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
        # Equal orders are interchangeable.
        for item in back:
            order = next((order for order in free if is_within(item, order)), None)
            if order is not None:
                free.remove(order)
                joins.append(ItemJoin(item_id=item.item_id, key=order.key, by="amount", is_reversal=True))
    backed = {join.key for join in joins if join.is_reversal}
    return [join for join in joins if join.key in backed]


def is_within(item: InstitutionItem, order: BookLine) -> bool:
    """Whether a line comes soon enough after an order of its amount to be its reversal."""
    return item.amount_cents == order.amount_cents and order.day <= item.day <= order.day + BACK_WITHIN


def may_give_back(
    item: InstitutionItem, order: BookLine, debited: Collection[LineKey], whole: Collection[date]
) -> bool:
    """Whether a line may yet prove to reverse an order: the order may fail, or its debit is not read.

    Args:
        item: An unmatched nameless reversal.
        order: One of our orders, as for ``join_reversals``.
        debited: Those whose debit is matched.
        whole: Days that a statement has listed completely.
    """
    if not is_within(item, order):
        return False
    days = (order.day + timedelta(days=number) for number in range((item.day - order.day).days + 1))
    return order.state == "open" or (order.key not in debited and any(day not in whole for day in days))


def _may_be_debit(item: InstitutionItem, cents: int) -> bool:
    is_nameless = item.direction == "OUT" and not item.names and item.kind not in NO_PIX
    return is_nameless and item.amount_cents == cents
