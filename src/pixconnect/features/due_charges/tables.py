"""The table of the parts of payments that paid a charge with a due date."""

from __future__ import annotations

from typing import Final

from pixconnect.features.due_charges.rules.day_amount import PaidAmount
from pixconnect.kernel.tables import lookup
from pixconnect.kernel.tables.fact import Fact
from pixconnect.kernel.tables.table import Part, Table

PAID_AMOUNT: Final = Table(
    "paid_amount",
    PaidAmount,
    """
    transfer_id bigint, holder_id bigint, charge_id bigint, amount_cents bigint, original_cents bigint, fine_cents bigint,
    interest_cents bigint, rebate_cents bigint, discount_cents bigint
    """,
    key=("transfer_id", "holder_id"),
)

INSERT_PAID_AMOUNT: Final = Part[PaidAmount](
    name="paid_amount_row",
    sql=f"insert into paid_amount ({PAID_AMOUNT.names}) {PAID_AMOUNT.rows}",
    arguments=PAID_AMOUNT.arrays,
)
PAID_AMOUNTS: Final = Fact(rank=50, inserts=(INSERT_PAID_AMOUNT,), key=None)

find_paid_amounts: Final = lookup.by_pairs(PAID_AMOUNT, "transfer_id")
