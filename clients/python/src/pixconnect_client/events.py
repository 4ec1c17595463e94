"""What happened, typed by what it happened to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from pixconnect_client.enums import (
    ChargeStatus,
    Direction,
    EventName,
    InitiationType,
    RefundStatus,
    TransferStatus,
)


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


class MovementPayload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What ``movement.*`` events say."""

    id: int
    """That of its line in your statement, where it has one."""
    item_id: str
    """The institution's name of the item in its own statement; unique on your account."""
    kind: str
    """What it is: ``opening_balance``, or as ``MovementKind`` says."""
    impact_type: Direction
    """IN credits you, OUT debits you."""
    amount: int
    """How much was moved. Cents."""
    deficit: int
    """The part of it that you did not have: you owe it, and whatever comes in repays it first. Cents."""
    end_to_end_id: str | None = None
    """The Pix that it is about, such as the one that a fee is taken of."""
    description: str | None = None
    """The institution's text."""
    status: str
    """``POSTED``: only what moved money is told."""
    settle_timestamp: datetime
    """When it happened at the institution."""
    create_timestamp: datetime
    """When it was posted."""


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


class MovementEvent(Struct, frozen=True, kw_only=True):
    """Your institution has moved money on your account by no Pix of yours."""

    id: int
    name: EventName
    payload: MovementPayload
    create_timestamp: datetime


class OtherEvent(Struct, frozen=True, kw_only=True):
    """An event of a kind that this version does not know."""

    id: int
    name: EventName
    payload: Mapping[str, Any]
    create_timestamp: datetime


Event = ChargeEvent | TransferEvent | RefundEvent | MovementEvent | OtherEvent

_FAMILIES: Final[Mapping[str, type[ChargeEvent | TransferEvent | RefundEvent | MovementEvent]]] = {
    "qrcode": ChargeEvent,
    "transfer": TransferEvent,
    "refund": RefundEvent,
    "movement": MovementEvent,
}


_PAYLOADS: Final[Mapping[str, type[ChargePayload | TransferPayload | RefundPayload | MovementPayload]]] = {
    "qrcode": ChargePayload,
    "transfer": TransferPayload,
    "refund": RefundPayload,
    "movement": MovementPayload,
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
