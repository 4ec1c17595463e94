"""Events, and the deliveries that are written with them."""

from typing import Final

from pixconnect.domain.event import Event
from pixconnect.store.part import Part, columns_of

APPEND: Final = Part[Event](
    name="event_row",
    sql="""
        insert into event (id, holder_id, name, resource, resource_id, slot, body, created_at)
        select * from unnest({}::bigint[], {}::bigint[], {}::text[], {}::text[], {}::bigint[], {}::smallint[], {}::text[],
            {}::timestamptz[])
        returning id, holder_id, name, resource, resource_id, slot, created_at
    ),
    delivery_row as (
        insert into delivery (id, holder_id, endpoint_id, event_id, resource, resource_id, slot, status, due_at, created_at,
            modified_at)
        select nextval('delivery_id'), event_row.holder_id, webhook_endpoint.id, event_row.id, resource, resource_id, slot,
            'pending', event_row.created_at, event_row.created_at, event_row.created_at
        from event_row
        join webhook_endpoint on webhook_endpoint.holder_id = event_row.holder_id
            and webhook_endpoint.status = 'active' and event_row.name = any(webhook_endpoint.event_types)
        returning 1
    """,
    columns=columns_of("id", "holder_id", "name", "resource", "resource_id", "slot", "body", "created_at"),
)
"""Events, with a delivery for each endpoint that is active now and wants them."""
