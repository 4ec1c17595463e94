"""Tables have room for every slot, scope and event type."""

import re
from typing import Final

import asyncpg

from pixconnect.kernel.rules.access import SCOPES
from pixconnect.kernel.rules.event import EVENT_NAMES, SLOTS_COUNT
from support.postgres import Addresses

_CHECKS: Final = """
    select pg_get_constraintdef(oid) as text from pg_constraint
    where connamespace = 'pixconnect'::regnamespace and contype = 'c'
"""


async def test_the_tables_have_the_slots_and_room_for_the_scopes_and_event_types(database: Addresses) -> None:
    connection = await asyncpg.connect(database.owner_url)
    try:
        checks = [row["text"] for row in await connection.fetch(_CHECKS)]
        leased = await connection.fetchval("select array_agg(slot order by slot) from pixconnect.slot_lease")
    finally:
        await connection.close()
    assert leased == list(range(SLOTS_COUNT))
    last_slots = {int(found[1]) for text in checks if (found := re.search(r"\bslot <= (\d+)", text))}
    assert last_slots == {SLOTS_COUNT - 1}

    for column, names in (("scopes", SCOPES), ("event_types", EVENT_NAMES)):
        (text,) = (text for text in checks if f"cardinality({column})" in text)
        (most,) = re.findall(rf"cardinality\({column}\) <= (\d+)", text)
        assert int(most) >= len(names)
