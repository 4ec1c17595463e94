"""Of what parts a payment consists: of a charge with a due date, whose amount is another on each day."""

from __future__ import annotations

from msgspec import Struct

from pixconnect.domain.due.day_amount import DayAmount


class PaidAmount(Struct, frozen=True, kw_only=True):
    """Cents; ``amount_cents`` is ``original`` with fine and interest, without rebate and discount."""

    transfer_id: int
    holder_id: int
    charge_id: int
    amount_cents: int
    original_cents: int
    fine_cents: int
    interest_cents: int
    rebate_cents: int
    discount_cents: int


def keep_parts(amount: DayAmount, transfer_id: int, holder_id: int, charge_id: int) -> PaidAmount:
    """The parts of a payment that pays or will pay a charge with the amount of the day of its report."""
    return PaidAmount(
        transfer_id=transfer_id,
        holder_id=holder_id,
        charge_id=charge_id,
        amount_cents=amount.total_cents,
        original_cents=amount.original_cents,
        fine_cents=amount.fine_cents,
        interest_cents=amount.interest_cents,
        rebate_cents=amount.rebate_cents,
        discount_cents=amount.discount_cents,
    )
