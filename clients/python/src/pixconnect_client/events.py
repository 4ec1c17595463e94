"""Webhook events, with a payload type per resource."""

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
    """Payload of ``qrcode.*`` events."""

    id: int
    transaction_identification: str
    """Its txid."""
    external_id: str
    """Your own id for it, or a generated one."""
    status: ChargeStatus
    """The status after this event."""
    create_timestamp: datetime
    """When the charge was created."""


class CreditHold(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A payment to you that your institution holds as suspect."""

    deliver: str
    """``NOT_YET``: the payer may get it back. Deliver after its release."""
    until: datetime
    """Deadline of its release or return."""
    charge_id: int | None = None
    """The charge that it pays when it is released."""
    transaction_identification: str | None = None
    """The txid of the payment."""
    external_id: str | None = None
    """Your own id for the charge."""


class TransferPayload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Payload of ``transfer.*`` events."""

    id: int
    external_id: str | None = None
    """Your own id for it; None if incoming."""
    end_to_end_id: str
    """Its id on the network."""
    correlation_id: str
    """Shared by a transfer and its refunds."""
    amount: int
    """The amount sent. Cents."""
    impact_type: Direction
    """IN credits you, OUT debits you."""
    initiation_type: InitiationType
    """How the payee was identified: by key, account or QR code."""
    status: TransferStatus
    """The status after this event."""
    create_timestamp: datetime
    """When the transfer was accepted."""
    hold: CreditHold | None = None
    """Only in ``transfer.in.held``."""


class RefundPayload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Payload of ``refund.*`` events."""

    id: int
    external_id: str | None = None
    """Your own id for it; None if incoming."""
    return_identification: str
    """Its id on the network."""
    original_end_to_end_id: str
    """The Pix that is returned."""
    correlation_id: str
    """Shared with the transfer that is returned."""
    amount: int
    """The amount returned. Cents."""
    status: RefundStatus
    """The status after this event."""
    flow: Direction
    """OUT: you return a payment that you received. IN: a payment of yours is returned to you."""
    create_timestamp: datetime
    """When the refund was accepted."""


class MovementPayload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Payload of ``movement.*`` events."""

    id: int
    """Id of its line in your statement, if there is one."""
    item_id: str
    """Id of the item in the institution's statement, unique per account."""
    kind: str
    """``opening_balance``, or a ``MovementKind``."""
    impact_type: Direction
    """IN credits you, OUT debits you."""
    amount: int
    """The amount. Cents."""
    deficit: int
    """The part that your balance did not cover. Incoming money repays it first. Cents."""
    end_to_end_id: str | None = None
    """The related Pix, such as the one that a fee is charged for."""
    description: str | None = None
    """The institution's text."""
    status: str
    """``POSTED``: other states have no event."""
    settle_timestamp: datetime
    """When it happened at the institution."""
    create_timestamp: datetime
    """When it was posted."""


class DivergencePayload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Payload of ``charge.*`` events."""

    id: int
    """Id of the incoming transfer."""
    end_to_end_id: str
    """Its id on the network."""
    correlation_id: str
    """Shared by this transfer and its refunds."""
    divergences: list[Divergence]
    """How it differs from its charge. It pays the charge unless that was already paid or never opened."""
    transaction_identification: str
    """The charge's txid; without a charge, the txid of the payment."""
    charge_id: int | None = None
    external_id: str | None = None
    """Your own id for the charge, or a generated one."""
    amount: int
    """The paid amount. Cents."""
    asked_amount: int | None = None
    """The amount of the charge. Cents."""
    status: TransferStatus
    """The transfer's status."""
    settle_timestamp: datetime
    """When it settled at the institution."""
    create_timestamp: datetime
    """When it was recorded."""


class AdjustmentPayload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Payload of ``adjustment.*`` events."""

    id: int
    """Id of its line in your statement, if there is one."""
    kind: str
    """``bank_error``, ``our_error``, ``found``, or ``written_off``: charged to the account's owner."""
    impact_type: Direction
    """IN credits you, OUT debits you."""
    amount: int
    """The amount. Cents."""
    deficit: int
    """The part that your balance did not cover. Incoming money repays it first. Cents."""
    opposite_of: int | None = None
    """Id of the adjustment that this one reverses."""
    status: str
    """``POSTED``: other states have no event."""
    create_timestamp: datetime
    """When it was posted."""


class InfractionPayload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Payload of ``infraction.*`` events."""

    id: int
    """The infraction's id."""
    infraction_id: str
    """Your institution's id of it."""
    end_to_end_id: str
    """End-to-end id of the contested Pix."""
    transfer_id: int
    """Id of its transfer."""
    charge_id: int | None = None
    """The charge that the Pix paid."""
    transaction_identification: str | None = None
    """The txid of the Pix."""
    external_id: str | None = None
    """Your own id for the charge, or a generated one."""
    amount: int
    """The contested amount. Cents."""
    held: int
    """The amount blocked on your account. Cents."""
    taken: int
    """The amount that your institution has returned. Cents."""
    reason: InfractionReason
    situation: InfractionSituation
    words: str | None = None
    """The payer's statement."""
    status: InfractionStatus
    """Its state."""
    respond_by: datetime
    """Deadline of your answer."""
    respond_to: str
    """Path of the operation that answers it."""
    create_timestamp: datetime
    """When this service recorded it."""


class ChargeEvent(Struct, frozen=True, kw_only=True):
    """An event of a charge."""

    id: int
    """The same on every attempt: use it to drop duplicates."""
    name: EventName
    payload: ChargePayload
    create_timestamp: datetime


class TransferEvent(Struct, frozen=True, kw_only=True):
    """An event of a transfer that you sent or received."""

    id: int
    name: EventName
    payload: TransferPayload
    create_timestamp: datetime


class RefundEvent(Struct, frozen=True, kw_only=True):
    """An event of a refund that you sent or received."""

    id: int
    name: EventName
    payload: RefundPayload
    create_timestamp: datetime


class MovementEvent(Struct, frozen=True, kw_only=True):
    """Your institution moved money on your account other than by one of your Pix."""

    id: int
    name: EventName
    payload: MovementPayload
    create_timestamp: datetime


class DivergenceEvent(Struct, frozen=True, kw_only=True):
    """A payment at your institution differs from its charge. The money is yours."""

    id: int
    name: EventName
    payload: DivergencePayload
    create_timestamp: datetime


class AdjustmentEvent(Struct, frozen=True, kw_only=True):
    """Operators adjusted your balance, which differed from the institution's."""

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
    """An event of a type that this version does not define."""

    id: int
    name: EventName
    payload: Mapping[str, Any]
    create_timestamp: datetime


_KnownEvent = ChargeEvent | TransferEvent | RefundEvent | MovementEvent | DivergenceEvent | AdjustmentEvent | InfractionEvent
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
    """Decode an event from a webhook or a list.

    Raises:
        msgspec.MsgspecError: It is not an event.
    """
    family = msgspec.json.decode(content, type=_Name).name.partition(".")[0]
    return msgspec.json.decode(content, type=_FAMILIES.get(family, OtherEvent))


def payload_fields(name: str) -> Sequence[str]:
    """The payload of an event type that this version defines."""
    return _PAYLOADS[name.partition(".")[0]].__struct_fields__
