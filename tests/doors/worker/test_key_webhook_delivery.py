"""Webhooks of Pix keys from the payment to the receiver: with a real database and real receivers."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import msgspec
import pytest
from msgspec import Struct

from pixconnect.features.pix_api.service import key_webhook
from pixconnect.features.pix_api.service import pix as standard_pix
from pixconnect.features.webhooks.rules.delivery import DueCursor, DueDelivery
from pixconnect.features.webhooks.service import endpoint as endpoint_usecases
from pixconnect.features.webhooks.service.redelivery import redeliver, redeliver_events_as_operator
from pixconnect.features.webhooks.tables import delivery as delivery_store
from pixconnect.kernel.flows import holder as holder_usecases
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.listing import Span
from pixconnect.kernel.rules.refund import RefundRequest
from pixconnect.kernel.rules.transfer import KeyTransferRequest
from pixconnect.platform.base import errors
from support import postgres
from support.operators import as_operator
from support.records import own_key
from support.service import credit_report, open_holder
from support.webhooks import (
    Receiver,
    WebhookService,
    answering,
    eventually,
    open_receiver,
    open_webhook_service,
    running_worker,
    start_worker,
)

ACCOUNT = "1001"
KEY = own_key(ACCOUNT)


class Shop(Struct, frozen=True, kw_only=True):
    """A holder with a key, whose webhook is at a receiver."""

    service: WebhookService
    receiver: Receiver
    payer: Caller

    @property
    def caller(self) -> Caller:
        return self.service.caller

    async def set_webhook(self, path: str = "", key: str = KEY) -> None:
        await key_webhook.set_webhook(self.service.context, self.caller, key, f"{self.receiver.url}{path}")

    async def be_paid(self, *, txid: str | None = None, amount_cents: int = 1000) -> str:
        report = credit_report(self.service, account_number=ACCOUNT, txid=txid, amount_cents=amount_cents)
        await receive_credit(self.service.context, report)
        return report.end_to_end_id

    async def be_paid_by_book(self) -> str:
        request = KeyTransferRequest(amount_cents=1000, key=KEY, key_type="EMAIL")
        return (await transfer_usecases.start_transfer(self.service.context, self.payer, request)).transfer.end_to_end_id

    async def refund(self, name: str, amount_cents: int = 1000) -> None:
        request = RefundRequest(end_to_end_id=name, amount_cents=amount_cents)
        await refund_usecases.start_refund(self.service.context, self.caller, request)

    async def are(self, **statuses: int) -> None:
        async def is_so() -> bool:
            return await self.service.statuses() == statuses

        await eventually(is_so)

    @property
    def told(self) -> list[list[str]]:
        """The Pix of each request."""
        return [names_in(request.body) for request in self.receiver.received]


def names_in(body: bytes) -> list[str]:
    return [pix["endToEndId"] for pix in json.loads(body)["pix"]]


@pytest.fixture
async def shop(database: postgres.Addresses) -> AsyncIterator[Shop]:
    async with open_shop(database) as opened:
        yield opened


@asynccontextmanager
async def open_shop(database: postgres.Addresses) -> AsyncIterator[Shop]:
    async with open_webhook_service(database) as service, open_receiver() as receiver:
        operator = as_operator(service.context)
        await holder_usecases.add_pix_key(operator, service.caller.holder_id, "EMAIL", KEY)
        payer = await open_holder(service, account_number="2", funds_cents=1_000_000)
        yield Shop(service=service, receiver=receiver, payer=payer)


async def test_a_pix_is_told_as_it_is_read_with_our_signatures(shop: Shop) -> None:
    await shop.set_webhook()
    async with running_worker(shop.service):
        name = await shop.be_paid()
        (request,) = await shop.receiver.wait_for(1)
        await shop.are(delivered=1)
    pix = await standard_pix.read_pix(shop.service.context, shop.caller, name)
    assert json.loads(request.body) == {"pix": [json.loads(msgspec.json.encode(pix))]}
    assert request.path == "/hook/pix"
    assert request.headers["webhook-id"].startswith("pix_")
    assert {"X-Webhook-Signature", "X-Webhook-Signature-JWS", "webhook-signature"} <= set(request.headers)


async def test_what_is_told_and_what_is_not(shop: Shop) -> None:
    await shop.set_webhook()
    await shop.service.add_endpoint(shop.receiver.url, "qrcode.pending")
    by_book = await shop.be_paid_by_book()
    with_txid = await shop.be_paid(txid="PEDIDO123")
    holder = shop.caller.holder_id
    changes = holder_usecases.HolderChanges(may_deposit=False)
    await holder_usecases.set_holder(as_operator(shop.service.context), holder, changes)
    await shop.be_paid()  # refused
    rows = await shop.service.fetch("select resource, end_to_end_id from delivery join transfer on resource_id = transfer.id")
    assert {(row["resource"], row["end_to_end_id"]) for row in rows} == {("pix", by_book), ("pix", with_txid)}


async def test_those_that_are_due_together_have_one_body_of_at_most_a_hundred(shop: Shop) -> None:
    await shop.set_webhook()
    names = await asyncio.gather(*(shop.be_paid() for _ in range(130)))
    async with running_worker(shop.service):
        await shop.are(delivered=130)
    counts = sorted(map(len, shop.told))
    assert (sum(counts), counts[-1]) == (130, 100)
    assert {name for told in shop.told for name in told} == set(names)


async def test_every_attempt_sends_the_same_bytes_to_the_url_of_that_moment(shop: Shop) -> None:
    # No retry comes by itself while the test looks.
    shop.receiver.behave = answering(503, Retry_After="900")
    await shop.set_webhook()
    name, other = await shop.be_paid_by_book(), await shop.be_paid()
    async with running_worker(shop.service):
        await shop.receiver.wait_for(1)
        await shop.refund(name)
        await shop.set_webhook("/new/?a=1&b=")
        shop.receiver.behave = answering()
        await eventually(lambda: _has_failed(shop.service))
        await shop.service.context.pool.execute("update clock set offset_us = offset_us + 1000000000")
        await shop.receiver.wait_for(3)
        await shop.are(delivered=3)
    first, again, last = shop.receiver.received[:3]
    assert (again.body, again.headers["webhook-id"]) == (first.body, first.headers["webhook-id"])
    assert set(names_in(first.body)) == {name, other}
    assert [first.headers["X-Webhook-Attempt"], again.headers["X-Webhook-Attempt"]] == ["1", "2"]
    assert (first.path, again.path) == ("/hook/pix", "/hook/new/?a=1&b=/pix")
    # The refund waited for the payment, and its notice is the whole Pix.
    (refunded,) = json.loads(last.body)["pix"]
    assert (refunded["endToEndId"], refunded["devolucoes"][0]["status"]) == (name, "DEVOLVIDO")


async def test_a_body_that_was_kept_and_not_sent_is_sent_by_the_next_worker(shop: Shop) -> None:
    await shop.set_webhook()
    names = [await shop.be_paid() for _ in range(3)]
    due = await _read_due(shop.service)
    # As a process that dies between the commit and the request.
    epoch = await shop.service.context.pool.fetchval("select epoch from slot_lease where slot = $1", due[0].slot)
    others = [delivery.id for delivery in due[1:]]
    kept = await key_webhook.make_notice(shop.service.context, due[0], epoch, others)
    assert kept is not None
    assert kept.covers == tuple(others)
    assert await key_webhook.make_notice(shop.service.context, due[1], epoch, []) is None
    assert await key_webhook.make_notice(shop.service.context, due[0], epoch - 1, []) is None
    async with running_worker(shop.service):
        await shop.are(delivered=3)
    (request,) = shop.receiver.received
    assert request.body == kept.body.encode()
    assert set(names_in(request.body)) == set(names)


async def test_two_workers_tell_each_pix_once_though_one_is_killed(shop: Shop) -> None:
    await shop.set_webhook()
    first, second = start_worker(shop.service), start_worker(shop.service)
    names: list[str] = []
    for turn in range(12):
        names += await asyncio.gather(*(shop.be_paid() for _ in range(10)))
        if turn == 6:
            await first.kill()
    await shop.are(delivered=len(names))
    await second.stop()
    seen = {name: {request.body for request in shop.receiver.received if name in names_in(request.body)} for name in names}
    # Posts of the killed one without a record come again, in the same bytes.
    assert all(len(bodies) == 1 for bodies in seen.values())


async def test_gone_disables_and_setting_it_again_resumes(shop: Shop) -> None:
    shop.receiver.behave = answering(410)
    await shop.set_webhook()
    name = await shop.be_paid()
    async with running_worker(shop.service):
        await shop.receiver.wait_for(1)
        await eventually(lambda: _is_endpoint(shop.service, "disabled"))
        shop.receiver.behave = answering()
        await shop.set_webhook()
        await shop.are(delivered=1)
    assert shop.told == [[name], [name]]


@pytest.mark.parametrize("by_operator", [False, True])
async def test_without_its_webhook_nothing_is_sent(shop: Shop, by_operator: bool) -> None:
    await shop.set_webhook()
    await shop.be_paid()
    await shop.be_paid()
    if by_operator:
        await holder_usecases.remove_pix_key(as_operator(shop.service.context), shop.caller.holder_id, KEY)
    else:
        await key_webhook.delete_webhook(shop.service.context, shop.caller, KEY)
    with pytest.raises(errors.NotFound):
        await key_webhook.read_webhook(shop.service.context, shop.caller, KEY)
    with pytest.raises(errors.NotFound):
        await key_webhook.delete_webhook(shop.service.context, shop.caller, KEY)
    async with running_worker(shop.service):
        await shop.are(failed=2)
    assert shop.receiver.received == []
    assert await shop.service.fetch("select from key_webhook union all select from webhook_endpoint") == []


async def test_a_webhook_is_replaced_and_stands_beside_the_contracts_endpoints(shop: Shop) -> None:
    context, caller = shop.service.context, shop.caller
    await shop.set_webhook()
    before = await key_webhook.read_webhook(context, caller, KEY)
    await shop.set_webhook("/other")
    after = await key_webhook.read_webhook(context, caller, KEY)
    assert (after.url, after.endpoint_id) == (f"{shop.receiver.url}/other", before.endpoint_id)
    assert after.created_at > before.created_at
    assert (await endpoint_usecases.list_endpoints(context, caller, Span())).items == []
    with pytest.raises(errors.NotFound):
        await endpoint_usecases.read_endpoint(context, caller, after.endpoint_id)


async def test_a_body_is_sent_again_whole_and_other_paths_know_nothing_of_it(shop: Shop) -> None:
    context, caller = shop.service.context, shop.caller
    await shop.set_webhook()
    names = {await shop.be_paid(), await shop.be_paid()}
    async with running_worker(shop.service):
        await shop.are(delivered=2)
        page = await key_webhook.list_deliveries(context, caller, KEY, "delivered", Span())
        assert {each.end_to_end_id for each in page.items} == names
        assert {(each.notice_id, len(each.attempts)) for each in page.items} == {(page.items[0].notice_id, 1)}
        covered = next(each for each in page.items if each.id != each.notice_id)
        await key_webhook.redeliver(context, caller, KEY, covered.id)
        await shop.receiver.wait_for(2)
        await shop.are(delivered=2)
        first, again = shop.receiver.received
        assert (again.body, again.headers["X-Webhook-Attempt"]) == (first.body, "2")
    with pytest.raises(errors.NotFound):
        await key_webhook.redeliver(context, caller, KEY, covered.id + 1000)
    for operation in (endpoint_usecases.read_delivery, redeliver):
        with pytest.raises(errors.NotFound):
            await operation(context, caller, covered.id)


async def test_an_interval_is_told_again_as_it_is_now(shop: Shop) -> None:
    context, caller = shop.service.context, shop.caller
    name = await shop.be_paid_by_book()
    await holder_usecases.add_pix_key(as_operator(context), caller.holder_id, "EMAIL", "other@example.com")
    await shop.set_webhook()
    await shop.set_webhook(key="other@example.com")
    await shop.refund(name, 400)
    async with running_worker(shop.service):
        await shop.are(delivered=1)
        now = context.clock.now()
        day = now - timedelta(days=1), now + timedelta(days=1)
        assert await key_webhook.redeliver_events(context, caller, "other@example.com", *day) == 0
        assert await key_webhook.redeliver_events(context, caller, KEY, *day) == 2
        await shop.are(delivered=3)
        webhook = await key_webhook.read_webhook(context, caller, KEY)
        operator = as_operator(context)
        assert await redeliver_events_as_operator(operator, webhook.endpoint_id, *day) == 2
        context.wake_workers()
        await shop.are(delivered=5)
    # The payment was there before the webhook; each has the whole Pix.
    assert shop.told == [[name]] * 5
    assert len({request.body for request in shop.receiver.received}) == 1


async def _has_failed(service: WebhookService) -> bool:
    return await service.context.pool.fetchval("select count(*) from delivery where failures_count = 1") == 2


async def _is_endpoint(service: WebhookService, status: str) -> bool:
    return [row["status"] for row in await service.fetch("select status from webhook_endpoint")] == [status]


async def _read_due(service: WebhookService) -> list[DueDelivery]:
    now = service.context.clock.now()
    cursor = DueCursor(due_at=now - timedelta(days=1))
    _, found = await delivery_store.read_due(service.context.pool, cursor, now, range(256), 100, [])
    return found.ready
