"""Matches lines of an institution's statement with transfers, refunds and movements here, and treats the rest.

Network names decide first. Items without a name are matched by properties that only one item and one line share; and if there
are no more items than lines of one direction, amount and day, any pairing has the same sums. An item with a name is never
matched by resemblance to another record, and one that may be ours is never a movement: it waits, and is listed.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Final, Literal

from msgspec import Struct

from pixconnect.features.institutions.rules.institution import InstitutionItem, ItemSource
from pixconnect.features.institutions.rules.sum_line import LoneSum, count_parts, is_one_of, is_sum, may_be_sum, read_form
from pixconnect.kernel.rules.identifiers import is_end_to_end_id, is_return_id
from pixconnect.platform.base.clock import to_day

DAYS_APART_MAX: Final = 4  # institutions book facts of a weekend or holiday on the next banking day
MOVEMENT_ID_LENGTH_MAX: Final = 64
LineKey = tuple[Literal["transfer", "refund", "movement", "sum", "investment", "block"], int | str]
_Mark = Callable[["InstitutionItem | BookLine"], Hashable | None]
JoinedBy = Literal["name", "instant", "tax_id", "counterparty", "amount", "alike", "near", "sum", "words", "answer"]
Waiting = Literal[
    "announced", "balance_line", "perhaps_balance", "same_line", "perhaps_known", "contradicts", "changed", "withdrawn",
    "struck", "perhaps_struck", "perhaps_back", "perhaps_text", "no_money", "separated", "order_unknown", "could_be_ours",
    "not_yet_read", "day_not_over", "opening_day", "before_opening",
]  # fmt: skip
"""Why an item is neither matched nor a movement; ``outcome.OUTCOMES`` explains each."""
NO_PIX: Final = frozenset[str]({"fee", "wire", "boleto", "judicial", "opening_balance"})  # kinds that are never Pix
PIX: Final = frozenset[str]({"pix", "refund"})  # kinds that the institution calls a Pix

OPENING_PREFIX: Final = "opening-balance:"
CLOSING_PREFIX: Final = "closing-balance:"
YIELD_PREFIX: Final = "yield:"
KEPT_PREFIX: Final = "kept:"


class BookLine(Struct, frozen=True, kw_only=True):
    """A transfer, refund or movement here, in the form expected on the institution's statement."""

    key: LineKey
    holder_id: int
    direction: Literal["IN", "OUT"]
    amount_cents: int
    day: date  # in Sao Paulo, by the network's instant if reported
    made_at: datetime | None = None  # its order or, if earlier, its settlement: the institution may have debited it since
    settled_at: datetime | None
    names: tuple[str, ...]  # ours and the network's; for a movement the institution's id of its item
    original: tuple[str, ...] = ()  # for a refund, the names of the returned payment
    tax_id: str | None = None
    counterparty: str | None = None
    state: Literal["settled", "open", "failed"]
    """For a failed order the institution may have a debit and its reversal, joined together, and for an open one a debit."""

    @property
    def signed_cents(self) -> int:
        return self.amount_cents if self.direction == "IN" else -self.amount_cents

    @property
    def is_order(self) -> bool:
        return self.direction == "OUT" and self.key[0] != "movement"

    @property
    def ordered_on(self) -> date:
        return to_day(self.made_at) if self.is_order and self.made_at is not None else self.day


class ItemJoin(Struct, frozen=True, kw_only=True):
    item_id: str
    key: LineKey
    by: JoinedBy
    is_reversal: bool = False  # it returns the institution's debit for an order that failed
    parts: tuple[LineKey, ...] = ()
    """For a sum: its transfers and refunds. Its key has its own id."""


class Joined(Struct, frozen=True, kw_only=True):
    joins: tuple[ItemJoin, ...]
    fees: dict[str, LineKey]  # the transfer or refund that a fee was charged for


class RecordedItem(InstitutionItem, frozen=True, kw_only=True):
    institution_id: int
    source: ItemSource
    recorded_at: datetime
    joined_kind: Literal["transfer", "refund", "movement", "sum", "investment", "block"] | None = None
    joined_id: str | None = None
    joined_by: JoinedBy | None = None
    is_reversal: bool = False
    fee_of_kind: Literal["transfer", "refund"] | None = None
    fee_of_id: str | None = None
    waits: Waiting | None = None


class _Pairing:
    """Unmatched items and lines; each pair removes both."""

    def __init__(self, items: Iterable[InstitutionItem], lines: Iterable[BookLine]) -> None:
        # By id, so that the order in a file changes nothing.
        self.items = {item.item_id: item for item in sorted(items, key=lambda item: item.item_id)}
        self.lines = {line.key: line for line in sorted(lines, key=lambda line: (line.key[0], str(line.key[1])))}
        self.joins: list[ItemJoin] = []
        self.summed = set[tuple[str, date]]()  # days with a line that sums several

    def join(self, item: InstitutionItem, line: BookLine, by: JoinedBy) -> None:
        del self.items[item.item_id], self.lines[line.key]
        self.joins.append(ItemJoin(item_id=item.item_id, key=line.key, by=by))

    def join_sum(self, item: InstitutionItem, parts: Sequence[LineKey]) -> None:
        del self.items[item.item_id]
        for key in parts:
            del self.lines[key]
        self.joins.append(join_sum(item, parts))


def join_items(
    items: Collection[InstitutionItem],
    lines: Collection[BookLine],
    debited: Collection[LineKey] = (),
    proved: Collection[date] = (),
    sum_forms: Collection[str] = (),
) -> Joined:
    """Match each item with at most one line, and each line with at most one item and one reversal.

    Args:
        lines: The unmatched ones, and orders whose debit may have been reversed.
        debited: Orders among them that another item is matched to already.
        proved: Days that two balances prove: a payment that such a day lacks may be an item of a later one.
        sum_forms: Texts of sums, as ``read_form`` reads them, of which a person has matched one before.
    """
    # Without a line that gives it back, the debit of an order that failed is a question.
    back = find_given_back(items, lines)
    pairing = _Pairing(items, (one for one in lines if one.key not in debited and (one.state != "failed" or one.key in back)))
    _join_names(pairing)
    reversals = _join_reversals(pairing, lines, {*debited, *(join.key for join in pairing.joins)})
    _join_parts(pairing)
    _join_named_sums(pairing)
    totals = sum_lone(pairing.lines.values()) if sum_forms else set[LoneSum]()
    for item in [one for one in pairing.items.values() if read_form(one.text) in sum_forms]:
        if is_one_of(item, totals) and (parts := find_parts(item, pairing.lines.values())):
            pairing.join_sum(item, parts)
    pairing.summed = {(item.direction, item.day) for item in pairing.items.values() if is_sum(item)}
    _join_alike(pairing, "instant", lambda one: one.settled_at and one.settled_at.replace(microsecond=0))
    _join_alike(pairing, "tax_id", lambda one: one.tax_id and (one.day, one.tax_id))
    _join_alike(pairing, "counterparty", lambda one: one.counterparty and (one.day, one.counterparty.casefold()))
    # Items that the institution calls a Pix precede those that share only the amount.
    for only_pix in (True, False):
        pairing.summed |= set() if only_pix else _list_lots(pairing)
        _join_debited(pairing, only_pix=only_pix)
        _join_alike(pairing, "amount", lambda one: one.day, only_pix=only_pix)
        _join_same(pairing, only_pix=only_pix)
        _join_near(pairing, proved, only_pix=only_pix)
    named = _index(lines, lambda line: (*line.names, *line.original))
    ordered = {join.item_id for join in pairing.joins if join.key[0] != "movement"}
    return Joined(
        joins=(*pairing.joins, *reversals),
        fees={
            item.item_id: named[name][0].key
            for item in items
            if item.kind == "fee" and item.item_id not in ordered
            for name in item.names[:1]
            if name in named
        },
    )


def _index(lines: Iterable[BookLine], names_of: Callable[[BookLine], Iterable[str]]) -> defaultdict[str, list[BookLine]]:
    found = defaultdict[str, list[BookLine]](list)
    for line in lines:
        for name in dict.fromkeys(names_of(line)):
            found[name].append(line)
    return found


def _join_names(pairing: _Pairing) -> None:
    by_name = _index(pairing.lines.values(), lambda line: line.names)
    by_original = _index(pairing.lines.values(), lambda line: line.original)
    for item in sorted(pairing.items.values(), key=lambda item: item.kind in NO_PIX):
        # A movement matches its very item. For other lines the name decides: words for a kind may be a payer's.
        candidates = [*by_name[make_movement_id(item.item_id)], *(line for name in item.names for line in by_name[name])]
        # Many name only the returned payment of a return.
        if not may_be_fee(item) and item.return_id is None:
            own = [line for name in item.names for line in by_original[name] if line.key in pairing.lines and fits(item, line)]
            candidates += own if len(own) == 1 else []
        line = next((line for line in candidates if line.key in pairing.lines and fits(item, line)), None)
        if line is not None:
            # An item called a fee yields to another line with the same name.
            pairing.join(item, line, "amount" if may_be_fee(item) and line.key[0] != "movement" else "name")


def _join_named_sums(pairing: _Pairing) -> None:
    """Match sums with the transfers and refunds that they name, if these are all and have the amount."""
    settled = (line for line in pairing.lines.values() if line.state == "settled" and line.key[0] != "movement")
    by_name = _index(settled, lambda line: line.names)
    for item in list(pairing.items.values()):
        names = () if item.parts is None else item.parts.names
        named = {line.key: line for name in names for line in by_name[name]}
        lines = [line for line in named.values() if line.key in pairing.lines and line.direction == item.direction]
        if names and count_parts(item) == len(lines) and sum(line.amount_cents for line in lines) == item.amount_cents:
            pairing.join_sum(item, [line.key for line in lines])


def _join_parts(pairing: _Pairing) -> None:
    """Match as many returns of one Pix and one amount as there are lines: an item names only the Pix."""
    settled = _index((line for line in pairing.lines.values() if line.state == "settled"), lambda line: line.original)
    groups = defaultdict[Hashable, list[InstitutionItem]](list)
    for item in pairing.items.values():
        if not may_be_fee(item) and item.return_id is None:
            groups[item.end_to_end_id, item.direction, item.amount_cents].append(item)
    for items in groups.values():
        named = settled[items[0].end_to_end_id or ""]
        lines = [line for line in named if line.key in pairing.lines and fits(items[0], line)]
        if len(items) == len(lines):
            lines.sort(key=lambda line: (line.day, str(line.key[1])))
            for item, line in zip(sorted(items, key=lambda item: (item.day, item.item_id)), lines, strict=True):
                pairing.join(item, line, "name")


def may_be_fee(item: InstitutionItem) -> bool:
    """Whether an item may be a fee for the Pix that it names, and not that Pix."""
    return item.kind == "fee" and item.direction == "OUT"


def fits(item: InstitutionItem, line: BookLine) -> bool:
    return (item.direction, item.amount_cents) == (line.direction, line.amount_cents)


def find_given_back(items: Iterable[InstitutionItem], lines: Iterable[BookLine]) -> set[LineKey]:
    """Find the failed orders that a credit of their amount names."""
    back = {(name, item.amount_cents) for item in items if item.direction == "IN" for name in item.names}
    return {one.key for one in lines if one.state == "failed" and any((name, one.amount_cents) in back for name in one.names)}


def _join_reversals(pairing: _Pairing, lines: Collection[BookLine], debited: set[LineKey]) -> list[ItemJoin]:
    """Match the reversal of an order's debit: the two cancel, and the order has moved nothing."""
    failed = _index((line for line in lines if line.is_order and line.state == "failed"), lambda line: line.names)
    reversed_keys = set[LineKey]()
    found: list[ItemJoin] = []
    for item in list(pairing.items.values()):
        for line in (line for name in item.names for line in failed[name]) if item.direction == "IN" else ():
            if line.key in debited - reversed_keys and line.amount_cents == item.amount_cents:
                reversed_keys.add(line.key)
                del pairing.items[item.item_id]
                found.append(ItemJoin(item_id=item.item_id, key=line.key, by="name", is_reversal=True))
                break
    return found


def _group(pairing: _Pairing, mark_of: _Mark, *, only_pix: bool = False) -> list[tuple[list[InstitutionItem], list[BookLine]]]:
    """Group items and lines alike in direction, amount and a mark, if both have it."""
    groups = defaultdict[Hashable, tuple[list[InstitutionItem], list[BookLine]]](lambda: ([], []))
    for item in pairing.items.values():
        is_wanted = item.kind in PIX if only_pix else item.kind not in NO_PIX
        if is_wanted and not item.names and not is_sum(item) and (mark := mark_of(item)) is not None:
            groups[item.direction, item.amount_cents, mark][0].append(item)
    for line in pairing.lines.values():
        is_wanted = line.state == "settled" and line.key[0] != "movement"
        # A payment of a day with a sum belongs to the sum: only a Pix of that day can take it out.
        is_wanted &= only_pix or (line.direction, line.day) not in pairing.summed
        if is_wanted and (mark := mark_of(line)) is not None:
            groups[line.direction, line.amount_cents, mark][1].append(line)
    return [group for group in groups.values() if all(group)]


def sum_lone(lines: Iterable[BookLine]) -> set[LoneSum]:
    """Sum the unmatched transfers, refunds and both of each day and direction, where there are several."""
    groups = defaultdict[tuple[str, date, str], list[int]](list)
    for line in lines:
        for kind in (line.key[0], "") if line.state == "settled" and line.key[0] != "movement" else ():
            groups[line.direction, line.day, kind].append(line.amount_cents)
    return {(direction, day, sum(amounts)) for (direction, day, _), amounts in groups.items() if len(amounts) > 1}


def _list_lots(pairing: _Pairing) -> set[tuple[str, date]]:
    """List days with a line that may be the sum of all that is left of them, in other words."""
    totals = sum_lone(pairing.lines.values())
    able = [one for one in pairing.items.values() if one.kind == "other" and may_be_sum(one)]
    return {(one.direction, one.day) for one in able if is_one_of(one, totals)}


def find_parts(item: InstitutionItem, lines: Iterable[BookLine]) -> tuple[LineKey, ...]:
    """Find the parts of a sum: all unmatched Pix of its day and direction, if they have its amount and its count."""
    own = list_parts(item, lines, item.amount_cents)
    is_whole = sum(line.amount_cents for line in own) == item.amount_cents
    return tuple(line.key for line in own) if is_whole and len(own) > 1 and count_parts(item) in (None, len(own)) else ()


def list_parts(item: InstitutionItem, lines: Iterable[BookLine], cents: int) -> list[BookLine]:
    """List the transfers and refunds of which lines with these cents may be the sums; only one kind, if that has the cents."""
    own = [line for line in lines if line.state == "settled" and (line.direction, line.day) == (item.direction, item.day)]
    own = [line for line in own if line.key[0] != "movement"] if is_sum(item) or may_be_sum(item) else []
    kinds = [[line for line in own if line.key[0] == kind] for kind in ("transfer", "refund")]
    fitting = [some for some in (own, *kinds) if len(some) > 1 and sum(line.amount_cents for line in some) == cents]
    return fitting[0] if fitting else own


def join_sum(item: InstitutionItem, parts: Sequence[LineKey]) -> ItemJoin:
    return ItemJoin(item_id=item.item_id, key=("sum", item.item_id), by="sum", parts=tuple(parts))


def _join_alike(pairing: _Pairing, by: JoinedBy, mark_of: _Mark, *, only_pix: bool = False) -> None:
    for items, lines in _group(pairing, mark_of, only_pix=only_pix):
        if len(items) == len(lines) == 1 and _agree(items[0], lines[0]):
            pairing.join(items[0], lines[0], by)


def _agree(item: InstitutionItem, line: BookLine) -> bool:
    """Whether no two tax ids, one of each, contradict each other."""
    return len(_whole_tax_ids((item, line))) < 2


def _whole_tax_ids(lines: Iterable[InstitutionItem | BookLine]) -> set[str]:
    return {one.tax_id for one in lines if one.tax_id is not None and one.tax_id.isalnum()}


def _join_same(pairing: _Pairing, *, only_pix: bool) -> None:
    """Match items of one direction, amount and day with as many lines or more, in the order of their instants.

    It is unknown which of equal lines lacks its item, and irrelevant to any sum: one of them is left.
    """
    for items, lines in _group(pairing, lambda one: one.day, only_pix=only_pix):
        items.sort(key=lambda item: (item.settled_at is None, item.settled_at, item.item_id))
        lines.sort(key=lambda line: (line.settled_at is None, line.settled_at, str(line.key[1])))
        tax_ids = _whole_tax_ids(items), _whole_tax_ids(lines)
        if len(items) <= len(lines) and (not all(tax_ids) or len(tax_ids[0] | tax_ids[1]) == 1):
            for item, line in zip(items, lines, strict=False):
                pairing.join(item, line, "alike")


def _join_near(pairing: _Pairing, proved: Collection[date], *, only_pix: bool) -> None:
    """Match the only item and line of a direction and amount, if the line's day lacks it and the item follows soon."""
    for items, lines in _group(pairing, lambda _: "", only_pix=only_pix):
        item, line = items[0], lines[0]
        is_late = line.day in proved and line.day <= item.day and (line.direction, line.day) not in pairing.summed
        if len(items) == len(lines) == 1 and is_late and _agree(item, line) and are_near(item, line):
            pairing.join(item, line, "near")


def _join_debited(pairing: _Pairing, *, only_pix: bool) -> None:
    """Match the items of a day, beyond its own orders, with those made by that day that settled next."""
    for items, lines in _group(pairing, lambda _: "", only_pix=only_pix):
        # The one made last, of several: the others may have an earlier line, which is not read yet.
        lines.sort(key=lambda line: (line.day, date.max - line.ordered_on))
        for day in sorted({item.day for item in items}):
            alike = [item for item in items if item.day == day]
            orders = [line for line in lines if line.key in pairing.lines and line.ordered_on <= day <= line.day]
            pairs = [(item, line) for item, line in zip(alike, orders, strict=False) if line.day > day]
            for item, line in pairs if all(_agree(item, line) for item, line in pairs) else ():
                pairing.join(item, line, "near")


def list_looks(items: Iterable[InstitutionItem]) -> set[tuple[date, str, int]]:
    """List items without names that are called a Pix: other kinds that resemble these yield to them.

    A Pix out may be listed some days late. One that comes in late may be another, which is not read yet.
    """
    return {
        (item.day - timedelta(days=late), item.direction, item.amount_cents)
        for item in items
        if item.kind in PIX and not item.names and not is_sum(item)
        for late in range(DAYS_APART_MAX + 1 if item.direction == "OUT" else 1)
    }


def find_claimed(
    items: Iterable[InstitutionItem], lines: Iterable[BookLine], alike: Mapping[LineKey, InstitutionItem]
) -> set[LineKey]:
    """Find lines that some item names; the item in ``alike`` that only resembles one of these is something else.

    A name may be a payer's word: a Pix of the line's very day gives way only to an item of that day.
    """
    by_name = _index(lines, lambda line: line.names)
    return {
        line.key
        for item in items
        if not may_be_fee(item)
        for name in (item.names if item.parts is None else item.parts.names)
        for line in by_name[name]
        if line.key[0] != "movement"
        and (fits(item, line) or item.parts is not None)
        and (item.day == line.day or alike[line.key].kind not in PIX or alike[line.key].day != line.day)
    }


def are_near(item: InstitutionItem, line: BookLine) -> bool:
    return abs(item.day - line.day) <= timedelta(days=DAYS_APART_MAX)


def make_movement_id(item_id: str) -> str:
    """Return the name of the item's movement: its own, or a digest if it is too long or is like our own names."""
    is_like_ours = item_id.startswith((OPENING_PREFIX, CLOSING_PREFIX, YIELD_PREFIX, KEPT_PREFIX))
    is_like_ours |= is_end_to_end_id(item_id) or is_return_id(item_id)  # some banks give a Pix's fee its name as id
    return hashlib.sha256(item_id.encode()).hexdigest() if is_like_ours or len(item_id) > MOVEMENT_ID_LENGTH_MAX else item_id
