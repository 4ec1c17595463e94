"""Acts of the owner of endpoints on them, on their deliveries, and on the events."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any, Literal

import pytest
from msgspec import structs

from pixconnect.features.webhooks.rules.delivery import RETRY_WAITS
from pixconnect.features.webhooks.rules.endpoint import Endpoint, EndpointChange, EndpointRequest
from pixconnect.features.webhooks.service import delivery, redelivery
from pixconnect.features.webhooks.service import endpoint as endpoint_usecases
from pixconnect.features.webhooks.tables import delivery as delivery_store
from pixconnect.features.webhooks.tables import delivery_history as delivery_history_store
from pixconnect.features.webhooks.tables import endpoint as endpoint_store
from pixconnect.features.webhooks.tables import redelivery as redelivery_store
from pixconnect.features.webhooks.tables.redelivery import redelivering_events
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.listing import Span
from pixconnect.platform.base import errors
from support import identity, postgres
from support.webhooks import SECRET, WebhookService, answering, eventually, open_receiver, open_webhook_service, running_worker

URL = "http://127.0.0.1:9/hook"


@pytest.fixture
async def service(database: postgres.Addresses) -> AsyncIterator[WebhookService]:
    async with open_webhook_service(database) as opened:
        yield opened


async def stranger(service: WebhookService) -> Caller:
    holder = await identity.make_holder(service.context, "2002")
    return Caller(client_id="others", holder_id=holder.id, scopes=frozenset())


def make_request(**changes: Any) -> EndpointRequest:
    """Valid by default."""
    fields: dict[str, Any] = {"url": URL, "secret": SECRET, "event_types": ["qrcode.pending"]}
    return EndpointRequest(**(fields | changes))


async def test_an_endpoint_is_created_active_and_found_again(service: WebhookService) -> None:
    made = await endpoint_usecases.create_endpoint(service.context, service.caller, make_request())
    assert (made.url, made.event_types, made.status) == (URL, ("qrcode.pending",), "active")
    assert made.created_at == made.modified_at
    assert await endpoint_usecases.read_endpoint(service.context, service.caller, made.id) == made
    assert (await endpoint_usecases.list_endpoints(service.context, service.caller, Span())).items == [made]


async def test_the_secret_is_sealed_and_bound_to_its_endpoint(service: WebhookService) -> None:
    first, second = [await service.add_endpoint(URL) for _ in range(2)]
    (row, _) = await service.fetch("select secret::text from webhook_endpoint order by id")
    assert SECRET.encode().hex() not in row["secret"]
    moved = structs.replace(second, secret_sealed=first.secret_sealed)
    with pytest.raises(Exception, match="sealed"):
        delivery.open_secrets(service.context.secret_box, moved, service.context.clock.now())


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"event_types": []}, errors.BadRequest),
        ({"secret": "s" * 15}, errors.BadRequest),
        ({"url": "ftp://shop.example/"}, errors.InvalidWebhookUrl),
        ({"url": "https://10.0.0.1/"}, errors.InvalidWebhookUrl),
        ({"url": "https://shop.example/", "secret": "short"}, errors.BadRequest),
    ],
)
async def test_a_bad_endpoint_is_refused_and_nothing_is_made(
    service: WebhookService, changes: dict[str, Any], error: type[errors.Refusal]
) -> None:
    with pytest.raises(error):
        await endpoint_usecases.create_endpoint(service.context, service.caller, make_request(**changes))
    assert (await endpoint_usecases.list_endpoints(service.context, service.caller, Span())).total_count == 0


async def test_a_holder_can_have_twenty_endpoints(service: WebhookService) -> None:
    for _ in range(20):
        await service.add_endpoint(URL)
    with pytest.raises(errors.LimitExceeded):
        await endpoint_usecases.create_endpoint(service.context, service.caller, make_request(url="https://10.0.0.1/"))
    await endpoint_usecases.create_endpoint(service.context, await stranger(service), make_request())


async def test_endpoints_of_others_look_absent(service: WebhookService) -> None:
    endpoint = await service.add_endpoint(URL)
    await service.announce([1])
    other, now = await stranger(service), service.context.clock.now()
    (row,) = await service.fetch("select id from delivery")
    for attempt in (
        endpoint_usecases.read_endpoint(service.context, other, endpoint.id),
        endpoint_usecases.change_endpoint(service.context, other, endpoint.id, EndpointChange(status="inactive")),
        endpoint_usecases.delete_endpoint(service.context, other, endpoint.id),
        endpoint_usecases.list_deliveries(service.context, other, endpoint.id, None, Span()),
        redelivery.redeliver_events(service.context, other, endpoint.id, now, now),
        endpoint_usecases.read_delivery(service.context, other, row["id"]),
        redelivery.redeliver(service.context, other, row["id"]),
        endpoint_usecases.read_endpoint(service.context, service.caller, 999),
        endpoint_usecases.read_delivery(service.context, service.caller, 999),
    ):
        with pytest.raises(errors.NotFound):
            await attempt
    assert (await endpoint_usecases.list_endpoints(service.context, other, Span())).total_count == 0
    assert (await endpoint_usecases.list_events(service.context, other, Span())).total_count == 0


async def test_a_change_changes_what_it_names(service: WebhookService) -> None:
    endpoint = await service.add_endpoint(URL)
    change = EndpointChange(url=URL + "2", event_types=["refund.in.error"], status="inactive")
    changed = await endpoint_usecases.change_endpoint(service.context, service.caller, endpoint.id, change)
    assert (changed.url, changed.event_types, changed.status) == (URL + "2", ("refund.in.error",), "inactive")
    assert changed.secret_sealed == endpoint.secret_sealed
    assert changed.modified_at > endpoint.modified_at == changed.created_at


async def test_the_same_secret_again_changes_nothing(service: WebhookService) -> None:
    endpoint = await service.add_endpoint(URL)
    change = EndpointChange(secret=SECRET)
    assert await endpoint_usecases.change_endpoint(service.context, service.caller, endpoint.id, change) == endpoint


async def test_of_several_old_secrets_the_last_signs_too(service: WebhookService) -> None:
    endpoint = await service.add_endpoint(URL)
    for secret in ("the second secret", "the third secret"):
        endpoint = await endpoint_usecases.change_endpoint(
            service.context, service.caller, endpoint.id, EndpointChange(secret=secret)
        )
    now = service.context.clock.now()
    box = service.context.secret_box
    assert delivery.open_secrets(box, endpoint, now) == ["the third secret", "the second secret"]
    assert delivery.open_secrets(box, endpoint, now + timedelta(hours=24)) == ["the third secret"]


async def test_a_deleted_endpoint_is_gone_and_told_once_more(service: WebhookService) -> None:
    endpoint = await service.add_endpoint(URL)
    assert await endpoint_usecases.delete_endpoint(service.context, service.caller, endpoint.id) == endpoint
    with pytest.raises(errors.NotFound):
        await endpoint_usecases.delete_endpoint(service.context, service.caller, endpoint.id)


async def test_deliveries_are_listed_newest_first_and_by_status(service: WebhookService) -> None:
    endpoint = await service.add_endpoint(URL)
    for number in range(1, 6):
        await service.announce([number])
    await service.context.pool.execute("update delivery set status = 'failed', due_at = null where id in (2, 4)")
    page = await endpoint_usecases.list_deliveries(
        service.context, service.caller, endpoint.id, None, Span(page=2, page_size=2)
    )
    assert ([found.id for found in page.items], page.total_count) == ([3, 2], 5)
    page = await endpoint_usecases.list_deliveries(service.context, service.caller, endpoint.id, "failed", Span())
    assert ([found.id for found in page.items], page.total_count) == ([4, 2], 2)
    assert page.items[0].attempts == ()
    later = Span(initial_at=service.context.clock.now())
    assert (await endpoint_usecases.list_deliveries(service.context, service.caller, endpoint.id, None, later)).total_count == 0


async def test_events_are_kept_and_listed_whether_or_not_anybody_is_told(service: WebhookService) -> None:
    made = [event for number in (1, 2, 3) for event in await service.announce([number])]
    page = await endpoint_usecases.list_events(service.context, service.caller, Span(page_size=2))
    assert (page.items, page.total_count) == ([made[2], made[1]], 3)


async def test_redelivery_continues_the_numbers_and_starts_a_new_schedule(service: WebhookService) -> None:
    async with open_receiver() as receiver, running_worker(service):
        endpoint = await service.add_endpoint(receiver.url)
        await service.announce([1])
        await eventually(lambda: _are(service, delivered=1))
        receiver.behave = answering(500)
        (row,) = await service.fetch("select id from delivery")
        again = await redelivery.redeliver(service.context, service.caller, row["id"])
        assert again.status == "pending"
        await receiver.wait_for(2)
        await eventually(lambda: _attempts(service, 2))
        found = await endpoint_usecases.read_delivery(service.context, service.caller, row["id"])
    assert [attempt.number for attempt in found.attempts] == [1, 2]
    assert found.endpoint_id == endpoint.id
    assert found.due_at is not None
    assert found.due_at - found.attempts[1].started_at < RETRY_WAITS[1]


async def test_redelivery_of_a_pending_one_tries_now(service: WebhookService) -> None:
    async with open_receiver(answering(503, b"", Retry_After="900")) as receiver, running_worker(service):
        await service.add_endpoint(receiver.url)
        await service.announce([1])
        await eventually(lambda: _attempts(service, 1))
        (row,) = await service.fetch("select id from delivery")
        await redelivery.redeliver(service.context, service.caller, row["id"])
        await receiver.wait_for(2)


async def test_replay_tells_every_event_of_a_time_again_of_the_types_asked_for(service: WebhookService) -> None:
    made = [event for number in (1, 2, 3, 4) for event in await service.announce([number])]
    await service.announce([2], "qrcode.approved")
    async with open_receiver() as receiver, running_worker(service):
        endpoint = await service.add_endpoint(receiver.url)
        span = (made[1].created_at, made[3].created_at)
        assert await redelivery.redeliver_events(service.context, service.caller, endpoint.id, *span) == 3
        await receiver.wait_for(3)
        assert await redelivery.redeliver_events(service.context, service.caller, endpoint.id, *span) == 3
        await receiver.wait_for(6)
        assert await redelivery.redeliver_events(service.context, service.caller, endpoint.id, *reversed(span)) == 0
    assert sorted(request.event["id"] for request in receiver.received) == sorted(2 * [event.id for event in made[1:]])


async def test_resuming_dates_all_to_now(service: WebhookService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_usecases, "_BATCH_MAX", 3)
    endpoint = await service.add_endpoint(URL)
    await service.announce([1, 1, 2, 3, 3, 3, 4, 5, 6, 7])
    await service.context.pool.execute("update delivery set due_at = due_at - interval '1 day'")
    await service.context.pool.execute("update delivery set due_at = due_at + interval '2 days' where resource_id = 7")
    await service.context.pool.execute("update delivery set status = 'failed', due_at = null where resource_id = 6")
    await _change(service, endpoint.id, "inactive")
    resumed = await _change(service, endpoint.id, "active")
    assert await _dated_before(service, resumed.modified_at) == 5  # one batch is done at once
    # An attempt since then has its own next date.
    later = resumed.modified_at + timedelta(minutes=5)
    tried = "update delivery set due_at = $1, modified_at = $2 where event_id = (select min(event_id) from delivery)"
    await service.context.pool.execute(tried, later, service.context.clock.now())
    assert await endpoint_usecases.finish_resuming(service.context) == 3
    assert await _dated_before(service, resumed.modified_at) == 0
    ahead = await service.fetch("select due_at from delivery where due_at > $1", service.context.clock.now())
    assert [row["due_at"] for row in ahead] == [later]
    assert await endpoint_usecases.finish_resuming(service.context) == 0
    (row,) = await service.fetch("select status, failures_count, due_at from delivery where resource_id = 6")
    assert tuple(row) == ("failed", 0, None)


async def test_housekeeping_finishes_resuming(service: WebhookService, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process began and died; two others continue at once."""
    monkeypatch.setattr(endpoint_usecases, "_BATCH_MAX", 2)
    endpoints = [await service.add_endpoint(URL) for _ in range(2)]
    await service.announce(list(range(1, 8)))
    await service.context.pool.execute("update delivery set due_at = due_at - interval '1 day'")
    for endpoint in endpoints:
        await _change(service, endpoint.id, "inactive")
        resumed = await _change(service, endpoint.id, "active")
    died = endpoint_store.find_resumed(service.context.pool, 9)
    assert [endpoint_id for endpoint_id, _ in await died] == [endpoint.id for endpoint in endpoints]
    await asyncio.gather(*(endpoint_usecases.finish_resuming(service.context) for _ in range(2)))
    assert await _dated_before(service, resumed.modified_at - timedelta(hours=1)) == 0
    assert await endpoint_store.find_resumed(service.context.pool, 9) == []


async def test_what_was_resumed_twice_is_forgotten_only_for_the_second_time(service: WebhookService) -> None:
    endpoint = await service.add_endpoint(URL)
    first, second = service.context.clock.now(), service.context.clock.now() + timedelta(seconds=1)
    async with service.context.pool.acquire() as connection:
        await endpoint_store.set_resumed(connection, endpoint.id, second)
        await endpoint_store.forget_resumed(connection, endpoint.id, first)
        assert await endpoint_store.find_resumed(connection, 9) == [(endpoint.id, second)]


async def test_a_reset_of_the_clock_brings_back_what_was_dated_ahead(service: WebhookService) -> None:
    await service.add_endpoint(URL)
    await service.announce([1])
    day = timedelta(days=1)
    await service.context.pool.execute("update delivery set due_at = due_at + $1, modified_at = modified_at + $1", day)
    await service.announce([2])
    now = service.context.clock.now()
    async with service.context.pool.acquire() as connection, connection.transaction():
        await delivery_store.move_deliveries_back(connection, now, day)
    rows = await service.fetch("select due_at <= $1 as is_due from delivery", now)
    assert [row["is_due"] for row in rows] == [True, True]


async def _change(service: WebhookService, endpoint_id: int, status: Literal["active", "inactive"]) -> Endpoint:
    return await endpoint_usecases.change_endpoint(service.context, service.caller, endpoint_id, EndpointChange(status=status))


async def _dated_before(service: WebhookService, instant: datetime) -> int:
    """How many deliveries wait since before an instant."""
    return len(await service.fetch("select from delivery where status = 'pending' and due_at < $1", instant))


async def _are(service: WebhookService, **expected: int) -> bool:
    return await service.statuses() == expected


async def _attempts(service: WebhookService, count: int) -> bool:
    return len(await service.fetch("select from delivery_attempt")) >= count


async def paused_endpoint(service: WebhookService) -> int:
    endpoint = await service.add_endpoint(URL)
    await endpoint_usecases.change_endpoint(service.context, service.caller, endpoint.id, EndpointChange(status="inactive"))
    return endpoint.id


async def replay(service: WebhookService, endpoint_id: int, context: Context | None = None, **bounds: int) -> int:
    (row,) = await service.fetch("select min(created_at) as first from event")
    now = service.context.clock.now()
    endpoint = await endpoint_usecases.read_endpoint(service.context, service.caller, endpoint_id)
    return await redelivery.redeliver_events_to(context or service.context, endpoint, row["first"], now, **bounds)


def with_pending_max(service: WebhookService, pending_max: int) -> Context:
    return structs.replace(service.context, policy=structs.replace(service.context.policy, webhook_pending_max=pending_max))


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
        *(replay(service, endpoint_id, batch_max=1) for endpoint_id in (first, first, first, second)), return_exceptions=True
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
    for shown in page.items:
        assert [attempt.number for attempt in shown.attempts] == list(range(236, 251))
        assert [len(attempt.response) for attempt in shown.attempts] == [64] * 14 + [1024]
    shown = await endpoint_usecases.read_delivery(service.context, service.caller, page.items[0].id)
    assert [attempt.number for attempt in shown.attempts] == list(range(151, 251))
    assert {len(attempt.response) for attempt in shown.attempts} == {1024}
    assert delivery_history_store.ATTEMPTS_SHOWN_MAX == 100
