"""A charge: a request to be paid, with its QR code.

::

    PENDING ──pay──► APPROVED ──return (whole amount)──► RETURNED
       └────expire──► EXPIRED

A charge is paid at most once, in full, before it expires; the moment that counts is the one at which the rail reports.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, Literal

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
    """Who is asked to pay, as the client sent it.

    Attributes:
        name: Free text, of at most ``PAYER_NAME_LENGTH_MAX`` characters.
        tax_id: CPF or CNPJ, unmasked.
    """

    name: str
    tax_id: str


class ChargeRequest(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="charge"):
    """What a client asks for, as it was sent.

    Attributes:
        amount_cents: Not yet judged; may be any integer.
        key: Not yet normalised.
        external_id: ``None`` lets us make one.
        payer: Who is asked to pay.
    """

    amount_cents: int
    key: str
    external_id: str | None = None
    payer: Payer | None = None


class NewCharge(Struct, kw_only=True):
    """A charge that may be made, with every id made before the first try."""

    holder_id: int
    external_id: str
    """The client's, or ours."""
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
    """Whether to look for it first: the client named it, or it was tried before."""


class Charge(Struct, frozen=True, kw_only=True):
    """A request to be paid.

    Attributes:
        id: Below 2^53.
        holder_id: Who is to be paid.
        external_id: The client's name for it; unique for the holder.
        fingerprint: Of the request that made it: tells a replay from a conflict.
        txid: The charge's name in the scheme, 32 of ``[a-zA-Z0-9]``; unguessable, and so also its location's secret.
        amount_cents: Cents.
        key: The holder's Pix key, normalised.
        payer: Who is asked to pay, if the client said so.
        br_code: The text of the QR code.
        status: See the module.
        slot: Part of the workers' division of labour.
        created_at: Service time.
        modified_at: Service time.
        expires_at: From this instant on it cannot be paid.
    """

    id: int
    holder_id: int
    external_id: str
    fingerprint: bytes
    txid: str
    amount_cents: int
    key: str
    payer: Payer | None
    br_code: str
    status: ChargeStatus
    slot: int
    created_at: datetime
    modified_at: datetime
    expires_at: datetime


def open_charge(new: NewCharge, now: datetime) -> Charge:
    """A new charge, to be paid from now on."""
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
        slot=new.charge_id % SLOTS_COUNT,
        created_at=now,
        modified_at=now,
        expires_at=now + new.lifetime,
    )


def find_reject_code(charge: Charge, amount_cents: int, reported_at: datetime) -> str | None:
    """Judge a payment that carries the charge's txid.

    Args:
        charge: As it is now.
        amount_cents: What is being paid.
        reported_at: When the rail reports it, service time.

    Returns:
        The scheme's reason to refuse it, or ``None`` if it pays the charge.
    """
    if charge.status != "PENDING" or reported_at >= charge.expires_at:
        return reject_code.QR_CODE_REFUSED
    if amount_cents != charge.amount_cents:
        return reject_code.OTHER_AMOUNT
    return None


def pay_charge(charge: Charge, now: datetime) -> Charge:
    """The charge, paid."""
    errors.ensure(charge.status == "PENDING", charge.status)
    return msgspec.structs.replace(charge, status="APPROVED", modified_at=now)


def expire_charge(charge: Charge, now: datetime) -> Charge:
    """The charge, no longer to be paid."""
    errors.ensure(charge.status == "PENDING", charge.status)
    return msgspec.structs.replace(charge, status="EXPIRED", modified_at=now)


def return_charge(charge: Charge, now: datetime) -> Charge:
    """The charge, all of whose amount was refunded."""
    errors.ensure(charge.status == "APPROVED", charge.status)
    return msgspec.structs.replace(charge, status="RETURNED", modified_at=now)


def announce_charge(charge: Charge, name: EventName, event_id: int) -> Event:
    """The event that tells what has just happened to a charge."""
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
