"""A refund: a settled transfer returned, wholly or in part.

::

    PROCESSING ──settle──► RETURNED
        └──reject──► ERROR

``OUT`` returns money that the holder received, ``IN`` brings back money that the holder sent. Pending and settled refunds
together never exceed the original. One made at the institution is reported after its end: it is RETURNED at once.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, ClassVar, Final, Literal, get_args
from uuid import UUID

import msgspec
from msgspec import Struct

from pixconnect.kernel.register import ARRANGEMENT
from pixconnect.kernel.rules import event as events
from pixconnect.kernel.rules import reject_code
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.block_report import InfractionReason
from pixconnect.kernel.rules.event import Event, EventName
from pixconnect.kernel.rules.identifiers import fingerprint
from pixconnect.kernel.rules.ledger import Balance, Cause
from pixconnect.kernel.rules.rail import InstitutionReturn, ReturnReport
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_instant

RefundStatus = Literal["PROCESSING", "RETURNED", "ERROR"]
RefundReason = Literal["MD06", "BE08", "FR01", "SL02"]
REFUND_REASONS: Final[dict[InfractionReason, RefundReason]] = {"fraud": "FR01", "operational_flaw": "BE08"}
"""Institutions' reasons for the returns of contested Pix, as the scheme's codes."""
Flow = Literal["IN", "OUT"]
MadeBy = Literal["service", "institution"]
"""``institution`` includes a person in its app: either returned received money without a request here."""

AUTOMATIC_PREFIX: Final = "auto:"  # the ``external_id`` of an automatic refund is this and the transfer's ``end_to_end_id``

THEIRS_PREFIX: Final = "theirs:"  # the ``external_id`` of an institution's refund is this and the network's name

_REASONS: dict[str, RefundReason] = {reason: reason for reason in get_args(RefundReason)}

_EVENT_NAMES: Final[Mapping[tuple[Flow, RefundStatus], EventName]] = {
    ("OUT", "PROCESSING"): "refund.out.processing",
    ("OUT", "RETURNED"): "refund.out.returned",
    ("OUT", "ERROR"): "refund.out.error",
    ("IN", "PROCESSING"): "refund.in.processing",
    ("IN", "RETURNED"): "refund.in.returned",
    ("IN", "ERROR"): "refund.in.error",
}


def find_window(settled_at: datetime) -> timedelta:
    """Return how long after its settlement a Pix may be returned, including the last instant."""
    return ARRANGEMENT.find("refund_window", settled_at).duration


class RefundFields(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What callers set. Requests, refunds and columns have these fields; the default of an optional one is ``None``."""

    amount_cents: int
    external_id: str | None = None  # made by the service if a request has none
    reason: RefundReason = "MD06"
    description: str | None = None


_take_fields: Final = attrgetter(*RefundFields.__struct_fields__)


class RefundRequest(RefundFields, frozen=True, kw_only=True, omit_defaults=True):
    """A client's request as it was sent: not yet checked."""

    operation: ClassVar[str] = "refund"

    end_to_end_id: str


class NewRefund(Struct, kw_only=True):
    """A refund that may be accepted; all ids are generated before the first try."""

    holder_id: int
    caller: Caller | None  # ``None`` without a caller's request
    external_id: str
    fingerprint: bytes
    request: RefundRequest  # its amount has been checked
    original_id: int
    sent: Transfer | None  # the payer's side of the original, if it was settled by book
    refund_id: int
    received_id: int
    return_id: str
    handover_timeout: timedelta
    may_exist: bool  # whether to look for it first: the client named it, or it was tried before
    account_id: int | None  # the account at an institution of the original; ``None`` is the installation's own rail


class Refund(RefundFields, frozen=True, kw_only=True):
    id: int
    holder_id: int
    transfer_id: int
    flow: Flow
    is_book: bool  # between two holders of this service, without the rail
    fingerprint: bytes | None = None  # the fingerprint of the request that made it; incoming ones have none
    return_id: str  # for an outgoing one our own id, used in queries of the rail; it never changes
    # The id that callers see: it changes when the rail reports the network's id of the original.
    original_end_to_end_id: str
    correlation_id: UUID
    status: RefundStatus
    outcome_code: str | None = None
    outcome_reason: str | None = None
    slot: int
    # When an outgoing one was handed to the rail; while it is under way, only its order knows.
    handed_at: datetime | None = None
    settled_at: datetime | None = None
    created_at: datetime
    modified_at: datetime
    # The network's name of an outgoing one, if that is not our id; some rails report it later.
    network_id: str | None = None
    # When it settled by the network's clock; ``settled_at`` is by our clock.
    network_settled_at: datetime | None = None
    made_by: MadeBy = "service"

    @property
    def shown_id(self) -> str:
        """The ``return_identification`` that callers see."""
        return self.network_id or self.return_id

    @property
    def cause(self) -> Cause:
        """The cause of the ledger entries of its state."""
        return Cause("refund", self.status, self.id)


DESCRIPTION_LENGTH_MAX = 140


def check_original(amount_cents: int, original: Transfer, now: datetime) -> None:
    """Refuse a refund that is larger than the rest of its original, or too late."""
    # Checked before any lock: a settlement is never undone.
    settled_at = errors.require(original.settled_at, "judged before, and never undone")
    # Refunds under way count too: all of them may still settle.
    left_cents = original.amount_cents - original.returned_cents - original.returning_cents
    if amount_cents > left_cents:
        raise errors.RefundExceedsOriginal(f"amount: only {left_cents} cents of the original are left to return")
    window = find_window(settled_at)
    if now > settled_at + window:
        raise errors.RefundWindowClosed(f"end_to_end_id: settled more than {window.days} days ago")


def explain_unsettled(original: Transfer | None) -> str:
    if original is not None and original.direction == "IN" and original.status == "PROCESSING":
        return "end_to_end_id: has not settled; what your institution holds as suspect only it gives back"
    return "end_to_end_id: is not a Pix that this holder received and that has settled"


def open_refund(new: NewRefund, original: Transfer, now: datetime) -> Refund:
    """Open an outgoing refund, whose money is about to be reserved or moved by book."""
    fields: dict[str, Any] = dict(zip(RefundFields.__struct_fields__, _take_fields(new.request), strict=True))
    fields["external_id"] = new.external_id
    return Refund(
        id=new.refund_id,
        holder_id=new.holder_id,
        transfer_id=original.id,
        flow="OUT",
        is_book=original.is_book,
        fingerprint=new.fingerprint,
        return_id=new.return_id,
        original_end_to_end_id=original.shown_id,
        correlation_id=original.correlation_id,
        status="PROCESSING",
        slot=original.slot,
        created_at=now,
        modified_at=now,
        **fields,
    )


def plan_automatic_refund(original: Transfer, request: RefundRequest, refund_id: int, return_id: str) -> NewRefund:
    """Plan the refund of all of a payment, without a caller's request."""
    # One per payment: the schema enforces unique external ids.
    return _plan_refund(original, request, AUTOMATIC_PREFIX + original.end_to_end_id, refund_id, return_id)


def _plan_refund(original: Transfer, request: RefundRequest, external_id: str, refund_id: int, return_id: str) -> NewRefund:
    return NewRefund(
        holder_id=original.holder_id,
        caller=None,
        external_id=external_id,
        fingerprint=fingerprint(request),
        request=request,
        original_id=original.id,
        sent=None,
        refund_id=refund_id,
        received_id=0,
        return_id=return_id,
        # No caller waits for an answer, and the money is not the holder's, so it is not given up after a minute.
        handover_timeout=find_window(original.settled_at or original.created_at),
        may_exist=True,
        account_id=original.institution_id,
    )


def open_other_side(new: NewRefund, refund: Refund, sent: Transfer) -> Refund:
    """Open the payer's side of a refund between two holders of this service."""
    return msgspec.structs.replace(
        refund,
        id=new.received_id,
        holder_id=sent.holder_id,
        transfer_id=sent.id,
        flow="IN",
        external_id=None,
        fingerprint=None,
        # The id of the transfer that it returns, as with every refund.
        slot=sent.slot,
    )


def open_incoming_refund(report: ReturnReport, original: Transfer, refund_id: int, now: datetime) -> Refund:
    """Open a refund for a return that the rail reports, not yet checked."""
    return Refund(
        id=refund_id,
        holder_id=original.holder_id,
        transfer_id=original.id,
        flow="IN",
        is_book=False,
        return_id=report.return_id,
        original_end_to_end_id=original.shown_id,
        correlation_id=original.correlation_id,
        amount_cents=report.amount_cents,
        status="PROCESSING",
        # The money has come back with any reason: a report that could not be recorded would come again for ever.
        reason=_REASONS.get(report.reason, "MD06"),
        description=report.description and report.description[:DESCRIPTION_LENGTH_MAX],
        slot=original.slot,
        created_at=now,
        modified_at=now,
    )


def name_institution_return(report: InstitutionReturn) -> str:
    """Return the external id of a return that was made at the institution."""
    name = report.return_id or f"{report.original_end_to_end_id}:{report.asked_as}"
    return THEIRS_PREFIX + name


def open_institution_return(
    report: InstitutionReturn, original: Transfer, *, refund_id: int, return_id: str, now: datetime
) -> Refund:
    """Open the refund of a return made at the institution; it has settled there, and not yet here.

    Args:
        return_id: Ours, used if the network's name is not reported.
    """
    request = RefundRequest(end_to_end_id=original.end_to_end_id, amount_cents=report.amount_cents)
    new = _plan_refund(original, request, name_institution_return(report), refund_id, report.return_id or return_id)
    return msgspec.structs.replace(open_refund(new, original, now), made_by="institution")


def find_reject_code(report: ReturnReport, original: Transfer, balance: Balance) -> str | None:
    """Return the scheme's reason to refuse a reported return, or ``None``."""
    left_cents = original.amount_cents - original.returned_cents
    if original.is_book or original.settled_at is None or report.amount_cents > left_cents:
        return reject_code.ABOVE_ORIGINAL
    # The instant of the report counts, however late it is recorded.
    if report.reported_at > original.settled_at + find_window(original.settled_at):
        return reject_code.WINDOW_CLOSED
    return None if balance.may_deposit else reject_code.ACCOUNT_BLOCKED


def settle_refund(refund: Refund, now: datetime, network_at: datetime | None = None) -> Refund:
    """As ``transfer.settle_transfer``."""
    errors.ensure(refund.status == "PROCESSING", refund.status)
    return msgspec.structs.replace(refund, status="RETURNED", settled_at=now, network_settled_at=network_at, modified_at=now)


def fail_refund(refund: Refund, code: str, reason: str, now: datetime) -> Refund:
    """End a refund that was rejected or never handed over; no money has moved."""
    errors.ensure(refund.status == "PROCESSING", refund.status)
    return msgspec.structs.replace(refund, status="ERROR", outcome_code=code, outcome_reason=reason, modified_at=now)


def announce_refund(refund: Refund, event_id: int) -> Event:
    name = _EVENT_NAMES[refund.flow, refund.status]
    payload = events.RefundPayload(
        id=refund.id,
        external_id=refund.external_id,
        return_identification=refund.shown_id,
        original_end_to_end_id=refund.original_end_to_end_id,
        correlation_id=refund.correlation_id,
        amount=refund.amount_cents,
        status=refund.status,
        flow=refund.flow,
        create_timestamp=format_instant(refund.created_at),
    )
    return events.make_event(event_id, name, payload, "refund", refund, refund.modified_at)
