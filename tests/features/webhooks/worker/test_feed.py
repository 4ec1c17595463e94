"""The sequencer gives positions when it is woken, as long as its worker has the slot; then another takes over."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from msgspec import Struct

from pixconnect.doors.worker.leases import SlotLeases
from pixconnect.doors.worker.orders import OrderMover
from pixconnect.doors.worker.parts import DueLook
from pixconnect.features.webhooks.service import feed as feed_usecases
from pixconnect.features.webhooks.service.feed import FeedQuery, read_feed
from pixconnect.features.webhooks.worker import feed as feed_worker
from pixconnect.features.webhooks.worker.feed import Sequencer
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules.access import Caller
from pixconnect.platform.adapters.system import SystemClock
from pixconnect.platform.notifier import EVENT_QUIET_S, EventNotifier
from pixconnect.platform.pool import connect
from support.feed import write_events
from support.postgres import Addresses
from support.service import Service, open_service
from support.waiting import until

CALLER = Caller(client_id="test", holder_id=7, scopes=frozenset())


class Worker(Struct):
    sequencer: Sequencer
    leases: SlotLeases
    tasks: list[asyncio.Task[None]]

    async def kill(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@pytest.fixture
async def service(database: Addresses) -> AsyncIterator[Service]:
    async with open_service(database, clock=SystemClock()) as opened:
        yield opened


def start_worker(service: Service, poll_s: float = 3600.0, sweep_s: float = 3600.0) -> Worker:
    """Everything it does is caused by a wake-up, unless it looks so often."""
    open_connection = partial(
        connect, service.database.service_url, role="pixconnect_service", schema="pixconnect", name="worker of tests"
    )
    leases = SlotLeases(open_connection, service.context.clock)
    sequencer = Sequencer(service.context, leases, poll_s, sweep_s)
    return Worker(sequencer, leases, [asyncio.create_task(leases.run()), asyncio.create_task(sequencer.run())])


@asynccontextmanager
async def running(service: Service, **often_s: float) -> AsyncIterator[Worker]:
    worker = start_worker(service, **often_s)
    try:
        yield worker
    finally:
        await worker.kill()


async def until_read(service: Service, event_ids: list[int]) -> None:
    async with asyncio.timeout(60):
        while True:
            page = await read_feed(service.context, CALLER, FeedQuery(page_size=1000))
            if len(page.events) >= len(event_ids):
                assert [one.event.id for one in page.events] == event_ids
                return
            await asyncio.sleep(0.01)


async def test_a_notice_of_new_events_wakes_it(service: Service) -> None:
    notifier = EventNotifier(service.context.pool, 0.0)
    async with running(service) as worker:
        await until(lambda: feed_worker.SLOT in worker.leases.held)
        event_ids = await write_events(service, 3)
        notifier.notify()
        await until_read(service, event_ids)
        # Events can be read a moment before the sequencer counts them.
        await until(lambda: worker.sequencer.given_count == 3)


async def test_events_without_a_notice_are_found_by_the_look_that_parts_share(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_positions, looks = feed_usecases.give_positions, list[Context]()

    async def note(context: Context) -> object:
        looks.append(context)
        return await give_positions(context)

    monkeypatch.setattr(feed_worker, "give_positions", note)
    async with running(service) as worker:
        OrderMover(service.context, worker.leases)
        look = DueLook(service.context, worker.leases)
        # It has looked once since it got the slot.
        await until(lambda: bool(looks) and worker.sequencer.is_resting)
        event_ids = await write_events(service, 3)
        assert await look.look() == [worker.sequencer]
        await until_read(service, event_ids)
        async with asyncio.timeout(60):
            while await look.look():  # noqa: ASYNC110  nothing tells
                await asyncio.sleep(0.01)


async def test_only_one_of_two_workers_does_it_and_the_other_takes_over(service: Service) -> None:
    notifier = EventNotifier(service.context.pool, 0.0)
    first = start_worker(service)
    await until(lambda: feed_worker.SLOT in first.leases.held)
    async with running(service) as second:
        event_ids: list[int] = []
        for _ in range(3):
            event_ids += await write_events(service, 2)
            notifier.notify()
            await until_read(service, event_ids)
        await until(lambda: first.sequencer.given_count == 6)
        assert second.sequencer.given_count == 0
        await first.kill()
        # These are not announced: the next holder of the slot looks at once.
        event_ids += await write_events(service, 2)
        await until_read(service, event_ids)
        await until(lambda: second.sequencer.given_count == 2)


async def test_a_database_that_is_away_ends_nothing(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = [OSError("away"), TimeoutError()]
    give_positions = feed_usecases.give_positions

    async def fail(context: Context) -> object:
        if failures:
            raise failures.pop()
        return await give_positions(context)

    monkeypatch.setattr(feed_worker, "give_positions", fail)
    event_ids = await write_events(service, 1)
    async with running(service):
        await until_read(service, event_ids)


async def test_it_sweeps_from_time_to_time(service: Service) -> None:
    async with running(service, poll_s=0.01, sweep_s=0.0):
        event_ids = await write_events(service, 1)
        await until_read(service, event_ids)
        async with asyncio.timeout(60):
            while await service.fetchval("select swept_id from event_feed_state") < event_ids[-1]:  # noqa: ASYNC110  nothing tells
                await asyncio.sleep(0.01)


def test_two_rests_are_shorter_than_an_event_may_take() -> None:
    assert max(2 * feed_worker.REST_S, EVENT_QUIET_S) <= 0.2
