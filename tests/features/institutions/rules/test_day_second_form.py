"""Two forms of a day: lines with names are compared by them, others are counted, in linear time."""

import time
from datetime import UTC, date, datetime
from typing import Any

import pytest
from msgspec import structs

from pixconnect.features.institutions.rules.day import compare
from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.rules.joining import BookLine, RecordedItem, join_items
from pixconnect.features.institutions.rules.unmatched import LeftLines, OpenAmounts, judge_left

DAY = date(2026, 7, 1)
AT = datetime(2026, 7, 2, 15, tzinfo=UTC)


def a_line(item_id: str, **changes: Any) -> InstitutionItem:
    fields: dict[str, Any] = dict(day=DAY, settled_at=None, direction="IN", amount_cents=1000, kind="pix")
    return InstitutionItem(item_id=item_id, **fields | changes)


def told(item_id: str, **changes: Any) -> RecordedItem:
    line = structs.asdict(a_line(item_id, **changes))
    return RecordedItem(**line, institution_id=1, source="api", recorded_at=AT)


@pytest.mark.parametrize(
    ("lines", "recorded", "matches", "unlisted"),
    [
        ([a_line("A")], [told("X"), told("Y")], ["X"], ["Y"]),
        ([a_line("A"), a_line("B", text="T")], [told("X", text="T")], [None, "X"], []),
        ([a_line("A", end_to_end_id="E1")], [told("X"), told("Y", end_to_end_id="E1")], ["Y"], ["X"]),
        ([a_line("A", return_id="D"), a_line("B")], [told("X", text="T")], [None, "X"], []),
        # First a number that cannot be a name in the other form.
        ([a_line("A"), a_line("B", end_to_end_id="E1")], [told("X"), told("Y", end_to_end_id="E2")], ["Y", "X"], []),
        ([a_line("A", amount_cents=1), a_line("B", return_id="D")], [told("X", end_to_end_id="E2")], [None, None], ["X"]),
    ],
)
def test_lines_are_counted_and_names_keep_them_apart(
    lines: list[InstitutionItem], recorded: list[RecordedItem], matches: list[str | None], unlisted: list[str]
) -> None:
    found = compare(lines, recorded, "ofx")
    assert [match and match.item_id for match in found.matches] == matches
    assert [item.item_id for item in found.unlisted] == unlisted
    assert [*found.is_more] == [match is None for match in matches]


def test_ten_thousand_equal_lines_are_compared_joined_and_judged_in_bounded_time() -> None:
    begun_s, count = time.process_time(), 10_000
    named = [a_line(f"A{number}", end_to_end_id=f"E{number}") for number in range(count)]
    assert None not in compare(named, [told(f"X{n}", end_to_end_id=f"E{count - 1 - n}") for n in range(count)], "ofx").matches
    fields: dict[str, Any] = dict(holder_id=1, direction="IN", amount_cents=1000, day=DAY, settled_at=AT, state="settled")
    lines = [BookLine(key=("transfer", number), names=(f"E{number}",), **fields) for number in range(count)]
    bare = [a_line(f"A{number}") for number in range(count + 1)]
    assert (len(join_items(bare, lines).joins), len(join_items(bare[:-1], lines).joins)) == (0, count)
    known = OpenAmounts(
        unnamed_cents=frozenset(), our_names=frozenset(), begins_at=AT.replace(day=1), begins_on=DAY, today=DAY, read_until=AT
    )
    left = LeftLines(structs.replace(line, amount_cents=number + 1001) for number, line in enumerate(lines))
    later = [structs.replace(item, day=date(2026, 7, 2)) for item in bare]
    assert {judge_left(item, left, known).waits for item in later} == {"not_yet_read"}
    assert time.process_time() - begun_s < 20
