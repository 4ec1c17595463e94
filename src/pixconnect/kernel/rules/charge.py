"""A charge: a request to be paid, with its QR code.

::

    PENDING ──pay──► APPROVED ──return (whole amount)──► RETURNED
     │ │  ▲
     │ │  └──revise (a later expiry)──┐
     │ └─────expire──────────────► EXPIRED
     └──remove──► REMOVED_BY_RECEIVER, REMOVED_BY_PSP ◄──remove──┘

A charge is paid at most once, in full, before it expires; the decisive moment is the rail's report of the payment. A charge
with a due date has another amount on each day, and expires at midnight in Sao Paulo after its last day. A payment that settles
later, or is held as suspect, holds the charge meanwhile: no other payment pays it, it cannot change, and it does not expire.

Both APIs create the same charges. ``contents`` are the standard API's additional members; they exist once that API has created
or changed the charge.
"""

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import Any, ClassVar, Final, Literal, get_args

import msgspec
from msgspec import Struct

from pixconnect.kernel.rules import event as events
from pixconnect.kernel.rules import holder, reject_code
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge_contents import (
    LIFETIME_S,
    ChargeContents,
    ChargeFields,
    DayAmount,
    digest_contents,
    find_day_rules,
    find_expiry,
    read_fields,
    set_rule,
)
from pixconnect.kernel.rules.event import SLOTS_COUNT, Event, EventName
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_instant, to_day

PAYER_NAME_LENGTH_MAX: Final = 200  # as in the official Pix API 2.9.0 (``devedor.nome``)

ShownStatus = Literal["PENDING", "APPROVED", "EXPIRED", "RETURNED"]  # the contract's statuses
Removal = Literal["REMOVED_BY_RECEIVER", "REMOVED_BY_PSP"]
ChargeStatus = ShownStatus | Removal

STATUSES: Final = tuple[ChargeStatus, ...](status for kind in get_args(ChargeStatus) for status in get_args(kind))

ACTIVE: Final = frozenset[ChargeStatus](("PENDING", "EXPIRED"))  # those that may still be changed: an expiry can be revised
PAID: Final = frozenset[ChargeStatus](("APPROVED", "RETURNED"))
SHOWN_AS_EXPIRED: Final = ("EXPIRED", "REMOVED_BY_RECEIVER", "REMOVED_BY_PSP")
PAYER_TOLD_AFTER_EXPIRY: Final = timedelta(days=7)


class ChargeRequest(ChargeFields, frozen=True, kw_only=True, omit_defaults=True):
    """A client's request as it was sent: not yet checked or normalised."""

    operation: ClassVar[str] = "charge"
    # Its row holds all of it, with these fields in another form.
    kept_forms: ClassVar[Mapping[str, Callable[[str], str]]] = {"key": holder.as_kept}

    external_id: str | None = None
    """If ``None``, the service makes one."""


class NewCharge(Struct, kw_only=True):
    """A charge that may be made, with every id made before the first try."""

    holder_id: int
    caller: Caller
    external_id: str
    fingerprint: bytes
    request: ChargeRequest  # judged
    charge_id: int
    txid: str
    key: str  # normalised
    br_code: str
    lifetime: timedelta
    may_exist: bool  # look for it first: the client named it, or it was tried before


class Charge(ChargeFields, frozen=True, kw_only=True):
    id: int
    holder_id: int
    external_id: str  # the client's name for it; unique for the holder
    # Of the first request, to distinguish a replay from a conflict; in the standard API, of its first contents.
    fingerprint: bytes
    txid: str  # 32 of ``[a-zA-Z0-9]``; unguessable, because its location's address holds it
    br_code: str
    status: ChargeStatus
    slot: int
    created_at: datetime
    modified_at: datetime
    expires_at: datetime  # it cannot be paid from this instant on
    held_by: int | None = None  # the transfer that was accepted for it and has not ended yet
    contents: ChargeContents | None = None  # ``None`` if only the contract's door has written it
    revision: int | None = None  # how often its contents were changed; ``None`` is never
    # Whether its location was taken away, so that no code leads to it; ``None`` means no.
    is_unbound: bool | None = None
    # The account at an institution at which it was opened; ``None`` is the installation's own rail.
    institution_id: int | None = None
    asked_cents: int | None = None  # the requested amount, if another amount has paid it
    due_on: date | None = None  # the due date of its contents; ``None`` for a charge that is to be paid at once

    @property
    def shown_status(self) -> ShownStatus:
        """The status that the contract's door shows: there a removed charge has expired."""
        if self.status == "REMOVED_BY_RECEIVER" or self.status == "REMOVED_BY_PSP":  # noqa: PLR1714  narrows its type
            return "EXPIRED"
        return self.status


def open_standard_charge(
    charge_id: int, holder_id: int, txid: str, contents: ChargeContents, br_code: str, now: datetime
) -> Charge:
    contents = set_rule(contents, discounts_roll=True)
    return Charge(
        id=charge_id,
        holder_id=holder_id,
        # The client's own name for it: the other door finds the charge by the same name, and cannot reuse it.
        external_id=txid,
        # No request of the contract has made it, so none is a replay: its fingerprint has another length.
        fingerprint=digest_contents(contents),
        txid=txid,
        br_code=br_code,
        status="PENDING",
        # The transfer that pays it and its refunds take the same slot.
        slot=charge_id % SLOTS_COUNT,
        created_at=now,
        modified_at=now,
        expires_at=find_expiry(contents, now),
        **read_fields(contents),
        contents=contents,
        due_on=contents.due and contents.due.due_on,
    )


def counts_from(charge: Charge) -> datetime:
    """The instant from which its lifetime counts: at an institution that by its own clock."""
    if charge.institution_id is None or charge.contents is None:
        return charge.created_at
    return charge.expires_at - timedelta(seconds=charge.contents.lifetime_s)


def read_contents(charge: Charge) -> ChargeContents:
    """Its latest contents, for charges of every API."""
    if charge.contents is not None:
        return charge.contents
    lifetime_s = round((charge.expires_at - charge.created_at).total_seconds())
    return ChargeContents(
        # When the sandbox's clock is reset, charges made in its future expire sooner, and keep their time of creation.
        lifetime_s=lifetime_s if lifetime_s > 0 else LIFETIME_S,
        **read_fields(charge),
    )


def may_be_changed(charge: Charge) -> bool:
    """Whether its receiver may still change or remove it."""
    # A payment that was accepted is settled as it was accepted: neither amount nor status changes under it.
    return charge.status in ACTIVE and charge.held_by is None


def revise_charge(charge: Charge, contents: ChargeContents, now: datetime) -> Charge:
    """Give it other contents. One that had expired can be paid again if they give it more time."""
    errors.ensure(may_be_changed(charge), charge.status)
    errors.ensure((charge.due_on is None) == (contents.due is None), "a charge keeps its kind")
    if charge.contents is not None and charge.contents.due is not None:
        contents = set_rule(contents, discounts_roll=charge.contents.due.discounts_roll)
    expires_at = find_expiry(contents, counts_from(charge))
    is_revived = charge.status == "EXPIRED" and now < expires_at
    return msgspec.structs.replace(
        charge,
        contents=contents,
        revision=(charge.revision or 0) + 1,
        status="PENDING" if is_revived else charge.status,
        expires_at=expires_at,
        due_on=contents.due and contents.due.due_on,
        modified_at=now,
        **read_fields(contents),
    )


def remove_charge(charge: Charge, status: Removal, now: datetime) -> Charge:
    errors.ensure(may_be_changed(charge), charge.status)
    return msgspec.structs.replace(
        charge, contents=read_contents(charge), revision=(charge.revision or 0) + 1, status=status, modified_at=now
    )


def lead_to_charge(charge: Charge, br_code: str) -> Charge:
    """Make the code of another location lead to it."""
    return msgspec.structs.replace(charge, br_code=br_code, is_unbound=None)


def unbind_charge(charge: Charge) -> Charge:
    """Detach its code; the last one stays recorded, since the contract always shows one."""
    return msgspec.structs.replace(charge, is_unbound=True)


def is_amount_free(charge: Charge) -> bool:
    """Whether the payer may pay another amount than it asks for."""
    return charge.contents is not None and charge.contents.may_change_amount is True


def compose_amount(charge: Charge, at: datetime) -> DayAmount | None:
    """The amount of one with a due date on the day of an instant, part by part; ``None`` for others."""
    contents = charge.contents
    if contents is None or contents.due is None:
        return None
    return find_day_rules().compute_amount(contents.due, contents.amount_cents, to_day(at))


def list_amounts_at_institution(charge: Charge, at: datetime) -> set[int]:
    """The amounts that an institution may ask for at an instant, as it rolls discounts' dates or not."""
    readings = [charge]
    if charge.contents is not None and charge.contents.due is not None:
        other = set_rule(charge.contents, discounts_roll=not charge.contents.due.discounts_roll)
        readings.append(msgspec.structs.replace(charge, contents=other))
    return {asked_amount_cents(reading, at) for reading in readings}


def fixed_amount_cents(charge: Charge, at: datetime) -> int | None:
    """The amount that must be paid at an instant; ``None`` if the payer may choose it."""
    return None if is_amount_free(charge) else asked_amount_cents(charge, at)


def asked_amount_cents(charge: Charge, at: datetime) -> int:
    """The requested amount at an instant, which a payer may pay in any case; 0 if the payer must choose."""
    amount = compose_amount(charge, at)
    return charge.amount_cents if amount is None else amount.total_cents


def shows_payer(charge: Charge, now: datetime) -> bool:
    """Whether its location may serve the payer's name and the texts for the payer: while it can be paid.

    And for a time after: its expiry may still be put off, and payers ask why they came too late.
    """
    # Taken from now, for the last days of time have no week after them.
    return charge.status in ACTIVE and now - PAYER_TOLD_AFTER_EXPIRY < charge.expires_at


def open_charge(new: NewCharge, now: datetime) -> Charge:
    # As ``read_fields``, in less time.
    fields: dict[str, Any] = msgspec.structs.asdict(new.request) | {"key": new.key, "external_id": new.external_id}
    return Charge(
        id=new.charge_id,
        holder_id=new.holder_id,
        fingerprint=new.fingerprint,
        txid=new.txid,
        br_code=new.br_code,
        status="PENDING",
        slot=new.charge_id % SLOTS_COUNT,
        created_at=now,
        modified_at=now,
        expires_at=now + new.lifetime,
        **fields,
    )


def find_reject_code(charge: Charge, amount_cents: int, reported_at: datetime) -> str | None:
    """The scheme's reason to refuse a payment that carries the charge's txid; ``None`` if it pays the charge."""
    # The instant of the report counts, not ours: a payment in time stays in time, however late it is recorded.
    is_open = charge.status == "PENDING" and charge.held_by is None and reported_at < charge.expires_at
    if not is_open or charge.is_unbound:
        return reject_code.QR_CODE_REFUSED
    if fixed_amount_cents(charge, reported_at) not in {None, amount_cents}:
        return reject_code.OTHER_AMOUNT
    return None


def hold_charge(charge: Charge, transfer_id: int) -> Charge:
    """Keep it for a payment that was accepted; callers see no change."""
    errors.ensure(charge.status == "PENDING" and charge.held_by is None, charge.status)
    return msgspec.structs.replace(charge, held_by=transfer_id)


def free_charge(charge: Charge) -> Charge:
    """Release it for other payments: the payment that held it was cancelled."""
    errors.ensure(charge.held_by is not None, charge.status)
    return msgspec.structs.replace(charge, held_by=None)


def pay_charge(charge: Charge, amount_cents: int, now: datetime) -> Charge:
    """Mark it as paid, with the paid amount.

    One of our own rail is PENDING, and another amount is paid only if the payer may choose, or the day determines it. At an
    institution one is paid in any state here, and with any amount.
    """
    is_ours, keeps_asked = charge.institution_id is None, charge.institution_id is not None
    is_other = amount_cents != charge.amount_cents
    if is_ours:
        errors.ensure(charge.status == "PENDING", charge.status)
        may_differ = is_amount_free(charge) or charge.due_on is not None
        errors.ensure(may_differ or not is_other, "another amount than the charge asks for")
        # The payer's choice replaces the requested amount; a day's additions and deductions do not.
        keeps_asked = charge.due_on is not None
    errors.ensure(charge.status not in PAID, charge.status)
    return msgspec.structs.replace(
        charge,
        status="APPROVED",
        amount_cents=amount_cents,
        asked_cents=charge.amount_cents if is_other and keeps_asked else None,
        held_by=None,
        modified_at=now,
    )


def may_expire(charge: Charge, now: datetime) -> bool:
    return charge.status == "PENDING" and charge.held_by is None and charge.expires_at <= now


def expire_charge(charge: Charge, now: datetime) -> Charge:
    errors.ensure(charge.status == "PENDING" and charge.held_by is None, charge.status)
    return msgspec.structs.replace(charge, status="EXPIRED", modified_at=now)


def return_charge(charge: Charge, now: datetime) -> Charge:
    errors.ensure(charge.status == "APPROVED", charge.status)
    return msgspec.structs.replace(charge, status="RETURNED", modified_at=now)


def announce_charge(charge: Charge, name: EventName, event_id: int) -> Event:
    payload = events.ChargePayload(
        id=charge.id,
        transaction_identification=charge.txid,
        external_id=charge.external_id,
        status=charge.shown_status,
        create_timestamp=format_instant(charge.created_at),
    )
    return events.make_event(event_id, name, payload, "charge", charge, charge.modified_at)
