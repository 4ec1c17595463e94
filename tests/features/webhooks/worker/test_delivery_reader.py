"""The worker's reads for an endpoint with more pending deliveries than memory keeps."""

from datetime import timedelta
from itertools import count

from pixconnect.features.webhooks.worker.delivery_queue import DeliveryQueue, QueueLimits
from pixconnect.features.webhooks.worker.delivery_reader import DeliveryReader
from pixconnect.kernel.tables import clock as clock_store
from support import postgres
from support.webhooks import open_webhook_service

KEPT_MAX = 8
HELD = dict.fromkeys(range(256), 1)


async def test_what_is_committed_behind_a_walk_does_not_wait_until_no_more_comes(database: postgres.Addresses) -> None:
    # Ids are assigned in blocks, one for each process, so a later commit may have the smaller one.
    late = 1
    async with open_webhook_service(database) as service:
        await service.add_endpoint("http://127.0.0.1:9/hook")
        queue = DeliveryQueue(QueueLimits(kept_max=KEPT_MAX), lambda slot, epoch: True)
        reader = DeliveryReader(service.context, queue)
        taken: list[int] = []
        for turn in count():
            # Each turn more comes than there is room for: a walk to the end of the pending ones would never end.
            await service.announce(list(range(1000 + turn * 100, 1000 + turn * 100 + 2 * KEPT_MAX)))
            if turn == 3:
                await service.announce([late])
            await reader.read(HELD, [])
            for work in queue.take(KEPT_MAX):
                await service.context.pool.execute(
                    "update delivery set status = 'delivered', attempts_count = 1, due_at = null where id = $1",
                    work.delivery.id,
                )
                queue.finish(work, 0.0, has_answered=True)
                taken.append(work.delivery.resource_id)
            if late in taken:
                break
            assert turn < 20, "it was passed over while more came"
    assert len(taken) > KEPT_MAX, "the endpoint never had more than memory keeps"


async def test_what_commits_late_is_read_at_the_next_look_back(database: postgres.Addresses) -> None:
    async with open_webhook_service(database) as service:
        await service.add_endpoint("http://127.0.0.1:9/hook")
        queue = DeliveryQueue(QueueLimits(kept_max=KEPT_MAX), lambda slot, epoch: True)
        reader, pool = DeliveryReader(service.context, queue), service.context.pool
        await reader.read(HELD, [])
        await clock_store.move(pool, timedelta(hours=1))
        await reader.read(HELD, [])
        await clock_store.move(pool, timedelta(0))
        await service.announce([7])
        await clock_store.move(pool, timedelta(hours=1))
        reader._late_at_s -= 1.0  # a second later
        await reader.read(HELD, [])
        assert [work.delivery.resource_id for work in queue.take(KEPT_MAX)] == [7]
