"""What happened, in the words in which it is announced.

An event is made where its fact is decided and written in the same transaction. Its body is encoded once: every attempt at
every endpoint sends the same bytes.
"""

from datetime import datetime
from typing import Final, Literal
from uuid import UUID

import msgspec
from msgspec import Struct

from pixconnect.domain.clock import format_instant

EventName = Literal[
    "qrcode.pending",
    "qrcode.approved",
    "qrcode.expired",
    "transfer.in.processing",
    "transfer.in.confirmed",
    "transfer.in.error",
    "transfer.out.processing",
    "transfer.out.confirmed",
    "transfer.out.error",
    "refund.in.processing",
    "refund.in.returned",
    "refund.in.error",
    "refund.out.processing",
    "refund.out.returned",
    "refund.out.error",
]
EVENT_NAMES: Final = frozenset[str](EventName.__args__)

Resource = Literal["charge", "transfer", "refund"]

SLOTS_COUNT = 256
"""Work is leased in this many parts; everything of one payment is in one part."""


class ChargePayload(Struct, frozen=True, kw_only=True):
    """Of the ``qrcode.*`` events."""

    id: int
    transaction_identification: str
    external_id: str
    status: str
    create_timestamp: str


class TransferPayload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of the ``transfer.*`` events; incoming transfers have no ``external_id``."""

    id: int
    external_id: str | None = None
    end_to_end_id: str
    correlation_id: UUID
    amount: int
    impact_type: Literal["IN", "OUT"]
    initiation_type: Literal["KEY", "MANUAL", "QRCODE"]
    status: str
    create_timestamp: str


class RefundPayload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of the ``refund.*`` events; incoming refunds have no ``external_id``."""

    id: int
    external_id: str | None = None
    return_identification: str
    original_end_to_end_id: str
    correlation_id: UUID
    amount: int
    status: str
    flow: Literal["IN", "OUT"]
    create_timestamp: str


class Envelope(Struct, frozen=True, kw_only=True):
    """The body of a webhook.

    Attributes:
        id: The event's.
        name: Its type.
        payload: As its family has it.
        create_timestamp: When the fact was decided, service time.
    """

    id: int
    name: EventName
    payload: ChargePayload | TransferPayload | RefundPayload
    create_timestamp: str


class Event(Struct, frozen=True, kw_only=True):
    """Something that happened to a charge, a transfer or a refund.

    Attributes:
        id: Below 2^53; receivers drop what they have seen.
        holder_id: Whose it is.
        name: Its type.
        resource: What it happened to...
        resource_id: ...and to which one; events of one resource are delivered in the order of their ids.
        slot: Of the payment.
        body: The JSON that is sent.
        created_at: Service time.
    """

    id: int
    holder_id: int
    name: EventName
    resource: Resource
    resource_id: int
    slot: int
    body: str
    created_at: datetime


_encoder = msgspec.json.Encoder()


def encode_body(
    event_id: int, name: EventName, payload: ChargePayload | TransferPayload | RefundPayload, created_at: datetime
) -> str:
    """The body that announces an event, as it will be sent."""
    envelope = Envelope(id=event_id, name=name, payload=payload, create_timestamp=format_instant(created_at))
    return _encoder.encode(envelope).decode()
