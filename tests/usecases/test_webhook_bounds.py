"""What one holder can make wait or read of its webhooks has an end."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from msgspec import structs

from pixconnect.domain import errors
from pixconnect.domain.listing import Span
from pixconnect.domain.webhook import EndpointChange
from pixconnect.store import delivery_list as delivery_list_store
from pixconnect.store import webhook as webhook_store
from pixconnect.usecases import webhook
from pixconnect.usecases.context import Context
from support import postgres
from support.webhooks import World, open_receiver, open_world, running_worker

URL = "http://127.0.0.1:9/hook"


@pytest.fixture
async def world(database: postgres.Addresses) -> AsyncIterator[World]:
    async with open_world(database) as opened:
        yield opened


async def paused_endpoint(world: World) -> int:
    endpoint = await world.add_endpoint(URL)
    await webhook.change_endpoint(world.context, world.caller, endpoint.id, EndpointChange(status="inactive"))
    return endpoint.id


async def replay(world: World, endpoint_id: int, context: Context | None = None) -> int:
    (row,) = await world.fetch("select min(created_at) as first from event")
    now = world.context.clock.now()
    return await webhook.replay_events(context or world.context, world.caller, endpoint_id, row["first"], now)


def with_pending_max(world: World, pending_max: int) -> Context:
    return structs.replace(world.context, policy=structs.replace(world.context.policy, webhook_pending_max=pending_max))


async def test_what_waits_for_an_endpoint_already_is_not_made_to_wait_twice(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "_BATCH_MAX", 3)
    await world.announce(list(range(1, 11)))
    endpoint_id = await paused_endpoint(world)
    assert [await replay(world, endpoint_id) for _ in range(20)] == [10] + [0] * 19
    assert await world.statuses() == {"pending": 10}
    await world.announce([11])
    await world.context.pool.execute("update delivery set status = 'delivered', due_at = null where resource_id < 4")
    assert await replay(world, endpoint_id) == 4
    assert await world.statuses() == {"pending": 11, "delivered": 3}


async def test_what_is_just_being_sent_is_sent_again(world: World) -> None:
    async with open_receiver() as receiver, running_worker(world):
        endpoint = await world.add_endpoint(receiver.url)
        await world.announce([1])
        await receiver.wait_for(1)
        assert await replay(world, endpoint.id) == 1
        await receiver.wait_for(2)


async def test_a_replay_that_would_leave_too_much_waiting_is_refused_and_nothing_is_done(world: World) -> None:
    await world.announce(list(range(1, 11)))
    endpoint_id = await paused_endpoint(world)
    with pytest.raises(errors.LimitExceeded, match="at most 9 deliveries"):
        await replay(world, endpoint_id, with_pending_max(world, 9))
    assert await world.statuses() == {}
    assert await replay(world, endpoint_id, with_pending_max(world, 10)) == 10
    await world.announce([11])
    with pytest.raises(errors.LimitExceeded, match="and 10 do"):
        await replay(world, endpoint_id, with_pending_max(world, 10))
    assert await replay(world, endpoint_id, with_pending_max(world, 11)) == 1


async def test_an_endpoint_has_one_replay_at_a_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "_BATCH_MAX", 1)
    await world.announce(list(range(1, 31)))
    first, second = await paused_endpoint(world), await paused_endpoint(world)
    outcomes = await asyncio.gather(
        *(replay(world, endpoint_id) for endpoint_id in (first, first, first, second)), return_exceptions=True
    )
    assert [outcome for outcome in outcomes if isinstance(outcome, int)].count(30) == 2
    assert await world.statuses() == {"pending": 60}
    async with world.context.pool.acquire() as connection, webhook_store.replaying(connection, first) as is_alone:
        assert is_alone
        with pytest.raises(errors.LimitExceeded, match="under way"):
            await replay(world, first)
        assert await replay(world, second) == 0
    assert await replay(world, first) == 0


async def test_the_newest_attempts_are_shown_however_often_there_was_one(world: World) -> None:
    endpoint = await world.add_endpoint(URL)
    await world.announce([1, 2])
    await world.context.pool.execute(
        """insert into delivery_attempt (delivery_id, number, started_at, duration_us, response)
           select delivery.id, number, now(), 5, repeat('x', 1024) from delivery, generate_series(1, 250) as number"""
    )
    await world.execute_as_owner("update delivery set attempts_count = 250")
    page = await webhook.list_deliveries(world.context, world.caller, endpoint.id, None, Span())
    for delivery in page.items:
        assert [attempt.number for attempt in delivery.attempts] == list(range(236, 251))
        assert [len(attempt.response) for attempt in delivery.attempts] == [64] * 14 + [1024]
    shown = await webhook.read_delivery(world.context, world.caller, page.items[0].id)
    assert [attempt.number for attempt in shown.attempts] == list(range(151, 251))
    assert {len(attempt.response) for attempt in shown.attempts} == {1024}
    assert delivery_list_store.ATTEMPTS_SHOWN_MAX == 100
