"""How many there are of something stands in its enumeration. Where a page or a table says it again, it says the same."""

import re
from pathlib import Path
from typing import Final

import asyncpg
import pytest

from pixconnect.domain.frame.event import EVENT_NAMES, SLOTS_COUNT
from pixconnect.domain.identity.access import SCOPES
from support.postgres import Addresses

ROOT = Path(__file__).resolve().parents[2]
NUMBER: Final = r"(\d+|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|[a-z]+teen|twenty)"
ALL_OF: Final = re.compile(
    rf"\b(?:all|its|the) {NUMBER} (events|event types|scopes|formats|operations|slots)\b", re.IGNORECASE
)
SLOTS: Final = re.compile(r"\b(\d+) slots\b")

_CHECKS: Final = """
    select pg_get_constraintdef(oid) as text from pg_constraint
    where connamespace = 'pixconnect'::regnamespace and contype = 'c'
"""


def find_texts() -> list[Path]:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return [*pages, *(ROOT / "src").rglob("*.py")]


def test_no_text_counts_what_may_grow() -> None:
    counted = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in find_texts()
        for found in ALL_OF.finditer(path.read_text(encoding="utf-8"))
        if found[2].lower() != "slots"
    ]
    assert counted == [], "say it without the number: the enumeration says how many there are"


def test_texts_say_how_many_slots_there_are() -> None:
    said = {
        (str(path.relative_to(ROOT)), int(found[1]))
        for path in find_texts()
        for found in SLOTS.finditer(path.read_text(encoding="utf-8"))
    }
    assert said
    assert {count for _, count in said} == {SLOTS_COUNT}, said


async def test_the_tables_have_the_slots_the_scopes_and_room_for_the_event_types(database: Addresses) -> None:
    connection = await asyncpg.connect(database.owner_url)
    try:
        checks = [row["text"] for row in await connection.fetch(_CHECKS)]
        leased = await connection.fetchval("select array_agg(slot order by slot) from pixconnect.slot_lease")
    finally:
        await connection.close()
    assert leased == list(range(SLOTS_COUNT))
    last_slots = {int(found[1]) for text in checks if (found := re.search(r"\bslot <= (\d+)", text))}
    assert last_slots == {SLOTS_COUNT - 1}

    (scopes,) = (text for text in checks if "cardinality(scopes)" in text)
    assert set(re.findall(r"'([a-z.]+)'::text", scopes)) == set(SCOPES)
    assert re.findall(r"cardinality\(scopes\) <= (\d+)", scopes) == [str(len(SCOPES))]

    (event_types,) = (text for text in checks if "cardinality(event_types)" in text)
    (most,) = re.findall(r"cardinality\(event_types\) <= (\d+)", event_types)
    assert int(most) >= len(EVENT_NAMES)


@pytest.mark.parametrize("text", ["All 15 operations", "its four formats", "the nine scopes"])
def test_a_count_of_what_may_grow_is_found(text: str) -> None:
    assert ALL_OF.search(text)
