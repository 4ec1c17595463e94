"""Compares two forms of a day's statement, such as an OFX and a camt.053, or a file and the lines of an API.

Texts and ids differ between forms, so lines are counted by day, direction and amount. Lines that name different Pix differ.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from datetime import date

from msgspec import Struct

from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.rules.joining import RecordedItem
from pixconnect.features.institutions.statement_files.statement_file import ItemSource

LineCount = tuple[date, str, int]


class ComparedForm(Struct, frozen=True, kw_only=True):
    matches: Sequence[RecordedItem | None]
    """For each line, the recorded line of another form that it is."""
    is_more: Sequence[bool]
    """Which lines are more than those recorded in any form."""
    unlisted: Sequence[RecordedItem]
    """Recorded lines of other forms that are none of the lines."""


def count_by(line: InstitutionItem) -> LineCount:
    return line.day, line.direction, line.amount_cents


def compare(lines: Sequence[InstitutionItem], recorded: Sequence[RecordedItem], form: ItemSource) -> ComparedForm:
    """Compare lines of one form with recorded lines of the same days.

    Args:
        lines: All that the form has of these days.
        recorded: Those of any form, in the order in which they are to be found.
        form: Of the lines.
    """
    own = [item for item in recorded if item.source == form]
    counts, told = Counter(map(count_by, own)), {(*count_by(item), item.text) for item in own}
    free = defaultdict[LineCount, list[int]](list)
    # A line that this format reported in the same words comes last: it is that line, and none of another format.
    for place in sorted(range(len(lines)), key=lambda place: (*count_by(lines[place]), lines[place].text) in told):
        free[count_by(lines[place])].append(place)
    for key, count in counts.items():
        free[key] = free[key][: max(len(free[key]) - count, 0)]
    pairs = _Pairs(lines, [place for places in free.values() for place in places])
    unlisted = [item for item in recorded if item.source != form and not pairs.take_named(item)]
    unlisted = [item for item in unlisted if not pairs.take_other(item)]
    more = {place for place in pairs.free if pairs.matches[place] is None}
    return ComparedForm(
        matches=pairs.matches, is_more=[place in more for place in range(len(lines))], unlisted=unlisted
    )


class _Pairs:
    """Lines that are still alone, each looked at once for each of its names and once without."""

    def __init__(self, lines: Sequence[InstitutionItem], free: Sequence[int]) -> None:
        self.free = free
        self.matches: list[RecordedItem | None] = [None] * len(lines)
        self._named = defaultdict[tuple[LineCount, str], deque[int]](deque)
        self._others = defaultdict[tuple[LineCount, bool], deque[int]](deque)
        for place in free:
            for name in lines[place].names:
                self._named[count_by(lines[place]), name].append(place)
            self._others[count_by(lines[place]), bool(lines[place].names)].append(place)

    def take_named(self, item: RecordedItem) -> bool:
        return any(self._take(item, self._named[count_by(item), name]) for name in item.names)

    def take_other(self, item: RecordedItem) -> bool:
        """Take a line without names, or for an item without names any; lines that name different Pix differ."""
        is_taken = not item.names and self._take(item, self._others[count_by(item), True])
        return is_taken or self._take(item, self._others[count_by(item), False])

    def _take(self, item: RecordedItem, places: deque[int]) -> bool:
        while places:
            place = places.popleft()
            if self.matches[place] is None:
                self.matches[place] = item
                return True
        return False
