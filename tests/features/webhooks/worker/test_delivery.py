"""Deliveries from the event to the record, with a real database and real receivers."""

import asyncio
import hashlib
import hmac
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from functools import partial
from typing import Any, cast

import pytest
from msgspec import structs
from standardwebhooks import Webhook

from pixconnect.features.identity.service.keyring import SIGNER
from pixconnect.features.sandbox.service import clock
from pixconnect.features.webhooks.rules import delivery as delivery_rules
from pixconnect.features.webhooks.rules.delivery import Conclusion, DueDelivery, Receivers
from pixconnect.features.webhooks.rules.endpoint import EndpointChange
from pixconnect.features.webhooks.service import delivery, redelivery
from pixconnect.features.webhooks.service import endpoint as endpoint_usecases
from pixconnect.features.webhooks.service.endpoint import RECEIVERS
from pixconnect.features.webhooks.tables import delivery as delivery_store
from pixconnect.features.webhooks.worker import delivery as delivery_worker
from pixconnect.features.webhooks.worker import delivery_records
from pixconnect.features.webhooks.worker.delivery_queue import QueueLimits
from pixconnect.features.webhooks.worker.delivery_records import AttemptLog
from pixconnect.kernel.rules.listing import Span
from pixconnect.platform.base.webhook_exchange import WebhookExchange
from support import identity, postgres
from support.operators import as_operator
from support.webhooks import (
    SECRET,
    Received,
    Receiver,
    WebhookService,
    answer,
    answering,
    eventually,
    open_receiver,
    open_webhook_service,
    running_worker,
    start_worker,
)

OUR_DEFECT = "the service could not make or record this attempt, by an internal defect"
ASKING_FOR_TIME = answering(503, b"", Retry_After="900")
"""Refuses, and wants the next attempt in a quarter of an hour only: no retry comes by itself while a test looks."""


async def move_clock(service: WebhookService, seconds: float) -> None:
    """As the sandbox does."""
    await service.context.pool.execute(
        "update clock set offset_us = offset_us + $1", timedelta(seconds=seconds) // timedelta(microseconds=1)
    )


async def is_settled(service: WebhookService, **expected: int) -> bool:
    return await service.statuses() == expected


async def test_an_event_is_posted_with_every_header_and_recorded(database: postgres.Addresses) -> None:
    async with open_webhook_service(database) as service, open_receiver() as receiver, running_worker(service):
        endpoint = await service.add_endpoint(receiver.url)
        (event,) = await service.announce([7])
        (request,) = await receiver.wait_for(1)
        await eventually(lambda: is_settled(service, delivered=1))
        page = await endpoint_usecases.list_deliveries(service.context, service.caller, endpoint.id, None, Span())
        keys = identity.keyring_of(service.context).key_set()["keys"]
    assert (request.path, request.body) == ("/hook", event.body.encode())
    headers = request.headers
    assert headers["Content-Type"] == "application/json"
    assert headers["X-Webhook-Signature"] == hmac.new(SECRET.encode(), request.body, hashlib.sha256).hexdigest()
    assert headers["X-Webhook-Attempt"] == "1"
    assert headers["webhook-id"] == f"evt_{event.id}"
    assert Webhook(SECRET.encode()).verify(request.body, headers)
    head, payload, signature = headers["X-Webhook-Signature-JWS"].split(".")
    header = json.loads(identity.decode(head))
    (jwk,) = (key for key in keys if key["kid"] == header["kid"])
    assert set(header) == {"alg", "kid", "aud", "iat", "jti"}
    assert (header["alg"], header["aud"], header["jti"]) == ("ES256", str(service.caller.holder_id), headers["webhook-id"])
    assert 0 <= int(headers["webhook-timestamp"]) - header["iat"] <= 60
    assert payload == ""
    signed = f"{head}.{identity.encode(request.body)}"
    assert identity.is_signed(signed, identity.decode(signature), identity.public_key(jwk))
    (found,) = page.items
    (attempt,) = found.attempts
    assert (found.event_id, found.status, found.due_at) == (event.id, "delivered", None)
    assert (attempt.number, attempt.status_code, attempt.response, attempt.error) == (1, 200, "ok", None)
    assert 0 < attempt.duration_us < 60_000_000


async def test_only_the_event_types_that_were_asked_for_are_posted(database: postgres.Addresses) -> None:
    async with open_webhook_service(database) as service, open_receiver() as receiver, running_worker(service):
        await service.add_endpoint(receiver.url, "qrcode.approved")
        await service.announce([1])
        await service.announce([1], "qrcode.approved")
        await receiver.wait_for(1)
        await eventually(lambda: is_settled(service, delivered=1))
    assert [request.event["name"] for request in receiver.received] == ["qrcode.approved"]


async def test_an_unbegun_attempt_is_forgotten(database: postgres.Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_webhook_service(database) as service, open_receiver() as receiver, running_worker(service) as worker:
        begin = worker.delivery._begin_task

        def begin_and_lose_slots(attempt: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
            monkeypatch.undo()
            task = begin(attempt)
            worker.delivery.slots_lost()
            return task

        monkeypatch.setattr(worker.delivery, "_begin_task", begin_and_lose_slots)
        await service.add_endpoint(receiver.url)
        await service.announce([1])
        await eventually(lambda: is_settled(service, delivered=1))
        async with asyncio.timeout(60):
            while worker.delivery.busy_slots():  # noqa: ASYNC110  no event to await
                await asyncio.sleep(0.02)
    assert len(receiver.received) == 1


async def test_an_unbegun_delivery_is_left(database: postgres.Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_webhook_service(database) as service, open_receiver() as receiver, running_worker(service) as worker:

        async def lose_slots() -> None:
            monkeypatch.undo()
            worker.delivery._leases._lose()

        monkeypatch.setattr(worker.delivery._context.port(SIGNER), "look_after_rest", lose_slots)
        await service.add_endpoint(receiver.url)
        await service.announce([1])
        await eventually(lambda: is_settled(service, delivered=1))
    assert len(receiver.received) == 1


async def _has_attempts(service: WebhookService, count: int) -> bool:
    rows = await service.fetch("select attempts_count from delivery")
    return all(row["attempts_count"] >= count for row in rows)


async def test_a_retry_comes_after_its_wait_and_not_before(database: postgres.Addresses) -> None:
    # By the attempt, and not by when it comes: the second may come by itself before the test goes on.
    async def refuse(request: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_first = request.headers["X-Webhook-Attempt"] == "1"
        await (answering(503) if is_first else ASKING_FOR_TIME)(request, reader, writer)

    async with open_webhook_service(database) as service, open_receiver(refuse) as receiver, running_worker(service):
        await service.add_endpoint(receiver.url)
        await service.announce([1])
        await receiver.wait_for(1)
        await eventually(lambda: _has_attempts(service, 1))
        (row,) = await service.fetch("select due_at - modified_at as wait from delivery")
        assert timedelta(seconds=5) <= row["wait"] <= timedelta(seconds=6)
        await move_clock(service, 6)
        await receiver.wait_for(2)
        await eventually(lambda: _has_attempts(service, 2))
        await move_clock(service, 800)
        await asyncio.sleep(0.7)
        assert len(receiver.received) == 2
        receiver.behave = answering()
        await move_clock(service, 100)
        await receiver.wait_for(3)
        await eventually(lambda: is_settled(service, delivered=1))


async def test_the_next_event_of_a_resource_waits_for_the_one_before(database: postgres.Addresses) -> None:
    async with open_webhook_service(database) as service, open_receiver(ASKING_FOR_TIME) as receiver, running_worker(service):
        await service.add_endpoint(receiver.url, "qrcode.pending", "qrcode.approved")
        (first,) = await service.announce([1])
        await receiver.wait_for(1)
        (second,) = await service.announce([1], "qrcode.approved")
        (other,) = await service.announce([2])
        await receiver.wait_for(2)
        # A refusal after the clock was moved would wait from then on.
        await eventually(lambda: _is_so(lambda: _count_tried(service), 2))
        await asyncio.sleep(0.7)
        assert [request.event["id"] for request in receiver.received] == [first.id, other.id]
        receiver.behave = answering()
        await move_clock(service, 900)
        await receiver.wait_for(5)
        await eventually(lambda: is_settled(service, delivered=3))
    seen = [request.event["id"] for request in receiver.received]
    assert seen.index(second.id) > max(n for n, event_id in enumerate(seen) if event_id == first.id)


async def test_a_silent_one_is_asked_later(database: postgres.Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_worker, "UNANSWERED_REST_S", 3600)

    async def hang_up(_request: Received, _reader: Any, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with open_webhook_service(database) as service, open_receiver() as receiver, open_receiver(hang_up) as mute:
        await service.add_endpoint(mute.url, "qrcode.pending")
        await service.add_endpoint(receiver.url, "qrcode.approved")
        async with running_worker(service, QueueLimits(endpoint_max=4)):
            await service.announce(list(range(1, 10)))
            await eventually(lambda: _is_so(lambda: _count_tried(service), 4))
            await service.announce([10], "qrcode.approved")
            await receiver.wait_for(1)
            await eventually(lambda: _is_so(lambda: _count_tried(service), 5))
        # The worker did not wait for the rests before it ended.
        assert (len(mute.received), await _count_tried(service)) == (4, 5)


async def _count_tried(service: WebhookService) -> int:
    return (await service.fetch("select count(*) from delivery where attempts_count > 0"))[0]["count"]


async def _is_so(count: Callable[[], Awaitable[int]], expected: int) -> bool:
    return await count() == expected


async def test_what_follows_a_delivery_that_is_given_up_is_sent(database: postgres.Addresses) -> None:
    async def refuse_pending(request: Received, _: Any, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(500 if request.event["name"] == "qrcode.pending" else 200))

    async with open_webhook_service(database) as service, open_receiver(refuse_pending) as receiver:
        await service.add_endpoint(receiver.url, "qrcode.pending", "qrcode.approved")
        await service.announce([1])
        await service.announce([1], "qrcode.approved")
        await service.context.pool.execute("update delivery set failures_count = 14, attempts_count = 14")
        async with running_worker(service):
            await eventually(lambda: is_settled(service, failed=1, delivered=1))
    assert [request.event["name"] for request in receiver.received] == ["qrcode.pending", "qrcode.approved"]


async def test_followers_come_at_once_and_in_order(database: postgres.Addresses) -> None:
    async with open_webhook_service(database) as service, open_receiver() as receiver, running_worker(service):
        await service.add_endpoint(receiver.url)
        made = [event.id for _ in range(8) for event in await service.announce(list(range(1, 41)))]
        await receiver.wait_for(len(made))
        await eventually(lambda: is_settled(service, delivered=len(made)))
    seen: dict[int, list[int]] = defaultdict(list)
    for request in receiver.received:
        seen[request.event["payload"]["id"]].append(request.event["id"])
    assert len(receiver.received) == len(made)
    assert all(ids == sorted(ids) and len(ids) == 8 for ids in seen.values())


async def test_410_disables_the_endpoint_and_its_owner_can_resume(database: postgres.Addresses) -> None:
    async with open_webhook_service(database) as service, open_receiver(answering(410)) as receiver, running_worker(service):
        endpoint = await service.add_endpoint(receiver.url)
        await service.announce([1])
        await receiver.wait_for(1)
        await eventually(lambda: _has_attempts(service, 1))
        stopped = await endpoint_usecases.read_endpoint(service.context, service.caller, endpoint.id)
        assert (stopped.status, stopped.status_reason) == ("disabled", "the receiver answered 410 Gone")
        await service.announce([2])
        assert await service.statuses() == {"pending": 1}
        receiver.behave = answering()
        change = EndpointChange(status="active")
        resumed = await endpoint_usecases.change_endpoint(service.context, service.caller, endpoint.id, change)
        assert (resumed.status, resumed.status_reason) == ("active", None)
        await receiver.wait_for(2)
        await eventually(lambda: is_settled(service, delivered=1))


@pytest.mark.parametrize("way", ["change", "resume", "replay"])
async def test_after_an_outage_all_pending_go_out_at_once_and_in_order(database: postgres.Addresses, way: str) -> None:
    async with open_webhook_service(database) as service, open_receiver(ASKING_FOR_TIME) as receiver, running_worker(service):
        endpoint = await service.add_endpoint(receiver.url, "qrcode.pending", "qrcode.approved")
        made = await service.announce([1, 2])
        await eventually(lambda: _is_so(lambda: _count_tried(service), 2))
        made += await service.announce([1, 2], "qrcode.approved")
        receiver.behave = answering()
        if way == "change":
            change = partial(endpoint_usecases.change_endpoint, service.context, service.caller, endpoint.id)
            await change(EndpointChange(status="inactive"))
            await asyncio.sleep(0.7)
            assert len(receiver.received) == 2
            await change(EndpointChange(status="active"))
        elif way == "resume":
            await endpoint_usecases.resume_endpoint(as_operator(service.context), endpoint.id)
        else:
            span = (made[0].created_at, made[-1].created_at)
            assert await redelivery.redeliver_events(service.context, service.caller, endpoint.id, *span) == 0
        await receiver.wait_for(6)
        await eventually(lambda: is_settled(service, delivered=4))
    for charge_id in (1, 2):
        told = [each.event["name"] for each in receiver.received[2:] if each.event["payload"]["id"] == charge_id]
        assert told == ["qrcode.pending", "qrcode.approved"]


async def test_each_attempt_uses_the_url_and_secret_of_its_moment(database: postgres.Addresses) -> None:
    async with (
        open_webhook_service(database) as service,
        open_receiver(ASKING_FOR_TIME) as old,
        open_receiver() as new,
        running_worker(service),
    ):
        endpoint = await service.add_endpoint(old.url)
        await service.announce([1])
        await old.wait_for(1)
        await eventually(lambda: _has_attempts(service, 1))
        change = EndpointChange(url=new.url, secret="another secret for tests")
        await endpoint_usecases.change_endpoint(service.context, service.caller, endpoint.id, change)
        await move_clock(service, 900)
        (request,) = await new.wait_for(1)
        assert len(old.received) == 1
        for secret in ("another secret for tests", SECRET):
            assert Webhook(secret.encode()).verify(request.body, request.headers)
        expected = hmac.new(b"another secret for tests", request.body, hashlib.sha256).hexdigest()
        assert request.headers["X-Webhook-Signature"] == expected
        await move_clock(service, 86_400)
        await service.announce([2])
        await new.wait_for(2)
        assert " " not in new.received[1].headers["webhook-signature"]


async def test_the_timestamp_is_the_machines_own_whatever_the_sandbox_clock_says(database: postgres.Addresses) -> None:
    async with open_webhook_service(database) as service, open_receiver() as receiver, running_worker(service):
        await service.add_endpoint(receiver.url)
        await move_clock(service, 86_400 * 30)
        await service.announce([1])
        (request,) = await receiver.wait_for(1)
        assert Webhook(SECRET.encode()).verify(request.body, request.headers)


async def test_what_is_pending_for_a_deleted_endpoint_is_given_up(database: postgres.Addresses) -> None:
    async with open_webhook_service(database) as service, open_receiver() as receiver:
        endpoint = await service.add_endpoint(receiver.url)
        await service.announce([1, 2])
        await endpoint_usecases.delete_endpoint(service.context, service.caller, endpoint.id)
        async with running_worker(service):
            await eventually(lambda: is_settled(service, failed=2))
        assert receiver.received == []


async def test_a_hanging_endpoint_does_not_delay_another(database: postgres.Addresses) -> None:
    let_go = asyncio.Event()

    async def hang(_: Received, __: Any, writer: asyncio.StreamWriter) -> None:
        await let_go.wait()
        writer.write(answer(503))

    async with (
        open_webhook_service(database, exchange_s=120.0) as service,
        open_receiver(hang) as hanging,
        open_receiver() as good,
        running_worker(service),
    ):
        endpoint = await service.add_endpoint(hanging.url)
        await service.announce(list(range(1, 400)))
        await hanging.wait_for(10)
        await service.add_endpoint(good.url)
        await service.announce(list(range(1000, 1100)))
        await good.wait_for(100)
        (row,) = await service.fetch("select max(attempts_count) as most from delivery where endpoint_id = $1", endpoint.id)
        assert row["most"] == 0, "nobody waited for one of the hanging ones"
        assert hanging.connections_count <= 64
        let_go.set()


async def test_a_success_ends_the_failures_of_its_endpoint(database: postgres.Addresses) -> None:
    async with open_webhook_service(database) as service, open_receiver() as receiver, running_worker(service):
        await service.add_endpoint(receiver.url)
        await service.context.pool.execute("update webhook_endpoint set first_failure_at = created_at")
        await service.announce([7])
        await eventually(lambda: is_settled(service, delivered=1))
        assert await service.fetchval("select first_failure_at from webhook_endpoint") is None


async def test_answers_are_recorded_together(database: postgres.Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_records, "GATHER_S", 600)
    release = asyncio.Event()

    async def wait(_: Received, __: Any, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        writer.write(answer())

    async with open_webhook_service(database) as service, open_receiver(wait) as receiver, running_worker(service):
        await service.add_endpoint(receiver.url)
        await service.announce(list(range(1, 13)))
        await receiver.wait_for(12)
        release.set()
        await eventually(lambda: is_settled(service, delivered=12))
        # A single delivery waits for no other.
        await service.announce([100])
        await eventually(lambda: is_settled(service, delivered=13))
        (figures,) = (each for each in service.context.writes.read_figures() if each.name == "record_attempts")
    assert figures.commits_by_size == {12: 1, 1: 1}


@pytest.mark.long
async def test_more_than_is_kept_in_memory_is_delivered_all_the_same(database: postgres.Addresses) -> None:
    limits = QueueLimits(kept_max=16)
    async with open_webhook_service(database) as service, open_receiver() as receiver:
        await service.add_endpoint(receiver.url, "qrcode.pending", "qrcode.approved")
        for start in (1, 501, 1001):
            await service.announce(list(range(start, start + 500)))
            await service.announce(list(range(start, start + 500)), "qrcode.approved")
        async with running_worker(service, limits):
            await eventually(lambda: is_settled(service, delivered=3000), seconds=180)
    assert len(receiver.received) == 3000


@pytest.mark.long
async def test_two_workers_keep_the_order_when_one_is_killed(database: postgres.Addresses) -> None:
    async with open_webhook_service(database) as service, open_receiver() as receiver:
        await service.add_endpoint(receiver.url)
        first, second = start_worker(service), start_worker(service)
        made: list[int] = []
        for turn in range(30):
            made += [event.id for event in await service.announce(list(range(1, 101)))]
            if turn == 12:
                await first.kill()
            await asyncio.sleep(0.02)
        await eventually(lambda: is_settled(service, delivered=len(made)), seconds=180)
        await second.stop()
    _assert_in_order(receiver, made)


@pytest.mark.long
async def test_a_second_worker_gets_its_half_under_load_and_the_order_stays(database: postgres.Addresses) -> None:
    async with open_webhook_service(database) as service, open_receiver() as receiver:
        await service.add_endpoint(receiver.url)
        first = start_worker(service)
        made: list[int] = []
        second = None
        for turn in range(300):
            made += [event.id for event in await service.announce(list(range(1, 101)))]
            if turn == 5:
                second = start_worker(service)
            if second is not None and len(second.leases.held) == 128:
                break
            await asyncio.sleep(0.1)
        assert second is not None
        assert len(first.leases.held) == len(second.leases.held) == 128
        await eventually(lambda: is_settled(service, delivered=len(made)), seconds=180)
        await asyncio.gather(first.stop(), second.stop())
    assert len(receiver.received) == len(made)
    _assert_in_order(receiver, made)


def _assert_in_order(receiver: Receiver, made: list[int]) -> None:
    """Nothing is lost, and first deliveries of each resource come in order."""
    seen: dict[int, list[int]] = defaultdict(list)
    for request in receiver.received:
        ids = seen[request.event["payload"]["id"]]
        if request.event["id"] not in ids:
            ids.append(request.event["id"])
    assert {event_id for ids in seen.values() for event_id in ids} == set(made)
    assert all(ids == sorted(ids) for ids in seen.values())


async def test_a_worker_that_lost_its_slots_records_nothing(database: postgres.Addresses) -> None:
    first, second = asyncio.Event(), asyncio.Event()

    async def wait(_: Received, __: Any, writer: asyncio.StreamWriter) -> None:
        await (first if len(receiver.received) == 1 else second).wait()
        writer.write(answer())

    async with open_webhook_service(database) as service, open_receiver(wait) as receiver, running_worker(service):
        await service.add_endpoint(receiver.url)
        await service.announce([1])
        await receiver.wait_for(1)
        await service.context.pool.execute("update slot_lease set epoch = epoch + 1")
        first.set()
        await receiver.wait_for(2)
        assert await service.statuses() == {"pending": 1}
        assert await service.fetch("select from delivery_attempt") == []
        second.set()


async def test_what_was_under_way_when_the_slots_were_lost_is_sent_again(database: postgres.Addresses) -> None:
    release = asyncio.Event()

    async def wait(_: Received, __: Any, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        writer.write(answer())

    async with open_webhook_service(database) as service, open_receiver(wait) as receiver, running_worker(service):
        await service.add_endpoint(receiver.url)
        await service.announce([1])
        await receiver.wait_for(1)
        await service.context.pool.execute("delete from worker")  # as another worker does that takes this one for dead
        await receiver.wait_for(2)
        release.set()
        await eventually(lambda: is_settled(service, delivered=1))


async def test_the_clock_can_walk_from_retry_to_retry(database: postgres.Addresses) -> None:
    async with open_webhook_service(database) as service, open_receiver(answering(500)) as receiver, running_worker(service):
        await service.add_endpoint(receiver.url)
        await service.announce([1])
        assert await delivery.wait_until_sent(service.context, service.context.clock.now(), 60)
        end = service.context.clock.now() + timedelta(days=4)
        while (due_at := await delivery_store.next_due_at(service.context.pool, end)) is not None:
            await move_clock(service, (due_at - service.context.clock.now()).total_seconds())
            await clock.read_clock(service.context)
            assert await delivery.wait_until_sent(service.context, due_at, 60)
        assert await service.statuses() == {"failed": 1}
    assert len(receiver.received) == 15


async def test_health_sees_a_delivery_that_nobody_sends(database: postgres.Addresses) -> None:
    async with open_webhook_service(database) as service, open_receiver() as receiver:
        await service.add_endpoint(receiver.url)
        assert await delivery.read_oldest_due(service.context) is None
        (event,) = await service.announce([1])
        assert await delivery.read_oldest_due(service.context) == event.created_at
        async with running_worker(service):
            await receiver.wait_for(1)
            await eventually(lambda: is_settled(service, delivered=1))
            assert await delivery.read_oldest_due(service.context) is None


async def test_a_hanging_endpoint_does_not_make_health_complain(database: postgres.Addresses) -> None:
    async def hang(*_: Any) -> None:
        await asyncio.sleep(60)

    opened = open_webhook_service(database, exchange_s=3.0)
    async with opened as service, open_receiver(hang) as receiver, running_worker(service):
        await service.add_endpoint(receiver.url)
        await service.announce(list(range(1, 200)))
        await receiver.wait_for(5)
        await asyncio.sleep(2.5)
        assert await delivery.read_oldest_due(service.context) is None


async def test_a_secret_that_cannot_be_opened_is_said_on_the_attempt(database: postgres.Addresses) -> None:
    async with open_webhook_service(database) as service, open_receiver() as receiver, running_worker(service):
        endpoint = await service.add_endpoint(receiver.url)
        await service.context.pool.execute("update webhook_endpoint set secret = '\\x00'")
        await service.announce([1])
        await eventually(lambda: _has_attempts(service, 1))
        page = await endpoint_usecases.list_deliveries(service.context, service.caller, endpoint.id, "pending", Span())
        assert page.items[0].attempts[0].error == "the endpoint's secret cannot be read here any more: set it again"
        assert receiver.received == []


class DefectiveReceivers:
    """Posts like its replacement, and fails in an unexpected way."""

    async def post(self, *_: Any) -> WebhookExchange:
        raise RuntimeError("a defect of ours")


async def test_a_defect_in_an_attempt_is_a_failed_attempt_and_the_schedule_goes_on(database: postgres.Addresses) -> None:
    async with open_webhook_service(database) as service, open_receiver() as receiver:
        endpoint = await service.add_endpoint(receiver.url)
        await service.announce([1])
        defective = service.context.with_port(RECEIVERS, cast(Receivers, DefectiveReceivers()))
        async with running_worker(structs.replace(service, context=defective)):
            await eventually(lambda: _has_attempts(service, 1))
            page = await endpoint_usecases.list_deliveries(service.context, service.caller, endpoint.id, "pending", Span())
            (row,) = await service.fetch("select due_at - modified_at as wait, failures_count from delivery")
    assert timedelta(seconds=5) <= row["wait"] <= timedelta(seconds=6)
    assert row["failures_count"] == 1
    assert [attempt.error for attempt in page.items[0].attempts] == [OUR_DEFECT]


async def test_an_unwritable_attempt_counts(database: postgres.Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = delivery_rules.conclude

    def spoil(due: DueDelivery, exchange: WebhookExchange, **when: Any) -> Conclusion:
        conclusion = judge(due, exchange, **when)
        if exchange.status_code is None:
            return conclusion
        return structs.replace(conclusion, attempt=structs.replace(conclusion.attempt, response="\0"))

    monkeypatch.setattr(delivery_rules, "conclude", spoil)
    async with open_webhook_service(database) as service, open_receiver() as receiver, running_worker(service):
        endpoint = await service.add_endpoint(receiver.url)
        await service.announce([1])
        await eventually(lambda: _has_attempts(service, 1))
        page = await endpoint_usecases.list_deliveries(service.context, service.caller, endpoint.id, "pending", Span())
    assert [attempt.error for attempt in page.items[0].attempts] == [OUR_DEFECT]


class BrokenLog(AttemptLog):
    """Writes to a closed pipe."""

    def append(self, conclusion: Conclusion, url: str = "") -> None:
        raise BrokenPipeError


async def test_a_log_that_cannot_be_written_costs_no_attempt_its_record(database: postgres.Addresses) -> None:
    async with open_webhook_service(database) as service, open_receiver() as receiver:
        await service.add_endpoint(receiver.url)
        await service.announce([1])
        worker = start_worker(service, attempt_log=BrokenLog(service.context.clock, is_on=True))
        await eventually(lambda: is_settled(service, delivered=1))
        await worker.stop()
    assert len(receiver.received) == 1
