"""What has settled, item by item in the order of time, and its sum.

An order settles when it is due, without a write; what comes from outside settles when the service acknowledges it. Items of
both tables are one list, with what is held as suspect until it is let go. It is read page by page: there may be a million of
them.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from asyncpg.pool import PoolConnectionProxy

from pixconnect.domain.money.rail import Position, SettledItem

PAGE_SIZE: Final = 1000

# The conditions stand as in the indexes `settlement_by_time` and `arrival_by_time`, so that a page costs the same anywhere.
# Arrivals from before there was `settled_at` count from when they were reported.
READ_PAGE = """
(
    select id, kind, amount_cents, due_at as settled_at from settlement
    where code is null and (is_due or due_at < $1::timestamptz)
        and (due_at, id) > ($2::timestamptz, $3::text) and due_at < $4::timestamptz
    order by due_at, id limit $5
)
union all
(
    select id, kind, amount_cents, coalesce(settled_at, due_at) from arrival
    where code is null and not is_open
        and (coalesce(settled_at, due_at), id) > ($2, $3) and coalesce(settled_at, due_at) < $4
    order by coalesce(settled_at, due_at), id limit $5
)
union all
(
    select id || '/held', 'held', amount_cents, held_at from arrival
    where held_at is not null and (held_at, id || '/held') > ($2, $3) and held_at >= $2 and held_at < $4
    order by held_at, id limit $5
)
union all
(
    select id || '/let_go', 'let_go', amount_cents, let_go_at from arrival
    where let_go_at is not null and (let_go_at, id || '/let_go') > ($2, $3) and let_go_at >= $2 and let_go_at < $4
    order by let_go_at, id limit $5
)
order by settled_at, id limit $5
"""

READ_POSITION = """
select (
    (
        select coalesce(sum(case kind when 'movement_out' then -amount_cents else amount_cents end), 0)
        from arrival where code is null and not is_open
    )
    + (select coalesce(sum(amount_cents), 0) from arrival where held_at is not null and let_go_at is null)
    - (select coalesce(sum(amount_cents), 0) from settlement where code is null and (is_due or due_at < $1::timestamptz))
)::bigint
"""


async def read_page(
    connection: PoolConnectionProxy, now: datetime, since: datetime, after_id: str, until: datetime
) -> Sequence[SettledItem]:
    """Return the next items before ``until``; of those that settled at ``since`` the ones after ``after_id``."""
    rows = await connection.fetch(READ_PAGE, now, since, after_id, until, PAGE_SIZE)
    return [SettledItem(**row) for row in rows]


async def read_position(connection: PoolConnectionProxy, now: datetime) -> Position:
    return Position(amount_cents=await connection.fetchval(READ_POSITION, now), as_of=now)
