"""Events: changes of resources, in the form in which webhooks deliver them.

An event is created where its fact is decided, and written in the same transaction. Its body is encoded once: every attempt at
every endpoint sends the same bytes.
"""

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Protocol, TypeAlias
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from pixconnect.kernel.feature import Event as EventRow
from pixconnect.kernel.feature import list_features
from pixconnect.kernel.rules.money import show_reais
from pixconnect.platform.base.clock import format_instant

_CHARGE: Final = "`POST /v1/connect/charge`"
_PAYMENT: Final = "`POST /sandbox/v1/payments` with a `key` of yours, or with a charge's `emv`"
_TRANSFER: Final = "a transfer to `settle@sandbox.pix.example`"
_REFUND: Final = "`POST /v1/connect/refund` of a payment that you received"
_RETURN: Final = "`POST /sandbox/v1/returns` of a transfer that has settled"
# The contract's, in its order, and ours.
_KERNEL: Final = (
    EventRow("qrcode.pending", "charge", "A charge was created, or one that had expired can be paid again.", _CHARGE),
    EventRow(
        "qrcode.approved",
        "charge",
        "A charge was paid. If late or with another amount, `charge.diverged` comes too.",
        "`POST /sandbox/v1/payments` with its `emv`",
    ),
    EventRow(
        "qrcode.expired",
        "charge",
        "A charge was not paid in time, or was removed.",
        '`POST /sandbox/v1/clock` with `{"advance_s": 86400}`',
    ),
    EventRow("transfer.in.processing", "transfer", "A payment to you has arrived.", _PAYMENT),
    EventRow("transfer.in.confirmed", "transfer", "We accepted a payment to you: the money is in your account.", _PAYMENT),
    EventRow(
        "transfer.in.error",
        "transfer",
        "A payment to you was refused, and no money moved.",
        "`POST /sandbox/v1/payments` with a charge's `emv` and another `amount`",
    ),
    EventRow("transfer.out.processing", "transfer", "You started a transfer: its amount is reserved.", _TRANSFER),
    EventRow("transfer.out.confirmed", "transfer", "A transfer of yours has settled.", _TRANSFER),
    EventRow(
        "transfer.out.error",
        "transfer",
        "A transfer of yours was rejected (`ERROR`), or given up before it left (`CANCELLED`): the money is yours again.",
        "a transfer to `reject-ac03@sandbox.pix.example`; for `CANCELLED` any transfer under the rule"
        ' `{"match": {"operation": "submit"}, "effect": "unavailable"}`, and then the clock a minute on',
    ),
    EventRow("refund.in.processing", "refund", "The receiver of a transfer of yours is returning money.", _RETURN),
    EventRow(
        "refund.in.returned", "refund", "We accepted the money that the receiver returned: it is in your account.", _RETURN
    ),
    EventRow(
        "refund.in.error",
        "refund",
        "We refused the money that the receiver returned, and no money moved.",
        "the same with an `amount` above the transfer's",
    ),
    EventRow("refund.out.processing", "refund", "You started a refund: its amount is reserved.", _REFUND),
    EventRow("refund.out.returned", "refund", "A refund of yours has settled.", _REFUND),
    EventRow(
        "refund.out.error",
        "refund",
        "A refund of yours was rejected, or given up before it left: the money is yours again.",
        'the same under the rule `{"match": {"operation": "refund"}, "effect": "reject:AC03"}`',
    ),
    EventRow(
        "movement.posted",
        "movement",
        "Your institution has moved money on your account by no Pix of yours: a fee, a wire, a person's act.",
        "`POST /sandbox/v1/movements`",
        is_own=True,
    ),
)
_ALL: Final = (*_KERNEL, *(row for feature in list_features() for row in feature.events))
EVENT_FACTS: Final = {row.name: row.fact for row in _ALL}
EVENT_STATUSES: Final = {row.name: row.status or row.name.rpartition(".")[2].upper() for row in _ALL}
OWN_EVENT_NAMES: Final = tuple(row.name for row in _ALL if row.is_own)  # events that extend the contract
SANDBOX_CAUSES: Final = {row.name: row.in_sandbox for row in _ALL if row.in_sandbox}
"""How callers of a sandbox cause an event; only institutions and operators cause the others."""
EVENT_NAMES: Final = frozenset(EVENT_FACTS)
if TYPE_CHECKING:
    EventName: TypeAlias = str
    SandboxEventName: TypeAlias = str
    Resource: TypeAlias = str
else:
    EventName = Literal[tuple(EVENT_FACTS)]
    SandboxEventName = Literal[tuple(SANDBOX_CAUSES)]
    Resource = Literal[tuple(dict.fromkeys(row.resource for row in _ALL))]

SLOTS_COUNT = 256
"""Work is leased in this many parts. A charge, the transfer that pays it and its refunds share one."""


Amount = Annotated[int, Meta(description="Cents.")]
Instant = Annotated[str, Meta(description="RFC 3339, UTC, with microseconds.", extra_json_schema=dict(format="date-time"))]


class ChargePayload(Struct, frozen=True, kw_only=True):
    """The payload of ``qrcode.*`` events."""

    id: int
    """The charge's id."""
    transaction_identification: str
    """Its txid."""
    external_id: str
    """Your own name for it, or the one that the service made."""
    status: str
    """The status that this event announces."""
    create_timestamp: Instant
    """When the charge was made."""


class CreditHold(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """That an institution holds a payment as suspect."""

    deliver: Literal["NOT_YET"]
    """The payer may get it back: deliver once it is released, and not before."""
    until: Instant
    """When the institution releases or returns it at the latest."""
    charge_id: int | None = None
    """The charge that it will pay once it is released.

    Until then the charge is pending, never expires, and no other payment can pay it.
    """
    transaction_identification: str | None = None
    """The txid that the payment names."""
    external_id: str | None = None
    """Your own name for the charge, or the one that the service made."""


class TransferPayload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The payload of ``transfer.*`` events."""

    id: int
    """The transfer's id."""
    external_id: str | None = None
    """Your own name for it; incoming ones have none."""
    end_to_end_id: str
    """Its name on the whole network."""
    correlation_id: UUID
    """The same in everything that belongs to one transfer, its refunds included."""
    amount: Amount
    """The amount sent."""
    impact_type: Literal["IN", "OUT"]
    """IN credits you, OUT debits you."""
    initiation_type: Literal["KEY", "MANUAL", "QRCODE"]
    """How the payee was named: by key, by account, or by QR code."""
    status: str
    """The status that this event announces."""
    create_timestamp: Instant
    """When the transfer was accepted."""
    hold: CreditHold | None = None
    """Of `transfer.in.held` alone."""


class RefundPayload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The payload of ``refund.*`` events."""

    id: int
    """The refund's id."""
    external_id: str | None = None
    """Your own name for it; incoming ones have none."""
    return_identification: str
    """Its name on the whole network."""
    original_end_to_end_id: str
    """The Pix that is returned."""
    correlation_id: UUID
    """The same as that of the transfer that is returned."""
    amount: Amount
    """The amount returned."""
    status: str
    """The status that this event announces."""
    flow: Literal["IN", "OUT"]
    """OUT: you return a payment that you received. IN: a payment of yours is returned to you."""
    create_timestamp: Instant
    """When the refund was accepted."""


class MovementPayload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The payload of ``movement.*`` events."""

    id: int
    """The movement's id: that of its line in your statement, where it has one."""
    item_id: str
    """The institution's name of the item in its own statement; unique on your account."""
    kind: str
    """The kind: `fee`, `wire`, `boleto`, `by_hand` (a person in the institution's app), `reversal`, `judicial`, `other`, or
    `opening_balance`, with which the account begins here."""
    impact_type: Literal["IN", "OUT"]
    """IN credits you, OUT debits you."""
    amount: Amount
    """How much was moved."""
    deficit: Amount
    """The part that exceeded your balance: you owe it, and incoming money repays it first."""
    end_to_end_id: str | None = None
    """The Pix that it is about, such as the one that a fee is taken of."""
    description: str | None = None
    """The institution's text."""
    status: Literal["POSTED"]
    """Only movements that moved money are announced."""
    settle_timestamp: Instant
    """When it happened at the institution."""
    create_timestamp: Instant
    """When it was posted."""


Divergence = Literal["EXPIRED", "REMOVED", "OTHER_AMOUNT", "PAID_BEFORE", "NEVER_OPENED"]


class EventFamily(Struct, frozen=True, kw_only=True):
    """Events whose payload is one record."""

    prefix: str  # the prefix of their names
    schema: str  # the name of the whole event's schema
    payload: type[Struct]
    resource: str | None  # the schema of the resource with its status; ``None`` if callers cannot read it
    # The documented example's values, by its status, of fields that have no usual value; ``UNSET`` leaves a field out.
    example: Callable[[str], dict[str, object]] = lambda _status: {}

    @property
    def names(self) -> list[EventName]:
        return [name for name in EVENT_FACTS if name.startswith(self.prefix)]


FAMILIES: Final = (
    EventFamily(prefix="qrcode.", schema="ChargeEvent", payload=ChargePayload, resource="Charge"),
    EventFamily(prefix="transfer.", schema="TransferEvent", payload=TransferPayload, resource="Transfer"),
    EventFamily(prefix="refund.", schema="RefundEvent", payload=RefundPayload, resource="Refund"),
    EventFamily(
        prefix="movement.",
        schema="MovementEvent",
        payload=MovementPayload,
        resource=None,
        example=lambda _: dict(kind="fee", impact_type="OUT", description="Tarifa Pix", deficit=0),
    ),
)


class Envelope(Struct, frozen=True, kw_only=True):
    """The body of a webhook."""

    id: int
    name: EventName
    payload: Struct
    create_timestamp: str  # when the fact was decided, service time


class Event(Struct, frozen=True, kw_only=True):
    id: int  # below 2^53, so that JSON readers keep it; receivers drop ids that they have seen
    holder_id: int
    name: EventName
    resource: Resource
    resource_id: int
    slot: int
    body: str
    created_at: datetime


class Subject(Protocol):
    """The resource that changed."""

    @property
    def id(self) -> int: ...
    @property
    def holder_id(self) -> int: ...
    @property
    def slot(self) -> int: ...


_encoder = msgspec.json.Encoder()


def make_event(event_id: int, name: EventName, payload: Struct, resource: Resource, subject: Subject, at: datetime) -> Event:
    return Event(
        id=event_id,
        holder_id=subject.holder_id,
        name=name,
        resource=resource,
        resource_id=subject.id,
        slot=subject.slot,
        body=encode_body(event_id, name, payload, at),
        created_at=at,
    )


def encode_body(event_id: int, name: EventName, payload: Struct, created_at: datetime) -> str:
    envelope = Envelope(id=event_id, name=name, payload=payload, create_timestamp=format_instant(created_at))
    return _encoder.encode(envelope).decode()


def describe_event(body: str) -> str:
    """Return the name of an event, and of its subject: the amount and its owner's name for it."""
    event: dict[str, Any] = msgspec.json.decode(body)
    payload = event.get("payload", {})
    words = [str(event.get("name", ""))]
    if "amount" in payload:
        words.append(show_reais(payload["amount"]))
    named = payload.get("external_id") or payload.get("end_to_end_id") or payload.get("return_identification")
    return "  ".join([*words, *([str(named)] if named else [])])
