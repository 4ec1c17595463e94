"""How a day of an account closes: opening + the institution's items = closing, and each item has its line here.

::

    open ──► provisional ──► closed | closed_with_cases
      ▲                              │ a late item, a balance that changes
      └──────────────────────────────┘

*Open*: nothing shows the whole day, or its balances and items disagree. *Provisional*: nothing disagrees, but the day is not
over, was not over at its reading, or is not proved. *Closed with cases*: it is proved, but something is unmatched.

A day is proved between two reported balances, one at its beginning or before and one at its end or after, if the items of all
days between them turn the one into the other. A balance computed from the items proves nothing about them. Days without a
statement are proved too if their recorded items, or none, turn the balance before them into the one after them.

Two forms of a day's statement, such as an OFX and a camt.053, are compared too. Texts and ids differ between forms, so lines
are counted by day, direction and amount. Lines that name different Pix differ.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Hashable, Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import pairwise, takewhile
from typing import Literal, NamedTuple

from msgspec import Struct, structs

from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.rules.joining import RecordedItem
from pixconnect.features.institutions.statement_files.statement_file import ItemSource
from pixconnect.platform.base.clock import to_day

LineCount = tuple[date, str, int]
DayState = Literal["open", "provisional", "closed", "closed_with_cases"]


class DayBalances(Struct, frozen=True, kw_only=True):
    """One day's reported balances, and when the last complete statement was read."""

    day: date
    opening_cents: int | None = None
    closing_cents: int | None = None
    read_at: datetime | None = None

    @property
    def has_balance(self) -> bool:
        return self.opening_cents is not None or self.closing_cents is not None

    @property
    def was_read_whole(self) -> bool:
        return self.read_at is not None and is_over(self.day, self.read_at)


class DaySums(Struct, frozen=True, kw_only=True):
    """The sums of a day: ``gross - fees - returns + others = net``."""

    gross_cents: int  # received Pix
    fees_cents: int  # fees taken, less those refunded
    returns_cents: int  # of received Pix, to their payers
    others_cents: int
    """Other incoming money less other outgoing: sent Pix, wires, manual transactions at the institution."""
    net_cents: int
    items_count: int


class DayCases(Struct, frozen=True, kw_only=True):
    items_count: int = 0  # of the institution's lines
    lines_count: int = 0  # our lines that the institution's statement lacks
    doubts_count: int = 0
    """Lines that may be balances or money, or that the institution may have removed: the sums prove nothing about the day."""
    disagreements_count: int = 0  # lines and balances that a second form of the day contradicts


class JudgedDay(DayBalances, frozen=True, kw_only=True):
    state: DayState
    difference_cents: int | None
    """The reported closing balance less opening balance and items; ``None`` if there is nothing to compare."""
    sums: DaySums
    cases: DayCases
    closed_at: datetime | None = None
    reopened_at: datetime | None = None


class ItemGroup(Struct, frozen=True, kw_only=True):
    """Items of one day in one category of sums."""

    day: date
    direction: Literal["IN", "OUT"]
    kind: str
    is_return: bool  # they are our refunds, by any name of the institution
    amount_cents: int
    items_count: int


class ComparedForm(Struct, frozen=True, kw_only=True):
    matches: Sequence[RecordedItem | None]  # the recorded line of another form that each line repeats
    is_more: Sequence[bool]  # lines beyond those recorded in any form
    unlisted: Sequence[RecordedItem]  # recorded lines of other forms that match no line


class BalanceGap(NamedTuple):
    """Days that no statement covers, the balances around them, and the sum of their recorded lines."""

    first_on: date
    last_on: date
    before_cents: int
    after_cents: int
    shown_cents: int = 0

    @property
    def beside(self) -> tuple[date, date]:
        """The days with these balances."""
        return self.first_on - timedelta(days=1), self.last_on + timedelta(days=1)


def sum_groups(groups: Collection[ItemGroup]) -> DaySums:
    gross = fees = returns = others = net = 0
    for group in groups:
        signed_cents = group.amount_cents if group.direction == "IN" else -group.amount_cents
        net += signed_cents
        if group.direction == "OUT" and (group.kind == "refund" or group.is_return):
            returns += group.amount_cents
        elif group.kind == "fee":
            # A returned refund comes in, and lowers the sum.
            fees -= signed_cents
        elif group.direction == "IN" and group.kind == "pix":
            gross += group.amount_cents
        else:
            others += signed_cents
    return DaySums(
        gross_cents=gross,
        fees_cents=fees,
        returns_cents=returns,
        others_cents=others,
        net_cents=net,
        items_count=sum(group.items_count for group in groups),
    )


def is_over(day: date, now: datetime) -> bool:
    return to_day(now) > day


def list_span(first: date, last: date) -> list[date]:
    return [first + timedelta(days=number) for number in range((last - first).days + 1)]


def judge_days(
    days: Sequence[DayBalances], sums: Mapping[date, DaySums], cases: Mapping[date, DayCases], now: datetime
) -> list[JudgedDay]:
    """Judge the days of one account, in order, including days without a statement whose lines connect two balances."""
    # Of a day with neither a statement nor a balance only lines are known: the balances around it judge it.
    known = [one for one in days if one.has_balance or one.read_at is not None]
    doubts = {day for day, of_day in cases.items() if of_day.doubts_count}
    nets = {day: of_day.net_cents for day, of_day in sums.items()}
    forward = _carry(sorted(known, key=lambda balances: balances.day), nets, doubts)
    proved = _find_proved(forward, doubts)
    found: dict[date, tuple[DayBalances, DayState, int | None]] = {one.day: (one, "open", None) for one in days}
    for balances, link in zip(_carry_back(forward, nets), forward, strict=True):
        is_proved, of_day = proved[balances.day], cases.get(balances.day, DayCases())
        state = _find_state(balances, link.difference_cents, of_day, now, is_proved=is_proved)
        found[balances.day] = balances, state, link.difference_cents
        for one in link.skipped or ():
            found[one.day] = one, _find_closed(cases.get(one.day, DayCases())) if is_proved else "provisional", 0
    return [
        JudgedDay(
            day=day,
            state=state,
            opening_cents=balances.opening_cents,
            closing_cents=balances.closing_cents,
            read_at=balances.read_at,
            difference_cents=difference_cents,
            sums=sums.get(day, sum_groups(())),
            cases=cases.get(day, DayCases()),
        )
        for day, (balances, state, difference_cents) in sorted(found.items())
    ]


def find_gaps(
    days: Sequence[JudgedDay], asked: Collection[date], own: Mapping[date, int] = {}, swept: Collection[date] = ()
) -> list[BalanceGap]:
    """Find days without a whole statement between two balances that no recorded line and none of ours make of each other.

    Args:
        asked: Days with a question: a gap has none, because a day has at most one.
        own: The sums of our unmatched lines. Equal balances prove only that all lines of their days cancel each other.
        swept: Days that the balances do not explain, because money that was invested before them may have moved.
    """
    read = [one for one in days if one.has_balance and one.read_at is not None]
    gaps = list[BalanceGap]()
    for place, (before, after) in enumerate(pairwise(read), 1):
        # The end of a day that was read before it was over is not known: the gap begins with it.
        is_whole = before.was_read_whole
        start_cents, end_cents = before.closing_cents if is_whole else before.opening_cents, after.opening_cents
        if (is_whole and after.day - before.day == timedelta(days=1)) or start_cents is None or end_cents is None:
            continue
        first_on, last_on = before.day + timedelta(days=is_whole), after.day - timedelta(days=1)
        shown_cents = sum(one.sums.net_cents for one in days if first_on <= one.day <= last_on)
        shown_cents += sum(cents for day, cents in own.items() if first_on <= day <= last_on)
        is_asked, is_swept = (any(first_on <= day <= last_on for day in some) for some in (asked, swept))
        is_apart = is_swept or end_cents - start_cents != shown_cents
        if is_apart and not is_asked and _is_sure(read[:place][::-1]) and _is_sure(read[place:]):
            gaps.append(BalanceGap(first_on, last_on, start_cents, end_cents, shown_cents))
    return gaps


def _is_sure(days: Sequence[JudgedDay]) -> bool:
    """Whether no doubtful line can change the first day's balances: only days up to the nearest proved one can."""
    unproved = takewhile(lambda one: one.state not in ("closed", "closed_with_cases"), days)
    return not any(one.cases.doubts_count for one in unproved)


class _Link(Struct, frozen=True, kw_only=True):
    """A day in the chain of balances, carried forward from the first reported one."""

    balances: DayBalances
    carried: DayBalances
    skipped: Sequence[DayBalances] | None
    """Days without a statement since the day before it in the chain, whose lines turn the one balance into the other.

    Empty for the next day; ``None`` if no balance connects the two.
    """
    reckoned_cents: int | None  # the day's end computed from its beginning and its items
    difference_cents: int | None

    @property
    def end_before_cents(self) -> int | None:
        """The end of the day before it in the chain, by its own reported beginning."""
        if self.skipped is None or self.balances.opening_cents is None:
            return None
        return self.skipped[0].opening_cents if self.skipped else self.balances.opening_cents


def _carry(days: Sequence[DayBalances], nets: Mapping[date, int], doubts: Collection[date]) -> list[_Link]:
    links: list[_Link] = []
    for balances in days:
        skipped = _skip(links[-1].carried, balances, nets, doubts) if links else None
        carried = None if skipped is None else [links[-1].carried, *skipped][-1].closing_cents
        # A reported balance replaces a computed one, so that one day's error is not carried into the next.
        is_computed = bool(links) and links[-1].balances.closing_cents is None
        opening = balances.opening_cents if carried is None or (is_computed and balances.opening_cents is not None) else carried
        closing, reckoned, differences = balances.closing_cents, None, list[int]()
        # Only if the items of the whole day were read: a balance alone proves nothing about them.
        if opening is not None and balances.read_at is not None:
            reckoned = opening + nets.get(balances.day, 0)
            differences = [] if closing is None else [closing - reckoned]
            closing = reckoned if closing is None else closing
        if carried is not None and balances.opening_cents is not None:
            differences.append(balances.opening_cents - carried)
        links.append(
            _Link(
                balances=balances,
                skipped=skipped,
                carried=structs.replace(balances, opening_cents=opening, closing_cents=closing),
                reckoned_cents=reckoned,
                # The first non-zero one is the most useful.
                difference_cents=next(filter(None, differences), 0) if differences else None,
            )
        )
    return links


def _find_proved(links: Sequence[_Link], doubts: Collection[date]) -> dict[date, bool]:
    """Find days between two reported balances that their items connect."""
    doubtful = {*doubts}
    # A doubt lasts until the next reported balance.
    for before, link in pairwise(links) if doubts else ():
        if before.balances.day in doubtful and before.balances.closing_cents is link.balances.opening_cents is None:
            doubtful.add(link.balances.day)
    proved: dict[date, bool] = {}
    after: _Link | None = None
    # Backwards: a day without a reported end is proved by the next reported balance, if all days until then were read whole.
    for link in reversed(links):
        follower = after.balances if after is not None and after.skipped is not None else None
        closing_cents = link.balances.closing_cents
        if closing_cents is None and after is not None:
            closing_cents = after.end_before_cents
        if link.reckoned_cents is None or link.balances.day in doubtful:
            is_proved = False
        elif closing_cents is not None:
            is_proved = closing_cents == link.reckoned_cents
        else:
            is_proved = follower is not None and proved[follower.day] and follower.was_read_whole
        proved[link.balances.day] = is_proved
        after = link
    return proved


def _carry_back(links: Sequence[_Link], nets: Mapping[date, int]) -> list[DayBalances]:
    """Compute days before the first reported balance too; nothing is compared in these."""
    shown: list[DayBalances] = []
    after: _Link | None = None
    for link in reversed(links):
        balances = link.carried
        closing, opening = balances.closing_cents, balances.opening_cents
        if closing is None and after is not None and after.skipped is not None:
            closing = shown[-1].opening_cents
        after = link
        if opening is None and closing is not None and balances.read_at is not None:
            opening = closing - nets.get(balances.day, 0)
        shown.append(structs.replace(balances, opening_cents=opening, closing_cents=closing))
    return shown[::-1]


def _skip(
    before: DayBalances, after: DayBalances, nets: Mapping[date, int], doubts: Collection[date]
) -> list[DayBalances] | None:
    opening, cents, skipped = after.opening_cents, before.closing_cents, list[DayBalances]()
    if opening is None and after.closing_cents is not None and after.read_at is not None:
        opening = after.closing_cents - nets.get(after.day, 0)
    if before.read_at is not None and not before.was_read_whole and opening != cents:
        return None  # its end is not known, and the difference may be its own
    for number in range(1, (after.day - before.day).days):
        day = before.day + timedelta(days=number)
        if opening is None or cents is None or day in doubts:
            return None
        skipped.append(DayBalances(day=day, opening_cents=cents, closing_cents=cents + nets.get(day, 0)))
        cents += nets.get(day, 0)
    return skipped if not skipped or cents == opening else None


def _find_state(balances: DayBalances, difference: int | None, cases: DayCases, now: datetime, *, is_proved: bool) -> DayState:
    if balances.read_at is None or difference:
        return "open"
    # A statement read during its own day may lack later lines.
    if not (is_proved and is_over(balances.day, now) and balances.was_read_whole):
        return "provisional"
    return _find_closed(cases)


def _find_closed(cases: DayCases) -> DayState:
    return "closed_with_cases" if cases.items_count or cases.lines_count or cases.disagreements_count else "closed"


def count_by(line: InstitutionItem) -> LineCount:
    return line.day, line.direction, line.amount_cents


def compare(lines: Sequence[InstitutionItem], recorded: Sequence[RecordedItem], form: ItemSource) -> ComparedForm:
    """Compare lines of one form with recorded lines of the same days.

    Args:
        lines: All lines of the form in these days.
        recorded: Those of any form, in matching order.
        form: Of the lines.
    """
    own = [item for item in recorded if item.source == form]
    counts, texts = Counter(map(count_by, own)), {(*count_by(item), item.text) for item in own}
    free = defaultdict[LineCount, list[int]](list)
    # A line of the same form and text comes last: it is that line, and none of another form.
    for place in sorted(range(len(lines)), key=lambda place: (*count_by(lines[place]), lines[place].text) in texts):
        free[count_by(lines[place])].append(place)
    for key, count in counts.items():
        free[key] = free[key][: max(len(free[key]) - count, 0)]
    pairs = _Pairs(lines, [place for places in free.values() for place in places])
    unlisted = [item for item in recorded if item.source != form and not pairs.take_named(item)]
    wanted = {count_by(item) for item in unlisted if item.names}
    unlisted = [item for item in unlisted if not pairs.take_other(item, wanted)]
    more = {place for place in pairs.free if pairs.matches[place] is None}
    return ComparedForm(matches=pairs.matches, is_more=[place in more for place in range(len(lines))], unlisted=unlisted)


class _Pairs:
    """Unmatched lines, indexed by each name, by their text, and by whether they have names."""

    def __init__(self, lines: Sequence[InstitutionItem], free: Sequence[int]) -> None:
        self.free = free
        self.matches: list[RecordedItem | None] = [None] * len(lines)
        self._places = defaultdict[tuple[LineCount, Hashable], deque[int]](deque)
        for place in sorted(free, key=lambda place: bool(lines[place].names)):
            for key in (*(line := lines[place]).names, line.text, bool(line.names)):
                self._places[count_by(line), key].append(place)

    def take_named(self, item: RecordedItem) -> bool:
        return any(self._take(item, name) for name in item.names)

    def take_other(self, item: RecordedItem, wanted: Collection[LineCount]) -> bool:
        """Take a line of its text, without names (last, if named items want these), or any; other names are other Pix."""
        keys = (False,) if item.names else (True, False) if count_by(item) in wanted else (item.text, False, True)
        return any(self._take(item, key) for key in keys)

    def _take(self, item: RecordedItem, key: Hashable) -> bool:
        places = self._places[count_by(item), key]
        while places and self.matches[places[0]] is not None:
            places.popleft()
        if places:
            self.matches[places[0]] = item
        return bool(places)
