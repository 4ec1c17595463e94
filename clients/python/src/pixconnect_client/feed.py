"""The feed: every event of the holder, whether or not a webhook endpoint was told of it, in an order that never changes."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from pixconnect_client.enums import EventName, RefundReason, ResourceKind
from pixconnect_client.events import Event, read_event
from pixconnect_client.records import PaidBy, TransferParty


class EventOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a transfer or refund failed."""

    code: str
    """The rail's code, or the service's."""
    reason: str
    """The same as a sentence."""


class EventDetail(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts beside the payload; those that do not apply are None."""

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
    """The words of a refund's author."""
    outcome: EventOutcome | None = None
    """Why a transfer or refund failed."""


class FeedEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event of the feed: what webhooks say, and more."""

    id: int
    """As in webhooks."""
    name: EventName
    create_timestamp: datetime
    resource: ResourceKind
    resource_id: int
    """The id of that charge, transfer, refund or movement."""
    payload: msgspec.Raw
    """As webhooks post it, in JSON; ``event`` has it typed."""
    detail: EventDetail
    cursor: str
    """Goes on after this event: keep it with what you did about it."""

    @property
    def event(self) -> Event:
        """The event as ``verify_webhook`` gives it."""
        return read_event(self.body)

    @property
    def body(self) -> bytes:
        """What a webhook posts about it, octet for octet."""
        at = self.create_timestamp.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        fields = dict(id=self.id, name=self.name, payload=self.payload, create_timestamp=at)
        return msgspec.json.encode(fields)


class EventFeed(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of the feed."""

    events: list[FeedEvent]
    """The events of one resource, in the order in which they happened."""
    cursor: str
    """Goes on after this part: keep it, also where there were no events."""
    has_more: bool
    """Whether there is more now; a filter may leave a part empty before the end."""
