"""Walks by cursor see every row that was there at the beginning exactly once, even if others are inserted meanwhile."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pixconnect.features.webhooks.service import endpoint as endpoint_usecases
from pixconnect.features.webhooks.tables import delivery_history
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.rules.listing import Page, Span
from pixconnect.kernel.tables import charge as charge_store
from support.postgres import Addresses
from support.webhooks import WebhookService, open_webhook_service

URL = "http://127.0.0.1:9/hook"
BEGAN_AT = datetime.fromisoformat("2026-07-01T10:30:00+00:00")
STATUSES = ("pending", "delivered", "failed")

ReadPage = Callable[[Span], Awaitable[Page[Any]]]
InsertAt = Callable[[list[int]], Awaitable[None]]

# No charge is EXPIRED from the start, so the owner puts its triggers aside.
_CHARGES = """
    begin; set local session_replication_role = replica;
    insert into charge (id, holder_id, external_id, fingerprint, txid, amount_cents, key, br_code, status, slot,
        created_at, modified_at, expires_at)
    select id, {owner}, 'c' || id, '', 'T' || lpad(id::text, 31, '0'), 1, 'k', 'T' || lpad(id::text, 31, '0'), 'EXPIRED', 0,
        at, at, at from {rows};
    insert into tally_change (holder_id, kind, status, hour, change)
    select {owner}, 'charge', 'EXPIRED', date_trunc('hour', at, 'UTC'), 1 from {rows};
    commit
"""
_EVENTS = """
    insert into event (id, holder_id, name, resource, resource_id, slot, body, created_at)
    select id, {owner}, 'qrcode.pending', 'charge', id, 0, '{{}}', at from {rows}
"""
_DELIVERIES = """
    insert into delivery (id, holder_id, endpoint_id, event_id, resource, resource_id, slot, status, due_at,
        attempts_count, created_at, modified_at)
    select id, {holder_id}, {owner}, id, 'charge', id, 0, status, case status when 'pending' then at end, 1, at, at
    from (select *, (array['pending', 'delivered', 'failed'])[1 + id % 3] as status from {rows}) as made
"""


@pytest.fixture
async def service(database: Addresses) -> AsyncIterator[WebhookService]:
    async with open_webhook_service(database) as opened:
        yield opened


class Rows:
    """Adds rows at chosen minutes; many at the same instant, and ids that do not rise with instants."""

    def __init__(self, service: WebhookService, statement: str, owner_id: int) -> None:
        self._service, self._statement, self._owner_id = service, statement, owner_id
        self._numbers = count(1)

    async def insert(self, minutes: list[int]) -> None:
        if not minutes:
            return
        # Neighbouring numbers are swapped: ids of two processes do not rise with time either.
        ids = [number ^ 1 for number in (next(self._numbers) + 1 for _ in minutes)]
        made = ", ".join(
            f"({number}, timestamptz '{BEGAN_AT + timedelta(minutes=minute)}')"
            for number, minute in zip(ids, minutes, strict=True)
        )
        rows = f"(values {made}) as given (id, at)"
        holder_id = self._service.caller.holder_id
        await self._service.execute_as_owner(self._statement.format(owner=self._owner_id, rows=rows, holder_id=holder_id))


async def check_walk(read: ReadPage, insert: InsertAt, page_sizes: list[int], meanwhile: list[list[int]]) -> None:
    whole = await read(Span(page_size=1000))
    at_the_start = {item.id for item in whole.items}
    seen: list[Any] = []
    page = await read(Span(page_size=page_sizes[0]))
    for step in count(1):
        seen += page.items
        assert page.total_count == len(at_the_start)
        if page.next is None:
            break
        assert page.next.position == len(seen)
        await insert(meanwhile[step % len(meanwhile)] if step <= 20 else [])
        page = await read(Span(page_size=page_sizes[step % len(page_sizes)], after=page.next))
        assert page.items
    keys = [(item.created_at, item.id) for item in seen]
    assert keys == sorted(keys, reverse=True)
    assert len(set(keys)) == len(keys)
    assert at_the_start <= {item.id for item in seen}


MINUTES = st.lists(st.integers(-200, 0), max_size=20)
LATER = st.lists(st.lists(st.integers(-200, 30), max_size=3), min_size=1, max_size=5)
PAGE_SIZES = st.lists(st.integers(1, 7), min_size=1, max_size=3)
SOME = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


async def empty(service: WebhookService, *tables: str) -> None:
    await service.execute_as_owner(f"truncate {', '.join(tables)} cascade")


async def read_list(service: WebhookService, noun: str, status: Any, span: Span) -> Page[Any]:
    match noun:
        case "charges":
            return await charge_store.read_page(service.context.pool, service.caller.holder_id, "EXPIRED", span)
        case "events":
            return await endpoint_usecases.list_events(service.context, service.caller, span)
        case _:
            return await delivery_history.read_page(service.context.pool, 5, status, span)


@pytest.mark.long
@pytest.mark.parametrize(
    ("noun", "statement", "tables"),
    [
        ("charges", _CHARGES, ("charge_change", "charge", "tally", "tally_change")),
        ("events", _EVENTS, ("event", "webhook_tally", "webhook_tally_change")),
        ("deliveries", _DELIVERIES, ("delivery", "webhook_tally", "webhook_tally_change")),
    ],
)
@SOME
@given(MINUTES, PAGE_SIZES, LATER, st.sampled_from([None, *STATUSES]))
async def test_a_walk_through_a_list_sees_every_row_that_was_there_once(
    service: WebhookService,
    noun: str,
    statement: str,
    tables: tuple[str, ...],
    minutes: list[int],
    page_sizes: list[int],
    meanwhile: list[list[int]],
    status: Any,
) -> None:
    await empty(service, *tables)
    rows = Rows(service, statement, 5 if noun == "deliveries" else service.caller.holder_id)
    await rows.insert(minutes)
    await check_walk(lambda span: read_list(service, noun, status, span), rows.insert, page_sizes, meanwhile)


async def test_a_walk_through_transactions_sees_all_that_were_there_once(service: WebhookService) -> None:
    async def deposit(amounts: list[int]) -> None:
        for amount_cents in amounts:
            await ledger_usecases.deposit(service.context, service.caller.holder_id, amount_cents)

    await deposit([1] * 9)
    await check_walk(
        lambda span: ledger_usecases.list_transactions(service.context, service.caller, span),
        deposit,
        [2, 1, 3],
        [[], [5], [6, 7]],
    )


async def test_a_walk_through_endpoints_sees_all_that_were_there_once(service: WebhookService) -> None:
    async def add(urls: list[int]) -> None:
        for _ in urls:
            await service.add_endpoint(URL)

    await add([1] * 5)
    await check_walk(
        lambda span: endpoint_usecases.list_endpoints(service.context, service.caller, span), add, [2, 1], [[1], [], [1, 1]]
    )


async def test_a_walk_stays_within_its_span_wherever_a_made_up_cursor_begins(service: WebhookService) -> None:
    await empty(service, "event", "webhook_tally", "webhook_tally_change")
    await Rows(service, _EVENTS, service.caller.holder_id).insert(list(range(-9, 1)))
    span = Span(page_size=3, initial_at=BEGAN_AT - timedelta(minutes=5), final_at=BEGAN_AT - timedelta(minutes=2))
    first = await endpoint_usecases.list_events(service.context, service.caller, span)
    assert (len(first.items), first.total_count) == (3, 4)
    assert first.next is not None
    for at, expected in ((first.next.created_at, 1), (BEGAN_AT, 3), (BEGAN_AT - timedelta(days=9), 0)):
        after = type(first.next)(created_at=at, id=first.next.id, position=3, total_count=4)
        there = Span(page_size=3, initial_at=span.initial_at, final_at=span.final_at, after=after)
        assert len((await endpoint_usecases.list_events(service.context, service.caller, there)).items) == expected
