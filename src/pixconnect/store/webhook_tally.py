"""How many events and deliveries there are: totals of their lists that stay fast at any length.

As ``tally`` and ``tally_change``, but what is noted is noted by triggers: a delivery changes its status in many ways, and a way
that forgot to note it would make totals wrong for months. A delivery counts as ``made`` for as long as it is kept, and as
``delivered`` or ``failed`` beside it; those that are pending are the rest.
"""

from __future__ import annotations

from typing import Final, Literal, LiteralString

from pixconnect.foundation.pool import Connection
from pixconnect.store import tally as tally_store

Kind = Literal["event", "delivery"]

_FOLD: Final = tally_store.fold_statement("webhook_tally", "owner_id")


def read_hours(kind: Kind, status: Literal["made", "pending", "delivered", "failed"]) -> LiteralString:
    """Reads whole hours, as ``store.listing.Source`` wants it."""
    statuses: LiteralString = "'made', 'delivered', 'failed'" if status == "pending" else f"'{status}'"
    sign: LiteralString = "case status when 'made' then 1 else -1 end" if status == "pending" else "1"
    noted: LiteralString = (
        f"where kind = '{kind}' and owner_id = $1 and status in ({statuses}) and hour between $2 and $3"
    )
    return tally_store.hours_statement("webhook_tally", noted, sign)


async def fold(connection: Connection, rows_max: int) -> int:
    """Add what was noted to the counts of its hours; as ``tally.fold``."""
    return await connection.fetchval(_FOLD, rows_max)
