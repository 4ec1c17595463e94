"""An adjusting entry: booked for a case without a recorded fact, after two operators agreed.

::

    IN:   difference ──► available
    OUT:  available ──► difference
          deficit ──► difference         beyond the available part

    written off by the house, at the end:  difference ──► settlement, or back

It is dated when it is made, stays within its case's amount and sign, and is undone only by its opposite. ``verify`` reports the
account ``difference`` until it is zero again.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal, get_args

import msgspec
from msgspec import Struct

from pixconnect.kernel.rules import event as events
from pixconnect.kernel.rules.event import SLOTS_COUNT, Amount, Event, EventFamily, Instant
from pixconnect.kernel.rules.ledger import Account, Balance
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_instant

AdjustmentKind = Literal["bank_error", "our_error", "found", "written_off"]
KINDS: Final[tuple[AdjustmentKind, ...]] = get_args(AdjustmentKind)
Side = Literal["IN", "OUT"]
SettledWith = Literal["available", "settlement"]


class Adjustment(Struct, frozen=True, kw_only=True):
    id: int
    """That of its first entry."""
    holder_id: int
    case_id: int
    kind: AdjustmentKind
    direction: Side
    account: SettledWith
    """The other side of the difference: a write-off ends in the house's settlement."""
    amount_cents: int
    deficit_cents: int
    """The part of it that was not available."""
    entry_id: int | None
    deficit_entry_id: int | None
    opposite_of: int | None
    """The adjustment that it undoes."""
    proposed_by: str
    confirmed_by: str
    created_at: datetime

    @property
    def signed_cents(self) -> int:
        return self.amount_cents if self.direction == "IN" else -self.amount_cents


def turn(direction: Side) -> Side:
    return "OUT" if direction == "IN" else "IN"


def accounts_of(direction: Side, account: SettledWith) -> tuple[Account, Account]:
    """The debited and the credited account."""
    if account == "available":
        return ("difference", "available") if direction == "IN" else ("available", "difference")
    return ("settlement", "difference") if direction == "IN" else ("difference", "settlement")


def find_lacking(balance: Balance, direction: Side, amount_cents: int) -> int:
    """Find the part of an outgoing amount that exceeds the available balance and becomes a debt."""
    return max(0, amount_cents - balance.available_cents) if direction == "OUT" else 0


def parse_kind(text: str) -> AdjustmentKind:
    try:
        return msgspec.convert(text, AdjustmentKind)
    except msgspec.ValidationError:
        raise errors.BadRequest(f"kind: must be one of {', '.join(KINDS)}") from None


def check_bound(case_cents: int, adjusted_cents: int, amount_cents: int, direction: Side) -> None:
    """Refuse an adjustment beyond a case's amount or sign.

    Args:
        case_cents: The institution's amount less the books'.
        adjusted_cents: Adjusted so far.
        amount_cents: The new adjustment.
        direction: The new adjustment's.
    """
    # By the resulting sum, so that entries of both directions count together.
    after_cents = adjusted_cents + (amount_cents if direction == "IN" else -amount_cents)
    if amount_cents < 1 or not min(case_cents, 0) <= after_cents <= max(case_cents, 0):
        left_cents = abs(case_cents - adjusted_cents)
        raise errors.BadRequest(f"amount: must be from 1 to the {left_cents} cents of the case that are not adjusted")


class AdjustmentPayload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The payload of ``adjustment.*`` events."""

    id: int
    """The adjustment's id: that of its line in your statement, where it has one."""
    kind: str
    """The source of the error, `bank_error` or `our_error`; `found`; or `written_off`, by which the house takes it over."""
    impact_type: Literal["IN", "OUT"]
    """IN credits you, OUT debits you."""
    amount: Amount
    """By how much."""
    deficit: Amount
    """The part that exceeded your balance: you owe it, and incoming money repays it first."""
    opposite_of: int | None = None
    """The id of the adjustment that it undoes."""
    status: Literal["POSTED"]
    """Only movements that moved money are announced."""
    create_timestamp: Instant
    """When it was posted: it is never dated back."""


FAMILIES: Final = (
    EventFamily(prefix="adjustment.", schema="AdjustmentEvent", payload=AdjustmentPayload, resource=None),
)


def announce_adjustment(adjustment: Adjustment, event_id: int) -> Event:
    payload = AdjustmentPayload(
        id=adjustment.id,
        kind=adjustment.kind,
        impact_type=adjustment.direction,
        amount=adjustment.amount_cents,
        deficit=adjustment.deficit_cents,
        opposite_of=adjustment.opposite_of,
        status="POSTED",
        create_timestamp=format_instant(adjustment.created_at),
    )
    return Event(
        id=event_id,
        holder_id=adjustment.holder_id,
        name="adjustment.posted",
        resource="adjustment",
        resource_id=adjustment.id,
        slot=adjustment.id % SLOTS_COUNT,
        body=events.encode_body(event_id, "adjustment.posted", payload, adjustment.created_at),
        created_at=adjustment.created_at,
    )
