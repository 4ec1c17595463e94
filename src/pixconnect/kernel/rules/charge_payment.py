"""Decides the effect of a payment on the charge that it names: over the rail, at an institution and by book.

- On the installation's own rail a payment pays its charge exactly, or is refused.
- At an institution a payment has settled and cannot be refused. It pays the charge unless another payment did, and
  ``charge.diverged`` reports each difference.
- By book between two holders of one account the code decides: a payment of a static code is handled as one at the institution,
  a payment of a dynamic code can be refused.

A settlement at an institution or by book stands: late, of another amount, a second time, or under a txid that never became a
charge here. This event, which extends the contract's, notifies the charge's holder.
"""

from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

from pixconnect.kernel.rules import charge as charge_rules
from pixconnect.kernel.rules import event as events
from pixconnect.kernel.rules import reject_code
from pixconnect.kernel.rules.charge import PAID, Charge, asked_amount_cents, is_amount_free, list_amounts_at_institution
from pixconnect.kernel.rules.event import Amount, Divergence, Event, EventFamily, Instant
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.platform.base.clock import format_instant

TXID_LENGTH_MIN: Final = 26
"""A shorter name is the reference of a static code: it may come from any printed code, and may have no charge."""


class ChargePayment(Struct, frozen=True, kw_only=True):
    holder_id: int
    # The account at an institution on which the money is; ``None`` is the installation's own rail.
    account_id: int | None
    txid: str | None  # the payment's txid, or the reference of a static code
    amount_cents: int
    at: datetime  # on the own rail the instant of the report; otherwise that of the settlement
    is_refusable: bool
    is_held: bool = False  # the institution holds it as suspect: it has not settled


class ChargeDecision(Struct, frozen=True, kw_only=True):
    charge: Charge | None = None  # the charge that the payment pays, holds or is refused for
    reject_code: str | None = None
    divergences: tuple[Divergence, ...] = ()  # how a payment that settles differs from the charge that it names


def decide_charge(named: Charge | None, payment: ChargePayment) -> ChargeDecision:
    """Decide which charge a payment pays; the one that it names must be locked."""
    if payment.account_id is None:
        return ChargeDecision(charge=named, reject_code=None if named is None else _find_reject_code(named, payment))
    if named is not None and named.institution_id != payment.account_id:
        named = None
    if named is not None and payment.is_refusable and (code := _find_reject_code(named, payment)) is not None:
        return ChargeDecision(charge=named, reject_code=code)
    divergences = find_divergences(named, payment.txid, payment.amount_cents, payment.at)
    # A suspect payment reserves the charge only while other payments may still pay it.
    is_open = named is not None and not _is_taken(named) and (named.status == "PENDING" or not payment.is_held)
    return ChargeDecision(charge=named if is_open else None, divergences=divergences)


def find_divergences(
    charge: Charge | None, txid: str | None, amount_cents: int, settled_at: datetime
) -> tuple[Divergence, ...]:
    """Find how a settled payment differs from its charge, as the charge was before it.

    Args:
        charge: The one that the payment names, by its txid or by the reference of its static code.
        settled_at: By the institution's clock.
    """
    if charge is None:
        return ("NEVER_OPENED",) if txid is not None and len(txid) >= TXID_LENGTH_MIN else ()
    if _is_taken(charge):
        return ("PAID_BEFORE",)
    found: list[Divergence] = []
    if charge.status in ("REMOVED_BY_RECEIVER", "REMOVED_BY_PSP"):
        found.append("REMOVED")
    # Its end may not be recorded here yet; a reading follows.
    elif charge.status == "EXPIRED" or settled_at >= charge.expires_at:
        found.append("EXPIRED")
    if not is_amount_free(charge) and amount_cents not in list_amounts_at_institution(charge, settled_at):
        found.append("OTHER_AMOUNT")
    return tuple(found)


def _is_taken(charge: Charge) -> bool:
    """Whether another payment has paid it, or holds it as suspect."""
    return charge.status in PAID or charge.held_by is not None


def _find_reject_code(charge: Charge, payment: ChargePayment) -> str | None:
    # The code requests money for another account than the credited one.
    if charge.holder_id != payment.holder_id:
        return reject_code.QR_CODE_REFUSED
    if payment.account_id is None or charge.due_on is None:
        return charge_rules.find_reject_code(charge, payment.amount_cents, payment.at)
    # The institution calculates amount and end of a charge with a due date, and the code was read there.
    return reject_code.QR_CODE_REFUSED if charge.status != "PENDING" or charge.held_by is not None else None


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
    EventFamily(
        prefix="charge.",
        schema="DivergenceEvent",
        payload=DivergencePayload,
        resource="Transfer",
        example=lambda _: dict(divergences=["OTHER_AMOUNT"], asked_amount=1000),
    ),
)


def _find_asked(charge: Charge, transfer: Transfer) -> int:
    if charge.status in PAID:
        return charge.asked_cents or charge.amount_cents
    # Of one with a due date, by our own calculation for the day on which it was paid.
    return asked_amount_cents(charge, transfer.network_settled_at or transfer.modified_at)


def announce_divergence(transfer: Transfer, charge: Charge | None, divergences: tuple[Divergence, ...], event_id: int) -> Event:
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
    return events.make_event(event_id, "charge.diverged", payload, "transfer", transfer, transfer.modified_at)
