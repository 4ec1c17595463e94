"""The feed on the wire."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Final, Literal, get_args

import msgspec
from msgspec import Meta, Struct, structs

from pixconnect.doors.api.contract.charge import PaidBy, show_paid_by
from pixconnect.doors.api.contract.transfer import TransferParty, show_party
from pixconnect.doors.api.envelope import Amount, Id, Instant
from pixconnect.doors.api.operation import Later, Nothing, Request, Services
from pixconnect.features.webhooks.service import feed as feed_usecases
from pixconnect.features.webhooks.service.feed import PAGE_SIZE_MAX, WAIT_MAX_S, FeedCursor, FeedQuery, FeedWaits
from pixconnect.kernel.rules.event import EVENT_NAMES, EventName, Resource
from pixconnect.kernel.rules.listing import NUMBER_MAX, CursorText
from pixconnect.kernel.rules.refund import Refund, RefundReason
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.platform.base import errors

_CURSOR: Final = CursorText(1, ">BQH", 7, "cursor: must be one that the feed answered to you")
"""The position, and how many events at it come before: 18 octets."""


class EventFeedQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which events, and how long to wait for them."""

    cursor: Annotated[str, Meta(max_length=512)] | None = None
    """Where to continue: the `cursor` of the last answer, or of the last event that you have processed."""
    start: Literal["oldest", "now"] | None = None
    """Where to begin without a cursor: at the oldest event that is kept, which is the default, or behind the newest."""
    page_size: Annotated[int, Meta(ge=1, le=PAGE_SIZE_MAX)] = 100
    """Events an answer, at most."""
    wait_s: Annotated[int, Meta(ge=0, le=WAIT_MAX_S)] = 0
    """If there are no events, wait this many seconds; answered as soon as there are some."""
    event_types: str | None = None
    """Only events of these names, separated by commas."""
    resource: Resource | None = None
    """Only events of resources of this kind."""
    id: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    """Only events of the resource that has this id: the service's, yours, or the network's."""


class EventOutcome(Struct, frozen=True, kw_only=True):
    """Why a transfer or refund failed."""

    code: Annotated[str, Meta(examples=["AC03"])]
    """The rail's code, or the service's."""
    reason: str
    """The same as a sentence."""


class EventDetail(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts missing in the payload; fields that do not apply are omitted."""

    amount: Amount | None = None
    """For a charge: its amount."""
    paid_by: PaidBy | None = None
    """For a paid charge: the payment."""
    debit_party: TransferParty | None = None
    """For an incoming transfer: the payer."""
    credit_party: TransferParty | None = None
    """For an outgoing transfer: the payee."""
    charge_id: Id | None = None
    """For a transfer that pays a charge of yours: the charge."""
    transaction_identification: str | None = None
    """For a transfer by QR code: the code's txid."""
    transfer_id: Id | None = None
    """For a refund: the transfer that it returns."""
    return_reason: RefundReason | None = None
    """For a refund: its reason."""
    description: str | None = None
    """For a refund: its author's words."""
    outcome: EventOutcome | None = None
    """For a transfer or refund that failed: why."""


class FeedEvent(Struct, frozen=True, kw_only=True):
    """An event of the feed: the webhooks' contents, and more."""

    id: Id
    """The event's id, as in webhooks."""
    name: EventName
    """Its type."""
    create_timestamp: Instant
    """When it happened."""
    resource: Resource
    """Its subject."""
    resource_id: Id
    """The id of that charge, transfer, refund or movement."""
    # Raw: it is answered as it was stored and posted, octet for octet.
    payload: Annotated[msgspec.Raw, Meta(extra_json_schema=dict(type="object"))]
    """The payload of the event's family, such as `TransferPayload`, as webhooks post it."""
    detail: EventDetail
    """Facts missing in the payload."""
    cursor: str
    """Continues after this event: store it together with your own record of the event."""


class EventFeed(Struct, frozen=True, kw_only=True):
    """A part of the feed."""

    events: list[FeedEvent]
    """In the order of the feed; of one resource, in the order in which they happened."""
    cursor: str
    """Goes on after this part. Keep it, also where there were no events."""
    has_more: bool
    """Whether there is more now. A filter may leave a part empty before the end."""


async def read_event_feed(services: Services, request: Request[None, EventFeedQuery, Nothing]) -> EventFeed | Later:
    """Read the feed of your events.

    Every event, with or without a webhook, in an order that never changes: a program that stores the cursor misses
    none. You can read a new event within moments. The service refuses a cursor older than the events it keeps, with
    CURSOR_EXPIRED.
    """
    query, holder_id = request.query, request.caller.holder_id
    asked = _read_query(query, holder_id)
    page = await feed_usecases.read_feed(services.context, request.caller, asked)
    if page.events or page.has_more or not query.wait_s:
        return _show_page(page, holder_id)

    async def answer(turn: Callable[[], AbstractAsyncContextManager[None]]) -> EventFeed:
        clock = services.context.clock
        ends_at_s = clock.monotonic_s() + query.wait_s
        async with services.of_features[FeedWaits].hold(holder_id) as is_woken_within:
            # The end of one look is where the next begins, or `now` would be later each time.
            following = structs.replace(asked, cursor=page.next)
            while True:
                async with turn():
                    found = await feed_usecases.read_feed(services.context, request.caller, following)
                if found.events or found.has_more or not await is_woken_within(ends_at_s - clock.monotonic_s()):
                    return _show_page(found, holder_id)
                following = structs.replace(asked, cursor=found.next)

    return Later(answer=answer)


def _read_query(query: EventFeedQuery, holder_id: int) -> FeedQuery:
    if query.cursor is not None and query.start is not None:
        raise errors.BadRequest("start: must not be given together with a cursor")
    names: frozenset[EventName] | None = None
    if query.event_types is not None:
        given = frozenset(query.event_types.split(","))
        if not given <= EVENT_NAMES:
            raise errors.BadRequest(f"event_types: must be names separated by commas, of {', '.join(get_args(EventName))}")
        names = given
    return FeedQuery(
        cursor=None if query.cursor is None else read_feed_cursor(query.cursor, holder_id),
        start=query.start or "oldest",
        page_size=query.page_size,
        names=names,
        resource=query.resource,
        any_id=query.id,
    )


def write_feed_cursor(cursor: FeedCursor, holder_id: int) -> str:
    return _CURSOR.write(holder_id.to_bytes(8), cursor.position, cursor.passed_count)


def read_feed_cursor(text: str, holder_id: int) -> FeedCursor:
    """Read a cursor of this holder's feed; raises ``BadRequest``."""
    position, passed_count = _CURSOR.read(holder_id.to_bytes(8), text)
    if position > NUMBER_MAX:
        raise _CURSOR.refuse()
    return FeedCursor(position=position, passed_count=passed_count)


def _show_page(page: feed_usecases.FeedPage, holder_id: int) -> EventFeed:
    return EventFeed(
        events=[_show_event(one, holder_id) for one in page.events],
        cursor=write_feed_cursor(page.next, holder_id),
        has_more=page.has_more,
    )


class _Body(Struct, frozen=True):
    """The fields that we take unchanged from an event's body."""

    create_timestamp: str
    payload: msgspec.Raw


_read_body: Final = msgspec.json.Decoder(_Body).decode


def _show_event(one: feed_usecases.FeedEvent, holder_id: int) -> FeedEvent:
    body = _read_body(one.event.body)
    return FeedEvent(
        id=one.event.id,
        name=one.event.name,
        create_timestamp=body.create_timestamp,
        resource=one.event.resource,
        resource_id=one.event.resource_id,
        payload=body.payload,
        detail=_show_detail(one),
        cursor=write_feed_cursor(one.next, holder_id),
    )


def _show_detail(one: feed_usecases.FeedEvent) -> EventDetail:
    if one.charge is not None:
        is_paid = one.event.name == "qrcode.approved"
        return EventDetail(
            amount=one.charge.amount_cents,
            paid_by=None if not is_paid or one.transfer is None else show_paid_by(one.charge.id, one.transfer),
        )
    has_failed = one.event.name.endswith(".error")
    if one.transfer is not None:
        party = show_party(one.transfer.counterparty)
        is_incoming = one.transfer.direction == "IN"
        return EventDetail(
            debit_party=party if is_incoming else None,
            credit_party=None if is_incoming else party,
            charge_id=one.transfer.charge_id,
            transaction_identification=one.transfer.txid,
            outcome=_show_outcome(one.transfer) if has_failed else None,
        )
    if one.refund is not None:
        return EventDetail(
            transfer_id=one.refund.transfer_id,
            return_reason=one.refund.reason,
            description=one.refund.description,
            outcome=_show_outcome(one.refund) if has_failed else None,
        )
    return EventDetail()


def _show_outcome(ended: Transfer | Refund) -> EventOutcome | None:
    if ended.outcome_code is None:
        return None
    return EventOutcome(code=ended.outcome_code, reason=ended.outcome_reason or "")
