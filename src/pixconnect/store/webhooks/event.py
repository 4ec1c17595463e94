"""The table of events: what happened, in the very bytes that are sent."""

from __future__ import annotations

from typing import Final, LiteralString

from pixconnect.domain.frame.event import Event
from pixconnect.domain.frame.listing import Page, Span
from pixconnect.foundation.pool import Pool
from pixconnect.store.frame import listing as listing_store
from pixconnect.store.frame.listing import AFTER, AFTER_ORDER, Source
from pixconnect.store.frame.table import Table, of_columns
from pixconnect.store.frame.tally import webhook_hours_statement

EVENT: Final = Table(
    "event",
    Event,
    """
    id bigint, holder_id bigint, name text, resource text, resource_id bigint, slot smallint, body text,
    created_at timestamptz
    """,
)

# It returns the rows from which the same statement makes deliveries: see ``store/webhooks/delivery.py``.
APPEND: Final = of_columns(
    EVENT,
    once=[("name", "resource", "created_at", "holder_id"), ("name", "resource", "created_at")],
    name="event_row",
    sql="""
        insert into event ({names}) {rows}
        returning id, holder_id, name, resource, resource_id, slot, created_at
    """,
)

_OF_SPAN: Final[LiteralString] = "from event where holder_id = $1 and created_at between $2 and $3"
_LIST: Final = Source(
    hours=webhook_hours_statement("event", "made"),
    page=f"select {EVENT.select} {_OF_SPAN} order by created_at desc, id desc offset $4 limit $5",
    page_after=f"select {EVENT.select} from event where holder_id = $1 and {AFTER} {AFTER_ORDER}",
    count=f"select count(*) {_OF_SPAN}",
)


async def read_page(pool: Pool, holder_id: int, span: Span) -> Page[Event]:
    page = await listing_store.read_page(pool, _LIST, holder_id, None, span)
    return page.with_items([EVENT.read(row) for row in page.items])
