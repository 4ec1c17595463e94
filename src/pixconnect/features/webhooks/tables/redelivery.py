"""Sends one delivery again, or events, in batches.

A delivery is sent again on a new schedule, together with all deliveries of the same body, while its event is kept. Events are
sent again as new deliveries.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString

from pixconnect.features.webhooks.rules.endpoint import KEY_WEBHOOK_RESOURCE, Endpoint
from pixconnect.kernel.tables.lookup import AdvisoryLocks, Command
from pixconnect.platform.pool import Connection, Pool

# One delivery.

_FIND_TOLD_TOGETHER: Final[LiteralString] = """
    select first.id, first.covers from delivery join delivery as first
        on first.id = coalesce(delivery.covered_by, delivery.id) and first.holder_id = delivery.holder_id
    where delivery.id = $1 and (delivery.holder_id = $2 or delivery.holder_id = any (array(
        select member.id from holder as asked join holder as member on member.family_id = asked.family_id where asked.id = $2
    )))
"""


async def find_same_body(connection: Connection, holder_id: int, delivery_id: int) -> list[int]:
    """Find the deliveries in one body with one of the holder or its family: first the one that stores the body, or will."""
    row = await connection.fetchrow(_FIND_TOLD_TOGETHER, delivery_id, holder_id)
    return [] if row is None else [row["id"], *(row["covers"] or ())]


restart: Final = Command[Sequence[int], datetime]("""
    update delivery set status = 'pending', due_at = $2, failures_count = 0, modified_at = $2
    where id = any($1) and exists (
        select from delivery as first
        join event on event.id = first.event_id and event.holder_id = first.holder_id where first.id = ($1::bigint[])[1]
    )
""")
"""Start a new schedule, now, for all deliveries in one body; all of them are locked, and the first stores the body."""

# Replay of an interval's events to one endpoint.

_IS_NOT_PENDING: Final[LiteralString] = """not exists (
            select from delivery where delivery.endpoint_id = $1 and delivery.resource_id = event.resource_id
                and delivery.event_id = event.id and delivery.status = 'pending'
        )"""
_COUNT_EVENTS: Final[LiteralString] = f"""
    select count(*) from (
        select from event
        where holder_id = $2 and name = any($3) and created_at between $4 and $5 and {_IS_NOT_PENDING}
        limit $6
    ) as matching
"""


async def count_events(
    connection: Connection | Pool, endpoint: Endpoint, holder_id: int, since: datetime, until: datetime, count_max: int
) -> int:
    """Count a holder's events that an endpoint would get again, up to ``count_max``."""
    given = endpoint.id, holder_id, list(endpoint.event_types), since, until, count_max
    if endpoint.pix_key is None:
        return await connection.fetchval(_COUNT_EVENTS, *given)
    return await connection.fetchval(_COUNT_KEY_EVENTS, *given, endpoint.pix_key)


_REDELIVER_EVENTS: Final[LiteralString] = f"""
    with chosen as (
        select id, holder_id, resource, resource_id, slot, created_at from event
        where holder_id = $2 and name = any($3) and created_at <= $5 and (created_at, id) > ($4, $6) and {_IS_NOT_PENDING}
        order by created_at, id limit $8
    ),
    told as (
        insert into delivery (id, holder_id, endpoint_id, event_id, resource, resource_id, slot, status, due_at, created_at,
            modified_at)
        select nextval('delivery_id'), holder_id, $1, id, resource, resource_id, slot, 'pending', $7, $7, $7
        from (select * from chosen order by created_at, id) as chosen
    )
    select created_at, id from chosen order by created_at, id
"""

# Looked up event by event, for any estimates of the planner: a join has read all of them.
_OF_PIX: Final[LiteralString] = """
    event cross join lateral (
        select coalesce(
            (
                select refund.transfer_id from refund
                where event.resource = 'refund' and refund.id = event.resource_id and refund.holder_id = event.holder_id
            ),
            event.resource_id
        ) as id offset 0
    ) as pix
"""
_IS_TOLD: Final[LiteralString] = """
    (select own_key from transfer where transfer.id = pix.id and transfer.holder_id = event.holder_id) = $7
    and not exists (
        select from delivery where delivery.endpoint_id = $1 and delivery.resource_id = pix.id
            and delivery.event_id = event.id and delivery.status = 'pending'
    )
"""
_COUNT_KEY_EVENTS: Final[LiteralString] = f"""
    select count(*) from (
        select from {_OF_PIX}
        where event.holder_id = $2 and event.name = any($3) and event.created_at between $4 and $5 and {_IS_TOLD}
        limit $6
    ) as matching
"""
_REDELIVER_KEY_EVENTS: Final[LiteralString] = f"""
    with chosen as (
        select event.id, event.holder_id, event.created_at, pix.id as transfer_id from {_OF_PIX}
        where event.holder_id = $2 and event.name = any($3) and event.created_at <= $5
            and (event.created_at, event.id) > ($4, $6) and {_IS_TOLD}
        order by event.created_at, event.id limit $9
    ),
    told as (
        insert into delivery (id, holder_id, endpoint_id, event_id, resource, resource_id, slot, status, due_at, created_at,
            modified_at)
        select nextval('delivery_id'), holder_id, $1, id, '{KEY_WEBHOOK_RESOURCE}', transfer_id, $1 % 256, 'pending', $8, $8, $8
        from (select * from chosen order by created_at, id) as chosen
    )
    select created_at, id from chosen order by created_at, id
"""


async def redeliver_events(
    connection: Connection,
    endpoint: Endpoint,
    holder_id: int,
    after: tuple[datetime, int],
    until: datetime,
    now: datetime,
    count_max: int,
) -> list[tuple[datetime, int]]:
    """Make new deliveries of old events, of the endpoint's types, except those already pending for it.

    Args:
        holder_id: The events' holder: the endpoint's, or one that it has succeeded.
        after: The instant and id of the last event sent before.

    Returns:
        The instants and ids of the events, oldest first; fewer than ``count_max`` at the end.
    """
    given = endpoint.id, holder_id, list(endpoint.event_types), after[0], until, after[1]
    if endpoint.pix_key is None:
        rows = await connection.fetch(_REDELIVER_EVENTS, *given, now, count_max)
    else:
        rows = await connection.fetch(_REDELIVER_KEY_EVENTS, *given, endpoint.pix_key, now, count_max)
    return [(row["created_at"], row["id"]) for row in rows]


redelivering_events: Final = AdvisoryLocks(0x7078_6104).holding
"""Lock out other redeliveries to an endpoint; yields ``False`` if another one is running."""
