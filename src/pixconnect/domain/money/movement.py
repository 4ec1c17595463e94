"""A movement: money that the institution has moved on a holder's account, by no Pix that we know.

::

    IN:   settlement ──► available
    OUT:  available ──► settlement

A fee, a wire, a boleto, what a person does in the institution's app: an item of its statement that names no order or refund of
ours. One item is one movement. It takes no more than is available: a rail that lets us refuse is refused what lacks funds.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct

from pixconnect.domain.money import reject_code
from pixconnect.domain.money.ledger import Account, Balance
from pixconnect.domain.money.rail import MovementKind, MovementReport


class Movement(Struct, frozen=True, kw_only=True):
    holder_id: int
    item_id: str
    """The institution's; unique on the holder's account."""
    kind: MovementKind
    direction: Literal["IN", "OUT"]
    amount_cents: int
    status: Literal["POSTED", "ERROR"]
    outcome_code: str | None
    entry_id: int | None
    """Its ledger entry; what was refused has none."""
    end_to_end_id: str | None
    """The Pix that it is about, as the network calls it."""
    description: str | None
    network_settled_at: datetime
    created_at: datetime

    @property
    def accounts(self) -> tuple[Account, Account]:
        """What is debited, and what is credited."""
        return ("settlement", "available") if self.direction == "IN" else ("available", "settlement")


def find_movement_refusal(report: MovementReport, balance: Balance) -> str | None:
    """Why it is refused, where the rail lets us."""
    if report.direction == "IN":
        return None if balance.may_deposit else reject_code.ACCOUNT_BLOCKED
    return None if report.amount_cents <= balance.available_cents else reject_code.FUNDS_LACKING


def open_movement(report: MovementReport, holder_id: int, code: str | None, now: datetime) -> Movement:
    """A movement that is about to be posted, or was refused with a code."""
    return Movement(
        holder_id=holder_id,
        item_id=report.item_id,
        kind=report.kind,
        direction=report.direction,
        amount_cents=report.amount_cents,
        status="POSTED" if code is None else "ERROR",
        outcome_code=code,
        entry_id=None,
        end_to_end_id=report.end_to_end_id or None,
        description=report.description or None,
        network_settled_at=report.settled_at,
        created_at=now,
    )
