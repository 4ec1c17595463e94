"""The entries of a statement, and the cost of reading them."""

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import asyncpg
import pytest

from pixconnect.features.statements import tables as statement_store
from pixconnect.platform.pool import open_pool
from support.postgres import Addresses, execute_as_owner
from support.records import AT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pixconnect.platform.pool import Pool

TICK = timedelta(microseconds=1)


@pytest.fixture
def database(new_database: Addresses) -> Addresses:
    """Never used before: plans are looked at here."""
    return new_database


@pytest.fixture
async def pool(database: Addresses) -> "AsyncIterator[Pool]":
    async with await open_pool(
        database.service_url, role="pixconnect_service", schema="pixconnect", connections_max=2, name="test"
    ) as opened:
        yield opened


async def fill(owner_url: str, holder_id: int, *, entries_count: int, reserving: bool = False) -> None:
    """Deposits of 1, 2, 3... cents, a second apart from ``AT`` on."""
    connection = await asyncpg.connect(owner_url)
    await connection.execute("set search_path = pixconnect")
    await connection.execute(
        """insert into holder (id, name, tax_id, city, branch, account_number, account_type, created_at)
            values ($1::bigint, 'Maria', '52998224725', 'SAO PAULO', '0001', $1::bigint::text, 'CHECKING', now())""",
        holder_id,
    )
    await connection.execute("insert into balance (holder_id, modified_at) values ($1, now())", holder_id)
    await connection.execute("insert into statement_head (holder_id) values ($1)", holder_id)
    await connection.execute(
        """insert into deposit (id, holder_id, amount_cents, created_at)
            select $1::bigint * 1000000 + n, $1, n, $2::timestamptz from generate_series(1, $3::bigint) as n""",
        holder_id,
        AT,
        entries_count,
    )
    await connection.execute(
        """insert into ledger_entry (id, holder_id, debit_account, credit_account, amount_cents, number, running_balance_cents,
                created_at, cause_kind, cause_id, cause_state)
            select $1::bigint * 1000000 + n, $1, 'funding', 'available', n, n, sum(n) over (order by n),
                $2::timestamptz + (n - 1) * interval '1 s', 'deposit', $1::bigint * 1000000 + n, 'MADE'
            from generate_series(1, $3::bigint) as n""",
        holder_id,
        AT,
        entries_count,
    )
    if reserving:
        await connection.execute("set session_replication_role = replica")  # of a transfer that nothing reads
        await connection.execute(
            """insert into ledger_entry (id, holder_id, debit_account, credit_account, amount_cents, created_at,
                    cause_kind, cause_id, cause_state)
                values ($1::bigint * 1000000, $1, 'available', 'reserved', 1, $2, 'transfer', 1, 'PROCESSING')""",
            holder_id,
            AT + timedelta(milliseconds=1500),
        )
    await connection.close()


def after_s(seconds: float) -> datetime:
    return AT + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("initial_at", "final_at", "numbers", "balances"),
    [
        (after_s(-9), after_s(9), (1, 3), (0, 6)),
        (after_s(0), after_s(2), (1, 3), (0, 6)),
        (after_s(0) + TICK, after_s(2) - TICK, (2, 2), (1, 3)),
        (after_s(1), after_s(1), (2, 2), (1, 3)),
        (after_s(1.2), after_s(1.8), (3, 2), (3, 3)),
        (after_s(-9), after_s(-8), (1, 0), (0, 0)),
        (after_s(8), after_s(9), (4, 3), (6, 6)),
        (after_s(2), after_s(0), (3, 1), (3, 3)),
    ],
    ids=[
        "everything", "both ends included", "both ends excluded", "one instant", "between two lines", "before the first",
        "after the last", "reversed",
    ],
)  # fmt: skip
async def test_a_span_is_from_the_balance_before_its_first_line_to_that_after_its_last(
    database: Addresses,
    pool: "Pool",
    initial_at: datetime,
    final_at: datetime,
    numbers: tuple[int, int],
    balances: tuple[int, int],
) -> None:
    await fill(database.owner_url, 1, entries_count=3, reserving=True)
    await fill(database.owner_url, 2, entries_count=5)
    extent = await statement_store.find_extent(pool, 1, initial_at, final_at)
    assert (extent.first_number, extent.last_number) == numbers
    assert (extent.opening_cents, extent.closing_cents) == balances
    assert extent.lines_count == max(0, numbers[1] - numbers[0] + 1)
    assert (extent.last_at is None) == (extent.lines_count == 0)


async def test_an_account_without_entries_opens_and_closes_at_zero(database: Addresses, pool: "Pool") -> None:
    await fill(database.owner_url, 1, entries_count=0)
    extent = await statement_store.find_extent(pool, 1, after_s(0), after_s(9))
    assert (extent.first_number, extent.last_number, extent.opening_cents, extent.closing_cents) == (1, 0, 0, 0)


async def test_lines_are_the_holders_own_and_in_order(database: Addresses, pool: "Pool") -> None:
    await fill(database.owner_url, 1, entries_count=9, reserving=True)
    await fill(database.owner_url, 2, entries_count=9)
    lines = await statement_store.read_lines(pool, 1, 4, 6)
    assert [(line.id, line.amount_cents, line.running_balance_cents) for line in lines] == [
        (1_000_004, 4, 10),
        (1_000_005, 5, 15),
        (1_000_006, 6, 21),
    ]


@pytest.mark.parametrize("analyzed", [False, True])
async def test_a_part_reads_its_lines_in_a_long_history(database: Addresses, pool: "Pool", analyzed: bool) -> None:
    await fill(database.owner_url, 1, entries_count=20_000)
    if analyzed:
        await execute_as_owner(database, "analyze")
    for text, arguments in (
        (statement_store._READ_LINES, (1, 10_001, 10_100)),
        (statement_store._FIND_EXTENT, (1, after_s(5_000), after_s(15_000))),
    ):
        explained = await pool.fetchval("explain (analyze, buffers, format json) " + text, *arguments)
        plan = json.loads(explained)[0]["Plan"]
        # Two for each of a hundred lines, and a few: the other 19,900 would be hundreds more.
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 250, text
