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

from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

import msgspec
from msgspec import Struct

from pixconnect.domain import charge as charge_rules
from pixconnect.domain import errors, reject_code
from pixconnect.domain import event as events
from pixconnect.domain.charge import Charge
from pixconnect.domain.clock import format_instant
from pixconnect.domain.event import SLOTS_COUNT, Event, EventName
from pixconnect.domain.holder import KeyType, Party
from pixconnect.domain.ledger import Balance
from pixconnect.domain.rail import CreditReport, InitiationType

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

_INITIATION_TYPES: dict[type[TransferRequest], InitiationType] = {
    KeyTransferRequest: "KEY",
    AccountTransferRequest: "MANUAL",
    QrCodeTransferRequest: "QRCODE",
}


class Payee(Struct, frozen=True, kw_only=True):
    """Who is to be paid, and for what."""

    party: Party
    holder_id: int | None
    """If it is one of ours; then the transfer is settled by book."""
    txid: str | None = None
    charge: Charge | None = None
    """Of ours, if that is what is being paid."""


class NewTransfer(Struct, kw_only=True):
    """A transfer that may be accepted, with every id made before the first try."""

    holder_id: int
    external_id: str
    """The client's, or ours."""
    fingerprint: bytes
    request: TransferRequest
    """Its amount is judged, and whom it names was found."""
    payee: Payee
    payer: Party
    """The holder's account, as a payee of ours sees it."""
    handover_timeout: timedelta
    transfer_id: int
    received_id: int
    """Of the other side's transfer, if it is settled by book."""
    end_to_end_id: str
    correlation_id: UUID
    may_exist: bool
    """Whether to look for it first: the client named it, or it was tried before."""


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


def open_transfer(new: NewTransfer, now: datetime) -> Transfer:
    """A new outgoing transfer, whose money is about to be reserved or to go to another holder of ours."""
    return Transfer(
        id=new.transfer_id,
        holder_id=new.holder_id,
        direction="OUT",
        initiation_type=_INITIATION_TYPES[type(new.request)],
        is_book=new.payee.holder_id is not None,
        external_id=new.external_id,
        fingerprint=new.fingerprint,
        end_to_end_id=new.end_to_end_id,
        correlation_id=new.correlation_id,
        txid=new.payee.txid,
        charge_id=None,
        amount_cents=new.request.amount_cents,
        status="PROCESSING",
        own_key=None,
        counterparty=new.payee.party,
        outcome_code=None,
        outcome_reason=None,
        returned_cents=0,
        returning_cents=0,
        slot=new.transfer_id % SLOTS_COUNT,
        handed_at=None,
        settled_at=None,
        created_at=now,
        modified_at=now,
    )


def open_other_side(new: NewTransfer, sent: Transfer, payee_id: int) -> Transfer:
    """The payee's side of a new transfer between two holders of ours."""
    charge = new.payee.charge
    return msgspec.structs.replace(
        sent,
        id=new.received_id,
        holder_id=payee_id,
        direction="IN",
        external_id=None,
        fingerprint=None,
        charge_id=None if charge is None else charge.id,
        own_key=new.payee.party.key,
        counterparty=new.payer,
        # A charge, the transfer that pays it and its refunds share a slot.
        slot=(new.received_id if charge is None else charge.id) % SLOTS_COUNT,
    )


def open_incoming_transfer(
    report: CreditReport,
    charge: Charge | None,
    *,
    transfer_id: int,
    holder_id: int,
    correlation_id: UUID,
    now: datetime,
) -> Transfer:
    """A payment that the rail reports, not yet judged; the charge is the one whose txid it carries, whoever's it is."""
    own_charge_id = charge.id if charge is not None and charge.holder_id == holder_id else None
    return Transfer(
        id=transfer_id,
        holder_id=holder_id,
        direction="IN",
        initiation_type=report.initiation_type,
        is_book=False,
        external_id=None,
        fingerprint=None,
        end_to_end_id=report.end_to_end_id,
        correlation_id=correlation_id,
        txid=report.txid,
        charge_id=own_charge_id,
        amount_cents=report.amount_cents,
        status="PROCESSING",
        own_key=report.credit_party.key,
        counterparty=report.debit_party,
        outcome_code=None,
        outcome_reason=None,
        returned_cents=0,
        returning_cents=0,
        slot=(transfer_id if own_charge_id is None else own_charge_id) % SLOTS_COUNT,
        handed_at=None,
        settled_at=None,
        created_at=now,
        modified_at=now,
    )


def find_reject_code(received: Transfer, balance: Balance, charge: Charge | None, at: datetime) -> str | None:
    """The scheme's reason to refuse an incoming transfer, or ``None``.

    Args:
        received: As it was opened.
        balance: Of the holder who is paid.
        charge: The one whose txid it carries, whoever's it is.
        at: The instant that counts for the charge's deadline.
    """
    if not balance.may_deposit:
        return reject_code.ACCOUNT_BLOCKED
    if charge is None:
        return None
    if charge.holder_id != received.holder_id:
        return reject_code.QR_CODE_REFUSED
    return charge_rules.find_reject_code(charge, received.amount_cents, at)


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
        outcome_code=reject_code.NOT_HANDED_OVER,
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
