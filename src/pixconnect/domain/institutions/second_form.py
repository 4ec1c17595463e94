"""Compares two forms of a day's statement, such as an OFX and a camt.053, or a file and the lines of an API.

Texts and ids differ between forms, so lines are counted by day, direction and amount. Lines that name different Pix differ.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import date

from msgspec import Struct

from pixconnect.domain.institutions.institution import InstitutionItem
from pixconnect.domain.institutions.joining import RecordedItem
from pixconnect.domain.institutions.statement_files.statement_file import ItemSource

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
    # What this form has told in the same words comes last: it is that, and nothing of another form.
    for place in sorted(range(len(lines)), key=lambda place: (*count_by(lines[place]), lines[place].text) in told):
        free[count_by(lines[place])].append(place)
    for key, count in counts.items():
        free[key] = free[key][: max(len(free[key]) - count, 0)]
    matches: list[RecordedItem | None] = [None] * len(lines)
    unlisted = [item for item in recorded if item.source != form]
    # First by a name that both have.
    for is_named in (True, False):
        left: list[RecordedItem] = []
        for item in unlisted:
            of_key = free[count_by(item)]
            place = next((place for place in of_key if _may_be(lines[place], item, is_named=is_named)), None)
            if place is None:
                left.append(item)
            else:
                of_key.remove(place)
                matches[place] = item
        unlisted = left
    more = {place for of_key in free.values() for place in of_key}
    return ComparedForm(matches=matches, is_more=[place in more for place in range(len(lines))], unlisted=unlisted)


def _may_be(line: InstitutionItem, item: RecordedItem, *, is_named: bool) -> bool:
    if line.names and item.names:
        return not set(line.names).isdisjoint(item.names)
    return not is_named
