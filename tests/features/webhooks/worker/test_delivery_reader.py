"""The worker's reads: a backlog that is larger than memory keeps, late commits, and what waited for a done delivery."""

from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from pixconnect.features.webhooks.rules.delivery import DueDelivery
from pixconnect.features.webhooks.tables import delivery as delivery_store
from pixconnect.features.webhooks.worker import delivery_reader
from pixconnect.features.webhooks.worker.delivery_queue import DeliveryQueue, QueueLimits
from pixconnect.features.webhooks.worker.delivery_reader import DeliveryReader
from pixconnect.kernel.tables import clock as clock_store
from support import postgres
from support.webhooks import WebhookService, open_webhook_service

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


class Followed:
    """A reader whose deliveries are done at once, and how often it looked for what follows them."""

    def __init__(self, service: WebhookService, monkeypatch: pytest.MonkeyPatch) -> None:
        self.service = service
        self.looks: list[list[int]] = []
        self.queue = DeliveryQueue(QueueLimits(), lambda slot, epoch: True)
        self.reader = DeliveryReader(service.context, self.queue)
        read_followers = delivery_store.read_followers

        async def look(pool: Any, done: list[DueDelivery], until: Any) -> list[DueDelivery]:
            self.looks.append(sorted(due.resource_id for due in done))
            return await read_followers(pool, done, until)

        monkeypatch.setattr(delivery_store, "read_followers", look)

    async def do(self) -> list[tuple[int, str]]:
        """Deliver what may start, and look for what follows it."""
        taken = self.queue.take(99)
        ids = [work.delivery.id for work in taken]
        await self.service.context.pool.execute(
            "update delivery set status = 'delivered', attempts_count = 1, due_at = null where id = any($1)", ids
        )
        for work in taken:
            self.queue.finish(work, 0.0, has_answered=True)
        await self.reader.read_followers(HELD, [work.delivery for work in taken])
        return [(work.delivery.resource_id, work.delivery.body.split('"')[3]) for work in taken]


NAMES = ("qrcode.pending", "qrcode.approved", "qrcode.expired")


async def test_only_deliveries_for_which_others_wait_are_followed(
    database: postgres.Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_webhook_service(database) as service:
        await service.add_endpoint("http://127.0.0.1:9/hook", *NAMES)
        followed = Followed(service, monkeypatch)
        await service.announce([7, 8])
        for name in NAMES[1:]:
            await service.announce([7], name)
        await followed.reader.read(HELD, [])
        done = [await followed.do() for _ in range(4)]
        assert [[resource_id for resource_id, _ in each] for each in done] == [[7, 8], [7], [7], []]
        assert followed.looks == [[7], [7], [7]]
        # Nothing waits there any more.
        await service.announce([7])
        await followed.reader.read(HELD, [])
        assert len(await followed.do()) == 1
        assert len(followed.looks) == 3


async def test_each_delivery_is_followed_while_it_is_unknown_what_waits(
    database: postgres.Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_reader, "_HELD_BACK_MAX", 1)
    async with open_webhook_service(database) as service:
        await service.add_endpoint("http://127.0.0.1:9/hook", *NAMES)
        followed = Followed(service, monkeypatch)
        await service.announce([7, 8, 9])
        for name in NAMES[1:]:
            await service.announce([7, 8], name)
        await followed.reader.read(HELD, [])
        assert [len(await followed.do()) for _ in range(4)] == [3, 2, 2, 0]
        assert followed.looks == [[7, 8, 9], [7, 8], [7, 8]]
        # A whole sweep finds out what waits now, which is nothing.
        followed.reader._sweep_at_s = float("-inf")
        await service.announce([7])
        await followed.reader.read(HELD, [])
        assert len(await followed.do()) == 1
        assert len(followed.looks) == 3
        # Other slots have others that wait.
        await service.announce([7])
        await followed.reader.read(HELD | {7: 2}, [])
        followed.reader._held_back.begin_sweep(has_changed=True)
        assert len(await followed.do()) == 1
        assert len(followed.looks) == 4
