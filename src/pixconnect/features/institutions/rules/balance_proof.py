"""Decides which doubtful lines moved money: the only choice that makes the balances around them agree.

Every balance at the end of a day is a fact from a file or from the books' opening. Between two balances, the certain lines plus
a choice of the doubtful ones must turn the earlier balance into the later one. If no choice does, or several do, no line of
that span is decided.

Doubtful are lines that may be balances among a file's movements, by their words or as sums of other lines, and recorded lines
that the bank removed: a later file covers their day, and its balances agree without them. Such a line only becomes
``perhaps_struck``, and two operators decide (``features/cases/service/answer.py``).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from itertools import accumulate, groupby, product
from operator import attrgetter
from typing import Final, TypeAlias

from msgspec import Struct

from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.rules.joining import RecordedItem
from pixconnect.features.institutions.rules.special_line import find_stated_change, is_own_investment, sum_stated_changes
from pixconnect.features.institutions.statement_files.statement_file import StatedBalance

_CHOICES_MAX: Final = 20_000  # maximum of sums tried for one span of balances; beyond it, none of its lines is decided
_STEPS_MAX: Final = 1_000_000
"""Maximum of additions for all spans of a file: a second's work, while the account's lines are locked."""
_STEPS_MIN: Final = 10_000  # those that each span has, however many there are
_BALANCE: Final = r"(S ?A ?L ?D ?O ?S?|SDO|SLD|BALANCE|LIMITE|DISPON[IÍ]VEL|POSI[CÇ][AÃ]O)\b"
_WORDS: Final = re.compile(r"\b" + _BALANCE, re.IGNORECASE)
_BEGINS: Final = re.compile(r"\W*" + _BALANCE, re.IGNORECASE)
"""Lines about investments have the words too, but not at the beginning."""
_LISTED: Final = frozenset(("new", "known", "perhaps_known", "contradicts", "changed"))
"""Outcomes of lines that moved money if the file is right."""
_OTHERWISE: Final = frozenset(("perhaps_known", "same_line", "changed"))
_PERHAPS: Final = frozenset(("perhaps_balance", "balance_line"))
_NONE: Final = ((), frozenset[int]())
_BY_DAY: Final = attrgetter("day")
_Taken: TypeAlias = tuple[int, "_Taken"] | None


class Balances(Struct, frozen=True, kw_only=True):
    first_on: date
    last_on: date
    opening_cents: int | None = None  # from the file, at the end of the day before ``first_on``
    closing: StatedBalance | None = None  # from the file
    ends: Mapping[date, int] = {}  # balances at the ends of days, from other files or the account's opening balance
    begins: Mapping[date, int] = {}
    """Balances before days, from those days' files: ``ends`` lacks them if the day before has another."""
    agreed: frozenset[date] = frozenset()
    """Other days of ``ends`` with an uncontradicted balance: provisional ones, and the day on which the books began."""
    closed: frozenset[date] = frozenset()  # days that two balances have proved
    unread: frozenset[date] = frozenset()
    """Those of them that no file covers, nor this one: lines that change no balance contradict none of these."""
    lacking: frozenset[date] = frozenset()
    """Days whose recorded lines the file, changed or filtered, does not all list, or that another format sums otherwise."""
    newer: frozenset[date] = frozenset()
    """Days reported by a file made later: this file's balances do not replace theirs."""
    has_investments: bool = False  # the balances include the account's investments
    unsure: frozenset[date] = frozenset()
    """Days with lines of which it is unknown what they change of the balances: these decide nothing about such a day."""
    nets: Mapping[date, int] = {}  # the sum of each day's certain lines, from the first of ``ends`` to the last one
    today: date  # the last day of which the file can list a movement, as ``StatementFile.date`` returns it
    elsewhere: frozenset[date] = frozenset()
    """Days that another format has reported completely: the file is compared with that format, and no line is missing in it."""

    def covers(self, day: date) -> bool:
        return self.first_on <= day <= min(self.last_on, self.today) and day not in self.elsewhere

    def find_change(self, line: InstitutionItem) -> int | None:
        """Return what a line changes of these balances, if known: the only value to compare with them."""
        return find_stated_change(line, has_investments=self.has_investments)

    def sum_changes(self, lines: Iterable[InstitutionItem]) -> int | None:
        return sum_stated_changes(lines, has_investments=self.has_investments)


class Doubt(Struct, frozen=True, kw_only=True):
    day: date
    signed_cents: int
    alike: Hashable  # equal lines are interchangeable
    is_contrary: bool = False
    """It is doubtful only because its day was proved without it: together such lines may move nothing."""
    is_listed: bool = True
    """By the file; it confirms no other line, because its balances may include other changes of days that it lacks."""


def find_differing(
    lines: Iterable[InstitutionItem], days: Iterable[date], nets: Mapping[date, int], *, has_investments: bool = False
) -> frozenset[date]:
    """Find days of another format on which a file's lines move other sums than the recorded ones, or may."""
    of_days = defaultdict[date, list[InstitutionItem]](list)
    for line in lines:
        of_days[line.day] += [] if is_called_balance(line) else [line]
    moved = {day: sum_stated_changes(of_days[day], has_investments=has_investments) for day in days}
    return frozenset(day for day, cents in moved.items() if cents != nets.get(day, 0))


def carry(ends: Mapping[date, int], nets: Mapping[date, int], day: date) -> int | None:
    """Return the account's balance at the end of a day, from the last known balance and the lines since."""
    since = max((end for end in ends if end <= day), default=None)
    return None if since is None else ends[since] + sum(net for on, net in nets.items() if since < on <= day)


def decide(doubts: Sequence[Doubt], balances: Balances) -> dict[int, bool]:
    """Return which doubtful lines count, by position, among those that the balances decide."""
    nets, decided = balances.nets, dict[int, bool]()
    for ends, sure in _list_ends(balances):
        order = sorted(ends)
        spans = defaultdict[tuple[date, date], list[int]](list)
        for number, doubt in enumerate(doubts):
            place = bisect_left(order, doubt.day)
            if number not in decided and 0 < place < len(order):
                spans[order[place - 1], order[place]].append(number)
        steps_max = max(_STEPS_MAX // max(len(spans), 1), _STEPS_MIN)
        for (since, until), numbers in spans.items():
            if any(since < day <= until for day in balances.unsure):
                continue
            target = ends[until] - ends[since] - sum(net for day, net in nets.items() if since < day <= until)
            chosen = _choose_whole([(number, doubts[number]) for number in numbers], target, steps_max)
            # Other balances may show another state of the account: they may exclude a line, but not confirm one.
            is_sure = {since, until} <= sure and not any(since < day <= until for day in balances.lacking)
            is_sure = is_sure and all(doubts[number].is_listed for number, counts in chosen.items() if counts)
            if is_sure or not any(chosen.values()):
                decided |= chosen
    return decided


def _list_ends(balances: Balances) -> list[tuple[Mapping[date, int], frozenset[date]]]:
    """List the balances to decide by, with the certain days: first with the file's replacing older ones, then beside them."""
    stated, before = dict[date, int](), balances.first_on - timedelta(days=1)
    if balances.opening_cents is not None and not (before in balances.ends and balances.first_on in balances.newer):
        stated[before] = balances.opening_cents
    closing = balances.closing
    if closing is not None and closing.on in balances.ends and closing.on in balances.newer:
        closing = None
    is_dated = closing is not None and balances.first_on <= closing.on <= balances.last_on
    # Without a balance before the file's days its own would decide lines of earlier days.
    begins = before in stated or before in balances.ends or before in balances.closed
    if closing is None or not is_dated or not begins or not chains(balances, stated, closing):
        # On closed days the older balances stand.
        stated |= {closing.on: closing.cents} if closing is not None and is_dated else {}
        stated = {day: cents for day, cents in stated.items() if day not in balances.closed}
        return [({**balances.ends, **stated}, balances.closed | balances.agreed | stated.keys())]
    stated[closing.on] = closing.cents
    replaced = {day for day in balances.ends if balances.first_on <= day < closing.on} - balances.newer
    around = {day: cents for day, cents in balances.ends.items() if day not in replaced}
    return [
        ({**around, **stated}, balances.closed | balances.agreed | stated.keys()),
        ({**balances.ends, **stated}, frozenset(balances.closed - stated.keys())),
    ]


def chains(balances: Balances, stated: Mapping[date, int], closing: StatedBalance) -> bool:
    """Whether the file's balances agree with the closed days beside it."""
    before = balances.first_on - timedelta(days=1)
    # A replaced proof leaves closed days without a balance of their own.
    here_cents = carry(balances.ends, balances.nets, before)
    if before in balances.closed and stated.get(before, here_cents) != here_cents:
        return False
    after = min((day for day in balances.ends if day > closing.on and day in balances.closed), default=None)
    if after is None:
        return True
    return closing.cents + sum(net for day, net in balances.nets.items() if closing.on < day <= after) == balances.ends[after]


def _choose_whole(doubts: Sequence[tuple[int, Doubt]], target: int, steps_max: int) -> dict[int, bool]:
    """As ``choose``; a file's lines beyond a proof count as a whole if the balances agree with all of them."""
    contrary = {number: True for number, doubt in doubts if doubt.is_contrary}
    rest = [(number, doubt) for number, doubt in doubts if not doubt.is_contrary]
    more = sum(doubt.signed_cents for _, doubt in doubts if doubt.is_contrary)
    if contrary and not rest and more == target:
        return contrary
    if contrary and rest and (chosen := choose(rest, target - more, steps_max)):
        return contrary | chosen
    return choose(doubts, target, steps_max)


def choose(doubts: Sequence[tuple[int, Doubt]], target: int, steps_max: int = _STEPS_MAX) -> dict[int, bool]:
    """Return which doubtful lines count, if exactly one choice has this sum; equal lines are interchangeable."""
    groups = defaultdict[Hashable, list[int]](list)
    for number, doubt in doubts:
        groups[doubt.signed_cents, doubt.alike].append(number)
    values = {number: doubt.signed_cents for number, doubt in doubts}
    ordered = sorted(groups.values(), key=lambda group: -abs(values[group[0]]))
    sums = [values[group[0]] * len(group) for group in reversed(ordered)]
    highest = [*accumulate((max(total, 0) for total in sums), initial=0)][::-1]
    lowest = [*accumulate((min(total, 0) for total in sums), initial=0)][::-1]
    # Per sum: whether one choice alone reaches it, and how many of each group that took, the last group in front.
    ways: dict[int, tuple[bool, _Taken]] = {0: (True, None)}
    left = steps_max
    for place, group in enumerate(ordered, 1):
        reached = dict[int, tuple[bool, _Taken]]()
        left -= len(ways) * (len(group) + 1)
        if left < 0 or len(ways) > _CHOICES_MAX:
            return {}
        for total, (is_only, taken) in ways.items():
            for more in range(len(group) + 1):
                now = total + more * values[group[0]]
                if lowest[place] <= target - now <= highest[place]:
                    reached[now] = (False, reached[now][1]) if now in reached else (is_only, (more, taken))
        ways = reached
    is_only, taken = ways.get(target, (False, None))
    chosen = dict[int, bool]()
    for group in reversed(ordered) if is_only else ():
        more, taken = taken or (0, None)
        chosen |= {number: place < more for place, number in enumerate(group)}
    return chosen


def is_called_balance(item: InstitutionItem) -> bool:
    return _may_be_balance(item) and _BEGINS.match(item.text) is not None


def is_weak(item: InstitutionItem) -> bool:
    """Whether only a later word calls it a balance: that the balances agree without it may be chance."""
    return _WORDS.search(item.text) is not None and _BEGINS.match(item.text) is None


def _may_be_balance(item: InstitutionItem) -> bool:
    is_nameless = item.counterparty in (None, item.text) or _WORDS.search(item.counterparty or "") is not None
    return not item.names and item.tax_id is None and is_nameless and item.kind in ("other", "judicial")


def find_marked(
    lines: Sequence[InstitutionItem], balances: Balances, texts: Collection[int]
) -> tuple[Collection[int], Collection[int]]:
    """Find lines that may be balances: by their words, or, with a party too, as the sum of the lines before or after them.

    Returns:
        All of them, and those of which it may be chance that the balances agree without them.

    Args:
        texts: Of the lines those that may be a payer's text.
    """
    able = {number for number, line in enumerate(lines) if _may_be_balance(line)}
    marked = {n for n in able if _WORDS.search(lines[n].text) or _WORDS.search(lines[n].counterparty or "")}
    opening, closing = balances.opening_cents, balances.closing
    if opening is None:
        opening = carry(balances.ends, balances.nets, balances.first_on - timedelta(days=1))
    weak = {number for number in marked if is_weak(lines[number])}
    of_closed = {number for number, line in enumerate(lines) if line.day in balances.closed}
    counted = [number for number, line in enumerate(lines) if balances.covers(line.day) and number not in marked]
    until = [number for number in counted if closing is not None and lines[number].day <= closing.on]
    called = {number for number, line in enumerate(lines) if not line.names and _WORDS.search(line.text)}
    able = {number for number in able | called if not is_own_investment(lines[number])}
    others = able.intersection(until) - of_closed.union(texts)
    further, is_stated = set[int](), find_opening(balances) is not None
    # A running balance may be the account's own, even if the balances include investments.
    for with_own, place in product({balances.has_investments, False}, (1, -1)):
        changes = [find_stated_change(line, has_investments=with_own) or 0 for line in lines]
        if opening is not None:
            marked |= _find_running(lines, counted[::place], able, opening, changes)
        if closing is None:
            continue
        beyond = (opening or 0) + sum(changes[n] for n in until if n not in marked) - closing.cents
        # After days without a file the balance before this one's is unknown, and so is whether all lines agree with it.
        if beyond or not is_stated:
            further |= _find_running(lines, until[::place], others, closing.cents, [-cents for cents in changes])
        if beyond and is_stated:
            alone = [number for number in others if changes[number] == beyond]
            further |= {*alone} if len(alone) == 1 else set()
            further |= {number for number in others if lines[number].signed_cents == balances.ends.get(lines[number].day)}
    # Beside lines that only a later word calls balances, no sum tells which line is one.
    if closing is not None and weak:
        further |= {number for number in others if lines[number].signed_cents == closing.cents}
    weak |= further - marked
    return (marked | further) - (weak & of_closed), weak


def _find_running(
    lines: Sequence[InstitutionItem], order: Sequence[int], able: Collection[int], cents: int, changes: Sequence[int]
) -> set[int]:
    """Find lines that are the balance at their place, from the balance at one end of the lines."""
    found = set[int]()
    for number in order:
        if number in able and lines[number].signed_cents == cents:
            found.add(number)
        else:
            cents += changes[number]
    return found


def list_moved(judged: Sequence[tuple[InstitutionItem, str]], missing: Sequence[RecordedItem]) -> set[int]:
    """List lines that may be missing lines of another day.

    Balances do not distinguish a redated line from a new one beside a removed one.
    """
    sums, on = {item.signed_cents for item in missing}, {(item.day, item.signed_cents) for item in missing}
    return {
        number
        for number, (item, one) in enumerate(judged)
        if one == "perhaps_known" and item.signed_cents in sums and (item.day, item.signed_cents) not in on
    }


def find_struck(
    lines: Sequence[InstitutionItem], outcomes: Sequence[str], missing: Sequence[RecordedItem], balances: Balances
) -> tuple[Sequence[RecordedItem], Collection[int]]:
    """Find missing lines that the bank provably removed, and the positions of a file's lines that then moved money.

    Args:
        missing: Recorded lines that count, are of days that the file covers, and are not in it.
    """
    closing, before, opening = balances.closing, balances.first_on - timedelta(days=1), find_opening(balances)
    if not missing or closing is None or opening is None or not balances.first_on <= closing.on <= balances.last_on:
        return _NONE
    struck, listed = _compare(lines, outcomes, missing)
    listed_cents = balances.sum_changes(line for line in listed if line.day <= closing.on)
    if balances.unsure or listed_cents is None:
        return _NONE
    beyond_cents = closing.cents - opening - listed_cents
    doubts = [
        (number, Doubt(day=line.day, signed_cents=cents, alike=number))
        for number, (line, outcome) in enumerate(zip(lines, outcomes, strict=True))
        if line.day <= closing.on and outcome in _PERHAPS and (cents := balances.find_change(line))
    ]
    chosen = {number for number, counts in choose(doubts, beyond_cents).items() if counts and beyond_cents}
    if beyond_cents and not chosen:
        # All of them together need no other choice.
        chosen = {number for number, _ in doubts}
        if sum(doubt.signed_cents for _, doubt in doubts) != beyond_cents:
            return _NONE
    listed = [*listed, *(lines[number] for number in chosen)]
    file_ends = {closing.on: closing.cents}
    if (newest := max((day for day in balances.newer & balances.ends.keys() if day < closing.on), default=None)) is not None:
        file_ends[newest] = opening + (balances.sum_changes(line for line in listed if line.day <= newest) or 0)
    may_be = _may_be_struck(struck, balances, file_ends) and chains(balances, {before: opening}, closing)
    return (struck, chosen) if may_be else _NONE


def list_outdated(lines: Sequence[InstitutionItem], balances: Balances) -> list[date]:
    """List days with other balances at their ends than a whole file's lines leave: the bank dated lines back since."""
    before, cents, closing = balances.first_on - timedelta(days=1), find_opening(balances), balances.closing
    if closing is None or cents is None or closing.on in balances.newer or not chains(balances, {before: cents}, closing):
        return []
    stated = [(day, day, end) for day, end in balances.ends.items()]
    stated += [(day - timedelta(days=1), day, begin) for day, begin in balances.begins.items() if day not in balances.elsewhere]
    inner = [(end, stated_cents) for end, by, stated_cents in stated if before < end < closing.on and by not in balances.newer]
    of_days = groupby(sorted(lines, key=_BY_DAY), _BY_DAY)
    changes = {day: balances.sum_changes(of_day) for day, of_day in of_days}
    until = {end: [moved for day, moved in changes.items() if day <= end] for end, _ in inner}
    return [end for end, stated in inner if None not in until[end] and stated != cents + sum(filter(None, until[end]))]


def find_opening(balances: Balances) -> int | None:
    """Find the balance before the file's days, from the file or an uncontradicted day."""
    before = balances.first_on - timedelta(days=1)
    if balances.opening_cents is None and before in balances.closed | balances.agreed:
        return balances.ends.get(before)
    return balances.opening_cents


def _compare(
    lines: Sequence[InstitutionItem], outcomes: Sequence[str], missing: Sequence[RecordedItem]
) -> tuple[Sequence[RecordedItem], Sequence[InstitutionItem]]:
    """Return the missing lines without an equivalent under another text of their day, and the lines that moved money."""
    left, listed = Counter((item.day, item.signed_cents) for item in missing), list[InstitutionItem]()
    for line, outcome in zip(lines, outcomes, strict=True):
        is_there = outcome in _OTHERWISE and left[line.day, line.signed_cents] > 0
        if is_there:
            left[line.day, line.signed_cents] -= 1
        if is_there or outcome in _LISTED:
            listed.append(line)
    struck: list[RecordedItem] = []
    for item in missing:
        left[item.day, item.signed_cents] -= 1
        if left[item.day, item.signed_cents] >= 0:
            struck.append(item)
    return struck, listed


def _may_be_struck(struck: Sequence[RecordedItem], balances: Balances, file_ends: Mapping[date, int]) -> bool:
    # A line matched to a Pix of this service has happened, even if a file lacks it.
    if not struck or not all(item.joined_kind in (None, "movement") and item.day <= max(file_ends) for item in struck):
        return False
    if not all(map(balances.find_change, struck)):
        return False  # balances show no line that leaves them unchanged
    # A line of a day that a later file reports is wrong only if that file has the same balance.
    if not any(item.day in balances.newer and item.waits != "perhaps_struck" for item in struck):
        return True
    return any(
        balances.ends.get(day) == cents and balances.sum_changes(item for item in struck if item.day <= day) != 0
        for day, cents in file_ends.items()
    )
