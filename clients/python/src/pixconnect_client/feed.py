"""The event feed: every event of the holder in a fixed order, also events without a webhook."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from pixconnect_client.enums import EventName, RefundReason, ResourceKind
from pixconnect_client.events import Event, read_event
from pixconnect_client.records import PaidBy, TransferParty


class EventOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The reason of a failed transfer or refund."""

    code: str
    """The code of the network or of the service."""
    reason: str
    """The reason as a sentence."""


class EventDetail(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Data beside the payload; fields that do not apply are None."""

    amount: int | None = None
    """The amount of a charge, in cents."""
    paid_by: PaidBy | None = None
    """The payment of a paid charge."""
    debit_party: TransferParty | None = None
    """The payer of an incoming transfer."""
    credit_party: TransferParty | None = None
    """The payee of an outgoing transfer."""
    charge_id: int | None = None
    """The charge of yours that a transfer pays."""
    transaction_identification: str | None = None
    """The txid of the QR code of a transfer."""
    transfer_id: int | None = None
    """The transfer that a refund returns."""
    return_reason: RefundReason | None = None
    description: str | None = None
    """The description of a refund."""
    outcome: EventOutcome | None = None
    """The reason of a failed transfer or refund."""


class FeedEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event of the feed: the webhook's contents with more detail."""

    id: int
    """The same id as in webhooks."""
    name: EventName
    create_timestamp: datetime
    resource: ResourceKind
    resource_id: int
    """Id of the charge, transfer, refund or movement."""
    payload: msgspec.Raw
    """The webhook payload as JSON; ``event`` has it typed."""
    detail: EventDetail
    cursor: str
    """Continues after this event. Store it in the same transaction as your processing."""

    @property
    def event(self) -> Event:
        """The event as ``verify_webhook`` returns it."""
        return read_event(self.body)

    @property
    def body(self) -> bytes:
        """The exact body of its webhook."""
        at = self.create_timestamp.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        fields = dict(id=self.id, name=self.name, payload=self.payload, create_timestamp=at)
        return msgspec.json.encode(fields)


class EventFeed(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of the feed."""

    events: list[FeedEvent]
    """Events in feed order; events of one resource are in the order in which they occurred."""
    cursor: str
    """Continues after this page. Store it even if the page is empty."""
    has_more: bool
    """Whether more events are available. With a filter, a page can be empty before the end."""
