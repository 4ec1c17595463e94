"""What holders have now, and what came in and left since an instant, from the newest lines of each statement."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString

from msgspec import convert

from pixconnect.domain.reading.money_of_day import HolderMoney
from pixconnect.foundation.pool import Pool

# By the index of numbered lines, holder by holder: a statement without a bound would be read whole on a busy day.
_READ: Final[LiteralString] = """
    select balance.holder_id, available_cents, reserved_cents, blocked_cents, in_cents, out_cents, lines_count > $3 as is_cut
    from unnest($1::bigint[]) as wanted (id) join whole_balance as balance on balance.holder_id = wanted.id
    cross join lateral (
        select count(*) as lines_count,
            coalesce(sum(amount_cents) filter (where credit_account in ('available', 'reserved', 'blocked')), 0)::bigint
                as in_cents,
            coalesce(sum(amount_cents) filter (where debit_account in ('available', 'reserved', 'blocked')), 0)::bigint
                as out_cents
        from (
            select amount_cents, debit_account, credit_account from ledger_entry
            where ledger_entry.holder_id = balance.holder_id and number is not null and created_at >= $2
            order by created_at desc limit $3 + 1
        ) as newest
    ) as moved order by balance.holder_id
"""


async def read(pool: Pool, holder_ids: Sequence[int], since: datetime, lines_max: int) -> list[HolderMoney]:
    """By holder; of each so many lines are read."""
    rows = await pool.fetch(_READ, holder_ids, since, lines_max)
    return [convert(dict(row), HolderMoney) for row in rows]
