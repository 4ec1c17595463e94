"""The reads of workers about deliveries."""

from datetime import timedelta

import pytest

from pixconnect.features.webhooks.rules.delivery import BacklogWalk, DueCursor, WebhookExchange, conclude
from pixconnect.features.webhooks.tables import delivery as delivery_store
from support import postgres
from support.webhooks import open_webhook_service


@pytest.mark.parametrize("known", [[], [1], [5, 1, 2], [2, 4], [1, 2, 3, 4, 5]])
async def test_what_is_in_memory_is_not_read_again(database: postgres.Addresses, known: list[int]) -> None:
    async with open_webhook_service(database) as service:
        endpoint = await service.add_endpoint("http://127.0.0.1:9/hook")
        await service.announce([1, 2, 3, 4, 5])
        pool, now = service.context.pool, service.context.clock.now() + timedelta(seconds=1)
        ids = {row["resource_id"]: row["id"] for row in await service.fetch("select id, resource_id from delivery")}
        known_ids = [ids[resource_id] for resource_id in known]
        cursor = DueCursor(due_at=now - timedelta(days=1))
        _, due = await delivery_store.read_due(pool, cursor, now, range(256), 9, [], known_ids)
        # Nor does it count: the page has room for the unknown number.
        page, _ = await delivery_store.read_backlog(
            pool, endpoint.id, BacklogWalk(), range(256), now, max(1, 5 - len(known)), known_ids
        )
    unknown = [resource_id for resource_id in (1, 2, 3, 4, 5) if resource_id not in known]
    assert [delivery.resource_id for delivery in due.ready] == unknown
    assert [delivery.resource_id for delivery in page] == unknown


async def test_an_attempt_is_recorded_once_under_its_fence_at_an_endpoint_that_has_not_failed(
    database: postgres.Addresses,
) -> None:
    async with open_webhook_service(database) as service, service.context.pool.acquire() as connection:
        endpoint = await service.add_endpoint("http://127.0.0.1:9/hook")
        await service.announce([1])
        now = service.context.clock.now() + timedelta(seconds=1)
        cursor = DueCursor(due_at=now - timedelta(days=1))
        _, found = await delivery_store.read_due(service.context.pool, cursor, now, range(256), 9, [])
        exchange = WebhookExchange(status_code=200, retry_after=None, response=b"", error=None, duration_us=1)
        (due,) = found.ready
        done = [conclude(due, exchange, ended_at=now, real_now=now, chance=0.0)]
        assert not await delivery_store.record(connection, {due.slot: 1}, done)
        await connection.execute("update webhook_endpoint set first_failure_at = $1", now)
        assert not await delivery_store.record(connection, {due.slot: 0}, done, [endpoint.id])
        assert await service.statuses() == {"pending": 1}
        for _ in range(2):
            assert await delivery_store.record(connection, {due.slot: 0}, done)
            assert await service.statuses() == {"delivered": 1}
            assert await connection.fetchval("select count(*) from delivery_attempt") == 1
