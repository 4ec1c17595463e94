"""Webhook endpoints, deliveries and events on the wire."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, structs

from pixconnect.doors.api import paging
from pixconnect.doors.api.decoding import read_instant
from pixconnect.doors.api.envelope import Id, Instant, Listing, ListQuery, format_duration
from pixconnect.doors.api.operation import Nothing, Request, Services
from pixconnect.features.webhooks.rules import delivery as delivery_rules
from pixconnect.features.webhooks.rules import endpoint as endpoint_rules
from pixconnect.features.webhooks.rules.delivery import DeliveryStatus
from pixconnect.features.webhooks.rules.endpoint import SECRET_LENGTH_MAX, SECRET_LENGTH_MIN, EndpointStatus
from pixconnect.features.webhooks.service import endpoint as endpoint_usecases
from pixconnect.features.webhooks.service import redelivery as redelivery_usecases
from pixconnect.kernel.rules.event import OWN_EVENT_NAMES, EventName
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_instant

Url = Annotated[str, Meta(examples=["https://example.com/pix"])]
Secret = Annotated[str, Meta(min_length=SECRET_LENGTH_MIN, max_length=SECRET_LENGTH_MAX)]
EventTypes = Annotated[
    list[EventName],
    Meta(
        description=f"Beyond the contract's there are {', '.join(f'`{name}`' for name in OWN_EVENT_NAMES)}.",
        min_length=1,
        extra_json_schema={"uniqueItems": True},
    ),
]


class CreateEndpointRequest(endpoint_rules.EndpointRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A webhook endpoint to be made."""

    url: Url
    """A public https address."""
    secret: Secret
    """Known to you and the service only; it signs deliveries. One that begins with `whsec_` is the base64 of 24 to 64 bytes."""
    event_types: EventTypes
    """The types of events that are posted to it."""


class ChangeEndpointRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The fields to change; the others stay."""

    url: Url | UnsetType = UNSET
    """A public https address."""
    secret: Secret | UnsetType = UNSET
    """The old one signs beside it for 24 hours."""
    event_types: EventTypes | UnsetType = UNSET
    """The types of events that are posted to it."""
    status: Literal["active", "inactive"] | UnsetType = UNSET
    """Pause or resume."""

    schema_rules: ClassVar = dict(minProperties=1)


class WebhookEndpoint(Struct, frozen=True, kw_only=True):
    """Where events are posted. The secret is never shown."""

    id: Id
    """The service's own name for it."""
    url: Url
    """A public https address."""
    event_types: list[EventName]
    """The types of events that are posted to it."""
    status: EndpointStatus
    """`active`; `inactive`: paused by you; `disabled`: stopped by the service after 410 or days of failures."""
    create_timestamp: Instant
    """When it was made."""
    last_modified: Instant
    """When it last changed."""


class DeliveryAttempt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One POST and its result."""

    number: int
    """From 1; redelivery counts on."""
    time: Instant
    """When it began."""
    status_code: int | None = None
    """The answer's status, if there was an answer."""
    duration: Annotated[str, Meta(examples=["12.30ms"])]
    """From looking up the name to the last byte."""
    response: str
    """The first KiB of the answer."""
    error: str | None = None
    """Why it failed."""


class WebhookDelivery(Struct, frozen=True, kw_only=True):
    """One event on its way to one endpoint."""

    id: Id
    """The service's own name for it."""
    endpoint_id: Id
    """The endpoint that it goes to."""
    event_id: Id
    """The event that it delivers."""
    status: DeliveryStatus
    """`pending` until an attempt succeeds (`delivered`) or the last one fails (`failed`)."""
    attempts: list[DeliveryAttempt]
    """Oldest first."""


class WebhookEvent(Struct, frozen=True, kw_only=True):
    """An event, as it is posted."""

    id: Id
    """The event's id, the same on every attempt: use it to drop duplicates."""
    name: EventName
    """Its type."""
    # Raw: it is answered as it was stored and posted, octet for octet.
    payload: Annotated[msgspec.Raw, Meta(extra_json_schema=dict(type="object"))]
    """The payload of the event's family, such as `TransferPayload`."""
    create_timestamp: Instant
    """When it happened."""


class DeliveryListQuery(ListQuery, frozen=True, kw_only=True):
    """Which deliveries."""

    status: DeliveryStatus | None = None
    """Only deliveries of this status."""


class ReplayRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A span of time whose events are to be sent again."""

    initial_date: Instant
    """The first instant included. RFC 3339 with an offset."""
    final_date: Instant
    """The last instant included. RFC 3339 with an offset."""


class Replayed(Struct, frozen=True, kw_only=True):
    """The deliveries to send again."""

    replayed: int
    """The number of events."""


async def create_endpoint(services: Services, request: Request[None, Nothing, CreateEndpointRequest]) -> WebhookEndpoint:
    """Register a webhook endpoint.

    Events that happen from now on are posted to it. At most 20 endpoints.
    """
    # Whether the address is public is judged by the use case, and again at each attempt.
    return _show_endpoint(await endpoint_usecases.create_endpoint(services.context, request.caller, request.body))


async def list_endpoints(services: Services, request: Request[None, ListQuery, Nothing]) -> Listing[WebhookEndpoint]:
    """List your webhook endpoints."""
    asked = paging.read_asked("endpoints", request)
    page = await endpoint_usecases.list_endpoints(services.context, request.caller, asked.span)
    return asked.show(page, map(_show_endpoint, page.items))


async def get_endpoint(services: Services, request: Request[int, Nothing, Nothing]) -> WebhookEndpoint:
    """Read a webhook endpoint."""
    return _show_endpoint(await endpoint_usecases.read_endpoint(services.context, request.caller, request.parameter))


async def change_endpoint(services: Services, request: Request[int, Nothing, ChangeEndpointRequest]) -> WebhookEndpoint:
    """Change a webhook endpoint.

    Any of the fields, at least one. A new secret signs at once; for 24 hours `webhook-signature` carries both.
    """
    body = request.body
    # An empty change is more likely a forgotten field than intended.
    if body == ChangeEndpointRequest():
        raise errors.BadRequest("body: must have at least one field")
    # On the wire a field that is left out is UNSET and null is refused; for the domain None is "as it was".
    fields = {name: value for name, value in structs.asdict(body).items() if value is not UNSET}
    change = endpoint_rules.EndpointChange(**fields)
    endpoint = await endpoint_usecases.change_endpoint(services.context, request.caller, request.parameter, change)
    return _show_endpoint(endpoint)


async def delete_endpoint(services: Services, request: Request[int, Nothing, Nothing]) -> WebhookEndpoint:
    """Delete a webhook endpoint.

    Answers it as it was.
    """
    return _show_endpoint(await endpoint_usecases.delete_endpoint(services.context, request.caller, request.parameter))


async def list_deliveries(services: Services, request: Request[int, DeliveryListQuery, Nothing]) -> Listing[WebhookDelivery]:
    """List an endpoint's deliveries.

    With the newest 15 attempts of each; of all but the newest, the first 64 characters of the answer.
    """
    asked = paging.read_asked("deliveries", request)
    page = await endpoint_usecases.list_deliveries(
        services.context, request.caller, request.parameter, request.query.status, asked.span
    )
    return asked.show(page, map(_show_delivery, page.items))


async def get_delivery(services: Services, request: Request[int, Nothing, Nothing]) -> WebhookDelivery:
    """Read a delivery.

    With every attempt; of more than 100, which only redelivery makes, the newest.
    """
    return _show_delivery(await endpoint_usecases.read_delivery(services.context, request.caller, request.parameter))


async def redeliver(services: Services, request: Request[int, Nothing, Nothing]) -> WebhookDelivery:
    """Deliver again.

    Starts a new schedule; of a pending delivery it tries now, unless an earlier event of its resource waits.
    """
    return _show_delivery(await redelivery_usecases.redeliver(services.context, request.caller, request.parameter))


async def list_events(services: Services, request: Request[None, ListQuery, Nothing]) -> Listing[WebhookEvent]:
    """List your events.

    All events, with or without a webhook. Newest first.
    """
    asked = paging.read_asked("events", request)
    page = await endpoint_usecases.list_events(services.context, request.caller, asked.span)
    # We store the body as it is posted, so a list never differs from it.
    return asked.show(page, (_read_event(event.body) for event in page.items))


async def replay_events(services: Services, request: Request[int, Nothing, ReplayRequest]) -> Replayed:
    """Send past events again.

    Every event of that time of the endpoint's types; those still pending are not counted, and become due at once. An inactive
    endpoint gets them later.
    While another replay to the endpoint is running, or if too many would be pending: LIMIT_EXCEEDED.
    """
    count = await redelivery_usecases.redeliver_events(
        services.context,
        request.caller,
        request.parameter,
        read_instant("initial_date", request.body.initial_date),
        read_instant("final_date", request.body.final_date),
    )
    return Replayed(replayed=count)


def _show_endpoint(endpoint: endpoint_rules.Endpoint) -> WebhookEndpoint:
    return WebhookEndpoint(
        id=endpoint.id,
        url=endpoint.url,
        event_types=list(endpoint.event_types),
        status=endpoint.status,
        create_timestamp=format_instant(endpoint.created_at),
        last_modified=format_instant(endpoint.modified_at),
    )


def _show_delivery(delivery: delivery_rules.Delivery) -> WebhookDelivery:
    return WebhookDelivery(
        id=delivery.id,
        endpoint_id=delivery.endpoint_id,
        event_id=delivery.event_id,
        status=delivery.status,
        attempts=[
            DeliveryAttempt(
                number=attempt.number,
                time=format_instant(attempt.started_at),
                status_code=attempt.status_code,
                duration=format_duration(attempt.duration_us / 1e6),
                response=attempt.response,
                error=attempt.error,
            )
            for attempt in delivery.attempts
        ],
    )


_read_event = msgspec.json.Decoder(WebhookEvent).decode
