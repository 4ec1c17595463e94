"""What an institution says of an order of ours, in one form for transfers and refunds."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct

from pixconnect.domain.institutions.institution import ListedRefund
from pixconnect.domain.institutions.rail_memory import SentPix
from pixconnect.domain.money.holder import Party
from pixconnect.domain.money.rail import WaitsFor


class ListedOrder(Struct, frozen=True, kw_only=True):
    """What the institution says of an order of ours, a refund or a transfer."""

    status: Literal["under_way", "done", "refused"]
    amount_cents: int | None
    network_id: str | None
    settled_at: datetime | None
    reason: str | None
    reject_code: str | None = None
    payee: str | None = None
    """Where it tells whom a transfer goes to."""
    paid: Party | None = None
    """Who that is, as far as it tells."""
    code: str | None = None
    """The institution's own, of a transfer that is asked about by it."""
    waits_for: WaitsFor | None = None
    """Where a transfer waits for a person there."""


def as_listed_order(listed: ListedRefund | SentPix) -> ListedOrder:
    if isinstance(listed, SentPix):
        return ListedOrder(
            status="done" if listed.status == "settled" else listed.status,
            amount_cents=listed.amount_cents,
            network_id=listed.end_to_end_id,
            settled_at=listed.settled_at,
            reason=listed.reason,
            reject_code=listed.reject_code,
            payee=listed.payee,
            paid=listed.paid,
            code=listed.code,
            waits_for=listed.waits_for,
        )
    return ListedOrder(
        status="done" if listed.status == "returned" else listed.status,
        amount_cents=listed.amount_cents,
        network_id=listed.return_id,
        settled_at=listed.settled_at,
        reason=listed.reason,
    )
