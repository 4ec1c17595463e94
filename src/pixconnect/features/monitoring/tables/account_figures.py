"""Figures of accounts at institutions: bounded statements over all of them, for metrics and alerts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Final, Literal, LiteralString

from msgspec import Struct, convert

from pixconnect.platform.pool import Connection, Pool

PauseReason = Literal["operator", "loss", "strays", "drain"]


class AccountFigures(Struct, frozen=True, kw_only=True):
    """Figures of one open account."""

    id: int
    name: str
    poll_s: int
    read_at: datetime
    """Real time: when the last complete reading of incoming Pix ended, or when the account was added."""
    paused_by: PauseReason | None
    """``operator``, ``loss``, or an alarm by its kind; ``None`` if it is active."""
    unclosed_on: date | None
    """The oldest past day that is not closed, among the last ones since the books began."""


# A day without a statement has no row: it is not closed either.
_LIST: Final[LiteralString] = """
    select account.id, account.name, account.poll_s, coalesce(near.ended_at, account.created_at) as read_at,
        case when account.state = 'active' then null when account.lost_at is not null then 'loss' else coalesce((
            select kind from account_alarm where institution_id = account.id and ended_at is null order by id limit 1
        ), 'operator') end as paused_by,
        (
            select min($1::date - number) from generate_series(1, $2::int) as number
            where $1::date - number > (account.opened_at at time zone 'America/Sao_Paulo')::date
                and not exists (
                    select from institution_day as closed
                    where closed.institution_id = account.id and closed.day = $1::date - number
                        and closed.state in ('closed', 'closed_with_cases')
                )
        ) as unclosed_on
    from institution_account as account
    left join institution_sweep as near on near.institution_id = account.id and near.pace = 'near'
    where account.removed_at is null and account.state <> 'closed' order by account.id
"""


async def list_figures(pool: Pool, today: date, days_max: int) -> Sequence[AccountFigures]:
    """List the figures of all open accounts; ``days_max`` days before today are checked."""
    return [convert(dict(row), AccountFigures) for row in await pool.fetch(_LIST, today, days_max)]


# Orders handed over count as gone, except those that wait at the institution for funds. Orders that wait for an operator's
# approval here may never leave.
_QUEUED: Final[LiteralString] = """
    approval is distinct from 'awaited' and (handed_at is null or exists (
        select from waiting_order where order_name = open_order.name and waits_for = 'funds' offset 0
    ))
"""
# Bounded before it is joined; an order's name begins with E for a transfer and with D for a refund.
_SUM_QUEUED: Final[LiteralString] = f"""
    select queued.institution_id, sum(coalesce(transfer.amount_cents, refund.amount_cents, 0))::bigint as cents
    from (
        select institution_id, name, holder_id, resource_id from open_order
        where institution_id is not null and {_QUEUED} limit $1
    ) as queued
    left join transfer on left(name, 1) = 'E' and transfer.id = resource_id and transfer.holder_id = queued.holder_id
    left join refund on left(name, 1) = 'D' and refund.id = resource_id and refund.holder_id = queued.holder_id
    group by queued.institution_id
"""


async def sum_queued(pool: Pool, count_max: int) -> dict[int, int]:
    """Sum the unsent orders' amounts by account, in cents; at most so many are added up."""
    return {row["institution_id"]: row["cents"] for row in await pool.fetch(_SUM_QUEUED, count_max)}


_IS_QUEUED: Final[LiteralString] = f"select exists (select from open_order where institution_id = $1 and {_QUEUED})"


async def is_queued(pool: Pool, account_id: int) -> bool:
    """Whether an order over an account has not left yet."""
    return await pool.fetchval(_IS_QUEUED, account_id)


# Limited per account, so that a busy one hides no quiet one.
_COUNT_RECEIVED: Final[LiteralString] = """
    select account.id, (
        select count(*) from (
            select from transfer
            where transfer.institution_id = account.id and network_settled_at > $1 and direction = 'IN' limit $2
        ) as received
    ) as count
    from institution_account as account where removed_at is null and state <> 'closed'
"""


async def count_received(pool: Pool, since: datetime, count_max: int) -> dict[int, int]:
    """Count Pix received per account since an instant of service time, each up to a maximum."""
    return {row["id"]: row["count"] for row in await pool.fetch(_COUNT_RECEIVED, since, count_max)}


class OrderFigures(Struct, frozen=True, kw_only=True):
    """Open transfers, or refunds, to accounts outside this service."""

    due_count: int
    """Due for a worker now."""
    unsent_count: int
    sent_count: int
    """Handed over, and not queried yet."""
    silent_count: int
    """Queried at least once."""
    oldest_at: datetime | None
    oldest_silent_at: datetime | None
    """Except those that wait for a person at their institution."""


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
