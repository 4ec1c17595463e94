"""Lines of a statement that are neither one of our records nor a movement of the house.

- Debits for blocks, and the credits that return them: the money stays the holder's, blocked, until the institution reports the
  block's end. The line may be read after that.
- Nameless reversals of debits of our orders: both cancel, and move nothing.
- Lines between an account and its own investment, as of overnight sweeps. The money stays its holders', so they have no entry,
  but change the account's position, which the institution's balance lacks. A redemption beyond it is yield, for the house.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, timedelta
from itertools import accumulate, groupby
from typing import Final

from msgspec import Struct, structs

from pixconnect.features.due_charges.rules.terms import count_business_days
from pixconnect.features.institutions.rules.institution import InstitutionItem, ItemKind
from pixconnect.features.institutions.rules.joining import (
    DAYS_APART_MAX,
    KEPT_PREFIX,
    NO_PIX,
    PIX,
    YIELD_PREFIX,
    BookLine,
    ItemJoin,
    LineKey,
    RecordedItem,
    Waiting,
    are_near,
    fits,
)
from pixconnect.kernel.rules.block_report import BlockKind

CREDITED_WITHIN: Final = timedelta(days=5)  # how long after the end of a block its money may be credited again
_APART: Final = timedelta(days=DAYS_APART_MAX)
_BLOCKED: Final = re.compile(r"\b(DES)?BLOQ(?!UETO)", re.IGNORECASE)
# A bank's word for a payment, which the payer's or payee's own words follow.
_PAID: Final = dict(IN=re.compile(r"\bRECEBID", re.IGNORECASE), OUT=re.compile(r"\b(ENVIAD|PAGO\b|PAGAMENTO)", re.IGNORECASE))
_OTHERS: Final = frozenset[ItemKind]({"fee", "wire", "boleto"})
_ORDERED: Final = frozenset[BlockKind]({"judicial", "administrative"})
BACK_WITHIN: Final = timedelta(days=10)  # how long after an order a line may be its reversal
_INVESTED: Final = re.compile(
    r"\W*((D[EÉ]B|CR[EÉ]D)\w*\W+)?(APL\b|APLIC(?!ATIV)\w*|RESG\b|RESGATE|RES\W+APL|(BB\W+)?RENDE\W+F[AÁ]CIL)", re.IGNORECASE
)
_COST: Final = re.compile(
    r"\b(I\W*R|IRR?F|IOF|IMP(OSTOS?)?|TRIB\w*|TAR(IF\w*)?|TA?XA?S?|COME\W*COTAS|CUST\w*|COMISS\w*|CORRET\w*|MULTA|JUROS|DARF)\b",
    re.IGNORECASE,
)
"""Words for taxes and fees on an investment, whose lines may begin like those of the investment."""
_APPLIED: Final = re.compile(r"\W*((D[EÉ]B|CR[EÉ]D)\w*\W+)?APL", re.IGNORECASE)
_REDEEMED: Final = re.compile(r"\W*((D[EÉ]B|CR[EÉ]D)\w*\W+)?RES", re.IGNORECASE)
_YIELD_MAX: Final = 50
"""A redemption of up to 2 % more than the invested sum belongs to it, even if no balance proves its day."""
UNREAD_FOR: Final = timedelta(days=31)
"""A file that is missing for longer will not come: redemptions no longer wait for it."""
_DIGEST_LENGTH: Final = 48


class BlockOfAccount(Struct, frozen=True, kw_only=True):
    """A block whose money a line may take off the account, or return."""

    id: int
    holder_id: int
    kind: BlockKind
    held_cents: int  # its amount; for an ended block, what it had covered
    days: tuple[date, date] | None = None  # the first and the last day of an ended block
    debited_cents: int | None = None  # by the lines matched with it
    credited_cents: int = 0  # by further ones
    taken_cents: int = 0  # including returns that the institution made
    contested_cents: int = 0  # a contest's amount, which the institution may have debited before its decision
    end_to_end_id: str | None = None  # of the contested Pix

    def may_be(self, item: InstitutionItem) -> bool:
        """Whether a line is a debit or a return of such a block."""
        days = self.days or (item.day, item.day)
        is_return = item.direction == "IN" and self.debited_cents is not None
        is_then = is_return or days[0] - _APART <= item.day <= days[1] + _APART
        is_of_pix = item.end_to_end_id is None or item.end_to_end_id == self.end_to_end_id
        return is_then and is_of_pix and (item.kind == "judicial") == (self.kind in _ORDERED)

    @property
    def room_cents(self) -> int:
        """What is still to be debited."""
        gone_cents = self.taken_cents + self.credited_cents if self.days is None else 0
        return self.held_cents + gone_cents - (self.debited_cents or 0)

    def lacks(self, cents: int) -> bool:
        return cents in (self.room_cents, self.contested_cents - (self.debited_cents or 0))

    @property
    def left_cents(self) -> int:
        """What may still be credited."""
        return (self.debited_cents or 0) - self.taken_cents - self.credited_cents

    def rank_credit(self, cents: int) -> tuple[bool, bool]:
        """Put first what the institution has released, then what is left of a block."""
        released_cents = self.left_cents - (self.held_cents if self.days is None else 0)
        return released_cents != cents, self.left_cents != cents


def is_about_block(item: InstitutionItem) -> bool:
    word = None if item.kind in _OTHERS else _BLOCKED.search(item.text)
    return item.kind == "judicial" or (word is not None and not _PAID[item.direction].search(item.text, 0, word.start()))


def join_blocks(items: Iterable[InstitutionItem], blocks: Sequence[BlockOfAccount]) -> tuple[list[ItemJoin], set[str]]:
    """Match lines with blocks, oldest first; also return ids of other lines that may be of a block, so that they wait.

    Debits fill what a block lacks exactly, one or several together; credits return it in parts.
    """
    joins: list[ItemJoin] = []
    waiting, known = dict[str, InstitutionItem](), {block.id: block for block in blocks}

    def join(item: InstitutionItem, block: BlockOfAccount) -> None:
        is_credit, cents = item.direction == "IN", item.amount_cents
        joins.append(ItemJoin(item_id=item.item_id, key=("block", block.id), by="amount", is_reversal=is_credit))
        debited_cents, credited_cents = block.debited_cents or 0, block.credited_cents
        moved = (debited_cents, credited_cents + cents) if is_credit else (debited_cents + cents, credited_cents)
        known[block.id] = structs.replace(block, debited_cents=moved[0], credited_cents=moved[1])

    about = sorted(filter(is_about_block, items), key=lambda one: (one.day, one.direction == "IN", one.item_id))
    for number, item in enumerate(about):
        own = [block for block in known.values() if block.may_be(item)]
        fitting = _fit_debit(item, own) if item.direction == "OUT" else _fit_credit(item.amount_cents, own, known.values())
        # Equal lines are interchangeable: of several holders' blocks each must have one.
        if len({block.holder_id for block in fitting}) > 1:
            equal = [one for one in about[number:] if one.signed_cents == item.signed_cents]
            is_enough = sum(all(each.may_be(one) for each in fitting) for one in equal) >= len(fitting)
            fitting = fitting if is_enough else []
        if fitting:
            join(item, fitting[0])
        elif own:
            waiting[item.item_id] = item
    for block in blocks:
        parts = [one for one in waiting.values() if one.direction == "OUT" and block.may_be(one)]
        cents = sum(one.amount_cents for one in parts)
        fitting = [each for each in known.values() if parts and each.lacks(cents) and all(each.may_be(one) for one in parts)]
        if known[block.id] in fitting and len({each.holder_id for each in fitting}) == 1:
            for item in parts:
                join(waiting.pop(item.item_id), known[block.id])
    return joins, {*waiting}


def _fit_debit(item: InstitutionItem, own: Sequence[BlockOfAccount]) -> list[BlockOfAccount]:
    whole = [block for block in own if block.lacks(item.amount_cents)]
    # Its Pix shows that a smaller debit is a part.
    return whole or [block for block in own if item.end_to_end_id and item.amount_cents < block.room_cents]


def _fit_credit(cents: int, own: Sequence[BlockOfAccount], every: Collection[BlockOfAccount]) -> list[BlockOfAccount]:
    ranks = {block.id: block.rank_credit(cents) for block in own if cents <= block.left_cents}
    best = min(ranks.values(), default=None)
    # The debit of another block, of which this is no mere part, may be read later.
    if best == (True, True) and any(block.debited_cents is None and block.lacks(cents) for block in every):
        return []
    return [block for block in own if ranks.get(block.id, ()) == best]


def name_kept(item_id: str) -> str:
    """Name the movement of a debit's remainder that was not returned, after a part of it was returned to payers."""
    return KEPT_PREFIX + _digest(item_id)


def is_nameless_reversal(item: InstitutionItem) -> bool:
    return item.kind == "reversal" and item.direction == "IN" and not item.names


def join_reversals(
    items: Sequence[InstitutionItem], orders: Sequence[BookLine], debited: Collection[LineKey]
) -> list[ItemJoin]:
    """Match nameless reversals, and the debits that they return, with orders that failed.

    Args:
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
        out = [item for item in items if item.direction == "OUT" and item.amount_cents == cents]
        for item in out:
            named = next((order for order in alone if is_failed_debit(item, order)), None)
            if named is not None:
                alone.remove(named)
                free.append(named)
                joins.append(ItemJoin(item_id=item.item_id, key=named.key, by="name"))
        pending = [one for one in orders if one.state == "open" and one.amount_cents == cents and one.key not in debited]
        since = min((one.ordered_on for one in pending), default=date.max)
        # One that an open order may have is no failed order's yet.
        debits = [item for item in out if not item.names and item.kind not in NO_PIX and item.day < since]
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


def is_failed_debit(item: InstitutionItem, line: BookLine) -> bool:
    """Whether a line is the debit of an order that failed, by its names; many name only the returned payment of a return."""
    is_named = any(name in line.names for name in item.names)
    is_named |= item.return_id is None and item.end_to_end_id in line.original
    return line.state == "failed" and is_named and fits(item, line)


def may_return(item: InstitutionItem, days: Collection[date]) -> bool:
    """Whether a nameless credit that is called no Pix may give back a failed order's debit of its amount on such a day."""
    is_other = item.direction == "OUT" or item.kind in NO_PIX | PIX or is_own_investment(item) or bool(item.names)
    return not is_other and any(day <= item.day <= day + BACK_WITHIN for day in days)


def gives_back(item: InstitutionItem) -> bool:
    return item.direction == "IN" and (item.kind != "fee" if item.names else item.kind == "reversal" or item.kind in NO_PIX)


def is_given_back(item: InstitutionItem, back: InstitutionItem) -> bool:
    """Whether a credit may give back a debit: by a name, or if one lacks it by its amount and day, and by what it is called."""
    if item.direction == "IN" or (back.names and (item.names or back.kind != "reversal")):
        return item.direction == "OUT" and not {*back.names}.isdisjoint(item.names)
    is_so_called = item.kind == back.kind or (
        back.kind == "reversal" and (item.kind not in NO_PIX or "PIX" not in back.text.upper())
    )
    return is_so_called and item.amount_cents == back.amount_cents and item.day <= back.day <= item.day + BACK_WITHIN


def is_within(item: InstitutionItem, order: BookLine) -> bool:
    """Whether a line comes soon enough after an order of its amount to be its reversal."""
    return item.amount_cents == order.amount_cents and order.day <= item.day <= order.day + BACK_WITHIN


def may_give_back(item: InstitutionItem, order: BookLine, debited: Collection[LineKey], whole: Collection[date]) -> bool:
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


def is_own_investment(item: InstitutionItem) -> bool:
    """Whether a line's own words call it an application or a redemption, and no cost, and it names no other party."""
    is_nameless = not item.names and item.tax_id is None and item.counterparty in (None, item.text)
    is_cost = item.direction == "OUT" and _COST.search(item.text) is not None
    return is_nameless and item.kind == "other" and _INVESTED.match(item.text) is not None and not is_cost


def waits_for_file(item: RecordedItem) -> bool:
    """Whether an earlier day, which may have its application, has no whole statement."""
    return item.waits == "not_yet_read" and is_own_investment(item)


def is_contrary_investment(item: InstitutionItem) -> bool:
    """Whether an own investment's words and direction disagree: it may correct another line, or give a cost back."""
    if item.direction == "OUT":
        return _REDEEMED.match(item.text) is not None
    return _APPLIED.match(item.text) is not None or _COST.search(item.text) is not None


def find_stated_change(item: InstitutionItem, *, has_investments: bool) -> int | None:
    """Return what a line changes of the reported balances; ``None`` if that is unknown before it is posted.

    Args:
        has_investments: The balances include the account's investments: of a redemption only its yield changes them.
    """
    if not has_investments or not is_own_investment(item):
        return item.signed_cents
    return None if item.direction == "IN" or is_contrary_investment(item) else 0


def sum_stated_changes(items: Iterable[InstitutionItem], *, has_investments: bool) -> int | None:
    moved = 0
    for item in items:
        cents = find_stated_change(item, has_investments=has_investments)
        if cents is None:
            return None
        moved += cents
    return moved


def plan_investments(
    items: Collection[InstitutionItem],
    invested: Sequence[tuple[date, str, int]],
    unread_on: date,
    unread: Collection[date],
    proved: Collection[date],
    yielded: Mapping[str, int] = {},
) -> dict[str, int | Waiting]:
    """Return how much each line moves the invested sum, by its id, or why it waits.

    Args:
        invested: What matched lines moved: their day, direction and principal.
        unread_on: The first day that may lack lines: without its application, a redemption after it looks like yield.
        unread: All such days, also of files that will not come: money invested on them may be redeemed at any time.
        proved: Days whose balances follow from those before them. Then a redemption beyond the invested sum is yield, or money
            that was invested before the books began.
        yielded: Yields of some lines that were already posted: a run that died afterwards has not matched them.
    """
    plan, redeemed_on = _Plan(invested), max((on for on, direction, _ in invested if direction == "IN"), default=date.min)
    plan.planned |= {one.item_id: "could_be_ours" for one in items if is_contrary_investment(one)}
    for one in items:
        if one.item_id in yielded:
            plan.move(one, one.amount_cents - yielded[one.item_id])
    left = sorted((one for one in items if one.item_id not in plan.planned), key=lambda one: (one.day, one.item_id))
    for day, group in groupby(left, lambda one: one.day):
        of_day = list(group)
        redeemed = [one for one in of_day if one.direction == "IN"]
        if day > unread_on:
            plan.planned |= dict.fromkeys((one.item_id for one in redeemed), "not_yet_read")
            redeemed = []
        # Money invested on the day before returns in the morning; money invested in the evening may return too.
        redeemed = [one for one in redeemed if not plan.redeem(one, is_late=False)]
        for one in of_day:
            if one.direction == "OUT":
                plan.move(one, one.amount_cents)
        before = [one for one in unread if one < day]
        is_first = any(count_business_days(one, day - timedelta(days=1)) == 0 for one in before)
        for one in [one for one in redeemed if is_first or not plan.redeem(one, is_late=True)]:
            if day in proved and not before and day >= redeemed_on:
                plan.move(one, plan.find_free((day, True)))
            else:
                plan.planned[one.item_id] = "could_be_ours"
    return plan.planned


class _Plan:
    def __init__(self, invested: Iterable[tuple[date, str, int]]) -> None:
        self.planned: dict[str, int | Waiting] = {}
        # Of each day, first what was redeemed, then what was applied.
        self._moved = Counter[tuple[date, bool]]()
        for day, direction, cents in invested:
            self._moved[day, direction == "OUT"] += cents if direction == "OUT" else -cents

    def move(self, one: InstitutionItem, cents: int) -> None:
        self.planned[one.item_id] = cents
        self._moved[one.day, one.direction == "OUT"] += cents if one.direction == "OUT" else -cents

    def find_free(self, at: tuple[date, bool]) -> int:
        """Return what is invested in a day's morning or evening, and has not been redeemed later."""
        cents = sum(cents for key, cents in self._moved.items() if key <= at)
        keys = [at, *sorted(key for key in self._moved if key > at)]
        levels = zip(keys, accumulate((self._moved[key] for key in keys[1:]), initial=cents), strict=True)
        # What is below zero in a morning was redeemed in the evening.
        return max(min(level for key, level in levels if key == at or key[1] or level >= 0), 0)

    def redeem(self, one: InstitutionItem, *, is_late: bool) -> bool:
        free_cents = self.find_free((one.day, is_late))
        if one.amount_cents > free_cents + free_cents // _YIELD_MAX:
            return False
        self.move(one, min(one.amount_cents, free_cents))
        return True


def name_yield(item_id: str) -> str:
    """Name the movement of a redemption's surplus over the position."""
    return YIELD_PREFIX + _digest(item_id)


def _digest(item_id: str) -> str:
    return hashlib.sha256(item_id.encode()).hexdigest()[:_DIGEST_LENGTH]
