"""A charge: a request to be paid, with its QR code.

::

    PENDING ──pay──► APPROVED ──return (whole amount)──► RETURNED
       └────expire──► EXPIRED

A charge is paid at most once, in full, before it expires; the moment that counts is when the rail reports the payment. Where a
payment is accepted first and settles later, it holds the charge in between: nobody else pays it, and it does not expire.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import ClassVar, Final, Literal

import msgspec
from msgspec import Struct

from pixconnect.domain import errors, reject_code
from pixconnect.domain import event as events
from pixconnect.domain.clock import format_instant
from pixconnect.domain.event import SLOTS_COUNT, Event, EventName

PAYER_NAME_LENGTH_MAX: Final = 200
"""As in the official Pix API 2.9.0 (``devedor.nome``)."""

ChargeStatus = Literal["PENDING", "APPROVED", "EXPIRED", "RETURNED"]


class Payer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    tax_id: str


class ChargeRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a client asks for, as it was sent: nothing is judged or normalised yet."""

    operation: ClassVar[str] = "charge"

    amount_cents: int
    key: str
    external_id: str | None = None
    """``None`` lets the service make one."""
    payer: Payer | None = None


class NewCharge(Struct, kw_only=True):
    """A charge that may be made, with every id made before the first try."""

    holder_id: int
    external_id: str
    fingerprint: bytes
    request: ChargeRequest
    """Judged."""
    charge_id: int
    txid: str
    key: str
    """Normalised."""
    br_code: str
    lifetime: timedelta
    may_exist: bool
    """Look for it first: the client named it, or it was tried before."""


class Charge(Struct, frozen=True, kw_only=True):
    id: int
    holder_id: int
    external_id: str
    """The client's name for it; unique for the holder."""
    fingerprint: bytes
    """Of the request that made it, to tell a replay from a conflict."""
    txid: str
    """32 of ``[a-zA-Z0-9]``; unguessable, because its location's address holds it."""
    amount_cents: int
    key: str
    payer: Payer | None
    br_code: str
    status: ChargeStatus
    slot: int
    created_at: datetime
    modified_at: datetime
    expires_at: datetime
    """It cannot be paid from this instant on."""
    held_by: int | None = None
    """The transfer that was accepted for it and has not ended yet."""


def open_charge(new: NewCharge, now: datetime) -> Charge:
    return Charge(
        id=new.charge_id,
        holder_id=new.holder_id,
        external_id=new.external_id,
        fingerprint=new.fingerprint,
        txid=new.txid,
        amount_cents=new.request.amount_cents,
        key=new.key,
        payer=new.request.payer,
        br_code=new.br_code,
        status="PENDING",
        # The transfer that pays it and its refunds take the same slot.
        slot=new.charge_id % SLOTS_COUNT,
        created_at=now,
        modified_at=now,
        expires_at=now + new.lifetime,
    )


def find_reject_code(charge: Charge, amount_cents: int, reported_at: datetime) -> str | None:
    """The scheme's reason to refuse a payment that carries the charge's txid; ``None`` if it pays the charge."""
    # The instant of the report counts, not ours: a payment in time stays in time, however late it is recorded.
    if charge.status != "PENDING" or charge.held_by is not None or reported_at >= charge.expires_at:
        return reject_code.QR_CODE_REFUSED
    if amount_cents != charge.amount_cents:
        return reject_code.OTHER_AMOUNT
    return None


def hold_charge(charge: Charge, transfer_id: int) -> Charge:
    """Keep it for a payment that was accepted; callers see no change."""
    errors.ensure(charge.status == "PENDING" and charge.held_by is None, charge.status)
    return msgspec.structs.replace(charge, held_by=transfer_id)


def free_charge(charge: Charge) -> Charge:
    """Let others pay it again: the payment that held it was cancelled."""
    errors.ensure(charge.held_by is not None, charge.status)
    return msgspec.structs.replace(charge, held_by=None)


def pay_charge(charge: Charge, now: datetime) -> Charge:
    errors.ensure(charge.status == "PENDING", charge.status)
    return msgspec.structs.replace(charge, status="APPROVED", held_by=None, modified_at=now)


def may_expire(charge: Charge, now: datetime) -> bool:
    return charge.status == "PENDING" and charge.held_by is None and charge.expires_at <= now


def expire_charge(charge: Charge, now: datetime) -> Charge:
    errors.ensure(charge.status == "PENDING" and charge.held_by is None, charge.status)
    return msgspec.structs.replace(charge, status="EXPIRED", modified_at=now)


def return_charge(charge: Charge, now: datetime) -> Charge:
    errors.ensure(charge.status == "APPROVED", charge.status)
    return msgspec.structs.replace(charge, status="RETURNED", modified_at=now)


def announce_charge(charge: Charge, name: EventName, event_id: int) -> Event:
    """Make the event of the state that a charge has just reached."""
    payload = events.ChargePayload(
        id=charge.id,
        transaction_identification=charge.txid,
        external_id=charge.external_id,
        status=charge.status,
        create_timestamp=format_instant(charge.created_at),
    )
    return Event(
        id=event_id,
        holder_id=charge.holder_id,
        name=name,
        resource="charge",
        resource_id=charge.id,
        slot=charge.slot,
        body=events.encode_body(event_id, name, payload, charge.modified_at),
        created_at=charge.modified_at,
    )
