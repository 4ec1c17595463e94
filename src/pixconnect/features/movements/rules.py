"""A movement: money that the institution moved on a holder's account, other than a known Pix.

::

    IN:   settlement ──► available
    OUT:  available ──► settlement
          deficit ──► settlement      beyond the available part

A fee, a wire, a boleto, an action in the institution's app: an item of its statement that names no order or refund here. One
item is one movement. If the rail permits refusals, movements without funds are refused; otherwise the money has gone, and the
missing part becomes a deficit.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Final, Literal

from msgspec import Struct, structs

from pixconnect.kernel.rules import event as events
from pixconnect.kernel.rules import reject_code
from pixconnect.kernel.rules.event import SLOTS_COUNT, Event
from pixconnect.kernel.rules.ledger import Account, Balance
from pixconnect.kernel.rules.rail import MovementKind, MovementReport
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_instant

_DIGEST_LENGTH: Final = 48


class Movement(Struct, frozen=True, kw_only=True):
    holder_id: int
    item_id: str  # the institution's; unique on the holder's account
    kind: MovementKind
    direction: Literal["IN", "OUT"]
    amount_cents: int  # only an opening balance may be 0, and has no entry then
    deficit_cents: int  # the part of it that was not available
    status: Literal["POSTED", "ERROR"]
    outcome_code: str | None
    entry_id: int | None  # the entry of the incoming or available part; a refused one has none
    deficit_entry_id: int | None  # the entry of the missing part
    end_to_end_id: str | None  # the network's name of the Pix that it concerns
    description: str | None
    network_settled_at: datetime
    created_at: datetime
    # The item whose movement it reverses, because that has proved to be a transfer or refund.
    opposite_of: str | None = None

    @property
    def accounts(self) -> tuple[Account, Account]:
        """The debited and the credited account."""
        return ("settlement", "available") if self.direction == "IN" else ("available", "settlement")

    @property
    def id(self) -> int | None:
        """That of its first entry."""
        return self.entry_id or self.deficit_entry_id

    @property
    def covered_cents(self) -> int:
        return self.amount_cents - self.deficit_cents


def find_movement_refusal(report: MovementReport, balance: Balance) -> str | None:
    """Find why it is refused, if the rail permits refusals."""
    if report.direction == "IN":
        return None if balance.may_deposit else reject_code.ACCOUNT_BLOCKED
    return None if report.amount_cents <= balance.available_cents else reject_code.FUNDS_LACKING


def open_movement(report: MovementReport, balance: Balance, code: str | None, now: datetime) -> Movement:
    """Open a movement that is about to be posted, or was refused with a code."""
    # Reserved and blocked money stays so: the part that exceeds the available balance is owed.
    is_taken = code is None and report.direction == "OUT"
    return Movement(
        holder_id=balance.holder_id,
        item_id=report.item_id,
        kind=report.kind,
        direction=report.direction,
        amount_cents=report.amount_cents,
        deficit_cents=max(0, report.amount_cents - balance.available_cents) if is_taken else 0,
        status="POSTED" if code is None else "ERROR",
        outcome_code=code,
        entry_id=None,
        deficit_entry_id=None,
        end_to_end_id=report.end_to_end_id or None,
        description=report.description or None,
        network_settled_at=report.settled_at,
        created_at=now,
    )


def open_opposite(movement: Movement, description: str, available_cents: int, now: datetime) -> Movement:
    errors.ensure(movement.opposite_of is None and movement.status == "POSTED", movement.item_id)
    digest = hashlib.sha256(movement.item_id.encode()).hexdigest()
    is_in = movement.direction == "IN"
    return structs.replace(
        movement,
        # No institution's item has this name.
        item_id=f"opposite:{digest[:_DIGEST_LENGTH]}",
        kind="reversal",
        direction="OUT" if is_in else "IN",
        # The incoming money may be spent by now: the holder owes the rest.
        deficit_cents=max(0, movement.amount_cents - available_cents) if is_in else 0,
        entry_id=None,
        deficit_entry_id=None,
        description=description[:140],
        created_at=now,
        opposite_of=movement.item_id,
    )


def announce_movement(movement: Movement, event_id: int) -> Event:
    """Make the event of a posted movement; one without an effect has none."""
    movement_id = errors.require(movement.id, "it has an entry")
    payload = events.MovementPayload(
        id=movement_id,
        item_id=movement.item_id,
        kind=movement.kind,
        impact_type=movement.direction,
        amount=movement.amount_cents,
        deficit=movement.deficit_cents,
        end_to_end_id=movement.end_to_end_id,
        description=movement.description,
        status="POSTED",
        settle_timestamp=format_instant(movement.network_settled_at),
        create_timestamp=format_instant(movement.created_at),
    )
    return Event(
        id=event_id,
        holder_id=movement.holder_id,
        name="movement.posted",
        resource="movement",
        resource_id=movement_id,
        slot=movement_id % SLOTS_COUNT,
        body=events.encode_body(event_id, "movement.posted", payload, movement.created_at),
        created_at=movement.created_at,
    )
