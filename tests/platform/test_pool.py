"""The state of connections that are returned to the pool and taken again."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from typing import Any

import asyncpg
import pytest

from pixconnect.platform.pool import Pool, open_pool
from support.calls import CallCounter
from support.postgres import Addresses

AWAITS_MAX = 12  # more steps than any of these operations has


@pytest.fixture
async def pool(database: Addresses) -> AsyncIterator[Pool]:
    """With one connection, so that anything left behind reaches the next user."""
    url, role = database.service_url, "pixconnect_service"
    opened = await open_pool(url, role=role, schema="pixconnect", connections_max=1, name="test")
    yield opened
    await opened.close()


async def _read(pool: Pool, number: int) -> None:
    await pool.fetch(f"select {number}, $1::int", 1)


async def _read_in_transaction(pool: Pool, number: int) -> None:
    async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        await connection.fetchval(f"select {number}, $1::int", 1)


async def _write(pool: Pool, number: int) -> None:
    async with pool.acquire(timeout=60) as connection, connection.transaction():
        await connection.execute(f"update clock set offset_us = {number} * $1::bigint", 0)


async def _send_what_cannot_be_sent(pool: Pool, number: int) -> None:
    await pool.fetch(f"select {number}, $1::int", 2**70)


@pytest.mark.parametrize("is_answered", [False, True], ids=["while it waits", "when the answer is there"])
@pytest.mark.parametrize("work", [_read, _read_in_transaction, _write, _send_what_cannot_be_sent])
async def test_a_cancellation_leaves_nothing(pool: Pool, database: Addresses, work: Any, is_answered: bool) -> None:
    beside = await asyncpg.connect(database.owner_url)
    for nth in range(AWAITS_MAX):
        await _cancel_at(work(pool, nth * 2 + is_answered), nth, is_answered=is_answered)
        before = await beside.fetchval("select clock_timestamp()")
        async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
            assert await connection.fetchval("select transaction_timestamp()") >= before
    await beside.close()


async def test_a_connection_to_a_demoted_server_is_not_used_again(pool: Pool, database: Addresses) -> None:
    before = await pool.fetchval("select pg_backend_pid()")
    await pool.execute("set default_transaction_read_only = on")
    with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
        await pool.execute("update clock set offset_us = 0")
    assert await pool.fetchval("select pg_backend_pid()") != before
    await pool.execute("update clock set offset_us = 0")


async def test_no_abstract_class_is_asked_about_the_elements_of_an_array(pool: Pool) -> None:
    for numbers in ([1, 2], {1, 2}, frozenset({1, 2}), range(1, 3), {"": 1, " ": 2}.values()):
        with CallCounter("_abc_instancecheck") as checks:
            (row,) = await pool.fetch("select $1::int[], $2::text[], $3::int[]", numbers, {"": 0}.keys(), ([1], [2]))
        assert ([*row], checks.count) == ([[1, 2], [""], [[1], [2]]], 0)


async def _cancel_at(work: Coroutine[Any, Any, None], nth: int, *, is_answered: bool) -> None:
    """Cancel at the nth wait, or right after the answer to it."""
    task: Any = asyncio.create_task(work)
    last: asyncio.Future[object] | None = None
    seen_count = 0
    while not task.done():
        await asyncio.sleep(0)
        waited_for = task._fut_waiter
        if waited_for is None or waited_for is last or waited_for.done() != is_answered:
            continue
        last = waited_for
        if seen_count == nth:
            task.cancel()
        seen_count += 1
    with suppress(asyncio.CancelledError, asyncpg.DataError):
        await task
