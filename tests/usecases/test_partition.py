"""Partitions are there before they are needed, and go when all in them is old."""

from collections.abc import AsyncIterator
from datetime import timedelta

import asyncpg
import pytest

from pixconnect.domain.listing import Span
from pixconnect.foundation import pool
from pixconnect.store import partition as partition_store
from pixconnect.store.partition import DELIVERY, DELIVERY_ATTEMPT, EVENT, PartitionedTable
from pixconnect.usecases import housekeeping, webhook
from pixconnect.usecases.partition import keep_partitions
from support import postgres
from support.webhooks import World, open_receiver, open_world, running_worker

RETENTION = timedelta(days=90)


@pytest.fixture
async def world(database: postgres.Addresses, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    # Some of these tests keep a transaction open while they do something else.
    monkeypatch.setattr(pool, "IDLE_IN_TRANSACTION_TIMEOUT_MS", 120_000)
    async with open_world(database) as opened:
        yield opened


async def keep(world: World, days_later: float = 0) -> None:
    connection = await asyncpg.connect(world.addresses.owner_url, server_settings={"search_path": "pixconnect"})
    try:
        await keep_partitions(connection, RETENTION, world.context.clock.real_now() + timedelta(days=days_later))
    finally:
        await connection.close()


async def bounds(world: World, table: PartitionedTable) -> list[tuple[int, int]]:
    async with world.context.pool.acquire() as connection:
        found = await partition_store.list_all(connection, table)
    return [(partition.first_id, partition.end_id) for partition in found]


async def test_two_empty_partitions_are_kept_ahead(world: World) -> None:
    await keep(world)
    span = DELIVERY.span
    assert await bounds(world, DELIVERY) == [(1, span), (span, 2 * span)]
    await world.add_endpoint("http://127.0.0.1:9/")
    await world.announce([1])
    await keep(world)
    expected = [(1, span), (span, 2 * span), (2 * span, 3 * span)]
    assert await bounds(world, DELIVERY) == expected
    assert await bounds(world, EVENT) == [
        (1, EVENT.span), (EVENT.span, 2 * EVENT.span), (2 * EVENT.span, 3 * EVENT.span)
    ]  # fmt: skip
    await keep(world)
    assert await bounds(world, DELIVERY) == expected


async def test_a_new_partition_has_the_indexes_and_serves_the_service(world: World) -> None:
    await keep(world)
    await world.execute_as_owner(f"select setval('delivery_id', {DELIVERY.span + 5})")
    async with open_receiver() as receiver, running_worker(world):
        await world.add_endpoint(receiver.url)
        await world.announce([1])
        await receiver.wait_for(1)
    rows = await world.fetch("select indexname from pg_indexes where tablename = $1", f"delivery_{DELIVERY.span}")
    assert len(rows) == 5
    assert await world.fetch("select tableoid::regclass::text, status from delivery") == [
        (f"delivery_{DELIVERY.span}", "delivered")
    ]
    assert await world.fetch("select tableoid::regclass::text from delivery_attempt") == [
        (f"delivery_attempt_{DELIVERY_ATTEMPT.span}",)
    ]


async def test_after_a_tenth_of_the_retention_the_next_partition_is_begun(world: World) -> None:
    await world.add_endpoint("http://127.0.0.1:9/")
    await world.announce([1])
    await keep(world, days_later=8)
    await world.announce([2])
    await keep(world, days_later=10)
    await world.announce([3])
    rows = await world.fetch("select id from delivery order by id")
    assert [row["id"] for row in rows] == [1, 2, DELIVERY.span]


async def test_nothing_is_dropped_before_its_time(world: World) -> None:
    await world.add_endpoint("http://127.0.0.1:9/")
    await world.announce([1])
    await keep(world, days_later=89)
    assert await world.statuses() == {"pending": 1}
    await keep(world, days_later=91)
    assert await world.statuses() == {}
    assert await world.fetch("select from event") == []


async def test_a_partition_whose_last_row_is_old_is_dropped(world: World) -> None:
    await world.add_endpoint("http://127.0.0.1:9/")
    await world.announce([1])
    await keep(world, days_later=10)
    await world.execute_as_owner("update delivery set created_at = created_at - interval '100 days'")
    await world.announce([2])
    await keep(world)
    rows = await world.fetch("select id from delivery")
    assert [row["id"] for row in rows] == [DELIVERY.span]
    assert (1, DELIVERY.span) not in await bounds(world, DELIVERY)


async def test_nobody_waits_while_partitions_are_made(world: World) -> None:
    """A transaction that has read and written the tables is open; making ahead works beside it, and so do others."""
    await world.add_endpoint("http://127.0.0.1:9/")
    async with world.context.pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.fetch("select from delivery")
        await connection.execute("update delivery set due_at = due_at")
        await world.announce([1])
        await keep(world)
        await world.announce([2])
        await transaction.rollback()
    assert await world.statuses() == {"pending": 2}


async def test_a_detachment_that_was_cut_off_is_finished(world: World, database: postgres.Addresses) -> None:
    await world.add_endpoint("http://127.0.0.1:9/")
    await world.announce([1])
    await keep(world)
    owner = await asyncpg.connect(database.owner_url, server_settings={"search_path": "pixconnect"})
    async with world.context.pool.acquire() as connection, connection.transaction():
        await connection.fetch("select from delivery")
        await owner.execute("set statement_timeout = 3000")
        with pytest.raises(asyncpg.QueryCanceledError):
            await owner.execute("alter table delivery detach partition delivery_1 concurrently")
    await owner.close()
    await keep(world)
    assert (1, DELIVERY.span) not in await bounds(world, DELIVERY)


async def test_what_is_dropped_is_counted_no_more(world: World) -> None:
    endpoint = await world.add_endpoint("http://127.0.0.1:9/")
    await world.announce([1, 2, 3])
    await world.context.pool.execute("update delivery set status = 'failed', due_at = null where id = 1")
    await keep(world, days_later=10)
    await housekeeping.fold_tallies(world.context)
    await world.execute_as_owner("update delivery set created_at = created_at - interval '100 days'")
    await world.announce([4])
    await keep(world)
    totals = {
        status: (await webhook.list_deliveries(world.context, world.caller, endpoint.id, status, Span())).total_count
        for status in (None, "pending", "failed")
    }
    assert totals == {None: 1, "pending": 1, "failed": 0}
    assert (await webhook.list_events(world.context, world.caller, Span())).total_count == 4
    await keep(world, days_later=91)
    await housekeeping.fold_tallies(world.context)
    await world.announce([5])
    await keep(world)
    assert (await webhook.list_events(world.context, world.caller, Span())).total_count == 1


async def test_a_partition_that_was_detached_and_not_dropped_is_dropped_and_counted_no_more(world: World) -> None:
    await world.add_endpoint("http://127.0.0.1:9/")
    await world.announce([1])
    await keep(world)
    await world.execute_as_owner("alter table event detach partition event_1 concurrently")
    await keep(world)
    assert await world.fetch("select from pg_class where relname = 'event_1'") == []
    assert (await webhook.list_events(world.context, world.caller, Span())).total_count == 0


async def test_an_installation_where_nothing_happened_for_longer_than_events_are_kept_can_be_written_to(
    world: World,
) -> None:
    await world.add_endpoint("http://127.0.0.1:9/")
    for table in (EVENT, DELIVERY):  # near the end of the first partition, from where ids are not skipped
        await world.execute_as_owner(f"select setval('{table.sequence}', {table.span - 1_000_000})")
    await world.announce([1])
    for days_later in (91, 200, 400):
        await keep(world, days_later)
    await world.announce([2])
    rows = await world.fetch("select resource_id from event join delivery using (resource_id)")
    assert [row["resource_id"] for row in rows] == [1, 2]
