"""The table of what payments of charges with a due date consist of."""

from __future__ import annotations

from typing import Final

from pixconnect.domain.due.paid_amount import PaidAmount
from pixconnect.store.frame import lookup
from pixconnect.store.frame.fact import Fact
from pixconnect.store.frame.table import Part, Table

PAID_AMOUNT: Final = Table(
    "paid_amount",
    PaidAmount,
    """
    transfer_id bigint, holder_id bigint, charge_id bigint, amount_cents bigint, original_cents bigint, fine_cents bigint,
    interest_cents bigint, rebate_cents bigint, discount_cents bigint
    """,
    key=("transfer_id", "holder_id"),
)

INSERT: Final = Part[PaidAmount](
    name="paid_amount_row",
    sql=f"insert into paid_amount ({PAID_AMOUNT.names}) {PAID_AMOUNT.rows}",
    arguments=PAID_AMOUNT.arrays,
)
PAID_AMOUNTS: Final = Fact(rank=50, inserts=(INSERT,), key=None)

find_of_transfers: Final = lookup.by_pairs(PAID_AMOUNT, "transfer_id")
