"""How a payment differs from the charge that it names, where an institution has let it be paid all the same.

What has settled there has settled: late, of another amount, a second time, or under a txid that never became a charge here.
Whoever waits for the charge is told by an event of ours, beside those of the contract, whose words stay as they are.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from pixconnect.domain.frame import event as events
from pixconnect.domain.frame.clock import format_instant
from pixconnect.domain.frame.event import Divergence, Event
from pixconnect.domain.money.charge import PAID, Charge, asked_amount_cents, fixed_amount_cents
from pixconnect.domain.money.transfer import Transfer

TXID_LENGTH_MIN: Final = 26
"""A shorter name is the reference of a static code: anybody prints one, and no charge needs to have it."""


def find_divergences(
    charge: Charge | None, txid: str | None, amount_cents: int, settled_at: datetime
) -> tuple[Divergence, ...]:
    """How a payment at an institution differs from its charge, as the charge was before it; empty if it does not.

    Args:
        charge: The one that the payment names, by its txid or by the reference of its static code.
        txid: What the payment itself carries.
        amount_cents: What was paid.
        settled_at: By the institution's clock.
    """
    if charge is None:
        return ("NEVER_OPENED",) if txid is not None and len(txid) >= TXID_LENGTH_MIN else ()
    if charge.status in PAID:
        return ("PAID_BEFORE",)
    found: list[Divergence] = []
    if charge.status in ("REMOVED_BY_RECEIVER", "REMOVED_BY_PSP"):
        found.append("REMOVED")
    # Its end may not be noted here yet: for that a reading is awaited.
    elif charge.status == "EXPIRED" or settled_at >= charge.expires_at:
        found.append("EXPIRED")
    if fixed_amount_cents(charge, settled_at) not in {None, amount_cents}:
        found.append("OTHER_AMOUNT")
    return tuple(found)


def _find_asked(charge: Charge, transfer: Transfer) -> int:
    if charge.status in PAID:
        return charge.asked_cents or charge.amount_cents
    # Of one with a due date, by our own calculation for the day on which it was paid.
    return asked_amount_cents(charge, transfer.network_settled_at or transfer.modified_at)


def announce_divergence(
    transfer: Transfer, charge: Charge | None, divergences: tuple[Divergence, ...], event_id: int
) -> Event:
    """Make the event of a payment that has settled and differs from its charge, as that was before the payment."""
    payload = events.DivergencePayload(
        id=transfer.id,
        end_to_end_id=transfer.shown_id,
        correlation_id=transfer.correlation_id,
        divergences=list(divergences),
        # A payment of a static code carries a reference of that; the charge has a txid all the same.
        transaction_identification=(transfer.txid or "") if charge is None else charge.txid,
        charge_id=charge and charge.id,
        external_id=charge and charge.external_id,
        amount=transfer.amount_cents,
        asked_amount=None if charge is None else _find_asked(charge, transfer),
        status=transfer.status,
        settle_timestamp=format_instant(transfer.network_settled_at or transfer.modified_at),
        create_timestamp=format_instant(transfer.created_at),
    )
    return Event(
        id=event_id,
        holder_id=transfer.holder_id,
        name="charge.diverged",
        resource="transfer",
        resource_id=transfer.id,
        slot=transfer.slot,
        body=events.encode_body(event_id, "charge.diverged", payload, transfer.modified_at),
        created_at=transfer.modified_at,
    )
