"""What one holder can make wait or read of its webhooks has an end."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest
from msgspec import structs

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.listing import Span
from pixconnect.domain.webhooks.endpoint import EndpointChange
from pixconnect.store.webhooks import delivery_history as delivery_history_store
from pixconnect.store.webhooks import redelivery as redelivery_store
from pixconnect.store.webhooks.redelivery import redelivering_events
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.webhooks import endpoint as endpoint_usecases
from pixconnect.usecases.webhooks import redelivery
from support import postgres
from support.webhooks import WebhookService, open_receiver, open_webhook_service, running_worker

URL = "http://127.0.0.1:9/hook"


@pytest.fixture
async def service(database: postgres.Addresses) -> AsyncIterator[WebhookService]:
    async with open_webhook_service(database) as opened:
        yield opened


async def paused_endpoint(service: WebhookService) -> int:
    endpoint = await service.add_endpoint(URL)
    await endpoint_usecases.change_endpoint(
        service.context, service.caller, endpoint.id, EndpointChange(status="inactive")
    )
    return endpoint.id


async def replay(service: WebhookService, endpoint_id: int, context: Context | None = None, **bounds: int) -> int:
    (row,) = await service.fetch("select min(created_at) as first from event")
    now = service.context.clock.now()
    endpoint = await endpoint_usecases.read_endpoint(service.context, service.caller, endpoint_id)
    return await redelivery.redeliver_events_to(context or service.context, endpoint, row["first"], now, **bounds)


def with_pending_max(service: WebhookService, pending_max: int) -> Context:
    return structs.replace(
        service.context, policy=structs.replace(service.context.policy, webhook_pending_max=pending_max)
    )


async def test_what_waits_for_an_endpoint_already_is_not_made_to_wait_twice(service: WebhookService) -> None:
    await service.announce(list(range(1, 11)))
    endpoint_id = await paused_endpoint(service)
    assert [await replay(service, endpoint_id, batch_max=3) for _ in range(20)] == [10] + [0] * 19
    assert await service.statuses() == {"pending": 10}
    await service.announce([11])
    await service.context.pool.execute(
        "update delivery set status = 'delivered', attempts_count = 1, due_at = null where resource_id < 4"
    )
    assert await replay(service, endpoint_id) == 4
    assert await service.statuses() == {"pending": 11, "delivered": 3}


async def test_what_is_just_being_sent_is_sent_again(service: WebhookService) -> None:
    async with open_receiver() as receiver, running_worker(service):
        endpoint = await service.add_endpoint(receiver.url)
        await service.announce([1])
        await receiver.wait_for(1)
        assert await replay(service, endpoint.id) == 1
        await receiver.wait_for(2)


async def test_a_replay_that_would_leave_too_much_is_refused(service: WebhookService) -> None:
    await service.announce(list(range(1, 11)))
    endpoint_id = await paused_endpoint(service)
    with pytest.raises(errors.LimitExceeded, match="at most 9 deliveries"):
        await replay(service, endpoint_id, with_pending_max(service, 9))
    assert await service.statuses() == {}
    assert await replay(service, endpoint_id, with_pending_max(service, 10)) == 10
    await service.announce([11])
    with pytest.raises(errors.LimitExceeded, match="and 10 do"):
        await replay(service, endpoint_id, with_pending_max(service, 10))
    assert await replay(service, endpoint_id, with_pending_max(service, 11)) == 1


async def test_a_cut_replay_sends_the_rest_later(service: WebhookService, monkeypatch: pytest.MonkeyPatch) -> None:
    await service.announce(list(range(1, 11)))
    endpoint_id = await paused_endpoint(service)
    redeliver_some, batches_count = redelivery_store.redeliver_events, 0

    async def lose_the_third(*args: Any) -> list[tuple[datetime, int]]:
        nonlocal batches_count
        batches_count += 1
        if batches_count == 3:
            raise ConnectionResetError
        return await redeliver_some(*args)

    monkeypatch.setattr(redelivery_store, "redeliver_events", lose_the_third)
    with pytest.raises(errors.OutcomeUnknown):
        await replay(service, endpoint_id, batch_max=3)
    assert await service.statuses() == {"pending": 6}
    assert await replay(service, endpoint_id, batch_max=3) == 4
    assert await service.statuses() == {"pending": 10}


async def test_a_deleted_endpoint_ends_its_replay(service: WebhookService, monkeypatch: pytest.MonkeyPatch) -> None:
    await service.announce(list(range(1, 11)))
    endpoint_id = await paused_endpoint(service)
    redeliver_some = redelivery_store.redeliver_events

    async def delete_after(*args: Any) -> list[tuple[datetime, int]]:
        told = await redeliver_some(*args)
        await endpoint_usecases.delete_endpoint(service.context, service.caller, endpoint_id)
        return told

    monkeypatch.setattr(redelivery_store, "redeliver_events", delete_after)
    assert await replay(service, endpoint_id, batch_max=3) == 3


async def test_an_endpoint_has_one_replay_at_a_time(service: WebhookService) -> None:
    await service.announce(list(range(1, 31)))
    first, second = await paused_endpoint(service), await paused_endpoint(service)
    outcomes = await asyncio.gather(
        *(replay(service, endpoint_id, batch_max=1) for endpoint_id in (first, first, first, second)),
        return_exceptions=True,
    )
    assert [outcome for outcome in outcomes if isinstance(outcome, int)].count(30) == 2
    assert await service.statuses() == {"pending": 60}
    async with service.context.pool.acquire() as connection, redelivering_events(connection, first) as is_alone:
        assert is_alone
        with pytest.raises(errors.LimitExceeded, match="under way"):
            await replay(service, first)
        assert await replay(service, second) == 0
    assert await replay(service, first) == 0


async def test_the_newest_attempts_are_shown_however_often_there_was_one(service: WebhookService) -> None:
    endpoint = await service.add_endpoint(URL)
    await service.announce([1, 2])
    await service.context.pool.execute(
        """insert into delivery_attempt (delivery_id, number, started_at, duration_us, response)
           select delivery.id, number, now(), 5, repeat('x', 1024) from delivery, generate_series(1, 250) as number"""
    )
    await service.execute_as_owner("update delivery set attempts_count = 250")
    page = await endpoint_usecases.list_deliveries(service.context, service.caller, endpoint.id, None, Span())
    for delivery in page.items:
        assert [attempt.number for attempt in delivery.attempts] == list(range(236, 251))
        assert [len(attempt.response) for attempt in delivery.attempts] == [64] * 14 + [1024]
    shown = await endpoint_usecases.read_delivery(service.context, service.caller, page.items[0].id)
    assert [attempt.number for attempt in shown.attempts] == list(range(151, 251))
    assert {len(attempt.response) for attempt in shown.attempts} == {1024}
    assert delivery_history_store.ATTEMPTS_SHOWN_MAX == 100
