"""Equal values of rows are sent once, with the same result."""

from typing import Any

import asyncpg
import msgspec
import pytest

from pixconnect.features.webhooks.tables.feed import EVENT
from pixconnect.kernel.rules.event import Event
from pixconnect.kernel.tables import event as event_store
from pixconnect.kernel.tables.table import numbered, of_columns
from support.postgres import Addresses
from support.records import NOW, make_event

EVENTS = [make_event(number, number, 7, "qrcode.pending", NOW) for number in (1, 2, 3)]
PART = of_columns(
    EVENT,
    name="rows",
    sql=f"select {EVENT.names} from ({{rows}}) as new ({{names}})",
    once=["name, created_at"],
)


async def test_rows_that_are_alike_are_the_same_rows(database: Addresses) -> None:
    once, arguments = PART.fit(EVENTS)
    assert once == PART.alike[0].sql
    connection = await asyncpg.connect(database.owner_url)
    try:
        each = numbered(PART.sql, len(EVENT.types))
        alike = numbered(once, len(arguments))
        assert await connection.fetch(alike, *arguments) == await connection.fetch(each, *EVENT.arrays(EVENTS))
    finally:
        await connection.close()


@pytest.mark.parametrize("change", [{"name": "qrcode.expired"}, {"created_at": NOW.replace(microsecond=1)}])
def test_rows_that_differ_where_they_mostly_do_not_are_not_alike(change: dict[str, Any]) -> None:
    events: list[Event] = [*EVENTS, msgspec.structs.replace(EVENTS[0], **change)]
    assert PART.fit(events) == (PART.sql, EVENT.arrays(events))
    assert event_store.APPEND.fit(events) == (event_store.APPEND.sql, EVENT.arrays(events))


def test_rows_of_one_holder_are_sent_with_the_least() -> None:
    of_one = [msgspec.structs.replace(event, holder_id=1) for event in EVENTS]
    assert [event_store.APPEND.fit(events)[0] for events in (of_one, EVENTS)] == [
        alike.sql for alike in event_store.APPEND.alike
    ]
