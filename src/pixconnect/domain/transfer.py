"""A transfer: money moved over the rail, out or in.

::

    OUT:  PROCESSING ──settle──► CONFIRMED ──returns reach the amount──► RETURNED
              ├──reject (by the rail)──► ERROR
              └──cancel (never handed over)──► CANCELLED
    IN:   PROCESSING ──receive──► CONFIRMED ──refunds reach the amount──► RETURNED
              └──refuse (by us)──► ERROR

An outgoing transfer reserves its money when accepted. While the rail has not ended it there is an order beside it
(``domain.order``); once it was handed over only the rail's own word ends it, and it can no longer be cancelled.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec
from msgspec import Struct

from pixconnect.domain import errors
from pixconnect.domain import event as events
from pixconnect.domain.clock import format_instant
from pixconnect.domain.event import Event, EventName
from pixconnect.domain.holder import KeyType, Party
from pixconnect.domain.rail import InitiationType

TransferStatus = Literal["PROCESSING", "CONFIRMED", "ERROR", "CANCELLED", "RETURNED"]
Direction = Literal["IN", "OUT"]

_EVENT_NAMES: dict[tuple[Direction, TransferStatus], EventName] = {
    ("OUT", "PROCESSING"): "transfer.out.processing",
    ("OUT", "CONFIRMED"): "transfer.out.confirmed",
    ("OUT", "ERROR"): "transfer.out.error",
    ("OUT", "CANCELLED"): "transfer.out.error",
    ("IN", "PROCESSING"): "transfer.in.processing",
    ("IN", "CONFIRMED"): "transfer.in.confirmed",
    ("IN", "ERROR"): "transfer.in.error",
}


class KeyTransferRequest(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="transfer by key"):
    """A transfer to a Pix key, as a client sent it: nothing is judged or normalised yet."""

    amount_cents: int
    key: str
    key_type: KeyType
    external_id: str | None = None


class AccountTransferRequest(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="transfer by account"):
    """A transfer to an account, as a client sent it: nothing is judged or normalised yet."""

    amount_cents: int
    credit_party: Party
    external_id: str | None = None


class QrCodeTransferRequest(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="transfer by QR code"):
    """A transfer to whoever a BR Code names, as a client sent it: nothing is judged yet."""

    amount_cents: int
    br_code: str
    external_id: str | None = None


TransferRequest = KeyTransferRequest | AccountTransferRequest | QrCodeTransferRequest


class Transfer(Struct, frozen=True, kw_only=True):
    """Money moved over the rail, or between two holders of ours by book.

    Attributes:
        id: Below 2^53.
        holder_id: Whose side this is.
        direction: ``OUT`` debits the holder, ``IN`` credits.
        initiation_type: How the payer named the payee.
        is_book: Between two holders of ours, without the rail.
        external_id: The client's name for an outgoing one; unique for the holder. ``None`` for incoming ones.
        fingerprint: Of the request that made it; ``None`` for incoming ones.
        end_to_end_id: Its name on the whole network.
        correlation_id: Joins everything of one payment, refunds included.
        txid: Of the QR code, 1 to 35 characters.
        charge_id: The charge that an incoming one pays, or was refused for.
        amount_cents: Cents.
        status: See the module.
        own_key: Our side's Pix key, where one was used.
        counterparty: The other side.
        outcome_code: Why it failed: the rail's code, or ours.
        outcome_reason: The same as a sentence.
        returned_cents: Settled returns or refunds of it.
        returning_cents: Those under way.
        slot: Part of the workers' division of labour; its refunds share it.
        handed_at: When an outgoing one was handed to the rail; while it is under way, its order knows.
        settled_at: When the money moved.
        created_at: Service time.
        modified_at: Service time.
    """

    id: int
    holder_id: int
    direction: Direction
    initiation_type: InitiationType
    is_book: bool
    external_id: str | None
    fingerprint: bytes | None
    end_to_end_id: str
    correlation_id: UUID
    txid: str | None
    charge_id: int | None
    amount_cents: int
    status: TransferStatus
    own_key: str | None
    counterparty: Party
    outcome_code: str | None
    outcome_reason: str | None
    returned_cents: int
    returning_cents: int
    slot: int
    handed_at: datetime | None
    settled_at: datetime | None
    created_at: datetime
    modified_at: datetime


def is_spent(transfer: Transfer) -> bool:
    """Whether it counts against its holder's limits: what failed or was cancelled does not, what was returned does."""
    return transfer.direction == "OUT" and transfer.status not in {"ERROR", "CANCELLED"}


def settle_transfer(transfer: Transfer, now: datetime) -> Transfer:
    """The transfer, with its money moved."""
    errors.ensure(transfer.status == "PROCESSING", transfer.status)
    return msgspec.structs.replace(transfer, status="CONFIRMED", settled_at=now, modified_at=now)


def fail_transfer(transfer: Transfer, code: str, reason: str, now: datetime) -> Transfer:
    """The transfer, rejected by the rail (outgoing) or refused by us (incoming); no money has moved."""
    errors.ensure(transfer.status == "PROCESSING", transfer.status)
    return msgspec.structs.replace(transfer, status="ERROR", outcome_code=code, outcome_reason=reason, modified_at=now)


def cancel_transfer(transfer: Transfer, reason: str, now: datetime) -> Transfer:
    """The transfer, which provably never left."""
    errors.ensure(transfer.status == "PROCESSING", transfer.status)
    errors.ensure(transfer.handed_at is None, "what was handed to the rail is never cancelled")
    return msgspec.structs.replace(
        transfer,
        status="CANCELLED",
        outcome_code="NOT_HANDED_OVER",
        outcome_reason=reason,
        modified_at=now,
    )


def return_part(transfer: Transfer, amount_cents: int, now: datetime, *, returning_cents: int = 0) -> Transfer:
    """The transfer, of which a part was returned or refunded; RETURNED when nothing of it is left.

    Args:
        transfer: Settled.
        amount_cents: The part.
        now: Service time.
        returning_cents: How much of it stood as under way until now.
    """
    errors.ensure(transfer.status == "CONFIRMED", transfer.status)
    returned_cents = transfer.returned_cents + amount_cents
    errors.ensure(returned_cents <= transfer.amount_cents, "never more than was sent")
    return msgspec.structs.replace(
        transfer,
        status="RETURNED" if returned_cents == transfer.amount_cents else "CONFIRMED",
        returned_cents=returned_cents,
        returning_cents=transfer.returning_cents - returning_cents,
        modified_at=now,
    )


def keep_part(transfer: Transfer, amount_cents: int) -> Transfer:
    """The transfer, of which a part was not refunded after all."""
    errors.ensure(transfer.returning_cents >= amount_cents, "only what was under way can fail")
    return msgspec.structs.replace(transfer, returning_cents=transfer.returning_cents - amount_cents)


def begin_return(transfer: Transfer, amount_cents: int) -> Transfer:
    """The transfer, of which a part is being refunded."""
    errors.ensure(transfer.status == "CONFIRMED", transfer.status)
    return msgspec.structs.replace(transfer, returning_cents=transfer.returning_cents + amount_cents)


def announce_transfer(transfer: Transfer, event_id: int) -> Event:
    """The event that tells the state which a transfer has just reached."""
    name = _EVENT_NAMES[transfer.direction, transfer.status]
    payload = events.TransferPayload(
        id=transfer.id,
        external_id=transfer.external_id,
        end_to_end_id=transfer.end_to_end_id,
        correlation_id=transfer.correlation_id,
        amount=transfer.amount_cents,
        impact_type=transfer.direction,
        initiation_type=transfer.initiation_type,
        status=transfer.status,
        create_timestamp=format_instant(transfer.created_at),
    )
    return Event(
        id=event_id,
        holder_id=transfer.holder_id,
        name=name,
        resource="transfer",
        resource_id=transfer.id,
        slot=transfer.slot,
        body=events.encode_body(event_id, name, payload, transfer.modified_at),
        created_at=transfer.modified_at,
    )


class TransferView(Struct, frozen=True, kw_only=True):
    """A transfer as its holder sees it.

    Attributes:
        transfer: The transfer.
        debit_party: Who pays.
        credit_party: Who is paid.
    """

    transfer: Transfer
    debit_party: Party
    credit_party: Party
