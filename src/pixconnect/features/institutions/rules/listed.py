"""Which lines that an institution's API lists are recorded ones: under another id, or as lines of a file.

An API may give its lines new ids in each reading. What a reading lists is compared with the recorded lines that it does not
list, when its last page is there: a line with the same contents is the recorded one, and a line of the same day and amount may
replace it, so that it waits.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from datetime import date

from msgspec import Struct, structs

from pixconnect.features.institutions.rules.day import compare
from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.rules.joining import RecordedItem
from pixconnect.features.institutions.rules.judging import JudgedLine, agree
from pixconnect.features.institutions.rules.unmatched import SET_ASIDE


class ListReading(Struct, kw_only=True):
    """One reading of the API's list, page by page."""

    ids: set[str] = set()  # of the lines listed until now, and of the recorded lines that they repeat
    held: list[InstitutionItem] = []
    """New lines of the day and amount of a recorded line that no page until now lists: it may be the same line."""
    changed: dict[str, tuple[date, int]] = {}
    """The listed lines that wait because they may replace another: their day and signed amount, by id."""
    is_complete: bool = False


def name_paid(
    items: Sequence[InstitutionItem], known: Mapping[str, RecordedItem]
) -> tuple[Sequence[InstitutionItem], Sequence[str]]:
    """Give lines that were announced with other contents a new id, as contents stay; return these ids too."""
    renamed: list[InstitutionItem] = []
    for item in items:
        before = known.get(item.item_id)
        is_other = before is not None and before.waits == "announced" and not agree(before, item)
        renamed.append(structs.replace(item, item_id=f"{item.item_id}~") if is_other else item)
    return renamed, [one.item_id for one, item in zip(renamed, items, strict=True) if one is not item]


def judge_replacing(
    judged: Sequence[JudgedLine], unlisted: Sequence[RecordedItem], reading: ListReading
) -> Iterator[JudgedLine]:
    """Judge new lines again that may be recorded ones under other ids, each once: with other contents, they wait."""
    left = _Unlisted(unlisted, Counter(reading.changed.values()))
    others = list[JudgedLine]()
    for line in judged:
        if line.outcome != "new" or left.find_replaced(line.item) is None:
            yield line
        elif not reading.is_complete:
            reading.held.append(line.item)
        elif (same := left.find_same(line.item)) is not None:
            left.take(same)
            reading.ids.add(same.item_id)
            yield structs.replace(line, outcome="known", known_id=same.item_id)
        else:
            others.append(line)
    for line in others:
        replaced = left.find_replaced(line.item)
        if replaced is not None:
            left.take(replaced)
            reading.changed[line.item.item_id] = _day_amount(line.item)
        yield line if replaced is None else structs.replace(line, outcome="changed")


class _Unlisted:
    """Recorded lines that no page lists, except for as many of a day and amount as wait because they may replace these."""

    def __init__(self, lines: Sequence[RecordedItem], replacing: Counter[tuple[date, int]]) -> None:
        self._by_amount = defaultdict[Hashable, dict[str, RecordedItem]](dict)
        self._by_contents = defaultdict[Hashable, dict[str, RecordedItem]](dict)
        for line in lines:
            replacing[_day_amount(line)] -= 1
            if replacing[_day_amount(line)] < 0:
                self._by_amount[_day_amount(line)][line.item_id] = line
                for contents in _list_contents(line):
                    self._by_contents[contents][line.item_id] = line

    def find_replaced(self, item: InstitutionItem) -> RecordedItem | None:
        return next((one for one in self._by_amount[_day_amount(item)].values() if _may_be(item, one)), None)

    def find_same(self, item: InstitutionItem) -> RecordedItem | None:
        """Find a line with the same contents: of the same time, or one of both has none."""
        any_time, own_time = _list_contents(item)
        keys = [any_time] if item.settled_at is None else [own_time, (*any_time, None)]
        fitting = (one for key in keys for one in self._by_contents[key].values() if _may_be(item, one))
        return next((one for one in fitting if agree(structs.replace(item, item_id=one.item_id), one)), None)

    def take(self, line: RecordedItem) -> None:
        del self._by_amount[_day_amount(line)][line.item_id]
        for contents in _list_contents(line):
            del self._by_contents[contents][line.item_id]


def _day_amount(item: InstitutionItem) -> tuple[date, int]:
    return item.day, item.signed_cents


def _list_contents(item: InstitutionItem) -> tuple[tuple[Hashable, ...], tuple[Hashable, ...]]:
    contents = (*_day_amount(item), item.kind, item.text)
    return contents, (*contents, item.settled_at)


def _may_be(item: InstitutionItem, one: InstitutionItem) -> bool:
    return not (one.names and item.names) or one.names == item.names


def find_filed(new: Sequence[InstitutionItem], found: Sequence[RecordedItem]) -> Sequence[RecordedItem | None]:
    """Find the file's line that each of the API's repeats, of a day that the file had not read whole; each once."""
    filed = [item for item in found if item.source != "api" and (item.waits not in SET_ASIDE or item.waits == "no_money")]
    filed.sort(key=lambda item: item.waits == "no_money")
    filed = compare([item for item in found if item.source == "api"], filed, "api").unlisted
    return compare(new, filed, "api").matches
