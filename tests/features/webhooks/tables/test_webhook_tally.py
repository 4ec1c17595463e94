"""Totals of events and deliveries equal a count after every change."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from pixconnect.features.webhooks.rules.delivery import Delivery, DeliveryStatus
from pixconnect.features.webhooks.rules.endpoint import Endpoint
from pixconnect.features.webhooks.service import endpoint as endpoint_usecases
from pixconnect.features.webhooks.service import redelivery
from pixconnect.features.webhooks.tables import delivery as delivery_store
from pixconnect.features.webhooks.tables import delivery_history
from pixconnect.features.webhooks.tables import feed as feed_store
from pixconnect.kernel.rules.listing import Page, Span
from pixconnect.kernel.tables import listing as listing_store
from pixconnect.kernel.tables import tally as tally_store
from pixconnect.kernel.tables.listing import Source
from support import postgres
from support.webhooks import WebhookService, answering, eventually, open_receiver, open_webhook_service, running_worker

URL = "http://127.0.0.1:9/hook"
STATUSES: tuple[DeliveryStatus, ...] = ("pending", "delivered", "failed")


@pytest.fixture
async def service(database: postgres.Addresses) -> AsyncIterator[WebhookService]:
    async with open_webhook_service(database) as opened:
        yield opened


async def fold(service: WebhookService, rows_max: int) -> int:
    async with service.context.pool.acquire() as connection, connection.transaction():
        return await tally_store.fold(connection, rows_max)


async def page_of(
    service: WebhookService, endpoint: Endpoint, status: DeliveryStatus | None, span: Span | None = None
) -> Page[Delivery]:
    return await endpoint_usecases.list_deliveries(service.context, service.caller, endpoint.id, status, span or Span())


async def check_totals(service: WebhookService, endpoint: Endpoint) -> dict[str, int]:
    """Hold every total against a count of the rows."""
    found = {status: (await page_of(service, endpoint, status)).total_count for status in STATUSES}
    rows = await service.fetch("select status, count(*) from delivery where endpoint_id = $1 group by status", endpoint.id)
    assert {status: count for status, count in found.items() if count} == {row["status"]: row["count"] for row in rows}
    assert (await page_of(service, endpoint, None)).total_count == sum(found.values())
    (row,) = await service.fetch("select count(*) from event where holder_id = $1", service.caller.holder_id)
    assert (await endpoint_usecases.list_events(service.context, service.caller, Span())).total_count == row["count"]
    return found


async def spread(service: WebhookService) -> None:
    """Date each event and delivery forty minutes before the next one, as if time had passed; recompute the totals."""
    later = "interval '40 minutes' * (id - (select max(id) from {table}))"
    for table in ("event", "delivery"):
        await service.execute_as_owner(f"update {table} set created_at = created_at + {later.format(table=table)}")
    await service.execute_as_owner("truncate webhook_tally, webhook_tally_change")
    await service.execute_as_owner(
        "insert into webhook_tally_change select 'delivery', endpoint_id, 'made', date_trunc('hour', created_at, 'UTC'), 1"
        " from delivery"
    )


@pytest.mark.long
async def test_whatever_happens_to_deliveries_totals_follow(service: WebhookService) -> None:
    # No retry comes by itself while the test looks.
    refusing = answering(503, b"", Retry_After="900")
    async with open_receiver(refusing) as receiver, running_worker(service):
        endpoint = await service.add_endpoint(receiver.url)
        await service.announce([1, 2, 3, 4])
        await receiver.wait_for(4)
        await eventually(lambda: _has_attempts(service, 4))
        assert await check_totals(service, endpoint) == {"pending": 4, "delivered": 0, "failed": 0}
        receiver.behave = answering(200)
        rows = await service.fetch("select id from delivery order by id")
        await redelivery.redeliver(service.context, service.caller, rows[0]["id"])
        await eventually(lambda: _are(service, pending=3, delivered=1))
        assert await check_totals(service, endpoint) == {"pending": 3, "delivered": 1, "failed": 0}
        await redelivery.redeliver(service.context, service.caller, rows[0]["id"])
        await eventually(lambda: _has_attempts(service, 6))
        assert await check_totals(service, endpoint) == {"pending": 3, "delivered": 1, "failed": 0}
    await service.context.pool.execute("update delivery set failures_count = 14, due_at = now() where id = $1", rows[1]["id"])
    async with open_receiver(answering(500)) as receiver, running_worker(service):
        await service.context.pool.execute("update webhook_endpoint set url = $1", receiver.url)
        await eventually(lambda: _are(service, pending=2, delivered=1, failed=1))
    since = service.context.clock.now() - timedelta(hours=1)
    assert await check_totals(service, endpoint) == {"pending": 2, "delivered": 1, "failed": 1}
    for row in await service.fetch("select id from delivery where status <> 'delivered'"):
        await redelivery.redeliver(service.context, service.caller, row["id"])
    assert await check_totals(service, endpoint) == {"pending": 3, "delivered": 1, "failed": 0}
    now = service.context.clock.now()
    assert (
        await redelivery.redeliver_events(service.context, service.caller, endpoint.id, since, now) == 1
    )  # three wait already
    assert await check_totals(service, endpoint) == {"pending": 4, "delivered": 1, "failed": 0}
    await service.execute_as_owner(f"delete from webhook_endpoint where id = {endpoint.id}")
    found = await service.fetch("select id from delivery where status = 'pending'")
    due = [row["id"] for row in found]
    await delivery_store.give_up_orphans(service.context.pool, due, now)
    (row,) = await service.fetch(
        "select sum(change) filter (where status = 'failed') as failed from webhook_tally_change where kind = 'delivery'"
    )
    assert row["failed"] == 4


async def test_adding_notes_together_changes_no_total(service: WebhookService) -> None:
    endpoint = await service.add_endpoint(URL)
    for number in range(1, 6):
        await service.announce([number, number])
    await service.context.pool.execute("update delivery set status = 'failed', due_at = null where id in (2, 4)")
    await service.context.pool.execute("update delivery set status = 'delivered', attempts_count = 1 where id = 4")
    before = await check_totals(service, endpoint)
    assert before == {"pending": 8, "delivered": 1, "failed": 1}
    while await fold(service, 3):
        assert await check_totals(service, endpoint) == before
    assert await service.fetch("select from webhook_tally_change") == []


async def test_notes_are_added_together_while_more_are_written(service: WebhookService) -> None:
    endpoint = await service.add_endpoint(URL)

    async def write(first: int) -> None:
        for number in range(first, first + 20):
            await service.announce([number])

    async def keep_folding() -> None:
        for _ in range(20):
            await fold(service, 3)

    await asyncio.gather(write(100), write(200), keep_folding())
    assert await check_totals(service, endpoint) == {"pending": 40, "delivered": 0, "failed": 0}


@pytest.mark.long
async def test_a_page_far_down_and_a_span_within_hours_are_those_of_the_whole_list(service: WebhookService) -> None:
    endpoint = await service.add_endpoint(URL)
    await service.announce(list(range(1, 31)))
    await spread(service)
    await service.context.pool.execute("update delivery set status = 'failed', due_at = null where id % 7 = 0")
    rows = await service.fetch("select id, status, created_at from delivery order by created_at desc")
    for status in (None, *STATUSES):
        expected = [row for row in rows if status in {None, row["status"]}]
        for page_size in (1, 4, 100):
            for page in range(1, len(expected) // page_size + 2):
                found = await page_of(service, endpoint, status, Span(page=page, page_size=page_size))
                wanted = expected[(page - 1) * page_size :][:page_size]
                assert [one.id for one in found.items] == [row["id"] for row in wanted]
                assert found.total_count == len(expected)
        first, last = rows[25]["created_at"], rows[3]["created_at"]
        within = [row for row in expected if first <= row["created_at"] <= last]
        found = await page_of(service, endpoint, status, Span(initial_at=first, final_at=last, page=2, page_size=2))
        assert [one.id for one in found.items] == [row["id"] for row in within[2:4]]
        assert found.total_count == len(within)


@pytest.mark.long
async def test_a_total_and_a_page_read_little_however_long_the_list_is(service: WebhookService) -> None:
    endpoint = await service.add_endpoint(URL)
    await service.execute_as_owner(_FILL_DELIVERIES.format(endpoint_id=endpoint.id))
    await service.execute_as_owner(_FILL_EVENTS.format(holder_id=service.caller.holder_id))
    await fold(service, 1_000_000)
    await service.execute_as_owner("vacuum analyze")
    deep = Span(page=1_000, page_size=20)
    for span in (Span(page_size=20), deep):
        page = await page_of(service, endpoint, None, span)
        assert (len(page.items), page.total_count) == (20, _ROWS_COUNT)
    assert page.next is not None
    by_cursor = Span(page_size=20, after=page.next)
    for status in (None, *STATUSES):
        for span in (Span(page_size=20), deep, by_cursor):
            assert await _count_blocks(service, delivery_history._LISTS[status], endpoint.id, span) < _BLOCKS_MAX
    for span in (Span(page_size=20), deep, by_cursor):
        blocks_count = await _count_blocks(service, feed_store._LISTED_EVENTS, service.caller.holder_id, span)
        assert blocks_count < _BLOCKS_MAX


_ROWS_COUNT = 150_000
_BLOCKS_MAX = 600
"""The index of either list has more blocks, all of which a count would read. What is read depends on the minute: the rows
of the hours at the edges, 120 each, and of a page that needs one row in ten.
"""
_FILL_DELIVERIES = f"""
    insert into delivery (id, holder_id, endpoint_id, event_id, resource, resource_id, slot, status, attempts_count,
        due_at, created_at, modified_at)
    select nextval('delivery_id'), 1, {{endpoint_id}}, n, 'charge', n, 0,
        case n % 10 when 0 then 'failed' when 1 then 'pending' else 'delivered' end, 1, case n % 10 when 1 then now() end,
        now() - n * interval '30 s', now() from generate_series(1, {_ROWS_COUNT}) as n
"""
_FILL_EVENTS = f"""
    insert into event (id, holder_id, name, resource, resource_id, slot, body, created_at)
    select n, {{holder_id}}, 'qrcode.pending', 'charge', n, 0, '{{{{}}}}', now() - n * interval '30 s'
    from generate_series(1, {_ROWS_COUNT}) as n
"""
_BLOCKS = """
    select coalesce(sum(pg_stat_get_xact_blocks_fetched(oid)), 0)::bigint from pg_class
    where relnamespace = 'pixconnect'::regnamespace
"""


async def _count_blocks(service: WebhookService, source: Source, owner_id: int, span: Span) -> int:
    """The blocks that reading a page and its total fetches."""
    async with service.context.pool.acquire() as connection, connection.transaction(isolation="repeatable_read"):
        before = await connection.fetchval(_BLOCKS)
        await listing_store.read_page_in(connection, source, owner_id, None, span)
        return await connection.fetchval(_BLOCKS) - before


async def _are(service: WebhookService, **expected: int) -> bool:
    return await service.statuses() == expected


async def _has_attempts(service: WebhookService, count: int) -> bool:
    return len(await service.fetch("select from delivery_attempt")) >= count
