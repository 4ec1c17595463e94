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
    """What the payload does not say; what does not apply is None."""

    amount: int | None = None
    """Of a charge: the amount asked for, in cents."""
    paid_by: PaidBy | None = None
    """Of a charge that was paid: by what."""
    debit_party: TransferParty | None = None
    """Of an incoming transfer: the payer."""
    credit_party: TransferParty | None = None
    """Of an outgoing transfer: the payee."""
    charge_id: int | None = None
    """Of a transfer that pays a charge of yours: which one."""
    transaction_identification: str | None = None
    """Of a transfer by QR code: the code's txid."""
    transfer_id: int | None = None
    """Of a refund: the transfer that is returned."""
    return_reason: RefundReason | None = None
    description: str | None = None
    """Of a refund: its author's words."""
    outcome: EventOutcome | None = None
    """Of a transfer or refund that failed: why."""


class FeedEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event of the feed: what webhooks say, and more."""

    id: int
    """As in webhooks."""
    name: EventName
    create_timestamp: datetime
    resource: ResourceKind
    resource_id: int
    """The id of that charge, transfer or refund."""
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
    """Of one resource, in the order in which they happened."""
    cursor: str
    """Goes on after this part: keep it, also where there were no events."""
    has_more: bool
    """Whether there is more now; a filter may leave a part empty before the end."""
