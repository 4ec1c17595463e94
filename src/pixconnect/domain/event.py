"""Events: what happened, in the form in which webhooks announce it.

An event is made where its fact is decided, and written in the same transaction. Its body is encoded once: every attempt
at every endpoint sends the same bytes.
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
"""Work is leased in this many parts. A charge, the transfer that pays it and its refunds share one."""


class ChargePayload(Struct, frozen=True, kw_only=True):
    """The payload of ``qrcode.*`` events."""

    id: int
    transaction_identification: str
    external_id: str
    status: str
    create_timestamp: str


class TransferPayload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The payload of ``transfer.*`` events; incoming transfers have no ``external_id``."""

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
    """The payload of ``refund.*`` events; incoming refunds have no ``external_id``."""

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
    """The body of a webhook."""

    id: int
    name: EventName
    payload: ChargePayload | TransferPayload | RefundPayload
    create_timestamp: str
    """When the fact was decided, service time."""


class Event(Struct, frozen=True, kw_only=True):
    id: int
    """Below 2^53, so that JSON readers keep it; receivers drop ids that they have seen."""
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
    envelope = Envelope(id=event_id, name=name, payload=payload, create_timestamp=format_instant(created_at))
    return _encoder.encode(envelope).decode()
