"""Figures of open orders and of holders.

Holders' figures come from the hourly totals, or from the newest rows where there are no totals; balances, and money received
and sent since an instant, from the newest lines of each statement.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, LiteralString

from msgspec import Struct, convert

from pixconnect.features.monitoring.rules import HolderMoney, Reason, SeriesKind, Step
from pixconnect.kernel.tables.lookup import Column, Tuples
from pixconnect.platform.pool import Connection, Pool


class OrderFigures(Struct, frozen=True, kw_only=True):
    """Open transfers, or refunds, to accounts outside this service."""

    due_count: int  # due for a worker now
    unsent_count: int
    sent_count: int  # handed over, and not queried yet
    silent_count: int  # queried at least once
    oldest_at: datetime | None
    oldest_silent_at: datetime | None  # except those that wait for a person at their institution


_READ_ALL: Final[LiteralString] = """
    select case left(name, 1) when 'E' then 'transfer' else 'refund' end as kind,
        count(*) filter (where due_at <= $1) as due_count,
        count(*) filter (where handed_at is null) as unsent_count,
        count(*) filter (where handed_at is not null and asked_count = 0) as sent_count,
        count(*) filter (where asked_count > 0) as silent_count,
        min(ordered_at) as oldest_at,
        min(ordered_at) filter (
            where asked_count > 0 and not exists (select from waiting_order where order_name = looked_at.name offset 0)
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
    rows = await connection.fetch(_READ_ALL, now, count_max)
    return {row["kind"]: convert(dict(row), OrderFigures) for row in rows}


NEWEST_MAX: Final = 1_000  # rows read for figures without totals

next_holders: Final = Column[int, int, int]("select id from holder where id > $1 order by id limit $2")


# $1 holder, $2 and $3 oldest and newest hour, $4 hour or day; days are those of Sao Paulo.
def _sums(table: LiteralString, where: LiteralString) -> LiteralString:
    span: LiteralString = f"where {where} and hour between $2 and $3"
    return f"""
        select kind, status, date_trunc($4, hour, 'America/Sao_Paulo') as began_at, sum(count)::bigint as count from (
            select kind, status, hour, count from {table} {span}
            union all select kind, status, hour, change from {table}_change {span}
        ) as noted group by 1, 2, 3 having sum(count) <> 0
    """


Sum = tuple[SeriesKind, str, datetime, int]  # a kind, a status, when the hour or day began, and the count
read_sums: Final = Tuples[Sum, Sequence[int], datetime, datetime, Step](
    _sums("tally", "holder_id = any($1::bigint[]) and kind in ('charge', 'transfer', 'refund', 'spent')")
)
read_event_sums: Final = Tuples[Sum, Sequence[int], datetime, datetime, Step](
    _sums("webhook_tally", "kind = 'event' and owner_id = any($1::bigint[])")
)
# Of endpoints, and not of holders.
read_delivery_sums: Final = Tuples[Sum, Sequence[int], datetime, datetime, Step](
    _sums("webhook_tally", "kind = 'delivery' and owner_id = any($1::bigint[])")
)

# One holder's by the index of its list, status by status; those of all holders by the highest ids.
_NEWEST_OF_HOLDER: Final[LiteralString] = """
    select newest.* from unnest($2::text[]) as wanted (status)
    cross join lateral (
        select * from transfer where holder_id = $1 and holder_id + 0 = $1 and status = wanted.status
            and created_at between $3 and $4
        order by created_at desc, id desc limit $5
    ) as newest
"""
_NEWEST_OF_ALL: Final[LiteralString] = """
    select * from (select * from transfer order by id desc limit 10 * $5::bigint) as newest
    where status = any($2::text[]) and created_at between $3 and $4 and $1::bigint is null
"""
_DURATIONS: Final[LiteralString] = """
    select (extract(epoch from settled_at - created_at) * 1000000)::bigint as duration_us
    from ({}) as settled where direction = 'OUT' and not is_book
"""
_REASONS: Final[LiteralString] = """
    select 'transfer' as kind, direction, outcome_code as code, count(*) as count
    from ({}) as failed where outcome_code is not null group by 1, 2, 3
"""


async def read_settling(pool: Pool, holder_id: int | None, initial_at: datetime, final_at: datetime) -> list[int]:
    """How long the newest transfers took over the rail, in microseconds."""
    newest = _NEWEST_OF_ALL if holder_id is None else _NEWEST_OF_HOLDER
    statement = _DURATIONS.format(newest)
    rows = await pool.fetch(statement, holder_id, ["CONFIRMED", "RETURNED"], initial_at, final_at, NEWEST_MAX)
    return [max(0, row["duration_us"]) for row in rows]


async def read_reasons(pool: Pool, holder_id: int | None, initial_at: datetime, final_at: datetime) -> list[Reason]:
    """Read the failure reasons of the newest failed transfers, most frequent first."""
    newest = _NEWEST_OF_ALL if holder_id is None else _NEWEST_OF_HOLDER
    statement = _REASONS.format(newest)
    rows = await pool.fetch(statement, holder_id, ["ERROR", "CANCELLED"], initial_at, final_at, NEWEST_MAX)
    return sorted((convert(dict(row), Reason) for row in rows), key=lambda reason: (-reason.count, reason.code))


_DELIVERING: Final[LiteralString] = """
    select (extract(epoch from attempt.started_at - newest.created_at) * 1000000)::bigint + attempt.duration_us as duration_us
    from unnest($1::bigint[]) as endpoint (id)
    cross join lateral (
        select delivery.id, attempts_count, created_at, status from delivery
        where endpoint_id = endpoint.id and created_at between $2 and $3 order by created_at desc, delivery.id desc limit $4
    ) as newest
    join delivery_attempt as attempt on attempt.delivery_id = newest.id and attempt.number = newest.attempts_count
    where newest.status = 'delivered'
"""


async def read_delivering(pool: Pool, endpoint_ids: Sequence[int], initial_at: datetime, final_at: datetime) -> list[int]:
    """How long the newest webhooks took to arrive, in microseconds."""
    each_max = max(1, NEWEST_MAX // max(1, len(endpoint_ids)))
    rows = await pool.fetch(_DELIVERING, list(endpoint_ids), initial_at, final_at, each_max)
    return [max(0, row["duration_us"]) for row in rows]


# By the index of numbered lines, holder by holder: without a limit a statement would be read whole on a busy day.
_READ: Final[LiteralString] = """
    select balance.holder_id, available_cents, reserved_cents, blocked_cents, today_count > $4 as is_cut,
        lines_count > $4 as is_yesterday_cut, moved.*
    from unnest($1::bigint[]) as wanted (id) join whole_balance as balance on balance.holder_id = wanted.id
    cross join lateral (
        select count(*) as lines_count, count(*) filter (where is_today) as today_count,
            coalesce(sum(amount_cents) filter (where way = 'paid' and is_today), 0)::bigint as in_cents,
            coalesce(sum(amount_cents) filter (where way = 'paid' and not is_today), 0)::bigint as in_yesterday_cents,
            coalesce(sum(amount_cents) filter (where way = 'other' and is_today), 0)::bigint as other_in_cents,
            coalesce(sum(amount_cents) filter (where way = 'out' and is_today), 0)::bigint as out_cents,
            coalesce(sum(amount_cents) filter (where way = 'out' and not is_today), 0)::bigint as out_yesterday_cents,
            coalesce(sum(amount_cents) filter (where way = 'back' and is_today), 0)::bigint as back_cents,
            coalesce(sum(amount_cents) filter (where way = 'back' and not is_today), 0)::bigint as back_yesterday_cents
        from (
            select amount_cents, created_at >= $2 as is_today, case
                -- A suspect payment is counted when it is released, and never if it is returned.
                when cause_kind = 'block_step' then null
                when credit_account in ('available', 'reserved', 'blocked') and cause_kind = 'transfer' then 'paid'
                when credit_account in ('available', 'reserved', 'blocked') then 'other'
                when debit_account not in ('available', 'reserved', 'blocked') then null
                when cause_kind = 'refund' then 'back' else 'out' end as way
            from ledger_entry
            where ledger_entry.holder_id = balance.holder_id and number is not null and created_at >= $3
            order by created_at desc limit $4 + 1
        ) as newest
    ) as moved order by balance.holder_id
"""


async def read_money_of_day(
    pool: Pool, holder_ids: Sequence[int], today: datetime, yesterday: datetime, lines_max: int
) -> list[HolderMoney]:
    """Balances and money received and sent since these midnights by holder; at most this many lines of each are read."""
    rows = await pool.fetch(_READ, holder_ids, today, yesterday, lines_max)
    return [convert(dict(row), HolderMoney) for row in rows]
