"""The reads of workers about deliveries."""

from datetime import timedelta

import pytest

from pixconnect.features.webhooks.rules.delivery import BacklogWalk, DueCursor
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
        due = await delivery_store.read_due(pool, cursor, now, range(256), 9, [], known_ids)
        # Nor does it count: the page has room for the unknown number.
        page, _ = await delivery_store.read_backlog(
            pool, endpoint.id, BacklogWalk(), range(256), now, max(1, 5 - len(known)), known_ids
        )
    unknown = [resource_id for resource_id in (1, 2, 3, 4, 5) if resource_id not in known]
    assert [delivery.resource_id for delivery in due.ready] == unknown
    assert [delivery.resource_id for delivery in page] == unknown
