"""Unmatched credits and lines: a line waits or is a movement, and a Pix without a charge may be given back.

Automatic returns happen only if the account's option ``give_back`` is *always*.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Final, Literal, NamedTuple, get_args

from msgspec import Struct, structs

from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.day import is_over
from pixconnect.features.institutions.rules.institution import InstitutionItem, ItemKind
from pixconnect.features.institutions.rules.joining import (
    DAYS_APART_MAX,
    NO_PIX,
    PIX,
    BookLine,
    ItemJoin,
    Waiting,
    join_sum,
    list_parts,
)
from pixconnect.features.institutions.rules.special_line import may_return
from pixconnect.features.institutions.rules.sum_line import (
    LoneSum,
    choose_parts,
    count_parts,
    is_sum,
    mark_parts,
    may_be_sum,
    read_form,
)
from pixconnect.kernel.rules.rail import MovementKind
from pixconnect.kernel.rules.refund import NewRefund, RefundRequest, plan_automatic_refund
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.platform.base import errors

_MOVEMENT_KINDS: Final[dict[ItemKind, MovementKind]] = {
    "pix": "by_hand", "by_hand": "by_hand", "refund": "reversal", "reversal": "reversal",
    "fee": "fee", "wire": "wire", "boleto": "boleto", "judicial": "judicial",
}  # fmt: skip
"""Of the remainder: a Pix that left the account without an order here was sent by hand at the institution."""

_RETURNS_READ_WITHIN: Final = timedelta(days=3)


class BookedLine(NamedTuple):
    """What a statement may list for a record here."""

    direction: Literal["IN", "OUT"]
    least_cents: int
    most_cents: int

    def fits(self, item: InstitutionItem) -> bool:
        return self.direction == item.direction and self.least_cents <= item.amount_cents <= self.most_cents


class OpenAmounts(Struct, frozen=True, kw_only=True):
    """The facts for judging items beside the lines: pending orders, and the beginning of the books."""

    open_since: Mapping[int, date] = {}
    """Amounts of open orders and refunds, with the day of the first: the institution may have debited it since."""
    unnamed_cents: frozenset[int]  # of those without a known network name
    our_names: frozenset[str]
    """Network names of items that a transfer or refund here has, regardless of day, amount and side."""
    begins_at: datetime  # the opening balance's instant: the balance includes everything before it
    begins_on: date
    today: date
    read_until: datetime | None  # all Pix that came in before it are recorded; ``None`` before the first reading
    booked: Mapping[str, Collection[BookedLine]] = {}
    """By network name, the lines that its records here have, or may still have."""
    taken: Mapping[int, Collection[date]] = {}
    """By amount, the days of debits that name an order which failed: nothing has given them back."""
    reversible: frozenset[tuple[ItemKind, str, int]] = frozenset()
    """Of credits that may return a fee, or a Pix that a person sent at the institution: their kind, name and cents."""


class UnmatchedItem(Struct, frozen=True, kw_only=True):
    item: InstitutionItem
    waits: Waiting | None
    kind: MovementKind


class LeftLines:
    """Our unmatched lines, by the properties that an item may share with them; any item may, if some are not listed."""

    def __init__(self, lines: Iterable[BookLine], *, is_cut: bool = False) -> None:
        self._is_cut = is_cut
        # By when each was made, with the latest day of the lines made until then.
        self._spans = defaultdict[tuple[str, int | None], list[tuple[date, date]]](list)
        for line in sorted(lines, key=lambda line: line.ordered_on):
            for cents in (line.amount_cents, None):
                spans = self._spans[line.direction, cents]
                spans.append((line.ordered_on, max(line.day, spans[-1][1]) if spans else line.day))

    def has_near(self, item: InstitutionItem) -> bool:
        """Whether a line is near the item's day, of its direction and amount; for a sum, of any amount.

        An order is near from the day on which it was made to the day on which it settled.
        """
        apart = timedelta(days=DAYS_APART_MAX)
        spans = self._spans.get((item.direction, None if is_sum(item) else item.amount_cents), [])
        count = bisect_right(spans, item.day + apart, key=lambda span: span[0])
        return self._is_cut or (count > 0 and spans[count - 1][1] >= item.day - apart)


def names_its_pix(item: InstitutionItem) -> bool:
    """Whether a line's names are its own, so that resemblances do not count; a fee, and its return, name another Pix."""
    return bool(item.names) and item.kind not in ("fee", "reversal")


def judge_left(item: InstitutionItem, lines_left: LeftLines, known: OpenAmounts) -> UnmatchedItem:
    """Judge a line that counts and is not matched to one of our records."""
    return structs.replace(count_as_movement(item), waits=_find_waiting(item, lines_left, known))


def count_as_movement(item: InstitutionItem) -> UnmatchedItem:
    return UnmatchedItem(item=item, waits=None, kind=_MOVEMENT_KINDS.get(item.kind, "other"))


def _find_waiting(item: InstitutionItem, lines_left: LeftLines, known: OpenAmounts) -> Waiting | None:
    if item.day < known.begins_on or (item.settled_at is not None and item.settled_at <= known.begins_at):
        return "before_opening"
    if item.day == known.begins_on and item.settled_at is None:
        return "opening_day"  # a day alone does not show whether the opening balance includes it
    is_ours = any(name in known.our_names for name in item.names)
    # Returns are read once a day.
    is_late = item.day <= known.today - _RETURNS_READ_WITHIN and _is_read(item, known.read_until)
    # A fee, and its return, name the Pix that it is charged for.
    if is_ours and item.kind != "fee":
        # A manual return, a second debit, another amount: a reading shows which, or an operator finds out.
        booked = [one for name in item.names for one in known.booked.get(name, ())]
        is_apart = bool(booked) and not any(one.fits(item) for one in booked)
        return "could_be_ours" if is_late and (is_apart or item.direction == "IN") else "not_yet_read"
    # Texts determine a kind, and people write texts: a line that may be ours waits, regardless of its kind.
    is_pix = item.kind in PIX
    # A line called a sum, and no Pix, may sum Pix that are not read yet.
    may_be_other = item.direction == "IN" and is_sum(item) and not is_pix
    may_be_other |= may_return(item, known.taken.get(item.amount_cents, ()))
    if may_be_other or _may_sum_orders(item, known) or (not names_its_pix(item) and lines_left.has_near(item)):
        return "could_be_ours"
    if item.direction == "IN":
        # A returned fee, or a failed Pix that a person sent at the institution: no reading will show it.
        is_back = any((item.kind, name, item.amount_cents) in known.reversible for name in item.names)
        # An incoming Pix is a credit, which the reading of received Pix records with its payer and its charge.
        if is_pix or (item.names and not is_back):
            # A fee or a reversal without a record here belongs to a manual transaction.
            is_theirs = item.kind in ("fee", "reversal") and _is_read(item, known.read_until)
            return "could_be_ours" if is_late or is_theirs else "not_yet_read"
        # Not every institution calls a Pix one: the next reading may show that it is.
        if item.day >= known.today or not _is_read(item, known.read_until):
            return "day_not_over" if item.day >= known.today else "not_yet_read"
    elif item.amount_cents in known.unnamed_cents or _may_be_order(item, known):
        return "order_unknown"
    return None


def _is_read(item: InstitutionItem, until: datetime | None) -> bool:
    """Whether the Pix that a line may be would be recorded by now."""
    if until is None:
        return False
    return is_over(item.day, until) if item.settled_at is None else item.settled_at < until


def _may_be_order(item: InstitutionItem, known: OpenAmounts) -> bool:
    """Whether a line without names may be an open order; one with names would have the order's."""
    since = known.open_since.get(item.amount_cents)
    return since is not None and since <= item.day and not item.names and item.kind not in NO_PIX


def _may_sum_orders(item: InstitutionItem, known: OpenAmounts) -> bool:
    """Whether a line sums outgoing money that may include open orders: only settled ones are matched."""
    if item.direction == "IN" or not is_sum(item):
        return False
    names = () if item.parts is None else item.parts.names
    is_named = not known.our_names.isdisjoint(names)
    is_open = any(cents < item.amount_cents and since <= item.day for cents, since in known.open_since.items())
    may_be_open = bool(known.unnamed_cents) or (is_open and not names)
    return (is_named and item.kind != "fee") or (may_be_open and item.kind not in NO_PIX)


# The outcomes of judging a statement line: whether it is money, and whether an operator has to decide.

Outcome = Literal["new", "known"] | Waiting


Answer = Literal["counts", "ours", "aside", "out"]
ANSWERS: Final[tuple[Answer, ...]] = get_args(Answer)


class OutcomeTraits(Struct, frozen=True):
    counts: bool  # the line moved money: it is in its day's sums, and is matched or posted
    asks: Literal["nobody", "later", "person"]  # only if no reading has explained it for a while
    answers: tuple[Answer, ...] = ()  # an operator's possible answers, executed by ``features/cases/service/answer.py``


OUTCOMES: Final[Mapping[Outcome, OutcomeTraits]] = {
    "new": OutcomeTraits(counts=True, asks="nobody"),
    "known": OutcomeTraits(counts=True, asks="nobody"),
    "changed": OutcomeTraits(counts=False, asks="person", answers=("counts", "aside")),
    "announced": OutcomeTraits(counts=False, asks="nobody"),
    "balance_line": OutcomeTraits(counts=False, asks="nobody"),
    "perhaps_balance": OutcomeTraits(counts=False, asks="person", answers=("counts", "aside")),
    "same_line": OutcomeTraits(counts=False, asks="nobody"),
    "perhaps_known": OutcomeTraits(counts=False, asks="person", answers=("counts", "aside")),
    "contradicts": OutcomeTraits(counts=False, asks="person", answers=("counts", "aside")),
    "withdrawn": OutcomeTraits(counts=False, asks="nobody"),
    # For lines that two operators remove, or have decided on.
    "perhaps_struck": OutcomeTraits(counts=True, asks="person", answers=("out",)),
    "struck": OutcomeTraits(counts=False, asks="nobody"),
    "perhaps_back": OutcomeTraits(counts=False, asks="person", answers=("counts", "aside")),
    "perhaps_text": OutcomeTraits(counts=True, asks="person", answers=("counts", "ours", "aside")),
    "no_money": OutcomeTraits(counts=False, asks="nobody"),
    "separated": OutcomeTraits(counts=True, asks="person", answers=("counts", "ours", "out")),
    # For unmatched lines that count: see ``unmatched.judge_left``.
    "before_opening": OutcomeTraits(counts=True, asks="nobody"),
    "opening_day": OutcomeTraits(counts=True, asks="person", answers=("counts", "aside")),
    "not_yet_read": OutcomeTraits(counts=True, asks="later", answers=("ours",)),
    "order_unknown": OutcomeTraits(counts=True, asks="person"),
    "could_be_ours": OutcomeTraits(counts=True, asks="person", answers=("counts", "ours")),
    "day_not_over": OutcomeTraits(counts=True, asks="later"),
}
"""docs/guides/reconcile.md explains each to operators."""
SET_ASIDE: Final = tuple(name for name, traits in OUTCOMES.items() if not traits.counts)
ASK_NOBODY: Final = tuple(name for name, traits in OUTCOMES.items() if traits.asks == "nobody")
ASKED: Final = tuple(name for name, traits in OUTCOMES.items() if traits.asks == "person")


def find_sums(items: Collection[InstitutionItem], lines: Collection[BookLine]) -> dict[str, ItemJoin]:
    """Match lines of one day that sum Pix, as a person says, if ``choose_parts`` finds which."""
    found = dict[str, ItemJoin]()
    for direction in ("IN", "OUT"):
        alike = [item for item in items if item.direction == direction and list_parts(item, lines, 0)]
        cents = sum(item.amount_cents for item in alike)
        parts = list_parts(alike[0], lines, cents) if alike else []
        # Lines that are not called sums only sum all parts together: another number in a text may count something else.
        is_whole = cents == sum(line.amount_cents for line in parts)
        uncounted = None if is_whole else len(parts)
        sums = [(item.amount_cents, count_parts(item) if is_sum(item) else uncounted) for item in alike]
        for item, places in zip(alike, choose_parts([line.amount_cents for line in parts], sums), strict=True):
            if places:
                found[item.item_id] = join_sum(item, [parts[place].key for place in places])
    return found


def hold_sums(left: Sequence[UnmatchedItem], lone: Collection[LoneSum], sum_forms: Collection[str]) -> list[UnmatchedItem]:
    """Let lines wait that, one or several of a day, have a sum of its ``lone`` Pix, or the text of an earlier sum."""
    able, sums = defaultdict[tuple[str, date], list[InstitutionItem]](list), set[str]()
    for one in left:
        if one.waits in (None, "could_be_ours") and one.item.kind not in NO_PIX and may_be_sum(one.item):
            able[one.item.direction, one.item.day].append(one.item)
    for direction, day, cents in lone:
        own = able[direction, day]
        small = [item for item in own if item.amount_cents <= cents]
        parts = mark_parts([item.amount_cents for item in small], cents)
        sums |= {item.item_id for item, is_part in zip(small, parts, strict=True) if is_part}
        sums |= {item.item_id for item in own if item.amount_cents == cents or read_form(item.text) in sum_forms}
    return [structs.replace(one, waits="could_be_ours") if one.item.item_id in sums else one for one in left]


class ReversedMovement(Struct, frozen=True, kw_only=True):
    """The movement of an institution's line that has proved to be a transfer or refund."""

    institution_id: int
    line_id: str  # the institution's id of the line
    holder_id: int
    item_id: str  # the movement, by our name of its item

    @property
    def key(self) -> tuple[int, str]:
        return self.holder_id, self.item_id


class CreditedItem(ReversedMovement, frozen=True, kw_only=True):
    """A nameless credit that is a movement, and may be a Pix."""

    day: date
    amount_cents: int


def find_credited(
    lines: Iterable[BookLine], items: Iterable[CreditedItem], whole: Collection[date]
) -> list[tuple[BookLine, CreditedItem]]:
    """Find the movements that were really these received Pix, which the institution listed after their lines.

    Several that look alike may each be something else, unless as many Pix of their day do.

    Args:
        whole: Days whose statement lists all lines: a Pix of such a day may be a line of a later one.
    """
    found = list[tuple[BookLine, CreditedItem]]()
    groups = defaultdict[tuple[date, int], list[BookLine]](list)
    for line in lines:
        groups[line.day, line.amount_cents].append(line)
    free = {item.line_id: item for item in items}
    for (day, cents), alike in sorted(groups.items(), reverse=True):
        near = [item for item in free.values() if item.amount_cents == cents and item.day == day]
        if not near and day in whole:
            near = [item for item in free.values() if item.amount_cents == cents]
            near = [item for item in near if day < item.day <= day + timedelta(days=DAYS_APART_MAX)]
        for line, item in zip(alike, near, strict=False) if len(near) <= len(alike) else ():
            found.append((line, free.pop(item.line_id)))
    return found


State = Literal["waiting", "made", "not_made"]
REASON: Final = "MD06"
AGAIN_AFTER: Final = timedelta(minutes=1)
_AGAIN_AFTER_MAX: Final = timedelta(hours=1)
_PASSING: Final = (errors.RefundInfractionOpen, errors.HolderBlocked, errors.LimitExceeded, errors.InsufficientFunds)
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
    given_back: State | None  # ``None`` if the account returns nothing automatically
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
