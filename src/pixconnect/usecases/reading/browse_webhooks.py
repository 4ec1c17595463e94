"""The webhooks' part of the console's lists: deliveries, events with theirs, and endpoints with how they are doing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, get_args

from msgspec import Struct, structs

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.event import EVENT_NAMES, Event
from pixconnect.domain.frame.wanted import Wanted
from pixconnect.domain.identity.console import Viewer
from pixconnect.domain.webhooks import endpoint as endpoint_rules
from pixconnect.domain.webhooks.delivery import Delivery, DeliveryStatus
from pixconnect.domain.webhooks.endpoint import Endpoint, EndpointState
from pixconnect.foundation.pool import Pool
from pixconnect.store.reading import browse as browse_store
from pixconnect.store.reading import timeline as timeline_store
from pixconnect.store.reading.browse import BrowsePosition, Chunk
from pixconnect.store.webhooks import delivery_history
from pixconnect.store.webhooks import endpoint as endpoint_store
from pixconnect.usecases.frame.context import Context, Core
from pixconnect.usecases.reading.browse import Browsed, check_names, check_span, look_back, with_items

ENDPOINTS_MAX: Final = 1_000
"""So many endpoints may have their deliveries listed together."""
PENDING_COUNTED_MAX: Final = 1_000


class DeliveryLine(Struct, frozen=True, kw_only=True):
    delivery: Delivery
    event_name: str | None
    """``None`` where the event is kept no more."""
    resource: str
    resource_id: int
    endpoint: Endpoint | None
    """``None`` where it was deleted."""


async def browse_deliveries(
    context: Context, viewer: Viewer, wanted: Wanted, after: str | None = None, page_size: int = 50
) -> Browsed[DeliveryLine]:
    """Deliveries to one endpoint or to all that are there now; as ``browse``."""
    viewer.require("webhook.read")
    statuses = check_names("status", wanted.statuses, get_args(DeliveryStatus))
    check_names("event type", wanted.event_types, tuple(EVENT_NAMES))
    span = check_span(wanted, after, page_size)
    endpoints = {each.id: each for each in await _find_endpoints(context.pool, viewer, wanted.endpoint_id)}

    async def look(before: BrowsePosition, look_at_count: int, show_count: int) -> Chunk:
        return await browse_store.look_back_at_deliveries(
            context.pool, [*endpoints], wanted, statuses, before, look_at_count, show_count
        )

    found = await look_back(context, look, span, [])
    deliveries = await delivery_history.read_listed(context.pool, found.items)
    names = await browse_store.read_event_names(
        context.pool, [(delivery.event_id, delivery.holder_id) for delivery in deliveries]
    )
    lines = [
        DeliveryLine(
            delivery=delivery,
            event_name=names.get(delivery.event_id),
            resource=row["resource"],
            resource_id=row["resource_id"],
            endpoint=endpoints[delivery.endpoint_id],
        )
        for row, delivery in zip(found.items, deliveries, strict=True)
    ]
    return with_items(found, lines)


async def _find_endpoints(pool: Pool, viewer: Viewer, endpoint_id: int | None) -> list[Endpoint]:
    async with pool.acquire() as connection:
        found = await endpoint_store.find_some(connection, viewer.holder_id, endpoint_id, ENDPOINTS_MAX)
    if not found and endpoint_id is not None:
        raise errors.NotFound("endpoint: there is no such endpoint")
    return found


class EventView(Struct, frozen=True, kw_only=True):
    event: Event
    deliveries: Sequence[DeliveryLine]
    """To endpoints that are there now, and to those that were deleted last."""


async def read_event(context: Context, viewer: Viewer, event_id: int) -> EventView:
    """An event with its deliveries."""
    viewer.require("webhook.read")
    event = await timeline_store.find_event(context.pool, event_id, viewer.holder_id)
    if event is None:
        raise errors.NotFound("id: there is no such event")
    # Whoever may see all holders sees the event's endpoints among those of its own holder.
    owner = structs.replace(viewer, holder_id=event.holder_id)
    endpoints = {each.id: each for each in await _find_endpoints(context.pool, owner, None)}
    removed_ids = await endpoint_store.list_removed(context.pool, event.holder_id)
    deliveries = await timeline_store.find_deliveries(context.pool, [*endpoints, *removed_ids], [event])
    lines = [
        DeliveryLine(
            delivery=delivery,
            event_name=event.name,
            resource=event.resource,
            resource_id=event.resource_id,
            endpoint=endpoints.get(delivery.endpoint_id),
        )
        for delivery in deliveries
    ]
    return EventView(event=event, deliveries=lines)


class EndpointLine(Struct, frozen=True, kw_only=True):
    endpoint: Endpoint
    state: EndpointState


async def browse_endpoint(context: Context, viewer: Viewer, endpoint_id: int) -> EndpointLine:
    """One endpoint with how it is doing; refuses as ``browse_deliveries`` does."""
    (line,) = await list_endpoint_lines(context, viewer, endpoint_id)
    return line


async def list_endpoint_lines(context: Core, viewer: Viewer, endpoint_id: int | None = None) -> list[EndpointLine]:
    """Endpoints by their ids, each with how it is doing; of one alone, it must be there."""
    viewer.require("webhook.read")
    endpoints = await _find_endpoints(context.pool, viewer, endpoint_id)
    backlogs = await endpoint_store.read_backlogs(context.pool, [each.id for each in endpoints], PENDING_COUNTED_MAX)
    return [
        EndpointLine(endpoint=endpoint, state=endpoint_rules.describe_state(endpoint, *backlogs[endpoint.id]))
        for endpoint in endpoints
    ]
