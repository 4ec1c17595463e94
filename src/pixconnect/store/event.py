"""Events at rest: what happened, in the very bytes that are sent."""

from __future__ import annotations

from typing import Final

from pixconnect.domain.event import Event
from pixconnect.store.part import Part
from pixconnect.store.table import Table

EVENT: Final = Table(
    "event",
    Event,
    """
    id bigint, holder_id bigint, name text, resource text, resource_id bigint, slot smallint, body text,
    created_at timestamptz
    """,
)

APPEND: Final = Part[Event](
    name="event_row",
    sql=f"""
        insert into event ({EVENT.names}) select * from unnest({EVENT.array_parameters})
        returning id, holder_id, name, resource, resource_id, slot, created_at
    """,
    columns=EVENT.arrays,
)
