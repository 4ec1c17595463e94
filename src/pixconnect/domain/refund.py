"""A refund: a settled transfer returned, wholly or in part.

::

    PROCESSING ──settle──► RETURNED
        └──reject──► ERROR

``OUT`` returns what the holder received, ``IN`` brings back what the holder sent. Those under way and those settled never
sum to more than the original.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal, get_args
from uuid import UUID

import msgspec
from msgspec import Struct

from pixconnect.domain import errors
from pixconnect.domain import event as events
from pixconnect.domain.clock import format_instant
from pixconnect.domain.event import Event, EventName

RefundStatus = Literal["PROCESSING", "RETURNED", "ERROR"]
RefundReason = Literal["MD06", "BE08", "FR01", "SL02"]
Flow = Literal["IN", "OUT"]

WINDOW = timedelta(days=90)
"""From settlement, inclusive. Source: Pix API 2.9.0, ``PixDevolucaoInvalida``; past it the SPI answers DT05."""

_REASONS: dict[str, RefundReason] = {reason: reason for reason in get_args(RefundReason)}

_EVENT_NAMES: dict[tuple[Flow, RefundStatus], EventName] = {
    ("OUT", "PROCESSING"): "refund.out.processing",
    ("OUT", "RETURNED"): "refund.out.returned",
    ("OUT", "ERROR"): "refund.out.error",
    ("IN", "PROCESSING"): "refund.in.processing",
    ("IN", "RETURNED"): "refund.in.returned",
    ("IN", "ERROR"): "refund.in.error",
}


class RefundRequest(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="refund"):
    """What a client asks for, as it was sent: nothing is judged yet."""

    end_to_end_id: str
    amount_cents: int
    external_id: str | None = None
    reason: RefundReason = "MD06"
    description: str | None = None


class Refund(Struct, frozen=True, kw_only=True):
    """A settled transfer returned, wholly or in part.

    Attributes:
        id: Below 2^53.
        holder_id: Whose side this is.
        transfer_id: The original, on the same side.
        flow: ``OUT``: we return; ``IN``: returned to us.
        is_book: Between two holders of ours, without the rail.
        external_id: The client's name for an outgoing one. ``None`` for incoming ones.
        fingerprint: Of the request that made it; ``None`` for incoming ones.
        return_id: Its name on the whole network.
        original_end_to_end_id: The original's.
        correlation_id: The original's.
        amount_cents: Cents.
        status: See the module.
        reason: The scheme's.
        description: At most 140 characters.
        outcome_code: Why it failed.
        outcome_reason: The same as a sentence.
        slot: The original's.
        handed_at: When an outgoing one was handed to the rail; while it is under way, its order knows.
        settled_at: When the money moved.
        created_at: Service time.
        modified_at: Service time.
    """

    id: int
    holder_id: int
    transfer_id: int
    flow: Flow
    is_book: bool
    external_id: str | None
    fingerprint: bytes | None
    return_id: str
    original_end_to_end_id: str
    correlation_id: UUID
    amount_cents: int
    status: RefundStatus
    reason: RefundReason
    description: str | None
    outcome_code: str | None
    outcome_reason: str | None
    slot: int
    handed_at: datetime | None
    settled_at: datetime | None
    created_at: datetime
    modified_at: datetime


DESCRIPTION_LENGTH_MAX = 140


def read_reason(text: str) -> RefundReason:
    """The reason of a return that somebody else made; one that the scheme does not have becomes the plain one.

    The money has come back whatever they call it: a report that could not be recorded would come again for ever.
    """
    return _REASONS.get(text, "MD06")


def settle_refund(refund: Refund, now: datetime) -> Refund:
    """The refund, with its money moved."""
    errors.ensure(refund.status == "PROCESSING", refund.status)
    return msgspec.structs.replace(refund, status="RETURNED", settled_at=now, modified_at=now)


def fail_refund(refund: Refund, code: str, reason: str, now: datetime) -> Refund:
    """The refund, rejected or never handed over; no money has moved."""
    errors.ensure(refund.status == "PROCESSING", refund.status)
    return msgspec.structs.replace(refund, status="ERROR", outcome_code=code, outcome_reason=reason, modified_at=now)


def announce_refund(refund: Refund, event_id: int) -> Event:
    """The event that tells the state which a refund has just reached."""
    name = _EVENT_NAMES[refund.flow, refund.status]
    payload = events.RefundPayload(
        id=refund.id,
        external_id=refund.external_id,
        return_identification=refund.return_id,
        original_end_to_end_id=refund.original_end_to_end_id,
        correlation_id=refund.correlation_id,
        amount=refund.amount_cents,
        status=refund.status,
        flow=refund.flow,
        create_timestamp=format_instant(refund.created_at),
    )
    return Event(
        id=event_id,
        holder_id=refund.holder_id,
        name=name,
        resource="refund",
        resource_id=refund.id,
        slot=refund.slot,
        body=events.encode_body(event_id, name, payload, refund.modified_at),
        created_at=refund.modified_at,
    )
