"""The event of a settled payment that differs from its charge, at an institution or by book.

A settlement stands: late, of another amount, a second time, or under a txid that never became a charge here. This event, which
extends the contract's, notifies the charge's holder.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from msgspec import Struct

from pixconnect.kernel.rules import event as events
from pixconnect.kernel.rules.charge import PAID, Charge, asked_amount_cents
from pixconnect.kernel.rules.event import Amount, Divergence, Event, EventFamily, Instant
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.platform.base.clock import format_instant


class DivergencePayload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The payload of ``charge.*`` events."""

    id: int
    """The id of the transfer that brought the money."""
    end_to_end_id: str
    """Its name on the whole network."""
    correlation_id: UUID
    """The same in everything that belongs to this transfer, its refunds included."""
    divergences: list[Divergence]
    """The differences.

    It has paid the charge that was `EXPIRED` (paid after its end), `REMOVED`, or asked for an `OTHER_AMOUNT`. It has paid none
    where that was `PAID_BEFORE`, or `NEVER_OPENED`: no charge of this txid exists here.
    """
    transaction_identification: str
    """The charge's txid; where there is no charge, the one that the payment names."""
    charge_id: int | None = None
    """The charge's id, where there is one."""
    external_id: str | None = None
    """Your own name for the charge, or the one that the service made."""
    amount: Amount
    """How much was paid."""
    asked_amount: Amount | None = None
    """The charge's requested amount."""
    status: str
    """The transfer's: the money is in your account."""
    settle_timestamp: Instant
    """When it settled at the institution."""
    create_timestamp: Instant
    """When it was recorded here."""


FAMILIES: Final = (
    EventFamily(prefix="charge.", schema="DivergenceEvent", payload=DivergencePayload, resource="Transfer"),
)


def _find_asked(charge: Charge, transfer: Transfer) -> int:
    if charge.status in PAID:
        return charge.asked_cents or charge.amount_cents
    # Of one with a due date, by our own calculation for the day on which it was paid.
    return asked_amount_cents(charge, transfer.network_settled_at or transfer.modified_at)


def announce_divergence(
    transfer: Transfer, charge: Charge | None, divergences: tuple[Divergence, ...], event_id: int
) -> Event:
    """Make the event of a settled payment that differs from its charge, as that was before the payment."""
    payload = DivergencePayload(
        id=transfer.id,
        end_to_end_id=transfer.shown_id,
        correlation_id=transfer.correlation_id,
        divergences=list(divergences),
        # A payment of a static code carries the code's reference; the charge has a txid all the same.
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
