"""Timelines: what belongs to one thing is on its line, in its order, and what is under way says what it waits for."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast

import pytest
from msgspec import structs

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.event import EVENT_NAMES
from pixconnect.domain.identity.access import SCOPES, Caller, Viewer
from pixconnect.domain.money.rail import Rejected
from pixconnect.domain.money.refund import RefundRequest
from pixconnect.domain.money.transfer import Transfer
from pixconnect.domain.reading.timeline import Timeline
from pixconnect.domain.webhooks import delivery as delivery_rules
from pixconnect.domain.webhooks.delivery import DueCursor, WebhookExchange
from pixconnect.domain.webhooks.endpoint import Endpoint, EndpointRequest
from pixconnect.store.webhooks import delivery as delivery_store
from pixconnect.usecases.money import charge as charge_usecases
from pixconnect.usecases.money import handover
from pixconnect.usecases.money import refund as refund_usecases
from pixconnect.usecases.money.incoming import receive_credit
from pixconnect.usecases.money.report import take_reports
from pixconnect.usecases.money.settlement import end_orders
from pixconnect.usecases.reading import browse, timeline
from pixconnect.usecases.webhooks import endpoint as endpoint_usecases
from support.service import FakeSigner, Service, credit_report, held, make_charge, no_fence, open_holder, send_out

_OPERATOR = Viewer(holder_id=None, scopes=frozenset(SCOPES))


class _SignerBehind(FakeSigner):
    """Knows of the new key once it has looked."""

    kid = "revoked"

    async def look_after_rest(self) -> None:
        self.kid = "new"

    def sign_detached(self, body: bytes, header: Mapping[str, str | int]) -> str:
        return f"{self.kid}..signature"


def _viewer(caller: Caller, *scopes: str) -> Viewer:
    return Viewer(holder_id=caller.holder_id, scopes=frozenset(scopes or SCOPES))


async def _add_endpoint(service: Service, caller: Caller) -> Endpoint:
    request = EndpointRequest(url="https://shop.example/hook", secret="a secret for tests", event_types=[*EVENT_NAMES])
    return await endpoint_usecases.create_endpoint(service.context, caller, request)


async def _attempt_all(service: Service, *, status_code: int) -> None:
    """Make one attempt at each delivery that is due, as a worker would."""
    now = service.clock.now()
    read = await delivery_store.read_due(
        service.context.pool, DueCursor(due_at=now - timedelta(days=1)), now, range(256), 100, []
    )
    exchange = WebhookExchange(
        status_code=status_code, retry_after=None, response=b"sorry", error=None, duration_us=40_000
    )
    conclusions = [delivery_rules.conclude(due, exchange, ended_at=now, real_now=now, chance=0.0) for due in read.ready]
    async with service.context.pool.acquire() as connection:
        await delivery_store.record(connection, sorted(conclusions, key=lambda each: each.delivery.id))


async def _send(service: Service, caller: Caller) -> Transfer:
    return await send_out(service, caller, 1000)


def _told(found: Timeline) -> list[tuple[str, str, str | None]]:
    return [(step.kind, step.subject, step.status) for step in found.steps]


async def test_a_paid_charge_tells_its_whole_story_in_order(service: Service, caller: Caller) -> None:
    endpoint = await _add_endpoint(service, caller)
    charge = await make_charge(service, caller)
    other_charge = await make_charge(service, caller)
    service.clock.advance(seconds=1)
    await _attempt_all(service, status_code=200)
    service.clock.advance(seconds=20)
    refused = await receive_credit(service.context, credit_report(service, txid=charge.txid, amount_cents=7))
    service.clock.advance(seconds=20)
    await receive_credit(service.context, credit_report(service, txid=charge.txid, report_id="r2"))
    service.clock.advance(seconds=1)
    await _attempt_all(service, status_code=500)
    found = await timeline.read_timeline(service.context, _viewer(caller), "charge", charge.id)
    assert refused is not None
    assert [transfer.status for transfer in found.facts.transfers] == ["CONFIRMED", "ERROR"]
    assert _told(found)[:3] == [("state", "charge", "PENDING"), ("event", "charge", None), ("attempt", "charge", None)]
    told = _told(found)
    assert told.count(("state", "charge", "APPROVED")) == told.count(("state", "transfer", "CONFIRMED")) == 1
    assert told.count(("entry", "transfer", None)) == 1
    assert ("state", "transfer", "ERROR") in told
    instants = [step.at for step in found.steps if not step.is_planned]
    assert instants == sorted(instants)
    gaps = [step.gap for step in found.steps]
    assert gaps[0] is None
    assert sum((gap for gap in gaps if gap), timedelta(0)) == found.steps[-1].at - found.steps[0].at
    # What failed goes again; nothing of the other charge is told.
    waiting = {(each.what, each.endpoint_id) for each in found.waiting}
    assert ("retry", endpoint.id) in waiting
    assert all(each.next_at and each.next_at > found.now for each in found.waiting if each.what == "retry")
    assert [step for step in found.steps if step.kind == "next_attempt"]
    assert {step.subject_id for step in found.steps if step.subject == "charge"} == {charge.id}
    assert other_charge.id != charge.id
    # By its transfer or by an operator it is the same line.
    paid = await charge_usecases.read_paying_transfer(service.context, caller, charge.id)
    by_transfer = await timeline.read_timeline(service.context, _OPERATOR, "transfer", paid.id)
    assert (by_transfer.steps, by_transfer.holder_id) == (found.steps, caller.holder_id)


async def test_a_charge_nobody_has_paid_waits_until_it_expires(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller)
    found = await timeline.read_timeline(service.context, _viewer(caller), "charge", charge.id)
    assert [(each.what, each.since, each.next_at) for each in found.waiting] == [
        ("payment", charge.created_at, charge.expires_at)
    ]
    assert _told(found)[-1] == ("expiry", "charge", "EXPIRED")
    service.clock.advance(days=2)
    late = await timeline.read_timeline(service.context, _viewer(caller), "charge", charge.id)
    assert [(each.what, each.since) for each in late.waiting] == [("worker", charge.expires_at)]


async def test_a_transfer_tells_what_it_waits_for_at_each_step(service: Service, caller: Caller) -> None:
    transfer = await _send(service, caller)

    async def look() -> Timeline:
        return await timeline.read_timeline(service.context, _viewer(caller), "transfer", transfer.id)

    first = await look()
    assert [(each.what, each.next_at) for each in first.waiting] == [
        ("handover", transfer.created_at + timedelta(seconds=60))
    ]
    assert _told(first)[-1] == ("give_up", "transfer", None)
    service.clock.advance(seconds=2)
    now = service.clock.now()
    await handover.move_due(service.context, cast(Any, no_fence), range(256), now - timedelta(days=1), now, 256)
    handed = await look()
    assert [(each.what, each.since, each.count) for each in handed.waiting] == [("rail_answer", service.clock.now(), 0)]
    assert ("handed", "transfer", None) in _told(handed)
    service.clock.advance(seconds=2)
    await end_orders(service.context, [(transfer.end_to_end_id, Rejected(code="AC03", reason="no such account"))])
    ended = await look()
    assert ended.waiting == ()
    assert [(step.status, step.code, step.reason) for step in ended.steps if step.code] == [
        ("ERROR", "AC03", "no such account")
    ]
    assert _told(ended).count(("entry", "transfer", None)) == 2
    assert ("handed", "transfer", None) in _told(ended)


async def test_a_refund_leads_to_the_line_of_what_it_gives_back(service: Service, caller: Caller) -> None:
    report = credit_report(service)
    await receive_credit(service.context, report)
    service.clock.advance(seconds=5)
    request = RefundRequest(end_to_end_id=report.end_to_end_id, amount_cents=400)
    refund = await refund_usecases.start_refund(service.context, caller, request)
    found = await timeline.read_timeline(service.context, _viewer(caller), "refund", refund.id)
    assert ("state", "transfer", "CONFIRMED") in _told(found)
    assert ("state", "refund", "PROCESSING") in _told(found)
    assert [(each.what, each.subject_id) for each in found.waiting] == [("handover", refund.id)]


async def test_a_suspect_payment_waits_and_says_until_when(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller)
    told = held(credit_report(service, txid=charge.txid))
    assert await take_reports(service.context, [told]) == 1
    (paid,) = await service.fetch("select id from transfer")
    for kind, resource_id in (("transfer", paid["id"]), ("charge", charge.id)):
        found = await timeline.read_timeline(service.context, _OPERATOR, kind, resource_id)
        assert [(each.what, each.subject, each.next_at) for each in found.waiting] == [
            ("institution", "transfer", told.until)
        ]


async def test_another_holders_is_absent_and_scopes_hide(service: Service, caller: Caller) -> None:
    stranger = await open_holder(service, account_number="2")
    await _add_endpoint(service, caller)
    charge = await make_charge(service, caller)
    await receive_credit(service.context, credit_report(service, txid=charge.txid))
    with pytest.raises(errors.NotFound):
        await timeline.read_timeline(service.context, _viewer(stranger), "charge", charge.id)
    with pytest.raises(errors.Forbidden):
        await timeline.read_timeline(service.context, _viewer(caller, "transfer.read"), "charge", charge.id)
    found = await timeline.read_timeline(service.context, _viewer(caller, "charge.read"), "charge", charge.id)
    assert _told(found) == [("state", "charge", "PENDING"), ("state", "charge", "APPROVED")]
    assert found.hidden == ("transfer.read", "refund.read", "infraction.read", "ledger.read", "webhook.read")


async def test_a_delivery_says_what_holds_it_back_and_its_headers(service: Service, caller: Caller) -> None:
    endpoint = await _add_endpoint(service, caller)
    charge = await make_charge(service, caller)
    await receive_credit(service.context, credit_report(service, txid=charge.txid))
    rows = await service.fetch("select id from delivery where resource = 'charge' order by event_id")
    first, second = [row["id"] for row in rows]

    async def look(delivery_id: int, viewer: Viewer = _OPERATOR) -> timeline.DeliveryView:
        return await timeline.read_delivery_view(service.context, viewer, delivery_id)

    waiting = [(await look(each)).waiting for each in (first, second)]
    assert [each and each.what for each in waiting] == ["worker", "earlier_event"]
    view = await look(second)
    headers = dict(view.headers)
    assert headers["webhook-id"] == f"evt_{view.delivery.event_id}"
    behind = structs.replace(service.context, signer=_SignerBehind())
    found = await timeline.read_delivery_view(behind, _OPERATOR, second)
    assert dict(found.headers)["X-Webhook-Signature-JWS"] == "new..signature"
    assert (await look(second, _viewer(caller, "webhook.read"))).headers == ()
    stranger = await open_holder(service, account_number="2")
    with pytest.raises(errors.NotFound):
        await look(second, _viewer(stranger))
    await service.execute_as_owner(f"update webhook_endpoint set status = 'inactive' where id = {endpoint.id}")
    assert [each and each.what for each in [(await look(first)).waiting]] == ["endpoint_inactive"]
    await endpoint_usecases.delete_endpoint(service.context, structs.replace(caller), endpoint.id)
    gone = await look(first)
    assert (gone.endpoint, gone.headers, gone.waiting and gone.waiting.what) == (None, (), "endpoint_deleted")
    # What was to be sent there is still found from the payment and from the event.
    story = await timeline.read_timeline(service.context, _OPERATOR, "charge", charge.id)
    assert {each.id for each in story.facts.deliveries} >= {first, second}
    event = await browse.read_event(service.context, _OPERATOR, gone.delivery.event_id)
    assert [(line.delivery.id, line.endpoint) for line in event.deliveries] == [(first, None)]
