"""Events: changes of resources, in the form in which webhooks announce them.

An event is made where its fact is decided, and written in the same transaction. Its body is encoded once: every attempt at
every endpoint sends the same bytes.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Final, Literal
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from pixconnect.domain.frame.clock import format_instant

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
    "movement.posted",
    "transfer.in.completed",
    "charge.diverged",
    "adjustment.posted",
    "transfer.out.waiting",
    "infraction.opened",
    "infraction.answered",
    "infraction.taken",
    "infraction.released",
    "infraction.reminded",
    "transfer.in.held",
]
OWN_EVENT_NAMES: Final = (
    "movement.posted",
    "transfer.in.completed",
    "charge.diverged",
    "adjustment.posted",
    "transfer.out.waiting",
    "infraction.opened",
    "infraction.answered",
    "infraction.taken",
    "infraction.released",
    "infraction.reminded",
    "transfer.in.held",
)
"""Those that the contract does not know."""
INSTITUTION_EVENT_NAMES: Final = frozenset[EventName](
    ("transfer.in.completed", "charge.diverged", "adjustment.posted", "transfer.out.waiting")
)
"""Those that only happen on accounts at institutions, or because an operator wants them: callers of a sandbox cause none."""
TOLD_LATER: Final[Mapping[str, EventName]] = dict[str, EventName](
    IN="transfer.in.completed", OUT="transfer.out.waiting"
)
"""Events of a transfer that leave its state unchanged, by its direction."""
EVENT_NAMES: Final = frozenset[str](EventName.__args__)

EVENT_FACTS: Final = dict[EventName, str](
    (
        ("qrcode.pending", "A charge was created, or one that had expired can be paid again."),
        ("qrcode.approved", "A charge was paid, in time and in full."),
        ("qrcode.expired", "A charge was not paid in time, or was removed."),
        ("transfer.in.processing", "A payment to you has arrived."),
        ("transfer.in.confirmed", "We accepted a payment to you: the money is in your account."),
        ("transfer.in.error", "A payment to you was refused, and no money moved."),
        ("transfer.out.processing", "You started a transfer: its amount is reserved."),
        ("transfer.out.confirmed", "A transfer of yours has settled."),
        (
            "transfer.out.error",
            "A transfer of yours was rejected (`ERROR`), or given up before it left (`CANCELLED`): the money is "
            "yours again.",
        ),
        ("refund.in.processing", "The receiver of a transfer of yours is returning money."),
        ("refund.in.returned", "We accepted the money that the receiver returned: it is in your account."),
        ("refund.in.error", "We refused the money that the receiver returned, and no money moved."),
        ("refund.out.processing", "You started a refund: its amount is reserved."),
        ("refund.out.returned", "A refund of yours has settled."),
        ("refund.out.error", "A refund of yours was rejected, or given up before it left: the money is yours again."),
        (
            "movement.posted",
            "Your institution has moved money on your account by no Pix of yours: a fee, a wire, a person's act.",
        ),
        (
            "transfer.in.completed",
            "More is known about the payer of a payment to you: read its parties. No money moved, and its status "
            "did not change.",
        ),
        (
            "charge.diverged",
            "A payment has settled at your institution that differs from its charge: it was late, of another "
            "amount, a second one, of a removed charge, or of one that was never opened. The money is yours.",
        ),
        (
            "adjustment.posted",
            "The operators have adjusted your balance: your account and the institution's differ, and no Pix or "
            "movement explains it.",
        ),
        (
            "transfer.out.waiting",
            "A transfer of yours waits for a person: for an operator of this service, for approval at your "
            "institution, or for enough money there. Its parties show which one. At the institution it may take "
            "days; its amount stays reserved, and its status does not change.",
        ),
        (
            "infraction.opened",
            "A payer contests a Pix that you received, and your institution judges it: you cannot spend the money "
            "that it has blocked. You can answer until `respond_by`, at `respond_to`.",
        ),
        ("infraction.answered", "Your institution has received your answer to an infraction."),
        (
            "infraction.taken",
            "Your institution has decided for the payer, and returned as much as it could, by a refund of yours "
            "that it made. The rest remains claimed, and may be blocked from incoming money; each later part is "
            "announced again, with the sum of all in `taken`.",
        ),
        ("infraction.released", "Your institution has decided for you: the blocked money is available again."),
        (
            "infraction.reminded",
            "The time to answer an infraction ends soon, and you have not answered: see `respond_by`.",
        ),
        (
            "transfer.in.held",
            "A payment to you has come, and your institution holds it as suspect: do not deliver yet. "
            "`transfer.in.confirmed`, and of a charge `qrcode.approved`, announce its release; `transfer.in.error` "
            "its return.",
        ),
    )
)
"""The fact behind each event: those of the specification in its order, and then ours."""

Resource = Literal["charge", "transfer", "refund", "movement", "adjustment", "infraction"]

SLOTS_COUNT = 256
"""Work is leased in this many parts. A charge, the transfer that pays it and its refunds share one."""


_Amount = Annotated[int, Meta(description="Cents.")]
_Instant = Annotated[
    str, Meta(description="RFC 3339, UTC, with microseconds.", extra_json_schema=dict(format="date-time"))
]


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
    create_timestamp: _Instant
    """When the charge was made."""


class CreditHold(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """That an institution holds a payment as suspect."""

    deliver: Literal["NOT_YET"]
    """The payer may get it back: deliver once it is released, and not before."""
    until: _Instant
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
    amount: _Amount
    """The amount sent."""
    impact_type: Literal["IN", "OUT"]
    """IN credits you, OUT debits you."""
    initiation_type: Literal["KEY", "MANUAL", "QRCODE"]
    """How the payee was named: by key, by account, or by QR code."""
    status: str
    """The status that this event announces."""
    create_timestamp: _Instant
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
    amount: _Amount
    """The amount returned."""
    status: str
    """The status that this event announces."""
    flow: Literal["IN", "OUT"]
    """OUT: you return a payment that you received. IN: a payment of yours is returned to you."""
    create_timestamp: _Instant
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
    amount: _Amount
    """How much was moved."""
    deficit: _Amount
    """The part that exceeded your balance: you owe it, and incoming money repays it first."""
    end_to_end_id: str | None = None
    """The Pix that it is about, such as the one that a fee is taken of."""
    description: str | None = None
    """The institution's text."""
    status: Literal["POSTED"]
    """Only movements that moved money are announced."""
    settle_timestamp: _Instant
    """When it happened at the institution."""
    create_timestamp: _Instant
    """When it was posted."""


Divergence = Literal["EXPIRED", "REMOVED", "OTHER_AMOUNT", "PAID_BEFORE", "NEVER_OPENED"]


class DivergencePayload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The payload of ``charge.*`` events."""

    id: int
    """The id of the transfer that brought the money."""
    end_to_end_id: str
    """Its name on the whole network."""
    correlation_id: UUID
    """The same in everything that belongs to this transfer, its refunds included."""
    divergences: list[Divergence]
    """The differences.

    It has paid the charge that was `EXPIRED` (paid after its end), `REMOVED`, or asked for an `OTHER_AMOUNT`. It has paid none
    where that was `PAID_BEFORE`, or `NEVER_OPENED`: no charge of this txid exists here.
    """
    transaction_identification: str
    """The charge's txid; where there is no charge, the one that the payment names."""
    charge_id: int | None = None
    """The charge's id, where there is one."""
    external_id: str | None = None
    """Your own name for the charge, or the one that the service made."""
    amount: _Amount
    """How much was paid."""
    asked_amount: _Amount | None = None
    """The charge's requested amount."""
    status: str
    """The transfer's: the money is in your account."""
    settle_timestamp: _Instant
    """When it settled at the institution."""
    create_timestamp: _Instant
    """When it was recorded here."""


class AdjustmentPayload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The payload of ``adjustment.*`` events."""

    id: int
    """The adjustment's id: that of its line in your statement, where it has one."""
    kind: str
    """The source of the error, `bank_error` or `our_error`; `found`; or `written_off`, by which the house takes it over."""
    impact_type: Literal["IN", "OUT"]
    """IN credits you, OUT debits you."""
    amount: _Amount
    """By how much."""
    deficit: _Amount
    """The part that exceeded your balance: you owe it, and incoming money repays it first."""
    opposite_of: int | None = None
    """The id of the adjustment that it undoes."""
    status: Literal["POSTED"]
    """Only movements that moved money are announced."""
    create_timestamp: _Instant
    """When it was posted: it is never dated back."""


class InfractionPayload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The payload of ``infraction.*`` events."""

    id: int
    """The infraction's id here."""
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
    amount: _Amount
    """How much of the Pix is contested."""
    held: _Amount
    """How much of your money is blocked because of it."""
    taken: _Amount
    """How much your institution has given back because of it."""
    reason: Literal["fraud", "operational_flaw"]
    """The payer's institution's reason: the payer was deceived, or the Pix went wrong by a fault."""
    situation: Literal["scam", "account_takeover", "coercion", "fraudulent_access", "other"]
    """The situation, in the words of the key directory."""
    words: str | None = None
    """The payer's words."""
    status: str
    """`OPEN`, `ANSWERED`, `TAKEN` or `RELEASED`."""
    respond_by: _Instant
    """Until when you can answer."""
    respond_to: str
    """Where you answer: the path of the operation."""
    create_timestamp: _Instant
    """When it was recorded here."""


Payload = (
    ChargePayload
    | TransferPayload
    | RefundPayload
    | MovementPayload
    | DivergencePayload
    | AdjustmentPayload
    | InfractionPayload
)


class Envelope(Struct, frozen=True, kw_only=True):
    """The body of a webhook."""

    id: int
    name: EventName
    payload: Payload
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


def encode_body(event_id: int, name: EventName, payload: Payload, created_at: datetime) -> str:
    envelope = Envelope(id=event_id, name=name, payload=payload, create_timestamp=format_instant(created_at))
    return _encoder.encode(envelope).decode()
