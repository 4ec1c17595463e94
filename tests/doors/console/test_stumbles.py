"""Obstacles that new users met on the console's pages, each removed from its page."""

import re
from pathlib import Path

from pixconnect.doors import console
from pixconnect.doors.console.filters import event_payload
from pixconnect.features.webhooks.rules.endpoint import EndpointRequest
from pixconnect.features.webhooks.service import endpoint as endpoint_usecases
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.rules import reject_code
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import Charge, ChargeRequest
from pixconnect.platform.adapters.outgoing_http import NO_CONNECTION
from support.console import open_console, sign_in, sign_in_client
from support.postgres import Addresses
from support.records import own_key
from support.service import Service, make_charge, open_service
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
            ("/events", "when=ontem", "Quando: escreva"),
            ("/deliveries", "when=ontem", "Quando: escreva"),
        ):
            answer = await own.get(f"{path}?{typed}&status=CONFIRMED", **PORTUGUESE)
            page = answer.content.decode()
            assert answer.status == 400
            assert said in page, path
            assert f'value="{typed.partition("=")[2]}"' in page, path
        assert (await own.get("/charges?when=%3E%3D03/11/2026")).status == 200


async def test_a_number_says_on_a_telephone_that_it_is_a_holder(service: Service, caller: Caller) -> None:
    """On a telephone rows stand without the table's head, so the style puts the column's name before the number."""
    await make_charge(service, caller, amount_cents=100)
    async with open_console(service) as shown:
        reader = shown.nobody.of(await sign_in(shown, "operator"))
        for path in ("/charges", "/events"):
            page = (await reader.get(path, **PORTUGUESE)).content.decode()
            assert f'data-name="Titular">{caller.holder_id}</td>' in page, path


async def test_a_page_that_asks_whose_leads_to_where_one_is_chosen(service: Service, caller: Caller) -> None:
    async with open_console(service) as shown:
        reader = shown.nobody.of(await sign_in(shown, "operator"))
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
        assert "order-of-the-day" in page
        assert history.received in page
        assert 'class="amount">R$ ' in page
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
    of_network, _, of_receivers = template.partition("NO_ANSWER")
    said = re.compile(r'^  "([^"]+)": _\("\1"\),$', re.MULTILINE)
    assert set(said.findall(of_network)) == set(reject_code.REASONS.values())
    assert NO_CONNECTION in said.findall(of_receivers)


async def test_a_failed_delivery_says_so_and_why_in_the_readers_language(service: Service, caller: Caller) -> None:
    await endpoint_usecases.create_endpoint(
        service.context,
        caller,
        EndpointRequest(url="http://127.0.0.1:9/hook", secret=SECRET, event_types=("qrcode.pending",)),
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
