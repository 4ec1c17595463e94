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
    Divergence,
    EventName,
    InfractionReason,
    InfractionSituation,
    InfractionStatus,
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


class CreditHold(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """That your institution holds a payment to you as suspect."""

    deliver: str
    """``NOT_YET``: the payer may get it back; deliver once it is released."""
    until: datetime
    """When it is released or returned at the latest."""
    charge_id: int | None = None
    """The charge that it will pay once it is released."""
    transaction_identification: str | None = None
    """The txid that the payment names."""
    external_id: str | None = None
    """Your own name for the charge."""


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
    hold: CreditHold | None = None
    """Of ``transfer.in.held`` alone."""


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


class DivergencePayload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What ``charge.*`` events say."""

    id: int
    """That of the transfer that brought the money."""
    end_to_end_id: str
    """Its name on the whole network."""
    correlation_id: str
    """The same in everything that belongs to this transfer, its refunds included."""
    divergences: list[Divergence]
    """How it differs from its charge, which it has paid unless that was paid before or never opened."""
    transaction_identification: str
    """The charge's txid; where there is no charge, the one that the payment names."""
    charge_id: int | None = None
    external_id: str | None = None
    """Your own name for the charge, or the one that the service made."""
    amount: int
    """How much was paid. Cents."""
    asked_amount: int | None = None
    """How much the charge asked for. Cents."""
    status: TransferStatus
    """The transfer's."""
    settle_timestamp: datetime
    """When it settled at the institution."""
    create_timestamp: datetime
    """When it was recorded."""


class AdjustmentPayload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What ``adjustment.*`` events say."""

    id: int
    """That of its line in your statement, where it has one."""
    kind: str
    """Whose error it is, ``bank_error`` or ``our_error``; ``found``; or ``written_off``, by which the house takes it over."""
    impact_type: Direction
    """IN credits you, OUT debits you."""
    amount: int
    """By how much. Cents."""
    deficit: int
    """The part of it that you did not have: you owe it, and whatever comes in repays it first. Cents."""
    opposite_of: int | None = None
    """The id of the adjustment that it undoes."""
    status: str
    """``POSTED``: only what moved money is told."""
    create_timestamp: datetime
    """When it was posted."""


class InfractionPayload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What ``infraction.*`` events say."""

    id: int
    """The infraction's id."""
    infraction_id: str
    """Your institution's name of it."""
    end_to_end_id: str
    """The Pix that is contested, by its name on the whole network."""
    transfer_id: int
    """The id of its transfer."""
    charge_id: int | None = None
    """The charge that the Pix has paid."""
    transaction_identification: str | None = None
    """The txid that the Pix names."""
    external_id: str | None = None
    """Your own name for the charge, or the one that the service made."""
    amount: int
    """How much of the Pix is contested. Cents."""
    held: int
    """How much of your money is blocked because of it. Cents."""
    taken: int
    """How much your institution has given back because of it. Cents."""
    reason: InfractionReason
    situation: InfractionSituation
    words: str | None = None
    """What the payer says."""
    status: InfractionStatus
    """How far it is."""
    respond_by: datetime
    """Until when you can answer."""
    respond_to: str
    """Where you answer: the path of the operation."""
    create_timestamp: datetime
    """When it was recorded here."""


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


class DivergenceEvent(Struct, frozen=True, kw_only=True):
    """A payment at your institution is not what its charge asked for; the money is yours."""

    id: int
    name: EventName
    payload: DivergencePayload
    create_timestamp: datetime


class AdjustmentEvent(Struct, frozen=True, kw_only=True):
    """The operators have adjusted what you have: your account and the institution's differed."""

    id: int
    name: EventName
    payload: AdjustmentPayload
    create_timestamp: datetime


class InfractionEvent(Struct, frozen=True, kw_only=True):
    """A payer contests a Pix that you received, and your institution judges it."""

    id: int
    name: EventName
    payload: InfractionPayload
    create_timestamp: datetime


class OtherEvent(Struct, frozen=True, kw_only=True):
    """An event of a kind that this version does not know."""

    id: int
    name: EventName
    payload: Mapping[str, Any]
    create_timestamp: datetime


_KnownEvent = (
    ChargeEvent | TransferEvent | RefundEvent | MovementEvent | DivergenceEvent | AdjustmentEvent | InfractionEvent
)
Event = _KnownEvent | OtherEvent

_FAMILIES: Final[Mapping[str, type[_KnownEvent]]] = {
    "qrcode": ChargeEvent,
    "transfer": TransferEvent,
    "refund": RefundEvent,
    "movement": MovementEvent,
    "charge": DivergenceEvent,
    "adjustment": AdjustmentEvent,
    "infraction": InfractionEvent,
}


_PAYLOADS: Final[Mapping[str, type[Struct]]] = {
    "qrcode": ChargePayload,
    "transfer": TransferPayload,
    "refund": RefundPayload,
    "movement": MovementPayload,
    "charge": DivergencePayload,
    "adjustment": AdjustmentPayload,
    "infraction": InfractionPayload,
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
