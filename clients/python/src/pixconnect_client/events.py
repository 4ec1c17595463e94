"""What happened, typed by what it happened to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from pixconnect_client.enums import ChargeStatus, Direction, EventName, InitiationType, RefundStatus, TransferStatus


class ChargePayload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What ``qrcode.*`` events say."""

    id: int
    transaction_identification: str
    """Its txid."""
    external_id: str
    """Your own name for it, or the one that the service made."""
    status: ChargeStatus
    """What it became by this event."""
    create_timestamp: datetime
    """When the charge was made."""


class TransferPayload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What ``transfer.*`` events say."""

    id: int
    external_id: str | None = None
    """Your own name for it; incoming ones have none."""
    end_to_end_id: str
    """Its name on the whole network."""
    correlation_id: str
    """The same in everything that belongs to one transfer, its refunds included."""
    amount: int
    """The amount sent. Cents."""
    impact_type: Direction
    """IN credits you, OUT debits you."""
    initiation_type: InitiationType
    """How the payee was named: by key, by account, or by QR code."""
    status: TransferStatus
    """What it became by this event."""
    create_timestamp: datetime
    """When the transfer was accepted."""


class RefundPayload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What ``refund.*`` events say."""

    id: int
    external_id: str | None = None
    """Your own name for it; incoming ones have none."""
    return_identification: str
    """Its name on the whole network."""
    original_end_to_end_id: str
    """The Pix that is returned."""
    correlation_id: str
    """The same as that of the transfer that is returned."""
    amount: int
    """The amount returned. Cents."""
    status: RefundStatus
    """What it became by this event."""
    flow: Direction
    """OUT: you return what you received. IN: what you sent is returned to you."""
    create_timestamp: datetime
    """When the refund was accepted."""


class ChargeEvent(Struct, frozen=True, kw_only=True):
    """Something happened to a charge."""

    id: int
    """The same on every attempt: drop what you have seen."""
    name: EventName
    payload: ChargePayload
    create_timestamp: datetime


class TransferEvent(Struct, frozen=True, kw_only=True):
    """Something happened to a transfer, one that you sent or one that you received."""

    id: int
    name: EventName
    payload: TransferPayload
    create_timestamp: datetime


class RefundEvent(Struct, frozen=True, kw_only=True):
    """Something happened to a refund, one that you sent or one that you received."""

    id: int
    name: EventName
    payload: RefundPayload
    create_timestamp: datetime


class OtherEvent(Struct, frozen=True, kw_only=True):
    """An event of a kind that this version does not know."""

    id: int
    name: EventName
    payload: Mapping[str, Any]
    create_timestamp: datetime


Event = ChargeEvent | TransferEvent | RefundEvent | OtherEvent

_FAMILIES: Final[Mapping[str, type[ChargeEvent | TransferEvent | RefundEvent]]] = {
    "qrcode": ChargeEvent,
    "transfer": TransferEvent,
    "refund": RefundEvent,
}


_PAYLOADS: Final[Mapping[str, type[ChargePayload | TransferPayload | RefundPayload]]] = {
    "qrcode": ChargePayload,
    "transfer": TransferPayload,
    "refund": RefundPayload,
}


class _Name(Struct):
    name: str


def read_event(content: bytes | msgspec.Raw) -> Event:
    """Read an event as it is posted and listed.

    Raises:
        msgspec.MsgspecError: It is none.
    """
    family = msgspec.json.decode(content, type=_Name).name.partition(".")[0]
    return msgspec.json.decode(content, type=_FAMILIES.get(family, OtherEvent))


def payload_fields(name: str) -> Sequence[str]:
    """What an event that this version knows says."""
    return _PAYLOADS[name.partition(".")[0]].__struct_fields__
