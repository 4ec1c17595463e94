"""The network's statement is read in pages, in the order of time, over both of its tables."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from pixconnect.features.sandbox.network import application as statement
from pixconnect.features.sandbox.rules import SET_OFFSET
from pixconnect.kernel.rules.rail import SettledItem
from support import sandbox as support
from support.postgres import Addresses
from support.sandbox import Sandbox

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)

ORDERS = """
insert into sandbox.settlement (id, kind, amount_cents, taken_at, due_at, code, is_open)
select 'E' || lpad(n::text, 31, '0'), case n % 5 when 0 then 'refund' else 'order' end, 100, $1,
    $1 + (n / 4) * interval '1 second', case n % 7 when 0 then 'AC03' end, n % 3 = 0
from generate_series(1, 2000) as n
"""
ARRIVALS = """
insert into sandbox.arrival (number, id, kind, amount_cents, report, taken_at, due_at, settled_at, code, is_due, is_open)
select n, 'F' || lpad(n::text, 31, '0'), case n % 5 when 0 then 'return' else 'credit' end, 1000, '{}', $1,
    $1 + (n / 4) * interval '1 second', case when n % 2 = 0 then $1 + (n / 4 + 1) * interval '1 second' end,
    case n % 7 when 0 then 'BE17' end, true, n % 11 = 0
from generate_series(1, 1000) as n
"""


@pytest.fixture
async def sandbox(database: Addresses) -> AsyncIterator[Sandbox]:
    """With orders of four a second, and arrivals that settled when they were reported, or a second later."""
    async with support.running(database.service_url) as running:
        connection = await asyncpg.connect(database.owner_url)
        try:
            await connection.execute(ORDERS.replace("$1", f"'{START.isoformat()}'::timestamptz"))
            await connection.execute(ARRIVALS.replace("$1", f"'{START.isoformat()}'::timestamptz"))
        finally:
            await connection.close()
        yield running


async def read(sandbox: Sandbox, since: datetime, until: datetime) -> list[list[SettledItem]]:
    return [list(batch) async for batch in sandbox.rail.statement(since, until)]


async def test_pages_have_every_item_once_in_the_order_of_time(sandbox: Sandbox) -> None:
    pages = await read(sandbox, START, START + timedelta(days=1))
    items = [item for page in pages for item in page]
    assert max(len(page) for page in pages) == statement.PAGE_SIZE
    assert len(pages) == 3
    keys = [(item.settled_at, item.id) for item in items]
    assert keys == sorted(set(keys))
    orders = [n for n in range(1, 2001) if n % 7]
    arrivals = [n for n in range(1, 1001) if n % 7 and n % 11]
    assert {item.id for item in items} == {f"E{n:031}" for n in orders} | {f"F{n:031}" for n in arrivals}
    settled_at = {item.id: item.settled_at for item in items}
    assert settled_at[f"E{9:031}"] == START + 2 * SECOND
    assert settled_at[f"F{9:031}"] == START + 2 * SECOND
    assert settled_at[f"F{10:031}"] == START + 3 * SECOND


async def test_what_settled_stays_in_the_statement_when_the_clock_is_moved_back(database: Addresses) -> None:
    async with support.running(database.service_url) as sandbox:
        await sandbox.control.call(SET_OFFSET, timedelta(hours=1))
        order = support.order(ordered_at=datetime.now(UTC) + timedelta(hours=1))
        await sandbox.rail.submit([order])
        [report] = await support.next_reports(sandbox.rail)
        ahead = await sandbox.rail.position()
        await sandbox.control.call(SET_OFFSET, timedelta(0))
        back = await sandbox.rail.position()
        assert (ahead.amount_cents, back.amount_cents) == (-100, -100)
        assert back.as_of < ahead.as_of
        [[item]] = await read(sandbox, START, ahead.as_of)
        assert item.id == report.report_id == order.end_to_end_id
