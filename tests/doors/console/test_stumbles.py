"""Obstacles that new users met on the console's pages, each removed from its page."""

import re
from pathlib import Path
from secrets import token_hex
from urllib.parse import quote_plus

from msgspec import structs

from pixconnect.doors import console
from pixconnect.doors.console.filters import event_payload, own_name
from pixconnect.features.webhooks.rules.delivery import FAILING_MAX
from pixconnect.features.webhooks.rules.endpoint import EndpointRequest
from pixconnect.features.webhooks.service import endpoint as endpoint_usecases
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import incoming, settlement
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.rules import order, reject_code
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import Charge, ChargeRequest
from pixconnect.kernel.rules.charge_contents import Payer
from pixconnect.kernel.rules.holder import UNKNOWN_PARTY
from pixconnect.kernel.rules.rail import Rejected, Settled
from pixconnect.kernel.rules.refund import RefundRequest
from pixconnect.platform.adapters.outgoing_http import NO_CONNECTION
from pixconnect.platform.base.clock import to_day
from support.console import open_console, sign_in, sign_in_client
from support.postgres import Addresses
from support.records import outside_party, own_key
from support.service import Service, cancelled, credit_report, held, infraction_report, make_charge, open_holder, open_service
from support.statement import make_history
from support.webhooks import SECRET

PORTUGUESE = {"accept-language": "pt-BR"}


async def test_a_filter_that_cannot_be_read_is_said_beside_what_was_typed(service: Service, caller: Caller) -> None:
    async with open_console(service) as shown:
        own = shown.nobody.of(await sign_in_client(shown, caller.holder_id))
        for path, typed, said in (
            ("/charges", "when=31/13/2026", "Quando: escreva 03/11/2026"),
            ("/transfers", "amount=muito", "Valor: escreva 100"),
            ("/refunds", "amount=20..10", "O período termina antes de começar"),
            ("/events", "when=nunca", "Quando: escreva"),
            ("/deliveries", "when=nunca", "Quando: escreva"),
        ):
            answer = await own.get(f"{path}?{typed}&status=CONFIRMED", **PORTUGUESE)
            page = answer.content.decode()
            assert answer.status == 400
            assert said in page, path
            assert f'value="{typed.partition("=")[2]}"' in page, path
        for when in ("when=%3E%3D03/11/2026", "when=yesterday", "when=7%20dias", "since=2026-11-03", "until=2026-11-03"):
            assert (await own.get(f"/charges?{when}")).status == 200, when
        page = (await own.get("/charges?when=yesterday", **PORTUGUESE)).content.decode()
        assert '<summary class="button">Ontem</summary>' in page


async def test_a_number_says_on_a_telephone_that_it_is_a_holder(service: Service, caller: Caller) -> None:
    """On a telephone rows stand without the table's head, so the style puts the column's name before the number."""
    await make_charge(service, caller, amount_cents=100)
    await open_holder(service, account_number="2")
    async with open_console(service) as shown:
        reader = shown.nobody.of(await sign_in(shown, "operator"))
        for path in ("/charges", "/events"):
            page = (await reader.get(path, **PORTUGUESE)).content.decode()
            assert f'data-name="Titular">{caller.holder_id}</td>' in page, path


async def test_the_only_holder_is_chosen_and_of_several_one_chooses(service: Service, caller: Caller) -> None:
    async with open_console(service) as shown:
        reader = shown.nobody.of(await sign_in(shown, "operator"))
        for path in ("/ledger", "/endpoints", "/sandbox"):
            only = (await reader.get(path)).content.decode()
            assert "Choose a holder first" not in only, path
            assert "Only holder" not in only, path
        assert "available now" in (await reader.get("/ledger")).content.decode()
        await open_holder(service, account_number="2")
        asked = await reader.get("/ledger")
        assert "/holders?to=%2Fledger" in asked.content.decode()
        listed = (await reader.get("/holders?to=/ledger")).content.decode()
        assert f'href="/ledger?holder={caller.holder_id}"' in listed


async def test_an_event_is_listed_with_what_people_know_its_thing_by(service: Service, caller: Caller) -> None:
    history = await make_history(service, caller)
    request = ChargeRequest(amount_cents=100, key=own_key(), external_id="order-of-the-day")
    await charge_usecases.create_charge(service.context, caller, request)
    async with open_console(service) as shown:
        own = shown.nobody.of(await sign_in_client(shown, caller.holder_id))
        page = (await own.get("/events")).content.decode()
        assert 'class="amount">R$\u00a01,00' in page.partition("order-of-the-day")[2].partition("</tr>")[0]
        assert history.received in page
    assert (own_name(token_hex(16)), own_name("pedido-7788")) == ("", "pedido-7788")
    assert event_payload("no event") == event_payload('{"payload":{}}')


async def test_of_few_holders_the_newest_stands_first(service: Service, caller: Caller, database: Addresses) -> None:
    """Each process takes ids in blocks, so a later charge may have a lower id."""
    request = ChargeRequest(amount_cents=100, key=own_key())
    async with open_service(database) as another:
        made: list[Charge] = []
        for seconds, each in enumerate((service, another, service)):
            each.clock.advance(seconds=2 * seconds)
            made.append(await charge_usecases.create_charge(each.context, caller, request))
    assert made[2].id < made[1].id
    async with open_console(service) as shown:
        reader = shown.nobody.of(await sign_in(shown, "reader"))
        for path in ("/", "/charges"):
            page = (await reader.get(path)).content.decode()
            assert re.findall(r"/charges/(\d+)", page)[:3] == [str(each.id) for each in reversed(made)], path


async def test_a_charge_shows_its_code_while_it_can_be_paid_and_its_payer(service: Service, caller: Caller) -> None:
    request = ChargeRequest(amount_cents=100, key=own_key())
    charge = await charge_usecases.create_charge(service.context, caller, request)
    async with open_console(service) as shown:
        own = shown.nobody.of(await sign_in_client(shown, caller.holder_id))
        page = (await own.get(f"/charges/{charge.id}", **PORTUGUESE)).content.decode()
        assert charge.br_code in page
        assert "data:image/png;base64," in page
        assert "Expira em" in page
        # A card of related resources needs one.
        assert "Do mesmo pagamento" not in page


def test_each_reason_of_the_network_is_there_in_portuguese() -> None:
    template = (Path(console.__file__).parent / "templates" / "reasons.html").read_text(encoding="utf-8")
    of_network, _, others = template.partition("NO_ANSWER")
    said = re.compile(r'^  "([^"]+)": _\("\1"\),$', re.MULTILINE)
    assert set(said.findall(of_network)) == set(reject_code.REASONS.values())
    given_up = {order.GIVEN_UP_REASON, order.NEVER_TAKEN_REASON, *order.GIVEN_UP_REASONS.values()}
    disabled = f"no attempt has succeeded for {FAILING_MAX.days} days"
    assert {NO_CONNECTION, disabled, *given_up} <= set(said.findall(others))


async def test_a_payer_that_the_institution_did_not_report_is_unknown(service: Service, caller: Caller) -> None:
    await incoming.receive_credit(service.context, structs.replace(credit_report(service), debit_party=UNKNOWN_PARTY))
    async with open_console(service) as shown:
        own = shown.nobody.of(await sign_in_client(shown, caller.holder_id))
        page = (await own.get(f"/transfers/{await service.fetchval('select id from transfer')}")).content.decode()
    assert "<dt>Name</dt><dd>unknown</dd>" in page
    assert all(f"<dt>{name}</dt>" not in page for name in ("Tax id", "Institution", "Account"))


async def test_a_returned_suspect_says_why_in_the_readers_language(service: Service, caller: Caller) -> None:
    report = credit_report(service)
    # Two reports taken at once may be recorded in either order.
    for each in (held(report), cancelled(report, "FRAD")):
        assert await take_reports(service.context, [each]) == 1
    async with open_console(service) as shown:
        operator = shown.nobody.of(await sign_in(shown, "operator"))
        path = f"/transfers/{await service.fetchval('select id from transfer')}"
        page = (await operator.get(path, **PORTUGUESE)).content.decode()
    assert "A instituição reteve o Pix como suspeito e o devolveu (FRAD): Há fundada suspeita de fraude." in page
    assert "Devolvido ao pagador pela instituição" in page
    assert "Your institution" not in page.partition("<aside")[0]


async def test_a_suspect_pix_is_listed_on_both_days_and_summed_on_that_of_its_release(service: Service, caller: Caller) -> None:
    charge, began_at = await make_charge(service, caller, amount_cents=10_00), service.clock.now()
    report = credit_report(service, txid=charge.txid)
    await take_reports(service.context, [held(report)])
    async with open_console(service) as shown:
        own = shown.nobody.of(await sign_in_client(shown, caller.holder_id))
        page = (await own.get(f"/charges/{charge.id}")).content.decode()
        assert ("Your institution holds this Pix" in page, "data:image/png" in page) == (True, False), "nobody can pay it"
        service.clock.advance(days=1)
        await take_reports(service.context, [structs.replace(report, reported_at=service.clock.now())])
        own = shown.nobody.of(await sign_in_client(shown, caller.holder_id))
        for at, said in ((began_at, "settled on another day, not summed here"), (service.clock.now(), "in")):
            page = (await own.get(f"/transfers?when={to_day(at)}")).content.decode()
            assert f"In all: {said} <strong>R$\u00a010,00</strong></p>" in page


async def test_a_failed_delivery_says_so_and_why_in_the_readers_language(service: Service, caller: Caller) -> None:
    await endpoint_usecases.create_endpoint(
        service.context, caller, EndpointRequest(url="http://127.0.0.1:9/hook", secret=SECRET, event_types=("qrcode.pending",))
    )
    await make_charge(service, caller, amount_cents=100)
    await service.fetch(
        "insert into delivery_attempt (delivery_id, number, started_at, status_code, duration_us, response, error)"
        " select id, 1, now(), null, 1, '', 'the connection was refused' from delivery"
    )
    await service.fetch("update delivery set attempts_count = 1")
    ((delivery_id,),) = await service.fetch("select id from delivery")
    async with open_console(service) as shown:
        operator = shown.nobody.of(await sign_in(shown, "operator"))
        page = (await operator.get(f"/deliveries/{delivery_id}", **PORTUGUESE)).content.decode()
        assert "falhando" in page
        assert "a enviar" not in page
        assert "a conexão foi recusada" in page
        # The holder is a link for visitors who may see holders.
        assert f'href="/holders/{caller.holder_id}"' in page


async def test_a_delivery_that_was_given_up_says_what_to_do(service: Service, caller: Caller) -> None:
    request = EndpointRequest(url="http://127.0.0.1:9/hook", secret=SECRET, event_types=("qrcode.pending",))
    made = await endpoint_usecases.create_endpoint(service.context, caller, request)
    charge = await make_charge(service, caller)
    await service.fetch(
        "insert into delivery_attempt (delivery_id, number, started_at, status_code, duration_us, response, error)"
        " select id, number, now(), 500, 1, '', 'the receiver answered 500' from delivery, generate_series(1, 3) number"
    )
    await service.fetch("update delivery set attempts_count = 3, status = 'failed', due_at = null")
    ((delivery_id,),) = await service.fetch("select id from delivery")
    async with open_console(service) as shown:
        own = shown.nobody.of(await sign_in_client(shown, caller.holder_id))
        head, _, steps = (await own.get(f"/charges/{charge.id}")).content.decode().partition("line-of-time")
        assert "Webhook: <strong>given up after the last attempt</strong>" in head
        assert f'href="/deliveries/{delivery_id}"><code>qrcode.pending</code></a>' in head
        assert steps.count("given up: send it again from its page") == steps.count("failed before: 2") == 1
        facts, _, attempts = (await own.get(f"/deliveries/{delivery_id}")).content.decode().partition('aria-label="Attempts"')
        assert "<dt>Our id</dt>" in facts
        assert [part.count("<article") for part in attempts.split("Earlier attempts: 2", 1)] == [1, 2]
        page = (await own.get(f"/charges/{charge.id}", **PORTUGUESE)).content.decode()
        assert page.count("desistimos") == 3
        page = (await own.get(f"/endpoints/{made.id}")).content.decode()
        assert f'<a href="/deliveries?endpoint={made.id}&amp;status=failed">Given up: 1</a>' in page
        # A replay sends it by another delivery: nobody needs to act on the first.
        answer = await own.post(f"/endpoints/{made.id}/replay", {"since": "2020-01-01T00:00:00"})
        assert answer.headers["location"] == f"/endpoints/{made.id}?notice=replayed"
        page = (await own.get(f"/charges/{charge.id}")).content.decode()
        assert "given up after the last attempt" not in page
        refused = await own.post(f"/endpoints/{made.id}/replay", {"since": "2099-01-01T00:00:00"}, **PORTUGUESE)
        assert "Escolha um momento no passado." in refused.content.decode()
        gone = "the receiver answered 410 Gone"
        await service.fetch("update webhook_endpoint set status = 'disabled', status_reason = $1", gone)
        assert "o destino respondeu 410 Gone" in (await own.get(f"/endpoints/{made.id}", **PORTUGUESE)).content.decode()


async def test_a_delivery_behind_an_earlier_one_is_said_to_wait(service: Service, caller: Caller) -> None:
    types = ("qrcode.pending", "qrcode.approved")
    request = EndpointRequest(url="http://127.0.0.1:9/hook", secret=SECRET, event_types=types)
    made = await endpoint_usecases.create_endpoint(service.context, caller, request)
    charge = await make_charge(service, caller)
    await incoming.receive_credit(service.context, credit_report(service, txid=charge.txid))
    first, second = await service.fetch("select id from delivery order by event_id")
    async with open_console(service) as shown:
        own = shown.nobody.of(await sign_in_client(shown, caller.holder_id))
        page = (await own.get("/deliveries")).content.decode()
        assert (page.count("waits behind an earlier one"), page.count("next try at any moment")) == (1, 1)
        waiting = (await own.get(f"/deliveries/{second['id']}")).content.decode()
        assert f'It waits behind: <a href="/deliveries/{first["id"]}">' in waiting
        # The next attempt is that of the first one, whenever the other would be due; one button sends all.
        await service.fetch("update delivery set due_at = now() + interval '2 hours' where id = $1", first["id"])
        page = (await own.get(f"/endpoints/{made.id}")).content.decode()
        assert "the last attempt succeeded" in page
        assert re.search(r"next try in [^,]+, 2 waiting", page)
        service.clock.advance(seconds=1)
        sent = await own.post(f"/endpoints/{made.id}/send")
        assert sent.headers["location"] == f"/endpoints/{made.id}?notice=sending"
        due = await service.fetch("select id from delivery where due_at < now() + interval '1 minute' order by event_id")
        assert due == [first, second]
        for row, said in ((first, "resent"), (second, "resent_later")):
            sent = await own.post(f"/deliveries/{row['id']}/resend")
            assert sent.headers["location"] == f"/deliveries/{row['id']}?notice={said}"


async def test_three_receivers_that_fail_are_one_alarm_with_each_address_and_reason(service: Service, caller: Caller) -> None:
    for port in (7, 8, 9):
        request = EndpointRequest(url=f"http://127.0.0.1:{port}/hook", secret=SECRET, event_types=("qrcode.pending",))
        await endpoint_usecases.create_endpoint(service.context, caller, request)
    charge = await make_charge(service, caller, amount_cents=100)
    await service.fetch(
        "insert into delivery_attempt (delivery_id, number, started_at, status_code, duration_us, response, error)"
        " select id, 1, now(), null, 1, '', 'the connection was refused' from delivery"
    )
    await service.fetch("update delivery set attempts_count = 1, due_at = now() + interval '1 hour'")
    async with open_console(service) as shown:
        own = shown.nobody.of(await sign_in_client(shown, caller.holder_id))
        page = (await own.get(f"/charges/{charge.id}", **PORTUGUESE)).content.decode()
    alarm = page.partition('class="wait bad"')[2].partition("</details>")[0]
    assert page.count('class="wait bad"') == 1
    # Without opening it: each address once, with its reason. Inside: a line for each event.
    summary, _, lines = alarm.partition("</summary>")
    assert "Webhook: <strong>falhando" in summary
    assert [summary.count(f"http://127.0.0.1:{port}/hook: a conexão foi recusada") for port in (7, 8, 9)] == [1, 1, 1]
    assert lines.count("<code>qrcode.pending</code></a>") == 3


async def test_a_charge_says_which_payment_of_it_was_refused_and_why(service: Service, caller: Caller) -> None:
    charge, *_ = [await make_charge(service, caller, amount_cents=2550) for _ in range(2)]
    await incoming.receive_credit(service.context, credit_report(service, txid=charge.txid, amount_cents=2500))
    async with open_console(service) as shown:
        own = shown.nobody.of(await sign_in_client(shown, caller.holder_id))
        for path in (f"/charges/{charge.id}", "/search?q=25,50"):
            told = (await own.get(path, **PORTUGUESE)).content.decode().partition("Um pagamento foi recusado")[2][:400]
            assert all(each in told for each in (": R$\u00a025,00 ", outside_party().name, "O valor não é o esperado")), path


async def test_a_payment_is_titled_as_its_caller_calls_it_with_its_sign_and_the_other_one(
    service: Service, caller: Caller
) -> None:
    history = await make_history(service, caller)
    request = ChargeRequest(amount_cents=2550, key=own_key(), external_id="order-7788")
    charge = await charge_usecases.create_charge(service.context, caller, request)
    await charge_usecases.create_charge(service.context, caller, structs.replace(request, external_id="order-7789"))
    paid = structs.replace(credit_report(service, amount_cents=2550, txid=charge.txid), payer_message="mesa 4")
    await incoming.receive_credit(service.context, paid)
    part = RefundRequest(end_to_end_id=paid.end_to_end_id, amount_cents=550)
    refund = await refund_usecases.start_refund(service.context, caller, part)
    await settlement.end_orders(service.context, [(refund.return_id, Settled(settled_at=service.clock.now()))])
    async with open_console(service) as shown:
        own = shown.nobody.of(await sign_in_client(shown, caller.holder_id))
        page = (await own.get(f"/charges/{charge.id}")).content.decode()
        assert "<h1>order-7788</h1>" in page
        assert "paid R$\u00a025,50, returned R$\u00a05,50, kept R$\u00a020,00" in page
        assert f'<p class="lead">Charge {charge.id}</p>' in page
        assert '<span class="quiet">from ' in page
        for said in (f"to {outside_party().name}", "A refund of R$\u00a05,50 was made"):
            assert said in page.partition('id="refund"')[2].partition("</form>")[0]
        [transfer] = await service.fetch("select id from transfer where end_to_end_id = $1", paid.end_to_end_id)
        other = await refund_usecases.start_refund(service.context, caller, structs.replace(part, amount_cents=100))
        await settlement.end_orders(service.context, [(other.return_id, Rejected(code="AM04", reason="no funds"))])
        page = (await own.get(f"/charges/{charge.id}")).content.decode()
        assert "Refund refused: no money moved</strong>: R$\u00a01,00" in page.partition('class="two"')[0]
        for path, said in (
            (f"/refunds/{refund.id}", f'<a href="/transfers/{transfer["id"]}">order-7788</a>'),
            (f"/refunds/{refund.id}", f'<span class="quiet">to {outside_party().name}</span>'),
            (f"/transfers/{transfer['id']}", "<dt>Payer&#39;s message</dt><dd>mesa 4</dd>"),
        ):
            assert said in (await own.get(path)).content.decode()
        for path in ("/charges", "/transfers", "/", "/search?q=25.50", "/search?q=R$ 25,50 today"):
            listed = (await own.get(path)).content.decode()
            assert ">order-7788</a>" in listed, path
            assert "Given back: R$\u00a05,50" in listed, path
            assert "contested Pix" not in listed, path
        # A charge and its payment are one row, which leads to both.
        found = (await own.get("/search?q=25.50")).content.decode().partition("<tbody>")[2]
        assert found.count('class="row-link"') == found.count("<tr") == 2
        assert f'href="/transfers/{transfer["id"]}"' in found
        await make_charge(service, caller, amount_cents=30_000)
        guessed = (await own.get("/search?q=300")).content.decode()
        assert all(said in guessed for said in ("amount <strong>R$\u00a0300,00</strong>", '">R$\u00a03,00</a>', "<tr"))
        for path, said in (
            ("/refunds", f'<a href="/transfers/{transfer["id"]}">returns order-7788</a>'),
            (f"/search?q={outside_party().name} today", f'href="/transfers/{transfer["id"]}">returns transfer'),
            ("/transfers?when=today", "of which given back so far <strong>R$\u00a012,50</strong>, out <strong>"),
            ("/charges?when=today", "listed here, whenever they were paid: paid <strong>R$\u00a025,50</strong>, of which"),
            ("/ledger", ", given back <strong>R$\u00a012,50</strong>, out <strong>"),
        ):
            assert said in (await own.get(path)).content.decode(), path
        assert "whenever" not in (await own.get("/charges")).content.decode()
        named = structs.replace(request, external_id="named", payer=Payer(name="Zilda", tax_id="52998224725"))
        await charge_usecases.create_charge(service.context, caller, named)
        assert ">named</a>" in (await own.get("/charges?who=zil")).content.decode()
        unnamed = (await own.get(f"/charges?who={outside_party().name}")).content.decode()
        assert f'<a href="/transfers?who={quote_plus(outside_party().name)}">Look for this payer' in unnamed
        await take_reports(service.context, [infraction_report(service, paid.end_to_end_id, "I1", amount_cents=100)])
        for path in ("/charges", "/transfers", "/", "/search?q=25.50"):
            assert "contested Pix" in (await own.get(path)).content.decode(), path
        sent = (await own.get("/transfers")).content.decode()
        assert 'title="out">' in sent
        assert history.sent in sent
        assert "<h1>No results for 99.99</h1>" in (await own.get("/search?q=99.99")).content.decode()
        for begun in ("order-7", "ORDER"):
            offered = (await own.get(f"/search/suggestions?q={begun}")).content.decode()
            assert ('<option value="order-7788">' in offered) is (begun == "order-7"), begun


async def test_the_menu_counts_what_waits_for_operators_alone(service: Service, caller: Caller) -> None:
    said = "line 1 of -R$\u00a01,00, CREDIT, perhaps_balance, read on 2026-11-03"
    case = "insert into kept_case (kind, name, facts, since) values ('rail', 'a', $1, now()) returning id"
    [[case_id]] = await service.fetch(case, said)
    async with open_console(service) as shown:
        operator = shown.nobody.of(await sign_in(shown, "operator"))
        own = shown.nobody.of(await sign_in_client(shown, caller.holder_id))
        page = (await operator.get("/charges")).content.decode()
        assert 'href="/audit/cases">Cases <span class="count">1</span>' in page
        assert all(f'href="{path}">' in page for path in ("/audit", "/audit/proof", "/audit/approvals", "/blocks"))
        assert 'href="/audit' not in (await own.get("/charges")).content.decode()
        assert '"/audit/cases" aria-current="page"' in (await operator.get("/audit/cases")).content.decode()
        page = (await operator.get(f"/audit/cases/{case_id}", **PORTUGUESE)).content.decode()
        assert "of \u2212R$\u00a01,00, CREDIT, talvez um saldo, read on" in page


async def test_a_list_is_saved_by_a_name_and_forgotten(service: Service, caller: Caller) -> None:
    async with open_console(service) as shown:
        own = shown.nobody.of(await sign_in_client(shown, caller.holder_id))
        saved = await own.post("/preferences", {"name": "Big & paid", "next": "/charges?amount=%3E100", "save": "1"})
        cookie = saved.headers["set-cookie"].partition(";")[0]
        assert "HttpOnly" in saved.headers["set-cookie"]
        assert own.session is not None
        both = {"cookie": f"pixconnect_9080={own.session.token}; {cookie}"}
        page = (await own.get("/charges?amount=%3E100", **both)).content.decode()
        assert '<a href="/charges?amount=%3E100">Big &amp; paid</a>' in page
        assert "Forget it" in page
        left = await own.post("/preferences", {"name": "Big & paid", "next": "/charges"}, **both)
        assert left.headers["set-cookie"].startswith('pixconnect_saved="";')
        elsewhere = await own.post("/preferences", {"name": "x", "next": "//evil.example", "save": "1"})
        assert "evil" not in elsewhere.headers["set-cookie"]


async def test_a_refusal_is_in_the_readers_language_and_of_the_right_cause(service: Service, caller: Caller) -> None:
    async with open_console(service) as shown:
        beside_proxy = await shown.nobody.post("/sign-in", {}, origin="http://127.0.0.1:9080")
        assert f"not sent from the console: open it at {shown.parts.base_url}" in beside_proxy.content.decode()
        own = shown.nobody.of(await sign_in_client(shown, caller.holder_id))
        for path, said in (
            ("/nowhere", "Não há página neste endereço."),
            ("/charges/987654", "Não existe ou pertence a outro titular."),
            ("/audit", "Estas páginas são para operadores."),
            ("/search?q=25,50%2031/02", "Quando: escreva 03/11/2026"),
        ):
            page = (await own.get(path, **PORTUGUESE)).content.decode()
            assert said in page, path
            assert "there is no" not in page, path
