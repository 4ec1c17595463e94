"""The page of events matches the events that use cases write."""

from scripts.pages import events
from scripts.write_pages import EVENTS, MEND, REFERENCE
from support import postgres


async def test_the_page_of_events_shows_what_the_facts_cause(database: postgres.Addresses) -> None:
    page = events.write_page(await events.make_examples(database))
    assert (REFERENCE / EVENTS).read_text(encoding="utf-8") == page, MEND
