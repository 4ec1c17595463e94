"""The table of adjusting entries."""

from __future__ import annotations

from typing import Final

from pixconnect.domain.money.adjustment import Adjustment
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.frame.fact import Fact
from pixconnect.store.frame.table import Table, of_columns

ADJUSTMENT: Final = Table(
    "adjustment",
    Adjustment,
    """
    id bigint, holder_id bigint, case_id bigint, kind text, direction text, account text, amount_cents bigint,
    deficit_cents bigint, entry_id bigint, deficit_entry_id bigint, opposite_of bigint, proposed_by text, confirmed_by text,
    created_at timestamptz
    """,
    key=("id", "holder_id"),
)

INSERT: Final = of_columns(ADJUSTMENT, once=(), name="adjustment_row", sql="insert into adjustment ({names}) {rows}")
ADJUSTMENTS: Final = Fact(rank=170, inserts=(INSERT,), key=None)


async def list_of_case(connection: Connection | Pool, case_id: int) -> list[Adjustment]:
    """All of a case, the oldest first."""
    return await ADJUSTMENT.find_all(connection, "where case_id = $1 order by created_at, id", case_id)
