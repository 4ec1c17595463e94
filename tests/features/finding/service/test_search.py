"""Support's search without an id: half a name, an amount with its day, a CPF; and nothing of other holders."""

import runpy
import secrets
import sys
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs
from structlog.testing import capture_logs

from pixconnect import features
from pixconnect.doors.console.paces import SEARCHES
from pixconnect.doors.console.wanted import Wanted, list_possible_amounts, read_amounts, read_instants, read_known, read_order
from pixconnect.features.finding import pages
from pixconnect.features.finding.service import browse, search
from pixconnect.features.finding.tables import search as search_store
from pixconnect.features.institutions.rules.institution import UnknownOutcome
from pixconnect.features.institutions.rules.pending_call import WORKER_AFTER
from pixconnect.features.institutions.service.charge_opening import OPENING_CALLS
from pixconnect.features.institutions.service.pending_call import go_on
from pixconnect.features.webhooks.tables import feed as feed_store
from pixconnect.kernel.feature import Feature, Lookup
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.flows.settlement import end_orders
from pixconnect.kernel.rules.access import SCOPES, Caller, Viewer
from pixconnect.kernel.rules.br_code import format_static_br_code
from pixconnect.kernel.rules.charge import ChargeRequest
from pixconnect.kernel.rules.charge_contents import Payer
from pixconnect.kernel.rules.listing import Span, TransferSearch
from pixconnect.kernel.rules.rail import Settled
from pixconnect.kernel.rules.refund import RefundRequest
from pixconnect.kernel.tables import holder as holder_store
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import SAO_PAULO, to_day
from support.account_shop import Shop
from support.console import open_console, sign_in_client
from support.operators import as_operator
from support.records import outside_party, own_key
from support.service import Service, credit_report, decided, infraction_report, make_charge, open_holder
from support.statement import History, make_history


@pytest.fixture
async def history(service: Service, caller: Caller) -> History:
    return await make_history(service, caller)


async def look(service: Service, holder_id: int | None = None, day: date | None = None, **wanted: Any) -> set[str]:
    """The names of the results."""
    found, _ = await search.look_for(as_operator(service.context), holder_id, Wanted(**wanted), day)
    return {one.name or "" for one in found}


async def find(service: Service, text: str, holder_id: int | None) -> list[str | None]:
    viewer = Viewer(holder_id=holder_id, scopes=frozenset(SCOPES))
    return [one.name for one in await search.find_anything(service.context, viewer, text)]


async def test_half_a_name_leads_to_its_owner(service: Service, caller: Caller, history: History) -> None:
    stranger = await open_holder(service, account_number="2")
    for name in (history.received, history.sent, history.refunded, history.returned):
        assert name in await find(service, name[:16], None)
        assert name in await find(service, name[:21], caller.holder_id)
        assert await find(service, name[:31], caller.holder_id) == [name]
        assert await find(service, f" {name[:9]} {name[9:21]}\n{name[21:]}", caller.holder_id) == [name]
        # A holder's results are only searched within a minute: a longer period might have too many of others.
        assert await find(service, name[:20], caller.holder_id) == []
        assert await find(service, name[:31], stranger.holder_id) == []


async def test_a_contest_is_found_by_either_id(service: Service, caller: Caller, history: History) -> None:
    stranger = await open_holder(service, account_number="2")
    reported = infraction_report(service, history.received, "I42", amount_cents=100)
    assert await take_reports(service.context, [reported]) == 1
    (row,) = await service.fetch("select id from infraction")
    for known in ("I42", str(row["id"])):
        assert "I42" in await find(service, known, None)
        assert "I42" in await find(service, known, caller.holder_id)
        assert "I42" not in await find(service, known, stranger.holder_id)
    blind = Viewer(holder_id=caller.holder_id, scopes=frozenset(SCOPES) - {"infraction.read"})
    assert await search.find_anything(service.context, blind, "I42") == []


async def test_a_feature_adds_its_resources_to_the_feed_and_the_search(
    service: Service, caller: Caller, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await take_reports(service.context, [infraction_report(service, history.received, "I42", amount_cents=100)]) == 1
    shown = "null, name, state, amount_cents, created_at"
    added = Feature(lookups=(Lookup("infraction", ("end_to_end_id",), shown, path="/added/{id}"),))
    monkeypatch.setattr(features, "NAMES", ("added",))
    monkeypatch.setitem(sys.modules, "pixconnect.features.added", SimpleNamespace(FEATURE=added))  # type: ignore[arg-type]
    searching, feed, shown_at = (runpy.run_path(str(each.__file__)) for each in (search_store, feed_store, pages))
    found = await service.context.pool.fetch(searching["_FIND"], history.received, None, "", 9, None)
    assert {(one["kind"], one["name"]) for one in found} == {("transfer", history.received), ("infraction", "I42")}
    resources = await feed["find_resources"](service.context.pool, caller.holder_id, history.received, None)
    assert {kind for kind, _ in resources} == {"transfer", "infraction"}
    assert shown_at["_PATHS"]["infraction"] == "/added/{id}"


@pytest.mark.parametrize(("rest_cents", "is_marked"), [(60, True), (0, False)])
async def test_a_pix_is_marked_as_contested_while_a_rest_is_claimed(
    service: Service, caller: Caller, history: History, rest_cents: int, *, is_marked: bool
) -> None:
    paid = (await transfer_usecases.read_transfer_by_end_to_end_id(service.context, caller, history.received)).transfer
    report = infraction_report(service, history.received, amount_cents=100)
    for each in (report, decided(service, report, 40, rest_cents=rest_cents)):
        assert await take_reports(service.context, [each]) == 1
    marks = await search_store.find_contested(service.context.pool, [("transfer", paid.id, caller.holder_id)])
    assert bool(marks) == is_marked


async def test_known_facts_are_found_by_their_readers(service: Service, caller: Caller, history: History) -> None:
    stranger = await open_holder(service, account_number="2")
    transfer = (await transfer_usecases.read_transfer_by_end_to_end_id(service.context, caller, history.received)).transfer
    amount, tax_id = transfer.amount_cents, transfer.counterparty.tax_id
    day = to_day(service.clock.now())
    by_amount = dict(amount_min_cents=amount, amount_max_cents=amount)
    asked: list[dict[str, Any]] = [
        by_amount,
        by_amount | dict(day=day),
        dict(counterparty=tax_id, day=day),
        dict(counterparty=f"{tax_id[:3]}.{tax_id[3:6]}.{tax_id[6:9]}-{tax_id[9:]}"),
        dict(name_part=history.received[-9:].swapcase()),
    ]
    for wanted in asked:
        for holder_id in (None, caller.holder_id):
            assert history.received in await look(service, holder_id, **wanted), wanted
        assert await look(service, stranger.holder_id, **wanted) == set(), wanted
    assert await look(service, None, **by_amount, day=day - timedelta(days=1)) == set()

    searches = [
        TransferSearch(amount_cents=amount),
        TransferSearch(tax_id=tax_id, direction="IN"),
        TransferSearch(end_to_end_id_part=history.received[-9:].swapcase()),
        TransferSearch(end_to_end_id=history.received, amount_cents=amount, tax_id=tax_id, end_to_end_id_part="e"),
    ]
    for one in searches:
        page = await transfer_usecases.search_transfers(service.context, caller, one, Span())
        assert [view.transfer.shown_id for view in page.items] == [history.received], one
        page = await transfer_usecases.search_transfers(service.context, stranger, one, Span())
        assert page.total_count == 0
    async with open_console(service) as console:
        for holder, count in ((caller, 1), (stranger, 0)):
            own = console.nobody.of(await sign_in_client(console, holder.holder_id))
            page = (await own.get(f"/transfers?part={history.received[-9:].lower()}")).content.decode()
            assert page.count(history.received) == count
            hint = (await own.get("/search?q=R$ 12,34 2026-11-20")).content.decode()
            assert "/transfers?amount=R%24+12%2C34&amp;when=2026-11-20" in hint
            digits = (await own.get("/search?q=98765")).content.decode()
            assert 'href="/search?q=R%24+987%2C65">R$\u00a0987,65</a>' in digits
            assert "amount <strong>R$\u00a098.765,00</strong>" in digits


async def test_a_day_is_that_on_which_it_settled_there(shop: Shop) -> None:
    midnight = shop.live.clock.real_now().astimezone(SAO_PAULO).replace(hour=0, minute=0, second=0, microsecond=0)
    shop.live.clock.advance(days=3, seconds=(midnight + timedelta(minutes=5) - shop.live.clock.real_now()).total_seconds())
    pix = await shop.receive(settled_at=midnight + timedelta(days=1, seconds=-2))
    for day, found in ((midnight.date(), {pix.end_to_end_id}), (midnight.date() + timedelta(days=1), set[str]())):
        assert await look(shop.live, day=day, amount_min_cents=1000) == found
        viewer = Viewer(holder_id=None, scopes=frozenset(SCOPES))
        result = await search.find_known(shop.live.context, viewer, f"{day:%d/%m/%Y}")
        assert {one.name for one in result.found if one.kind == "transfer"} == found, "text and list mean the same day"
        begin, end = read_instants(f"{day}", shop.live.clock.now())
        listed = await browse.browse(shop.live.context, viewer, browse.TRANSFERS, Wanted(initial_at=begin, final_at=end))
        assert {each.end_to_end_id for each in listed.items} == found


async def test_a_charge_is_found_by_the_institutions_own_txid_and_by_its_holder_alone(shop: Shop) -> None:
    shop.there.makes_txids = True
    charge = await shop.charge()
    for holder_id, found in ((None, [charge.txid]), (charge.holder_id, [charge.txid]), (charge.holder_id + 1, [])):
        assert await find(shop.live, "there0", holder_id) == found
    # One that gives ours back as its own is found once.
    shop.there.answers, shop.there.loses_answers = [UnknownOutcome(reason="silence")], True
    with pytest.raises(errors.OutcomeUnknown):
        await shop.charge("order-1")
    txid = list(shop.there.charges)[-1]
    shop.there.charges[txid] = structs.replace(shop.there.charges[txid], network_txid=txid)
    shop.live.clock.advance(seconds=WORKER_AFTER.total_seconds())
    await go_on(shop.at, shop.opened, OPENING_CALLS)
    assert await find(shop.live, txid, None) == [txid]


async def test_what_can_be_looked_for_is_told_from_what_cannot(service: Service) -> None:
    with pytest.raises(errors.BadRequest, match="name_part"):
        await look(service, name_part="\0")
    now = datetime(2026, 11, 4, 12, tzinfo=UTC)
    expected: dict[str, dict[str, str]] = {
        "33": dict(amount="R$ 33,00"),
        "150 ontem": dict(amount="R$ 150,00", when="2026-11-03"),
        "1.500 de ontem": dict(amount="R$ 1.500,00", when="2026-11-03"),
        "Pedro 120": dict(amount="R$ 120,00", who="Pedro"),
        "R$25,50 de Maria ontem": dict(amount="R$25,50", when="2026-11-03", who="Maria"),
        "150 from Maria yesterday": dict(amount="R$ 150,00", when="2026-11-03", who="Maria"),
        "Maria 7 dias": dict(when="2026-10-29..2026-11-04", who="Maria"),
        "7 dias 150": dict(amount="R$ 150,00", when="2026-10-29..2026-11-04"),
        "255012 ontem": dict(when="2026-11-03", part="255012"),
        "25.50": dict(amount="25.50"),
        "12345678000195": dict(who="12345678000195"),
        "a b": {},
        "Padaria do Zé": dict(who="Padaria do Zé"),
        "25,50 5/11": dict(amount="25,50", when="2025-11-05"),
        "25,50 dia 5": dict(amount="25,50", when="2026-10-05"),
        "29 nov": dict(when="2025-11-29"),
        "25,50 at 2:30 pm on the 3rd of November Maria": dict(amount="25,50", when="2026-11-03", who="Maria"),
        "$1,234.56 3 de nov. de 2026, 14h30": dict(amount="R$1.234,56", when="2026-11-03"),
        "1,234 nov 3": dict(amount="R$ 1.234,00", when="2026-11-03"),
        "25,5 02.11.26": dict(amount="25,5", when="2026-11-02"),
        "Maria na sexta-feira": dict(when="2026-10-30", who="Maria"),
        "25,50 de sábado": dict(amount="25,50", when="2026-10-31"),
        "150 last thursday": dict(amount="R$ 150,00", when="2026-10-29"),
        "25,50 28-13-2026": dict(amount="25,50", part="28-13-2026"),
        "25,50 29/02": dict(amount="25,50", when="2024-02-29"),
        "25.50 27/10 Maria Silva": dict(amount="25.50", when="2026-10-27", who="Maria Silva"),
        "Maria R$ 25,50 ontem": dict(amount="R$ 25,50", when="2026-11-03", who="Maria"),
        "R$ 25,50 529.982.247-25 hoje": dict(amount="R$ 25,50", when="2026-11-04", who="529.982.247-25"),
        "25,50 Padaria do Mês": dict(amount="25,50", who="Padaria do Mês"),
        "255012": dict(part="255012"),
        "rder-7788": dict(part="rder-7788"),
        "529.982.247-25 hoje": dict(when="2026-11-04", who="529.982.247-25"),
        "***.982.247-**": dict(part="982247"),
        "***982247**": dict(part="982247"),
        "982.247": dict(part="982247"),
        "XXX.982.247-XX hoje": dict(when="2026-11-04", part="982247"),
        "pedido 1001 25,50 ontem": dict(amount="25,50", when="2026-11-03", part="1001"),
    }
    assert {text: read_known(text, now) for text in expected} == expected
    assert read_instants("03/11/2026", now) == read_instants("2026-11-03", now) == read_instants("3/11", now)
    assert read_amounts("25,50 reais") == read_amounts("R$ 25,5") == read_amounts("$25.50")
    assert read_amounts("1,234.56") == read_amounts("1.234,56")
    assert read_instants("dia 3..4 nov", now) == read_instants("03/11..04/11", now)
    assert read_order("#1001", now) == read_order("Pedido nº 1001", now) == read_order("order: 1001", now) == dict(part="1001")
    assert read_order("pedido 1001 de 3 nov 14:30", now) == dict(part="1001", when="2026-11-03")
    assert read_order("order-1001", now) == read_order("Pedido Maria", now) == {}
    assert list_possible_amounts("2550") == ["R$ 25,50", "R$ 2.550,00"]
    assert list_possible_amounts("order-2550") == list_possible_amounts("52998224725") == []


async def known(service: Service, text: str, holder_id: int | None) -> set[tuple[str, str]]:
    viewer = Viewer(holder_id=holder_id, scopes=frozenset(SCOPES))
    return {(one.kind, one.id) for one in (await search.find_known(service.context, viewer, text)).found}


async def test_what_people_read_out_leads_to_their_own(service: Service, caller: Caller, history: History) -> None:
    stranger = await open_holder(service, account_number="2")
    payment = (await transfer_usecases.read_transfer_by_end_to_end_id(service.context, caller, history.received)).transfer
    party, its = payment.counterparty, ("transfer", str(payment.id))
    tax_id = party.tax_id
    masked = f"{tax_id[:3]}.{tax_id[3:6]}.{tax_id[6:9]}-{tax_id[9:]}"
    amount = f"R$ {payment.amount_cents // 100},{payment.amount_cents % 100:02}"
    dotted = amount.removeprefix("R$ ").replace(",", ".")
    today = f"{service.clock.now().astimezone(SAO_PAULO):%d/%m/%Y}"
    for text in (
        *(tax_id, masked, f"***.{tax_id[3:6]}.{tax_id[6:9]}-**", tax_id[3:9], f"{today[:5]} {tax_id}"),
        *(party.name.upper(), party.name[:5], f"{party.name[:5]} {today}", f"{party.name} {amount}"),
        *(amount, dotted, f"{amount} {today}", f"{dotted} today", f"{dotted} {today[:5]} {party.name[:5]}"),
        history.received[:21],
    ):
        for holder_id in (None, caller.holder_id):
            assert its in await known(service, text, holder_id), text
        assert its not in await known(service, text, stranger.holder_id), text
    assert its not in await known(service, f"{amount} 03/11/2020", None)
    assert its not in await known(service, f"{party.name} 03/11/2020", None)
    assert its not in await known(service, f"{amount} Nobody", None)

    # Only operators can see which holders exist.
    own = await holder_store.find(service.context.pool, caller.holder_id)
    assert own is not None
    tax_id = own.tax_id
    masked = f"{tax_id[:2]}.{tax_id[2:5]}.{tax_id[5:8]}/{tax_id[8:12]}-{tax_id[12:]}" if len(tax_id) == 14 else tax_id
    for text in (own.name[:6], tax_id, masked):
        assert ("holder", str(own.id)) in await known(service, text, None), text
        assert "holder" not in {kind for kind, _ in await known(service, text, own.id)}, text


async def test_no_log_line_says_who_was_it(service: Service, caller: Caller, caplog: pytest.LogCaptureFixture) -> None:
    async with open_console(service) as console:
        own = console.nobody.of(await sign_in_client(console, caller.holder_id))
        with capture_logs() as logs, caplog.at_level("DEBUG"):
            for text in ("529.982.247-25", "Maria Silva", "maria@shop.example", "Maria%00Silva"):
                await own.get(f"/search?q={text}")
                await console.nobody.get(f"/search?q={text}")
                await own.get(f"/charges?who={text}&when=never")
    said = f"{logs} {caplog.text}"
    assert not any(word in said for word in ("529", "Maria", "maria"))


async def test_a_request_leads_to_what_it_made_and_a_refused_one_to_nothing(service: Service, caller: Caller) -> None:
    stranger = await open_holder(service, account_number="2")
    # One names its instant, as all do that the API has named; the other is the caller's own.
    for name in (uuid7_of(service.context.clock.real_now()), "call-of-the-shop"):
        asking = caller.asking("192.0.2.7", name)
        request = ChargeRequest(amount_cents=1234, key=own_key())
        charge = await charge_usecases.create_charge(service.context, asking, request)
        for _ in range(40):
            await charge_usecases.create_charge(service.context, caller.asking("192.0.2.7", "another-one"), request)
        for holder_id in (None, caller.holder_id):
            assert await known(service, name, holder_id) == {("charge", str(charge.id))}
        assert await known(service, name, stranger.holder_id) == set()
    assert await known(service, uuid7_of(service.context.clock.real_now()), None) == set()
    # Beyond all existing instants.
    assert await known(service, "ffffffff-ffff-7fff-bfff-ffffffffffff", None) == set()


def uuid7_of(at: datetime) -> str:
    return str(UUID(int=(int(at.timestamp() * 1000) << 80) | (7 << 76) | (2 << 62) | secrets.randbits(60)))


async def test_a_charge_is_found_by_its_code_and_by_who_paid_it(service: Service, caller: Caller) -> None:
    stranger = await open_holder(service, account_number="2")
    request = ChargeRequest(amount_cents=55, key=own_key(), payer=Payer(name="Zilda", tax_id="52998224725"))
    charge = await charge_usecases.create_charge(service.context, caller, request)
    its = ("charge", str(charge.id))
    static = format_static_br_code(own_key(), "Loja", "Sao Paulo", txid=charge.txid[:25])
    for code, found in ((charge.br_code, {its}), (f" {charge.br_code}\n", {its}), (static, set[tuple[str, str]]())):
        assert await known(service, code, caller.holder_id) == await known(service, code, None) == found
        assert await known(service, code, stranger.holder_id) == set()
    assert its not in await known(service, outside_party().name, None)
    await receive_credit(service.context, credit_report(service, txid=charge.txid, amount_cents=55))
    assert its in await known(service, outside_party().name, None)
    assert its in await known(service, f"0,55 {outside_party().name}", caller.holder_id)
    [(found, _)] = (await search.find_with_origins(as_operator(service.context), charge.txid))[0]
    assert (found.party, found.named_payer, found.settled_at is None) == (outside_party().name, "Zilda", False)
    await make_charge(service, caller, amount_cents=55)
    # The one whom it names is not shown as its payer, and only those who may see transfers see who paid.
    async with open_console(service) as console:
        own = console.nobody.of(await sign_in_client(console, caller.holder_id))
        blind = console.nobody.of(await sign_in_client(console, caller.holder_id, "charge.read"))
        for path in ("/", "/charges", f"/charges/{charge.id}", "/search?q=0,55"):
            page = (await own.get(path)).content.decode()
            assert "Joana Prado" in page, path
            assert '<span class="quiet">***.456.789-**</span>; issued to Zilda' in page, path
            assert "Joana" not in (await blind.get(path)).content.decode(), path
        assert "paid on" in (await own.get("/charges")).content.decode()


async def test_a_charge_of_yesterday_that_is_paid_today_did_not_come_yesterday(service: Service, caller: Caller) -> None:
    async def found(text: str) -> list[tuple[str, str | None]]:
        viewer = Viewer(holder_id=caller.holder_id, scopes=frozenset(SCOPES))
        known = await search.find_known(service.context, viewer, text)
        return sorted((one.kind, one.external_id) for one in known.found)

    request = ChargeRequest(amount_cents=2550, key=own_key(), external_id="order-7788")
    charge = await charge_usecases.create_charge(service.context, caller, request)
    service.clock.advance(hours=23, minutes=50)
    assert await found("25,50 yesterday") == [("charge", "order-7788")], "it may still be paid"
    paid_by = credit_report(service, amount_cents=2550, txid=charge.txid)
    await receive_credit(service.context, paid_by)
    assert await found("25,50 yesterday") == []
    assert await found("25,50 today") == [("transfer", "order-7788")]
    assert await found(paid_by.end_to_end_id) == [("transfer", "order-7788")]
    # Its name's beginning is found by an index, a part of it back from the newest, and no other beginning.
    for text, count in (("ord", 1), ("rder-7788", 1), ("RDER-77", 1), ("rder-2", 0), ("or", 0), ("7788", 1), ("788", 0)):
        assert len(await found(text)) == count, text
    # A word without digits is a name first, and a part of one of ours if nobody has it.
    for text, count in (("rder", 1), ("RDER-", 1), ("der", 0), ("rdre", 0), ("rder today", 0)):
        assert len(await found(text)) == count, text
    request = ChargeRequest(amount_cents=1, key=own_key(), external_id="of-Joana")
    await charge_usecases.create_charge(service.context, caller, request)
    assert await found("joana") == [("charge", "order-7788"), ("transfer", "order-7788")]
    assert await found("f-joana") == [("charge", "of-Joana")]
    back = RefundRequest(end_to_end_id=paid_by.end_to_end_id, amount_cents=550)
    refund = await refund_usecases.start_refund(service.context, caller, back)
    await end_orders(service.context, [(refund.return_id, Settled(settled_at=service.clock.now()))])
    [(shown, _), (returned, _)] = (await search.find_with_origins(as_operator(service.context), charge.txid))[0]
    assert (shown.kind, shown.returned_cents, returned.kind, returned.status) == ("charge", 550, "refund", "RETURNED")
    [(paid, _)] = (await search.find_with_origins(as_operator(service.context), "25,50 today"))[0]
    assert paid.settled_at is not None
    (again, _), *_ = (await search.find_with_origins(as_operator(service.context), paid.name or ""))[0]
    assert paid.created_at == again.created_at <= paid.settled_at


async def test_a_whole_number_is_an_id_then_an_amount_then_part_of_a_name(service: Service, caller: Caller) -> None:
    charge = await charge_usecases.create_charge(
        service.context, caller, ChargeRequest(amount_cents=3300, key=own_key(), external_id="1001")
    )
    report = credit_report(service, amount_cents=15_000)
    named = structs.replace(report, debit_party=structs.replace(report.debit_party, name="3 Irmaos"), payer_message="ref 88123")
    await receive_credit(service.context, named)
    for text in ("1001", "pedido 1001", "#1001", "pedido 1001 de hoje"):
        assert ("charge", str(charge.id)) in await known(service, text, caller.holder_id), text
    assert await known(service, "order 100100", caller.holder_id) == set()
    for text in ("33 hoje", "33 today"):
        assert await known(service, text, caller.holder_id) == {("charge", str(charge.id))}, text
    for text in ("pedido 88123", "88123 150,00 hoje", "150 hoje", "Irmaos 150", "150 de Irmaos hoje", "3 Irmaos"):
        assert {kind for kind, _ in await known(service, text, caller.holder_id)} == {"transfer"}, text
    assert await known(service, "150 ontem", caller.holder_id) == await known(service, "4 Irmaos", None) == set()
    await make_charge(service, caller, amount_cents=3300)
    async with open_console(service) as console:
        own = console.nobody.of(await sign_in_client(console, caller.holder_id))
        page = (await own.get("/search?q=33 hoje")).content.decode()
        assert "amount <strong>R$ 33,00</strong>, day <strong>" in page.replace("\u00a0", " ")


async def test_the_words_taken_as_a_name_are_shown(service: Service, caller: Caller) -> None:
    async with open_console(service) as console:
        own = console.nobody.of(await sign_in_client(console, caller.holder_id))
        for text, name in (("bolachas", "<strong>bolachas</strong>"), ("reais", None)):
            page = (await own.get(f"/search?q=25,50%20{text}%20ontem%2014:30")).content.decode()
            assert "The time 14:30 was left out" in page
            assert (f"name, CPF or CNPJ {name or '<strong>'}" in page) == bool(name)


async def test_a_whole_cpf_finds_what_an_institution_reports_by_its_middle(service: Service, caller: Caller) -> None:
    report = credit_report(service, amount_cents=55)
    masked = structs.replace(report.debit_party, name="Ana", tax_id="***.982.247-**")
    await receive_credit(service.context, structs.replace(report, debit_party=masked))
    for text in ("529.982.247-25", "***.982.247-**", "982247"):
        assert {kind for kind, _ in await known(service, text, caller.holder_id)} == {"transfer"}, text
    assert await known(service, "123.456.789-09", caller.holder_id) == set()


async def test_an_endless_search_is_slowed_down_and_a_stranger_is_out(service: Service, caller: Caller) -> None:
    async with open_console(service) as console:
        assert (await console.nobody.get("/search?q=Padaria")).headers["location"].startswith("/sign-in")
        own = console.nobody.of(await sign_in_client(console, caller.holder_id))
        answers = [(await own.get("/search?q=Padaria")).status for _ in range(SEARCHES.tokens_max + 40)]
        assert 429 in answers
        assert answers[0] == 200
