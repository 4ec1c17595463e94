"""Timelines: everything about one resource in order, and what an unfinished one waits for."""

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import asyncpg
import pytest
from msgspec import structs

from pixconnect.features.finding.rules import Timeline
from pixconnect.features.finding.service import browse, timeline
from pixconnect.features.finding.service.search import find_with_origins
from pixconnect.features.finding.tables import timeline as timeline_store
from pixconnect.features.identity.service import access as access_usecases
from pixconnect.features.identity.service.keyring import SIGNER
from pixconnect.features.pix_api.service import charge as standard_charge_usecases
from pixconnect.features.pix_api.service import key_webhook as key_webhook_usecases
from pixconnect.features.webhooks.rules import delivery as delivery_rules
from pixconnect.features.webhooks.rules.delivery import DueCursor
from pixconnect.features.webhooks.rules.endpoint import Endpoint, EndpointChange, EndpointRequest
from pixconnect.features.webhooks.service import endpoint as endpoint_usecases
from pixconnect.features.webhooks.tables import delivery as delivery_store
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import handover
from pixconnect.kernel.flows import partition as partition_usecases
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.flows.settlement import end_orders
from pixconnect.kernel.rules.access import SCOPES, Caller, Viewer
from pixconnect.kernel.rules.charge import ChargeRequest
from pixconnect.kernel.rules.charge_contents import ChargeContents, ContentsChange
from pixconnect.kernel.rules.event import EVENT_NAMES
from pixconnect.kernel.rules.rail import Rejected, Settled
from pixconnect.kernel.rules.refund import RefundRequest
from pixconnect.kernel.rules.transfer import AccountTransferRequest, Transfer
from pixconnect.kernel.tables.origin import Origin
from pixconnect.platform.base import errors
from pixconnect.platform.base.errors import Violated
from pixconnect.platform.base.webhook_exchange import WebhookExchange
from support.operators import as_operator, execute
from support.records import outside_party, own_key
from support.service import FakeSigner, Service, credit_report, held, make_charge, no_fence, open_holder, send_out
from support.webhooks import SECRET

_OPERATOR = Viewer(holder_id=None, scopes=frozenset(SCOPES))


class _SignerBehind(FakeSigner):
    """Knows the new key once it has looked."""

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
    _, read = await delivery_store.read_due(
        service.context.pool, DueCursor(due_at=now - timedelta(days=1)), now, range(256), 100, []
    )
    exchange = WebhookExchange(status_code=status_code, retry_after=None, response=b"sorry", error=None, duration_us=40_000)
    conclusions = [delivery_rules.conclude(due, exchange, ended_at=now, real_now=now, chance=0.0) for due in read.ready]
    async with service.context.pool.acquire() as connection:
        assert await delivery_store.record(connection, {}, sorted(conclusions, key=lambda each: each.delivery.id))


async def _send(service: Service, caller: Caller) -> Transfer:
    return await send_out(service, caller, 1000)


def _told(found: Timeline) -> list[tuple[str, str, str | None]]:
    return [(step.kind, step.subject, step.status) for step in found.steps]


async def test_a_paid_charge_tells_its_whole_story_in_order(service: Service, caller: Caller) -> None:
    earlier, endpoint = await make_charge(service, caller), await _add_endpoint(service, caller)
    (_, unsent) = (await timeline.read_timeline(service.context, _viewer(caller), "charge", earlier.id)).steps[:2]
    assert (unsent.kind, unsent.count) == ("event", 0), "it happened before there was an endpoint"
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
    # The failed one is retried; nothing of the other charge is shown.
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
    assert [(each.what, each.next_at) for each in first.waiting] == [("handover", transfer.created_at + timedelta(seconds=60))]
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


async def test_a_refund_that_settles_while_it_is_read_agrees_with_the_sums(
    service: Service, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = credit_report(service)
    await receive_credit(service.context, report)
    request = RefundRequest(end_to_end_id=report.end_to_end_id, amount_cents=2)
    refund = await refund_usecases.start_refund(service.context, caller, request)
    read = timeline_store.find_refunds

    async def settle_first(*asked: Any) -> Any:
        await end_orders(service.context, [(refund.return_id, Settled(settled_at=service.clock.now()))])
        return await read(*asked)

    monkeypatch.setattr(timeline_store, "find_refunds", settle_first)
    found = await timeline.read_timeline(service.context, _OPERATOR, "refund", refund.id)
    [payment], [shown] = found.facts.transfers, found.facts.refunds
    assert (shown.status, payment.returning_cents) == ("PROCESSING", 2)


async def test_a_suspect_payment_waits_and_says_until_when(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller)
    told = held(credit_report(service, txid=charge.txid))
    assert await take_reports(service.context, [told]) == 1
    (paid,) = await service.fetch("select id from transfer")
    for kind, resource_id in (("transfer", paid["id"]), ("charge", charge.id)):
        found = await timeline.read_timeline(service.context, _OPERATOR, kind, resource_id)
        assert [(each.what, each.subject, each.next_at) for each in found.waiting] == [("institution", "transfer", told.until)]


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
    assert found.hidden == ("transfer.read", "refund.read", "ledger.read", "webhook.read", "infraction.read")


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
    await service.execute_as_owner(f"update delivery set due_at = due_at + interval '2 hours' where id = {first}")
    story = await timeline.read_timeline(service.context, _OPERATOR, "charge", charge.id)
    planned = {step.delivery.id: step.at for step in story.steps if step.kind == "next_attempt" and step.delivery}
    assert planned[second] == planned[first]
    view = await look(second)
    headers = dict(view.headers)
    assert headers["webhook-id"] == f"evt_{view.delivery.event_id}"
    behind = service.context.with_port(SIGNER, _SignerBehind())
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
    # Its unsent deliveries are still found from the payment and from the event.
    story = await timeline.read_timeline(service.context, _OPERATOR, "charge", charge.id)
    assert {each.id for each in story.facts.deliveries} >= {first, second}
    event = await browse.read_event(service.context, _OPERATOR, gone.delivery.event_id)
    assert [(line.delivery.id, line.endpoint) for line in event.deliveries] == [(first, None)]


EVER = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
TOKEN_ID = "t1"
URL = "http://127.0.0.1:9/hook"
TXID = "order000000000000000000001"


def asking(caller: Caller, client_id: str = "shop", token_id: str = TOKEN_ID, request_id: str = "r1") -> Caller:
    scopes = caller.scopes
    known = Caller(client_id=client_id, holder_id=caller.holder_id, scopes=scopes, token_id=token_id)
    return known.asking("192.0.2.7", request_id)


async def rows_of(service: Service) -> list[dict[str, Any]]:
    rows = await service.context.pool.fetch(
        "select kind, id, holder_id, client_id, jti, peer, request_id, operator from origin order by written_at, id"
    )
    return [dict(row) for row in rows]


async def activity(service: Service, client_id: str, caller: Caller, **wanted: Any) -> list[Origin]:
    context = as_operator(service.context)
    return await access_usecases.list_activity(context, client_id, *EVER, holder_id=caller.holder_id, **wanted)


def a_charge(**changes: Any) -> ChargeRequest:
    return ChargeRequest(**{"amount_cents": 1234, "key": own_key(), **changes})


def a_transfer(**changes: Any) -> AccountTransferRequest:
    return AccountTransferRequest(**{"amount_cents": 100, "credit_party": outside_party()} | changes)


async def test_each_fact_says_which_client_asked_by_which_token_and_request_and_from_where(
    service: Service, caller: Caller
) -> None:
    report = credit_report(service)
    await receive_credit(service.context, report)
    charge = await charge_usecases.create_charge(service.context, asking(caller, request_id="r1"), a_charge())
    sent = await transfer_usecases.start_transfer(service.context, asking(caller, request_id="r2"), a_transfer())
    request = RefundRequest(end_to_end_id=report.end_to_end_id, amount_cents=100)
    refund = await refund_usecases.start_refund(service.context, asking(caller, request_id="r3"), request)
    made = {("charge", charge.id): "r1", ("transfer", sent.transfer.id): "r2", ("refund", refund.id): "r3"}
    assert await rows_of(service) == [
        dict(kind=kind, id=fact_id, holder_id=caller.holder_id, client_id="shop", jti="t1", peer="192.0.2.7",
             request_id=request_id, operator=None)
        for (kind, fact_id), request_id in made.items()
    ]  # fmt: skip
    for (kind, fact_id), request_id in made.items():
        found, _ = await find_with_origins(as_operator(service.context), str(fact_id))
        (origin,) = [origin for one, origin in found if one.kind == kind and origin is not None]
        assert (origin.request_id, origin.client_id, origin.peer) == (request_id, "shop", "192.0.2.7")


async def test_a_replay_changes_nothing_of_who_asked_first(service: Service, caller: Caller) -> None:
    made = [
        await charge_usecases.create_charge(
            service.context, asking(caller, client_id, f"t-{client_id}", client_id), a_charge(external_id="a")
        )
        for client_id in ("first", "second")
    ]
    assert made[0].id == made[1].id
    assert [(row["client_id"], row["request_id"]) for row in await rows_of(service)] == [("first", "first")]


async def test_what_is_refused_leaves_nobody(service: Service, caller: Caller) -> None:
    with pytest.raises(errors.InsufficientFunds):
        await transfer_usecases.start_transfer(service.context, asking(caller), a_transfer(amount_cents=900_000_000))
    assert await rows_of(service) == []


async def test_of_a_batch_each_client_has_its_own_and_the_others_none_of_it(service: Service, caller: Caller) -> None:
    other = await open_holder(service, account_number="2")
    asked = [
        (asking(caller, "shop", "t1", "r1"), a_charge()),
        (asking(caller, "till", "t2", "r2"), a_charge()),
        (asking(other, "theirs", "t3", "r3"), a_charge(key=own_key("2"))),
        (asking(caller, "shop", "t1", "r4"), a_charge()),
        (asking(caller, "shop", "t1", "r5"), a_charge()),
    ]
    made = await asyncio.gather(*(charge_usecases.create_charge(service.context, asker, request) for asker, request in asked))
    # Requests of one client by one token are one row of a batch, for any number of batches.
    [written] = [each for each in service.context.writes.read_figures() if each.name == "create_charges"]
    rows_most = sum(min(size, 3) * count for size, count in written.commits_by_size.items())
    assert await service.context.pool.fetchval("select count(*) from origin_batch") <= rows_most
    by_client = {
        client_id: [(one.id, one.request_id) for one in await activity(service, client_id, whose)]
        for client_id, whose in (("shop", caller), ("till", caller), ("theirs", other))
    }
    assert {client_id: sorted(found) for client_id, found in by_client.items()} == {
        "shop": sorted([(made[0].id, "r1"), (made[3].id, "r4"), (made[4].id, "r5")]),
        "till": [(made[1].id, "r2")],
        "theirs": [(made[2].id, "r3")],
    }
    assert await activity(service, "shop", other) == []


async def test_what_one_token_did_or_came_from_one_address_is_told_apart(service: Service, caller: Caller) -> None:
    for token_id in ("t1", "t2"):
        await charge_usecases.create_charge(service.context, asking(caller, token_id=token_id), a_charge())
    (found,) = await activity(service, "shop", caller, token_id="t2")
    assert (found.jti, found.kind) == ("t2", "charge")
    assert len(await activity(service, "shop", caller, peer="192.0.2.7")) == 2
    assert await activity(service, "shop", caller, peer="192.0.2.8") == []
    assert await activity(service, "shop", caller, kind="transfer") == []


async def test_a_client_that_nobody_knows_is_looked_for_with_its_holder_alone(service: Service, caller: Caller) -> None:
    with pytest.raises(errors.NotFound, match="--holder-id"):
        await access_usecases.list_activity(as_operator(service.context), "gone", *EVER)
    assert await activity(service, "gone", caller) == []


async def test_each_change_of_an_endpoint_is_audited_in_the_name_of_the_client(service: Service, caller: Caller) -> None:
    asker = asking(caller)
    request = EndpointRequest(url=URL, secret=SECRET, event_types=["qrcode.pending"])
    made = await endpoint_usecases.create_endpoint(service.context, asker, request)
    for change in (EndpointChange(url=f"{URL}/2"), EndpointChange(secret=SECRET * 2), EndpointChange(url=f"{URL}/2")):
        await endpoint_usecases.change_endpoint(service.context, asker, made.id, change)
    await endpoint_usecases.delete_endpoint(service.context, asker, made.id)
    rows = await as_operator(service.context).pool.fetch(
        "select * from audit where subject = $1 order by id", f"endpoint {made.id}"
    )
    # The same again changes nothing, and leaves no row.
    assert [(row["verb"], row["operator"], row["request_id"]) for row in rows] == [
        (f"endpoint {verb}", "client shop", "r1") for verb in ("add", "set", "rotate", "remove")
    ]
    assert json.loads(rows[1]["before"])["url"] == URL
    assert json.loads(rows[1]["after"])["url"] == f"{URL}/2"
    assert SECRET not in str([dict(row) for row in rows])
    changes = await timeline.list_changes(service.context.pool, made.id, caller.holder_id)
    assert [change.jti for change in changes] == ["t1"] * 4
    acts = await timeline.list_acts(as_operator(service.context), made, is_operator=False)
    assert [act.changed for act in acts] == [{}, {}, {"url": (URL, f"{URL}/2")}, {}]
    assert {(act.origin and act.origin.jti, act.entry.operator) for act in acts} == {(None, "client shop")}


async def test_a_charge_and_its_changes_say_who_asked_for_them(service: Service, caller: Caller) -> None:
    contents = ChargeContents(lifetime_s=3600, amount_cents=1000, key=own_key())
    made = await standard_charge_usecases.put_charge(service.context, asking(caller, request_id="r1"), TXID, contents)
    for request_id, change, removes in (("r2", ContentsChange(amount_cents=1100), False), ("r3", ContentsChange(), True)):
        asker = asking(caller, "till", "t2", request_id)
        service.clock.advance(seconds=1)
        await standard_charge_usecases.patch_charge(service.context, asker, TXID, change, removes=removes)
    with pytest.raises(Violated):
        await standard_charge_usecases.patch_charge(
            service.context, asking(caller, request_id="r4"), TXID, ContentsChange(amount_cents=1)
        )
    assert [(row["kind"], row["id"], row["client_id"], row["request_id"]) for row in await rows_of(service)] == [
        ("charge", made.charge.id, "shop", "r1"),
        ("charge_change", made.charge.id, "till", "r2"),
        ("charge_change", made.charge.id, "till", "r3"),
    ]
    changes = await activity(service, "till", caller, kind="charge_change")
    assert [(change.id, change.request_id, change.peer) for change in changes] == [
        (made.charge.id, "r3", "192.0.2.7"),
        (made.charge.id, "r2", "192.0.2.7"),
    ]


async def test_each_change_of_the_webhook_of_a_key_says_who_asked(service: Service, caller: Caller) -> None:
    other, asker = await open_holder(service, account_number="2"), asking(caller)
    for url in (URL, f"{URL}/2"):
        made = await key_webhook_usecases.set_webhook(service.context, asker, own_key(), url)
    with pytest.raises(Violated):
        await key_webhook_usecases.set_webhook(service.context, asking(other), own_key(), URL)
    service.clock.advance(seconds=1)
    await key_webhook_usecases.delete_webhook(service.context, asking(caller, "till", "t2", "r2"), own_key())
    rows = await as_operator(service.context).pool.fetch(
        "select * from audit where subject = $1 order by id", f"endpoint {made.endpoint_id}"
    )
    assert [(row["verb"], row["operator"], row["request_id"]) for row in rows] == [
        ("endpoint add", "client shop", "r1"),
        ("endpoint set", "client shop", "r1"),
        ("endpoint remove", "client till", "r2"),
    ]
    changes = await timeline.list_changes(service.context.pool, made.endpoint_id, caller.holder_id)
    assert [(change.client_id, change.jti, change.peer) for change in changes] == [
        ("till", "t2", "192.0.2.7"),
        ("shop", "t1", "192.0.2.7"),
        ("shop", "t1", "192.0.2.7"),
    ]
    assert await timeline.list_changes(service.context.pool, made.endpoint_id, other.holder_id) == []


async def test_a_holder_learns_which_client_it_was_and_not_where_from(service: Service, caller: Caller) -> None:
    charge = await charge_usecases.create_charge(service.context, asking(caller), a_charge())
    for is_operator, expected in ((True, ("shop", "t1", "192.0.2.7")), (False, ("shop", None, None))):
        origin = await timeline.find_shown(service.context, "charge", charge, is_operator=is_operator)
        assert origin is not None
        assert (origin.client_id, origin.jti, origin.peer) == expected


async def test_it_is_forgotten_after_400_days_and_never_sooner(service: Service, caller: Caller) -> None:
    for _ in range(2):
        await charge_usecases.create_charge(service.context, asking(caller), a_charge())
    # The database is a copy of one that was made when the tests began: that is no jump of the clock.
    owner = await asyncpg.connect(service.database.owner_url)
    try:
        await owner.execute("set search_path = pixconnect; update partition_pass set jumped_at = null")
        for days, left in ((399, 2), (401, 1)):
            await owner.execute(
                "update origin_batch set written_at = clock_timestamp() - $1 * interval '1 day' "
                "where id = (select min(id) from origin_batch)",
                days,
            )
            if days == 401:
                await owner.execute("update partition_pass set jumped_at = clock_timestamp()")
                await partition_usecases.forget_origins(service.context.pool)
                assert len(await rows_of(service)) == 2
                await owner.execute("update partition_pass set jumped_at = null")
            await partition_usecases.forget_origins(service.context.pool)
            assert len(await rows_of(service)) == left
    finally:
        await owner.close()


@pytest.mark.parametrize(
    "statement",
    [
        "update origin_batch set client_id = 'somebody else'",
        "delete from origin_batch",
        "truncate origin_batch",
        "insert into origin_batch (kind, holder_id, at, written_at, ids, request_ids) "
        "values ('charge', 1, now(), '2000-01-01', '{1}', '{r}')",
        "insert into audit (operator, verb, subject) values ('maria', 'holder set', 'holder 1')",
    ],
)
async def test_the_service_may_add_to_it_and_change_nothing_in_it(service: Service, statement: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await service.context.pool.execute(statement)
    if "audit" not in statement:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await execute(service.context, statement)
