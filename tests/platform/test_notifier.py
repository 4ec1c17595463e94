"""Workers are woken by one statement at a time, which names orders if nothing else is new."""

import asyncio
from typing import cast

import pytest

from pixconnect.platform import notifier as notifier_module
from pixconnect.platform.notifier import Notifier
from pixconnect.platform.pool import Pool

ORDERS, ALL = "notify pixconnect_work, 'orders'", "notify pixconnect_work"
DELIVERIES, BOTH = "notify pixconnect_work, 'deliveries'", "notify pixconnect_work, 'orders and deliveries'"


class FakePool:
    def __init__(self) -> None:
        self.said: asyncio.Queue[str] = asyncio.Queue()

    async def execute(self, statement: str) -> None:
        self.said.put_nowait(statement)

    async def hear(self) -> str:
        async with asyncio.timeout(60):
            return await self.said.get()


@pytest.fixture
def pool() -> FakePool:
    return FakePool()


@pytest.fixture
def notifier(pool: FakePool) -> Notifier:
    return Notifier(cast(Pool, pool))


async def test_new_orders_alone_are_told_as_such(pool: FakePool, notifier: Notifier) -> None:
    notifier.notify(1)
    assert await pool.hear() == ORDERS
    notifier.notify()
    assert await pool.hear() == ALL


async def test_orders_and_others_at_once_are_told_once_and_to_all(pool: FakePool, notifier: Notifier) -> None:
    notifier.notify(100)
    notifier.notify()
    assert await pool.hear() == ALL
    notifier.notify(1)
    assert await pool.hear() == ORDERS
    assert pool.said.empty()


async def test_other_news_does_not_wait_out_the_pause_after_many_orders(pool: FakePool) -> None:
    notifier = Notifier(cast(Pool, pool), quiet_busy_s=3600)
    notifier.notify(notifier_module.BUSY_FROM)
    assert await pool.hear() == ORDERS
    notifier.notify(1)
    notifier.notify()
    assert await pool.hear() == ALL


async def test_a_single_order_is_told_although_many_were_just_before_it(pool: FakePool, notifier: Notifier) -> None:
    notifier.notify(notifier_module.BUSY_FROM)
    assert await pool.hear() == ORDERS
    notifier.notify(1)
    assert await pool.hear() == ORDERS


async def test_new_deliveries_alone_are_told_as_such(pool: FakePool, notifier: Notifier) -> None:
    notifier.notify(only_deliveries=True)
    assert await pool.hear() == DELIVERIES
    notifier.notify(1)
    notifier.notify(only_deliveries=True)
    assert await pool.hear() == BOTH
    notifier.notify(only_deliveries=True)
    notifier.notify()
    assert await pool.hear() == ALL


async def test_nothing_is_told_where_the_only_worker_is_here(pool: FakePool, notifier: Notifier) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    is_alone = True

    def hear(news: str) -> bool:
        heard.put_nowait(news)
        return is_alone

    notifier.wake_local = hear
    async with asyncio.timeout(60):
        notifier.notify(1)
        assert await heard.get() == "orders"
        is_alone = False
        notifier.notify(1)
        assert (await heard.get(), await pool.hear()) == ("orders", ORDERS)
    assert pool.said.empty()
