"""How many transfers and refunds the rail has not answered for good, for the metrics."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, LiteralString

from msgspec import Struct

from pixconnect.platform.pool import Connection, Pool


class OrderFigures(Struct, frozen=True, kw_only=True):
    """Open transfers, or refunds, to accounts outside this service."""

    due_count: int
    """A worker must look at them now."""
    unsent_count: int
    sent_count: int
    """Handed over, and not asked about yet."""
    silent_count: int
    """Asked about at least once."""
    oldest_at: datetime | None
    oldest_silent_at: datetime | None
    """Of those that wait for no person at their institution, either."""


_READ_ALL: Final[LiteralString] = """
    select case left(name, 1) when 'E' then 'transfer' else 'refund' end as kind,
        count(*) filter (where due_at <= $1) as due_count,
        count(*) filter (where handed_at is null) as unsent_count,
        count(*) filter (where handed_at is not null and asked_count = 0) as sent_count,
        count(*) filter (where asked_count > 0) as silent_count,
        min(ordered_at) as oldest_at,
        min(ordered_at) filter (
            where asked_count > 0 and not exists (select from waiting_order where order_name = looked_at.name)
        ) as oldest_silent_at
    from (
        select name, due_at, handed_at, asked_count, ordered_at from open_order
        -- An order that waits for an operator is no worker's, and counted by itself.
        where approval is distinct from 'awaited' order by due_at limit $2
    ) as looked_at
    group by 1
"""


async def read_all(connection: Connection | Pool, now: datetime, count_max: int) -> Mapping[str, OrderFigures]:
    """Figures of open orders by ``transfer`` and ``refund``; a kind without open ones is missing.

    It reads at most ``count_max`` orders: those that are due first.
    """
    return {
        row["kind"]: OrderFigures(
            due_count=row["due_count"],
            unsent_count=row["unsent_count"],
            sent_count=row["sent_count"],
            silent_count=row["silent_count"],
            oldest_at=row["oldest_at"],
            oldest_silent_at=row["oldest_silent_at"],
        )
        for row in await connection.fetch(_READ_ALL, now, count_max)
    }
