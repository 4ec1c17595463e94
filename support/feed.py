"""Events for tests of the feed, written as a batch writes them."""

from pixconnect.kernel.rules.event import EventName
from pixconnect.kernel.tables.event import EVENTS
from pixconnect.kernel.tables.fact import Changes
from pixconnect.platform import pool
from support.records import make_event
from support.service import STARTED_AT, Service


async def insert_events(
    connection: pool.Connection, *event_ids: int, holder_id: int = 7, name: EventName = "qrcode.pending"
) -> None:
    changes = Changes()
    for event_id in event_ids:
        changes.put(EVENTS, make_event(event_id, holder_id, event_id, name, STARTED_AT))
    await changes.write_all(connection)


async def write_events(service: Service, count: int = 1, holder_id: int = 7, name: EventName = "qrcode.pending") -> list[int]:
    """Write events in one transaction with their ids, as a batch does, and return the ids."""
    async with service.context.pool.acquire() as connection, connection.transaction():
        first_id = await connection.fetchval("select nextval('write_group_id')")
        event_ids = list(range(first_id, first_id + count))
        await insert_events(connection, *event_ids, holder_id=holder_id, name=name)
    return event_ids
