"""Partitions exist before they are needed, and are dropped when all their rows are old, by the database's rules."""

from collections.abc import AsyncIterator
from datetime import timedelta

import asyncpg
import pytest

from pixconnect.features.webhooks.service import endpoint as endpoint_usecases
from pixconnect.features.webhooks.service import redelivery
from pixconnect.kernel.flows import partition as partition_usecases
from pixconnect.kernel.flows.partition import check_partitions, keep_partitions
from pixconnect.kernel.rules.listing import Span
from pixconnect.kernel.tables import partition as partition_store
from pixconnect.platform.base import errors
from support import postgres
from support.webhooks import WebhookService, open_receiver, open_webhook_service, running_worker

RETENTION = timedelta(days=90)
EVENT_SPAN, DELIVERY_SPAN = 1 << 34, 1 << 24


@pytest.fixture
async def service(database: postgres.Addresses) -> AsyncIterator[WebhookService]:
    async with open_webhook_service(database) as opened:
        # The database is a copy of one that was made when the tests began: that is no jump of the clock.
        await opened.execute_as_owner("update partition_pass set passed_at = clock_timestamp()")
        yield opened


async def keep(service: WebhookService, days_later: float = 0) -> None:
    """Look after partitions, after so many days that were passed with looking after them."""
    await keep_partitions(service.context.pool, service.context.clock, RETENTION)
    if days_later:
        await grow_old(service, days_later)
        await keep_partitions(service.context.pool, service.context.clock, RETENTION)


async def grow_old(service: WebhookService, days: float) -> None:
    instants = ", ".join(f"{name} = {name} - interval '{days} days'" for name in ("begun_at", "closed_at"))
    await service.execute_as_owner(f"update event_partition set {instants}")


async def bounds(service: WebhookService, parent: str) -> list[tuple[int, int]]:
    rows = await service.fetch(
        "select first_id, end_id from event_partition where parent = $1 and detached_at is null order by 1", parent
    )
    return [(row["first_id"], row["end_id"]) for row in rows]


async def test_two_partitions_are_kept_ahead(service: WebhookService) -> None:
    await keep(service)
    span = DELIVERY_SPAN
    assert await bounds(service, "delivery") == [(1, span), (span, 2 * span)]
    await service.add_endpoint("http://127.0.0.1:9/")
    await service.announce([1])
    await keep(service)
    expected = [(1, span), (span, 2 * span), (2 * span, 3 * span)]
    assert await bounds(service, "delivery") == expected
    assert await bounds(service, "event") == [
        (1, EVENT_SPAN), (EVENT_SPAN, 2 * EVENT_SPAN), (2 * EVENT_SPAN, 3 * EVENT_SPAN)
    ]  # fmt: skip
    await keep(service)
    assert await bounds(service, "delivery") == expected


async def test_a_new_partition_has_the_indexes_and_serves_the_service(service: WebhookService) -> None:
    await keep(service)
    await service.execute_as_owner(f"select setval('delivery_id', {DELIVERY_SPAN + 5})")
    async with open_receiver() as receiver, running_worker(service):
        await service.add_endpoint(receiver.url)
        await service.announce([1])
        await receiver.wait_for(1)
    rows = await service.fetch("select indexname from pg_indexes where tablename = $1", f"delivery_{DELIVERY_SPAN}")
    assert len(rows) == 5
    assert await service.fetch("select tableoid::regclass::text, status from delivery") == [
        (f"delivery_{DELIVERY_SPAN}", "delivered")
    ]
    assert await service.fetch("select tableoid::regclass::text from delivery_attempt") == [
        (f"delivery_attempt_{DELIVERY_SPAN}",)
    ]


async def test_after_a_tenth_of_the_retention_the_next_partition_is_begun(service: WebhookService) -> None:
    await service.add_endpoint("http://127.0.0.1:9/")
    await service.announce([1])
    await keep(service, days_later=8)
    await service.announce([2])
    await keep(service, days_later=2)
    await service.announce([3])
    rows = await service.fetch("select id from delivery order by id")
    assert [row["id"] for row in rows] == [1, 2, DELIVERY_SPAN]


async def test_nothing_is_dropped_before_its_time_nor_with_anything_pending_in_it(service: WebhookService) -> None:
    await service.add_endpoint("http://127.0.0.1:9/")
    await service.announce([1])
    await keep(service, days_later=10)
    await keep(service, days_later=89)
    assert await service.statuses() == {"pending": 1}
    await keep(service, days_later=2)
    assert await service.statuses() == {"failed": 1}
    assert await service.fetch("select number, error from delivery_attempt") == [
        (1, "not sent: it waited for longer than events are kept")
    ]
    await keep(service)
    assert await service.statuses() == {}
    await keep(service)
    assert await service.fetch("select from event") == []


async def test_the_instants_of_rows_decide_nothing(service: WebhookService) -> None:
    """The sandbox clock moves them, and may have been set back by years when they were written."""
    await service.add_endpoint("http://127.0.0.1:9/")
    await service.announce([1])
    await service.execute_as_owner("update delivery set created_at = created_at - interval '400 days'")
    await service.execute_as_owner("update event set created_at = created_at - interval '400 days'")
    await keep(service, days_later=5)
    await keep(service)
    assert await service.statuses() == {"pending": 1}
    assert len(await service.fetch("select from event")) == 1


async def test_nothing_is_dropped_for_an_hour_after_the_clock_jumped(service: WebhookService) -> None:
    await service.add_endpoint("http://127.0.0.1:9/")
    await service.announce([1])
    await service.context.pool.execute("update delivery set status = 'failed', due_at = null")
    await keep(service, days_later=10)
    # Ninety days forward between two passes: both the partitions and the last pass are so much older.
    await service.execute_as_owner("update event_partition set begun_at = begun_at - interval '91 days'")
    await service.execute_as_owner("update event_partition set closed_at = closed_at - interval '91 days'")
    await service.execute_as_owner("update partition_pass set passed_at = passed_at - interval '91 days'")
    await keep(service)
    await keep(service)
    assert await service.statuses() == {"failed": 1}
    await service.execute_as_owner("update partition_pass set jumped_at = jumped_at - interval '61 minutes'")
    await keep(service)
    assert await service.statuses() == {}


async def test_an_event_stays_while_a_replayed_delivery_needs_it(service: WebhookService) -> None:
    endpoint = await service.add_endpoint("http://127.0.0.1:9/")
    await service.announce([1])
    await service.context.pool.execute("update delivery set status = 'failed', due_at = null")
    await keep(service, days_later=10)
    now = service.context.clock.now()
    await redelivery.redeliver_events(
        service.context, service.caller, endpoint.id, now - timedelta(days=1), now + timedelta(days=1)
    )
    await keep(service, days_later=91)
    query = "select delivery.status, event.id is null as is_lost from delivery left join event on event.id = event_id"
    rows = await service.fetch(query)
    assert [(row["status"], row["is_lost"]) for row in rows] == [("pending", False)]


async def test_the_services_login_can_make_no_young_event_go(service: WebhookService) -> None:
    await service.add_endpoint("http://127.0.0.1:9/")
    await service.announce([1])
    await service.context.pool.execute("update delivery set status = 'failed', due_at = null")
    await keep(service, days_later=10)
    async with service.context.pool.acquire() as connection:
        for retention in (timedelta(0), timedelta(days=-400)):
            for parent in partition_store.PARENTS:
                assert await partition_store.detach_old(connection, parent, retention) is None
        for statement in (
            "update event_partition set closed_at = closed_at - interval '1 year'",
            "update partition_pass set retention = interval '0'",
            "drop table event_1",
            "select setval('write_group_id', 1)",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)
    assert await service.statuses() == {"failed": 1}


async def test_a_sequence_is_never_set_back(service: WebhookService) -> None:
    await service.add_endpoint("http://127.0.0.1:9/")
    await service.announce([1])
    await keep(service)
    beyond = DELIVERY_SPAN + 77
    await service.execute_as_owner(f"select setval('delivery_id', {beyond})")
    await service.execute_as_owner("update event_partition set begun_at = begun_at - interval '20 days'")
    async with service.context.pool.acquire() as connection:
        await partition_store.close(connection, "delivery", RETENTION)
    await service.announce([2])
    rows = await service.fetch("select id from delivery order by id")
    assert [row["id"] for row in rows] == [1, beyond + 1]


async def test_nobody_waits_while_partitions_are_made(service: WebhookService) -> None:
    """A transaction that has read and written the tables is open; making ahead works beside it, and so do others."""
    await service.add_endpoint("http://127.0.0.1:9/")
    async with service.context.pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("set local idle_in_transaction_session_timeout = 0")
        await connection.fetch("select from delivery")
        await connection.execute("update delivery set due_at = due_at")
        await service.announce([1])
        await keep(service)
        await service.announce([2])
        await transaction.rollback()
    assert await service.statuses() == {"pending": 2}


async def test_a_partition_that_somebody_reads_is_dropped_in_a_later_pass(service: WebhookService) -> None:
    await service.add_endpoint("http://127.0.0.1:9/")
    await service.announce([1])
    await service.context.pool.execute("update delivery set status = 'failed', due_at = null")
    await keep(service, days_later=10)
    async with service.context.pool.acquire() as connection, connection.transaction():
        await connection.execute("set local idle_in_transaction_session_timeout = 0")
        await connection.fetch("select from delivery")
        await connection.fetch("select from event")
        with pytest.raises(asyncpg.LockNotAvailableError):
            await keep(service, days_later=91)
    await keep(service)
    assert await service.statuses() == {}


async def test_what_is_dropped_is_counted_no_more(service: WebhookService) -> None:
    endpoint = await service.add_endpoint("http://127.0.0.1:9/")
    await service.announce([1, 2, 3])
    await service.context.pool.execute("update delivery set status = 'failed', due_at = null where id = 1")
    await keep(service, days_later=10)
    await partition_usecases.fold_tallies(service.context)
    await service.announce([4])
    await keep(service, days_later=91)
    totals = {
        status: (
            await endpoint_usecases.list_deliveries(service.context, service.caller, endpoint.id, status, Span())
        ).total_count
        for status in (None, "pending", "failed")
    }
    assert totals == {None: 4, "pending": 1, "failed": 3}
    await keep(service)
    await keep(service)
    totals = {
        status: (
            await endpoint_usecases.list_deliveries(service.context, service.caller, endpoint.id, status, Span())
        ).total_count
        for status in (None, "pending", "failed")
    }
    assert totals == {None: 1, "pending": 1, "failed": 0}
    assert (await endpoint_usecases.list_events(service.context, service.caller, Span())).total_count == 1


async def test_an_installation_that_stood_still_for_long_can_be_written_to(service: WebhookService) -> None:
    await service.add_endpoint("http://127.0.0.1:9/")
    await service.announce([1])
    for days_later in (91, 100, 200):
        await keep(service, days_later)
    await service.announce([2])
    rows = await service.fetch("select resource_id from event join delivery using (resource_id)")
    assert [row["resource_id"] for row in rows] == [2]


async def test_health_tells_when_partitions_are_not_made(service: WebhookService) -> None:
    await keep(service)
    await check_partitions(service.context.pool)
    await service.execute_as_owner(f"select setval('delivery_id', {DELIVERY_SPAN + 5})")
    await service.execute_as_owner("update partition_pass set passed_at = passed_at - interval '6 minutes'")
    with pytest.raises(errors.ServiceUnavailable):
        await check_partitions(service.context.pool)
    await keep(service)
    await check_partitions(service.context.pool)


async def make_as_an_old_process(service: WebhookService, parent: str, first_id: int, span: int) -> None:
    """As processes did that made partitions themselves, as the owner: nothing is noted."""
    name = f"{parent}_{first_id}"
    await service.execute_as_owner(f"create table {name} (like {parent} including defaults including constraints)")
    await service.execute_as_owner(
        f"alter table {parent} attach partition {name} for values from ({first_id}) to ({first_id + span})"
    )


async def test_what_another_program_made_is_adopted_and_goes_with_the_others(service: WebhookService) -> None:
    await keep(service)
    await make_as_an_old_process(service, "event", 2 * EVENT_SPAN, EVENT_SPAN)
    # It was killed before it made the one of the attempts.
    await make_as_an_old_process(service, "delivery", 2 * DELIVERY_SPAN, DELIVERY_SPAN)
    await service.add_endpoint("http://127.0.0.1:9/")
    await service.announce([1])
    await keep(service)
    assert (await bounds(service, "event"))[2:] == [(2 * EVENT_SPAN, 3 * EVENT_SPAN)]
    assert (await bounds(service, "delivery"))[2:] == [(2 * DELIVERY_SPAN, 3 * DELIVERY_SPAN)]
    assert await service.fetch("select from pg_class where relname = $1", f"delivery_attempt_{2 * DELIVERY_SPAN}")
    await check_partitions(service.context.pool)
    for resource_id in range(2, 6):
        await service.context.pool.execute("update delivery set status = 'failed', due_at = null")
        await keep(service, days_later=91)
        await service.announce([resource_id])
    adopted = [f"{parent}_{2 * span}" for parent, span in (("event", EVENT_SPAN), ("delivery", DELIVERY_SPAN))]
    assert await service.fetch("select from pg_class where relname = any($1)", adopted) == []


async def test_a_process_of_before_heals_it_too_and_knows_what_another_took_off(service: WebhookService) -> None:
    await keep(service)
    await make_as_an_old_process(service, "event", 2 * EVENT_SPAN, EVENT_SPAN)
    await service.execute_as_owner(f"select setval('write_group_id', {EVENT_SPAN})")
    await service.execute_as_owner("alter table delivery detach partition delivery_1")
    await service.context.pool.fetch("select make_partitions()")
    assert await bounds(service, "event") == [(first * EVENT_SPAN or 1, (first + 1) * EVENT_SPAN) for first in range(4)]
    assert (await bounds(service, "delivery"))[0] == (DELIVERY_SPAN, 2 * DELIVERY_SPAN)


async def test_a_parent_that_fails_keeps_no_other_from_being_looked_after(service: WebhookService) -> None:
    await service.add_endpoint("http://127.0.0.1:9/")
    await service.announce([1])
    await service.context.pool.execute("update delivery set status = 'failed', due_at = null")
    await keep(service, days_later=10)
    # The name of the next one is taken.
    await service.execute_as_owner(f"create table event_{3 * EVENT_SPAN} ()")
    await service.execute_as_owner(f"select setval('write_group_id', {2 * EVENT_SPAN})")
    await service.execute_as_owner(f"select setval('delivery_id', {2 * DELIVERY_SPAN})")
    await grow_old(service, 91)
    with pytest.raises(asyncpg.DuplicateTableError):
        await keep(service)
    assert len(await bounds(service, "event")) < len(await bounds(service, "delivery"))
    assert await service.statuses() == {}
    await service.execute_as_owner(f"drop table event_{3 * EVENT_SPAN}")
    await keep(service)
    await check_partitions(service.context.pool)
