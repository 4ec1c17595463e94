"""A transfer: money moved over the rail, out or in.

::

    OUT:  PROCESSING ──settle──► CONFIRMED ──returns reach the amount──► RETURNED
              ├──reject (by the rail)──► ERROR
              └──cancel (never handed over)──► CANCELLED
    IN:   PROCESSING ──settle──► CONFIRMED ──refunds reach the amount──► RETURNED
              ├──refuse (by us)──► ERROR
              └──cancel, return a suspect one (by the rail)──► ERROR

An outgoing transfer reserves its money when accepted. Until the rail has ended it, it has an order (``kernel.rules.order``).
Once that was handed over only the rail's answer ends the transfer, which can no longer be cancelled. An incoming one is
PROCESSING only if the rail accepts it first and settles it later, or holds it as suspect.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, ClassVar, Final, Literal
from uuid import UUID

import msgspec
from msgspec import Struct, structs

from pixconnect.kernel.rules import event as events
from pixconnect.kernel.rules import reject_code
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.event import SLOTS_COUNT, CreditHold, Event, EventName
from pixconnect.kernel.rules.holder import UNKNOWN_PARTY, KeyType, Party
from pixconnect.kernel.rules.ledger import Cause
from pixconnect.kernel.rules.rail import CreditReport, InitiationType
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_instant
from pixconnect.platform.outgoing_text import trim_pasted

MESSAGE_LENGTH_MAX: Final = 140  # the scheme's limit for a payer's text

TransferStatus = Literal["PROCESSING", "CONFIRMED", "ERROR", "CANCELLED", "RETURNED"]
Direction = Literal["IN", "OUT"]

_EVENT_NAMES: Final[Mapping[tuple[Direction, TransferStatus], EventName]] = {
    ("OUT", "PROCESSING"): "transfer.out.processing",
    ("OUT", "CONFIRMED"): "transfer.out.confirmed",
    ("OUT", "ERROR"): "transfer.out.error",
    ("OUT", "CANCELLED"): "transfer.out.error",
    ("IN", "PROCESSING"): "transfer.in.processing",
    ("IN", "CONFIRMED"): "transfer.in.confirmed",
    ("IN", "ERROR"): "transfer.in.error",
}


class TransferFields(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What callers set, however they name the payee. Requests, transfers and columns have these fields.

    The default of an optional one is ``None``, null in its column. A payee of this service does not get it.
    """

    amount_cents: int
    external_id: str | None = None  # unique for the holder; made by the service if a request has none


_take_fields: Final = attrgetter(*TransferFields.__struct_fields__)
_OPTIONAL: Final = {field.name: field.default for field in structs.fields(TransferFields) if not field.required}


class KeyTransferRequest(TransferFields, frozen=True, kw_only=True, omit_defaults=True):
    """A transfer to a Pix key, as a client sent it: not yet checked or normalised."""

    operation: ClassVar[str] = "transfer by key"
    initiation_type: ClassVar[InitiationType] = "KEY"

    key: str
    key_type: KeyType


class AccountTransferRequest(TransferFields, frozen=True, kw_only=True, omit_defaults=True):
    operation: ClassVar[str] = "transfer by account"
    initiation_type: ClassVar[InitiationType] = "MANUAL"

    credit_party: Party


class QrCodeTransferRequest(TransferFields, frozen=True, kw_only=True, omit_defaults=True):
    operation: ClassVar[str] = "transfer by QR code"
    initiation_type: ClassVar[InitiationType] = "QRCODE"

    br_code: str

    def __post_init__(self) -> None:
        # Only the code is stored, compared and sent, without pasted text around it.
        structs.force_setattr(self, "br_code", trim_pasted(self.br_code))


class SendingTerms(Struct, frozen=True, kw_only=True):
    """Further facts of a transfer in some APIs."""

    payer_key: str | None = None  # the holder's own key that it pays from
    payer_message: str | None = None
    payee_tax_id: str | None = None  # the transfer is refused unless this is the payee's tax id
    is_new: bool = False  # whether a replay is refused instead of getting the first answer
    # Its name, if issued to the caller earlier; valid for that caller and the same terms only.
    end_to_end_id: str | None = None


NO_TERMS: Final = SendingTerms()
TransferRequest = KeyTransferRequest | AccountTransferRequest | QrCodeTransferRequest


class Payee(Struct, frozen=True, kw_only=True):
    party: Party
    holder_id: int | None  # set for a holder of this service; then the transfer is settled by book
    txid: str | None = None
    charge: Charge | None = None  # our charge, if one is being paid
    leaves_amount_open: bool = False
    is_static: bool = False  # the code that led here can be paid more than once

    @property
    def is_key_alone(self) -> bool:
        """Whether only the institution that pays it will find its owner."""
        return self.holder_id is None and self.party.tax_id == UNKNOWN_PARTY.tax_id


class NewTransfer(Struct, kw_only=True):
    """A transfer that may be accepted; all ids are generated before the first try."""

    holder_id: int
    caller: Caller
    external_id: str
    fingerprint: bytes
    request: TransferRequest  # its amount has been checked, and its payee found
    payee: Payee
    payer: Party  # the holder's account, as shown to a payee of this service
    handover_timeout: timedelta
    transfer_id: int
    received_id: int  # for the payee's side, if it is settled by book
    end_to_end_id: str
    correlation_id: UUID
    may_exist: bool  # whether to look for it first: the client named it, or it was tried before
    terms: SendingTerms = NO_TERMS
    # The account at an institution that it leaves over; ``None`` is the installation's own rail, and a transfer by book.
    account_id: int | None
    br_code: str | None = None  # the code that it pays, if the account's institution reads that for itself


class Transfer(TransferFields, frozen=True, kw_only=True):
    """Money moved over the rail, or between two holders of this service by book."""

    id: int
    holder_id: int
    direction: Direction
    initiation_type: InitiationType
    is_book: bool  # between two holders of this service, without the rail
    fingerprint: bytes | None = None  # the fingerprint of the request that made it; incoming ones have none
    end_to_end_id: str  # for an outgoing one our own id, used in queries of the rail; it never changes
    correlation_id: UUID  # shared by everything of one payment, refunds included
    txid: str | None
    charge_id: int | None = None  # the charge that an incoming one pays, or was refused for
    status: TransferStatus
    own_key: str | None
    counterparty: Party
    outcome_code: str | None = None
    outcome_reason: str | None = None
    returned_cents: int = 0
    returning_cents: int = 0  # refunds under way; ``returned_cents`` are those that settled
    slot: int
    # When an outgoing one was handed to the rail; while it is under way, only its order knows.
    handed_at: datetime | None = None
    settled_at: datetime | None = None
    created_at: datetime
    modified_at: datetime
    # The network's name of an outgoing one, if that is not our id; some rails report it later.
    network_id: str | None = None
    payer_message: str | None = None
    # We refused it before it had settled: if it settles all the same, it can no longer be refused.
    acceptance_refused: bool | None = None
    # When it settled by the network's clock; lists use ``settled_at``, by our clock.
    network_settled_at: datetime | None = None
    # The account that it came in on or left over; ``None`` is the installation's own rail.
    institution_id: int | None = None

    @property
    def shown_id(self) -> str:
        """The ``end_to_end_id`` that callers see."""
        return self.network_id or self.end_to_end_id

    @property
    def cause(self) -> Cause:
        """The cause of the ledger entries of its state."""
        return Cause("transfer", self.status, self.id)


def open_transfer(new: NewTransfer, now: datetime) -> Transfer:
    """Open an outgoing transfer, whose money is about to be reserved or moved by book."""
    fields: dict[str, Any] = dict(zip(TransferFields.__struct_fields__, _take_fields(new.request), strict=True))
    fields["external_id"] = new.external_id
    return Transfer(
        id=new.transfer_id,
        holder_id=new.holder_id,
        direction="OUT",
        initiation_type=new.request.initiation_type,
        is_book=new.payee.holder_id is not None,
        fingerprint=new.fingerprint,
        end_to_end_id=new.end_to_end_id,
        correlation_id=new.correlation_id,
        txid=new.payee.txid,
        status="PROCESSING",
        own_key=new.terms.payer_key,
        payer_message=new.terms.payer_message,
        counterparty=new.payee.party,
        slot=new.transfer_id % SLOTS_COUNT,
        created_at=now,
        modified_at=now,
        institution_id=new.account_id,
        **fields,
    )


def open_other_side(new: NewTransfer, sent: Transfer, payee_id: int, charge: Charge | None) -> Transfer:
    """Open the payee's side of a transfer between two holders of this service; ``charge`` is the one that it pays."""
    return msgspec.structs.replace(
        sent,
        id=new.received_id,
        holder_id=payee_id,
        direction="IN",
        fingerprint=None,
        charge_id=None if charge is None else charge.id,
        own_key=new.payee.party.key,
        counterparty=new.payer,
        # A charge, the transfer that pays it and its refunds share a slot.
        slot=(new.received_id if charge is None else charge.id) % SLOTS_COUNT,
        **_OPTIONAL,
    )


def open_incoming_transfer(
    report: CreditReport,
    charge: Charge | None,
    *,
    transfer_id: int,
    holder_id: int,
    correlation_id: UUID,
    now: datetime,
    account_id: int | None,
) -> Transfer:
    """Open a transfer for a reported payment, not yet checked; ``charge`` is the one of its txid."""
    # A txid may name another holder's charge: such a payment is refused, and recorded without that charge.
    own_charge_id = charge.id if charge is not None and charge.holder_id == holder_id else None
    return Transfer(
        id=transfer_id,
        holder_id=holder_id,
        direction="IN",
        initiation_type=report.initiation_type,
        is_book=False,
        end_to_end_id=report.end_to_end_id,
        correlation_id=correlation_id,
        txid=report.txid,
        charge_id=own_charge_id,
        amount_cents=report.amount_cents,
        status="PROCESSING",
        own_key=report.credit_party.key,
        counterparty=report.debit_party,
        slot=(transfer_id if own_charge_id is None else own_charge_id) % SLOTS_COUNT,
        created_at=now,
        modified_at=now,
        # The payment has come, with a text of any length: it is cut to fit.
        payer_message=(report.payer_message or "")[:MESSAGE_LENGTH_MAX] or None,
        institution_id=account_id,
    )


def is_spent(transfer: Transfer) -> bool:
    """Whether it counts against its holder's limits: failed and cancelled transfers do not, returned ones do."""
    return transfer.direction == "OUT" and transfer.status not in {"ERROR", "CANCELLED"}


def settle_transfer(transfer: Transfer, now: datetime, network_at: datetime | None = None) -> Transfer:
    errors.ensure(transfer.status == "PROCESSING", transfer.status)
    return msgspec.structs.replace(transfer, status="CONFIRMED", settled_at=now, network_settled_at=network_at, modified_at=now)


def fail_transfer(transfer: Transfer, code: str, reason: str, now: datetime) -> Transfer:
    """End a transfer that the rail rejected or we refused; no money has moved."""
    errors.ensure(transfer.status == "PROCESSING", transfer.status)
    return msgspec.structs.replace(transfer, status="ERROR", outcome_code=code, outcome_reason=reason, modified_at=now)


def cancel_incoming(transfer: Transfer, code: str, now: datetime) -> Transfer:
    """End a payment that the rail accepted and then cancelled. The code is our own: refusals look different."""
    reason = f"The network cancelled it before it settled ({code}): {reject_code.explain(code)}"
    return fail_transfer(transfer, reject_code.CREDIT_CANCELLED, reason, now)


def cancel_transfer(transfer: Transfer, reason: str, now: datetime) -> Transfer:
    """End a transfer that provably never left."""
    errors.ensure(transfer.handed_at is None, "an order handed to the rail is never cancelled")
    ended = fail_transfer(transfer, reject_code.NOT_HANDED_OVER, reason, now)
    return msgspec.structs.replace(ended, status="CANCELLED")


def return_part(transfer: Transfer, amount_cents: int, now: datetime, *, returning_cents: int = 0) -> Transfer:
    """Count a part as returned, of which ``returning_cents`` were pending; RETURNED when nothing is left."""
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


def release_part(transfer: Transfer, amount_cents: int) -> Transfer:
    """Stop counting a part as pending: its refund failed."""
    errors.ensure(transfer.returning_cents >= amount_cents, "only a pending refund can fail")
    return msgspec.structs.replace(transfer, returning_cents=transfer.returning_cents - amount_cents)


def begin_return(transfer: Transfer, amount_cents: int) -> Transfer:
    """Count a part as being refunded."""
    errors.ensure(transfer.status == "CONFIRMED", transfer.status)
    return msgspec.structs.replace(transfer, returning_cents=transfer.returning_cents + amount_cents)


def announce_transfer(
    transfer: Transfer,
    event_id: int,
    *,
    name: EventName | None = None,
    announced_at: datetime | None = None,
    hold: CreditHold | None = None,
) -> Event:
    """Make the event of the state that a transfer has reached, or one of another name."""
    name = name or _EVENT_NAMES[transfer.direction, transfer.status]
    at = announced_at or transfer.modified_at
    payload = events.TransferPayload(
        id=transfer.id,
        external_id=transfer.external_id,
        end_to_end_id=transfer.shown_id,
        correlation_id=transfer.correlation_id,
        amount=transfer.amount_cents,
        impact_type=transfer.direction,
        initiation_type=transfer.initiation_type,
        status=transfer.status,
        create_timestamp=format_instant(transfer.created_at),
        hold=hold,
    )
    return events.make_event(event_id, name, payload, "transfer", transfer, at)


def announce_update(transfer: Transfer, name: EventName, now: datetime, event_id: int) -> Event:
    """Make an event without a new state, such as that a person must approve it; a feature names its own."""
    return announce_transfer(transfer, event_id, name=name, announced_at=now)


class TransferView(Struct, frozen=True, kw_only=True):
    transfer: Transfer
    debit_party: Party
    credit_party: Party
