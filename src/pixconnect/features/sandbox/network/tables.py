"""The SQL about money: orders, arrivals, merchants' codes, and the clock.

Each group has one statement. Writes are durable before anything is answered, except acknowledgements: if one is lost with the
server, its report comes once more, which changes nothing.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from pixconnect.features.sandbox.network.outbox import list_parts

INSERT_ORDERS = """
insert into settlement (id, kind, original_id, amount_cents, key, taken_at, due_at, code, is_open)
select o.id, $1::text, o.original_id, o.amount_cents, o.key, $2::timestamptz,
    $2::timestamptz + o.delay_ms * interval '1 millisecond', o.code, o.is_open
from unnest($3::text[], $4::text[], $5::bigint[], $6::text[], $7::integer[], $8::text[], $9::boolean[])
    as o (id, original_id, amount_cents, key, delay_ms, code, is_open)
order by o.id
on conflict (id) do nothing
returning id
"""

FIND_ORDERS = """
select id, kind, key, amount_cents, due_at, code, is_due or due_at <= $2::timestamptz as is_over, is_closed
from settlement
where id = any($1::text[])
"""

CLOSE_IDS = """
insert into settlement (id, kind, amount_cents, taken_at, due_at, code, is_due, is_open, is_closed)
select id, case left(id, 1) when 'E' then 'order' else 'refund' end, 0, $2::timestamptz, $2::timestamptz, 'FF08',
    true, false, true
from unnest($1::text[]) as o (id)
order by id
on conflict (id) do nothing
"""

REFUNDED = """
select a.id, a.key, a.amount_cents,
    coalesce((select sum(s.amount_cents) from settlement s where s.original_id = a.id and s.code is null), 0)::bigint
        as refunded_cents
from arrival a
where a.id = any($1::text[]) and a.kind = 'credit'
"""

INSERT_ARRIVALS = """
insert into arrival (number, id, kind, amount_cents, report, taken_at, due_at, original_id, key, code, is_due, is_open,
    next_report, next_after_ms, waits_for)
select * from unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::timestamptz[], $7::timestamptz[],
    $8::text[], $9::text[], $10::text[], $11::boolean[], $12::boolean[], $13::text[], $14::integer[], $15::text[])
"""

# `set_config` makes this one transaction not wait for the disk.
CLOSE_ORDERS = """
update settlement set is_open = false, is_due = true
from (select set_config('synchronous_commit', 'off', true)) as hurry
where id = any($1::text[]) and is_open
"""

# The first of two steps is acknowledged once: after that its row has no next report.
ACKNOWLEDGE_ARRIVALS = """
update arrival a set
    is_open = r.goes_on, is_due = not r.goes_on, code = coalesce(a.code, r.code), next_report = null, next_after_ms = null,
    report = case when r.goes_on then a.next_report else a.report end,
    taken_at = case when r.goes_on then $6::timestamptz else a.taken_at end,
    due_at = case when r.goes_on then $6::timestamptz + a.next_after_ms * interval '1 millisecond' else a.due_at end,
    settled_at = case when not r.goes_on and coalesce(a.code, r.code) is null then $6::timestamptz end,
    held_at = case when r.is_held then $6::timestamptz else a.held_at end,
    hold_ended_at = case when not r.goes_on and a.held_at is not null then $6::timestamptz end
from unnest($1::text[], $2::text[], $3::boolean[], $4::boolean[], $5::boolean[]) as r (id, code, is_first, goes_on, is_held),
    (select set_config('synchronous_commit', 'off', true)) as hurry
where a.id = r.id and a.is_open and (a.next_report is not null) = r.is_first
returning a.id, a.is_open, a.code, a.due_at, a.report, a.is_open and a.held_at is not null
"""

OPEN_ORDERS = "select id, due_at, code, is_due from settlement where is_open order by due_at, id"

# A fee is due once its payment has settled, and dropped if that has failed.
RELEASE_FEES = """
update arrival a set
    waits_for = null, taken_at = $3::timestamptz, due_at = $3::timestamptz, code = r.code, is_open = r.code is null,
    is_due = r.code is not null
from unnest($1::text[], $2::text[]) as r (id, code)
where a.id = r.id and a.waits_for is not null
returning a.id, a.is_open, a.code, a.due_at, a.report, false
"""

OPEN_ARRIVALS = "select id, due_at, report, is_due, waits_for from arrival where is_open order by due_at, number"

# Before the clock is moved back from $1 to $2: settlements stay, and a deadline set at an instant now in the future moves
# nearer by as much.
KEEP_SETTLED = "update {table} set is_due = true where due_at > $2::timestamptz and due_at <= $1::timestamptz and not is_due"
BRING_NEARER = "update {table} set due_at = due_at - ($1 - $2::timestamptz) where due_at > $1 and taken_at > $2 and not is_due"

FIND_CODES = "select txid, amount_cents, paid_by from merchant_code where txid = any($1::text[]) order by txid for update"

CLAIM_CODES = """
update merchant_code m set paid_by = c.paid_by
from unnest($1::text[], $2::text[]) as c (txid, paid_by)
where m.txid = c.txid
"""


class NewOrder(NamedTuple):
    id: str
    original_id: str | None
    amount_cents: int
    key: str | None
    delay_ms: int
    code: str | None
    is_open: bool


class KnownOrder(NamedTuple):
    id: str
    kind: Literal["order", "refund"]
    key: str | None
    amount_cents: int
    due_at: datetime
    code: str | None
    is_over: bool  # whether ``due_at`` has come
    is_closed: bool  # whether this is a closed id and no order: none came in time, and none will be accepted


class NewArrival(NamedTuple):
    """A payment, return or movement from outside; ``report`` is the report to the service, as JSON."""

    number: int
    id: str
    kind: Literal["credit", "return", "movement_in", "movement_out"]
    amount_cents: int
    report: str
    taken_at: datetime
    due_at: datetime
    original_id: str | None = None
    key: str | None = None
    code: str | None = None
    is_due: bool = False
    is_open: bool = True
    next_report: str | None = None  # the report that follows the acknowledgement, if the payment has two steps
    next_after_ms: int | None = None
    waits_for: str | None = None  # for a fee, its payment; it is reported once that has settled


class Acknowledged(NamedTuple):
    """The service's answer to the report of an arrival."""

    id: str
    code: str | None  # why the payment or return has failed, if it has
    is_first: bool  # whether it answers the first of two steps
    goes_on: bool
    is_held: bool  # whether the institution holds it from now on


class AfterStep(NamedTuple):
    """An arrival's state after an acknowledgement that counted; ``report`` is the next one if it is still open."""

    id: str
    is_open: bool
    code: str | None
    due_at: datetime
    report: str
    is_held: bool


class DueOrder(NamedTuple):
    """An order with an unacknowledged outcome."""

    id: str
    due_at: datetime
    code: str | None
    is_due: bool = False


class Original(NamedTuple):
    """A payment from outside that refunds return."""

    id: str
    key: str | None
    amount_cents: int
    refunded_cents: int


class MerchantClaim(NamedTuple):
    """A merchant's dynamic code, as an order finds it."""

    txid: str
    amount_cents: int
    paid_by: str | None


Executor = asyncpg.Pool | asyncpg.Connection | PoolConnectionProxy


def _columns(rows: Sequence[tuple[object, ...]]) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)]


async def insert_orders(
    executor: Executor, kind: Literal["order", "refund"], taken_at: datetime, orders: Sequence[NewOrder]
) -> set[str]:
    """Store orders, except those whose id is known already; return the ids of the new ones."""
    rows = await executor.fetch(INSERT_ORDERS, kind, taken_at, *_columns(orders))
    return {row[0] for row in rows}


async def find_orders(executor: Executor, ids: Sequence[str], now: datetime) -> dict[str, KnownOrder]:
    rows = await executor.fetch(FIND_ORDERS, ids, now)
    return {row[0]: KnownOrder(*row) for row in rows}


async def find_originals(executor: Executor, ids: Sequence[str]) -> dict[str, Original]:
    rows = await executor.fetch(REFUNDED, ids)
    return {row[0]: Original(*row) for row in rows}


async def insert_arrivals(executor: Executor, arrivals: Sequence[NewArrival]) -> None:
    await executor.execute(INSERT_ARRIVALS, *_columns(arrivals))


async def close_orders(executor: Executor, ids: Sequence[str]) -> None:
    await executor.execute(CLOSE_ORDERS, ids)


async def acknowledge_arrivals(executor: Executor, acknowledged: Sequence[Acknowledged], now: datetime) -> list[AfterStep]:
    """Record acknowledgements, but repeated ones, and return the next steps; what ended without a code settles now."""
    rows = await executor.fetch(ACKNOWLEDGE_ARRIVALS, *_columns(acknowledged), now)
    return [AfterStep(*row) for row in rows]


async def open_orders(executor: Executor) -> list[DueOrder]:
    return [DueOrder(*row) for row in await executor.fetch(OPEN_ORDERS)]


async def release_fees(executor: Executor, ended: Sequence[tuple[str, str | None]], now: datetime) -> list[AfterStep]:
    """Make fees due, or drop them if a code shows that their payments failed."""
    rows = await executor.fetch(RELEASE_FEES, *_columns(ended), now)
    return [AfterStep(*row) for row in rows]


async def open_arrivals(executor: Executor) -> list[tuple[str, datetime, str, bool, str | None]]:
    """Return id, due instant, report, ``is_due`` and ``waits_for`` of every unacknowledged arrival."""
    return [tuple(row) for row in await executor.fetch(OPEN_ARRIVALS)]


async def last_number(executor: Executor) -> int:
    tables = ("arrival", *(part.table for part in list_parts()))
    numbers = " union all ".join(f"select number from {table}" for table in tables)
    return await executor.fetchval(f"select coalesce(max(number), 0) from ({numbers}) as made")


async def write_clock(pool: asyncpg.Pool, offset: timedelta, before: datetime, after: datetime) -> None:
    """Store the clock's new offset, and adjust open deadlines when it moves back."""
    async with pool.acquire() as connection, connection.transaction():
        if after < before:
            for table in ("settlement", "arrival", *(part.table for part in list_parts())):
                await connection.execute(KEEP_SETTLED.format(table=table), before, after)
                await connection.execute(BRING_NEARER.format(table=table), before, after)
        await connection.execute("update clock set moved_by = $1", offset)


async def find_codes(executor: Executor, txids: Sequence[str]) -> dict[str, MerchantClaim]:
    rows = await executor.fetch(FIND_CODES, txids)
    return {row[0]: MerchantClaim(*row) for row in rows}
