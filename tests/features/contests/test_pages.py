"""Contested Pix on pages: soonest deadline first, an answer form that keeps the text; and blocks, for operators."""

import re
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from msgspec import structs

from pixconnect.doors.console.wanted import Wanted
from pixconnect.features.contests.service.defence import do_due
from pixconnect.features.contests.service.infraction_page import browse_infractions
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.rules.access import Caller, Viewer
from pixconnect.kernel.rules.block_report import BlockReport, BlockTerms, InfractionReport
from support.console import InProcess, open_console, sign_in, sign_in_client
from support.records import outside_party
from support.service import Service, credit_report, decided, infraction_report, make_charge, open_holder

PORTUGUESE = {"accept-language": "pt-BR"}
PAID_CENTS = 1_000


@pytest.fixture
async def caller(service: Service) -> Caller:
    return await open_holder(service, funds_cents=0)


@pytest.fixture
async def console(service: Service, caller: Caller) -> AsyncIterator[InProcess]:
    async with open_console(service) as opened:
        yield opened


async def _contest(service: Service, caller: Caller, name: str, *, days: int = 7) -> InfractionReport:
    charge = await make_charge(service, caller, amount_cents=PAID_CENTS)
    told = credit_report(service, amount_cents=PAID_CENTS, txid=charge.txid)
    paid = structs.replace(told, payer_message="thanks for the <shoes>")
    assert (await receive_credit(service.context, paid)).refusal_code is None
    respond_by = service.clock.now() + timedelta(days=days)
    report = infraction_report(service, paid.end_to_end_id, name, respond_by=respond_by)
    assert await take_reports(service.context, [report]) == 1
    return report


async def _id_of(service: Service, name: str) -> int:
    return await service.fetchval("select id from infraction where name = $1", name)


async def test_the_soonest_end_is_first_and_ended_last(service: Service, caller: Caller, console: InProcess) -> None:
    await open_holder(service, account_number="2")
    for name, days in (("I1", 7), ("I2", 3), ("I3", 5), ("I4", 2)):
        told = await _contest(service, caller, name, days=days)
        if name == "I4":
            await take_reports(service.context, [decided(service, told, PAID_CENTS, days=0)])
    ids = {str(await _id_of(service, f"I{number}")): f"I{number}" for number in range(1, 5)}
    operator = console.nobody.of(await sign_in(console, "operator"))
    page = (await operator.get("/infractions")).content.decode()
    assert [ids[each] for each in re.findall(r'href="/infractions/(\d+)"', page)] == ["I2", "I3", "I1", "I4"]
    assert f'data-name="Holder">{caller.holder_id}<' in page
    for query, expected in (
        ("status=taken", ["I4"]),
        ("status=open&amount=%3E10,00", []),
        (f"part={told.end_to_end_id[:20]}&status=taken", ["I4"]),
        ("when=01/01/2020", []),
    ):
        page = (await operator.get(f"/infractions?{query}")).content.decode()
        assert [ids[each] for each in re.findall(r'href="/infractions/(\d+)"', page)] == expected, query
    answer = await operator.get("/infractions?amount=muito", **PORTUGUESE)
    assert (answer.status, 'value="muito"' in answer.content.decode()) == (400, True)
    overview = (await operator.get("/")).content.decode()
    assert "contested Pix to be answered: 3" in overview
    assert (await operator.get("/search?q=I2")).headers["location"] == f"/infractions/{await _id_of(service, 'I2')}"


async def test_a_list_goes_on_where_its_page_ended_in_either_part(service: Service, caller: Caller) -> None:
    for number in range(5):
        told = await _contest(service, caller, f"I{number}", days=7 - number)
        if number < 2:
            await take_reports(service.context, [decided(service, told, days=0)])
    viewer = Viewer(holder_id=caller.holder_id, scopes=caller.scopes)
    for page_size in (1, 2, 3, 4, 5):
        seen, after = list[str](), None
        while after is not None or not seen:
            page = await browse_infractions(service.context, viewer, Wanted(), after, page_size)
            seen += [line.infraction.name for line in page.items]
            after = page.next
        assert seen == ["I4", "I3", "I2", "I1", "I0"], page_size


async def test_the_form_begins_with_what_the_books_know(service: Service, caller: Caller, console: InProcess) -> None:
    told = await _contest(service, caller, "I1")
    path = f"/infractions/{await _id_of(service, 'I1')}"
    own = console.nobody.of(await sign_in_client(console, caller.holder_id))
    for language, words in (
        ("en", ("at most 1,000 characters", "It takes no files", "The payer wrote: thanks for the &lt;shoes&gt;")),
        ("pt-BR", ("até 1.000 caracteres", "Não aceita arquivos", "O pagador escreveu: thanks for the &lt;shoes&gt;")),
    ):
        page = (await own.get(path, **{"accept-language": language})).content.decode()
        draft = page.partition("<textarea")[2].partition("</textarea>")[0]
        assert all(each in page for each in words), language
        assert outside_party().name in draft
        assert told.end_to_end_id in draft
        assert "R$\u00a010,00" in draft
        assert told.words is not None
        assert told.words in page


async def test_an_answer_has_its_act_and_no_form(service: Service, caller: Caller, console: InProcess) -> None:
    await _contest(service, caller, "I1")
    infraction_id = await _id_of(service, "I1")
    path = f"/infractions/{infraction_id}"
    operator = console.nobody.of(await sign_in(console, "operator"))
    for text in ("", "x" * 1_001):
        refused = await operator.post(f"{path}/defend", {"text": text}, **PORTUGUESE)
        page = refused.content.decode()
        assert (refused.status, f"\n{text}</textarea>" in page, 'aria-invalid="true"' in page) == (400, True, True)
        assert f"Tem {'1.001' if text else 0} caracteres" in page
    payment = f"/transfers/{await service.fetchval('select transfer_id from infraction')}"
    assert "to be answered until" in (await operator.get(payment)).content.decode()
    before = await console.audited()
    # Lines end with one character, as an institution counts them.
    typed = f"{'x' * 500}\r\n{'y' * 499}"
    untouched = await operator.post(f"{path}/defend", {"text": typed + "\r\n", "draft": typed})
    assert "is the draft alone" in untouched.content.decode()
    assert (await operator.post(f"{path}/defend", {"text": typed})).status == 303
    assert (await console.audited())[len(before) :] == [("infraction defend", f"infraction {infraction_id}")]
    # The audit is kept for ever, and the text about a payer is not.
    kept = await console.operator.pool.fetchval("select string_agg(\"after\"::text, '') from audit")
    assert ('"characters": 1000' in kept, "xxx" in kept) == (True, False)
    contest = f">Infraction {infraction_id}</a>, answered</span>"
    assert contest in (await operator.get(payment)).content.decode()
    page = (await operator.get(path)).content.decode()
    assert "<textarea" not in page
    assert "The service sends it until the institution confirms." in page
    # Sending the same words again has no effect; others are refused, and stay on the page.
    assert (await operator.post(f"{path}/defend", {"text": typed})).status == 303
    other = await operator.post(f"{path}/defend", {"text": "I sent them"})
    assert (other.status, "I sent them</pre>" in other.content.decode()) == (422, True)
    assert len(await console.audited()) == len(before) + 1
    await do_due(service.context, range(256), 10)
    assert b"The institution has it." in (await operator.get(path)).content


async def test_after_the_deadline_there_is_no_form(service: Service, caller: Caller, console: InProcess) -> None:
    await _contest(service, caller, "I1")
    path = f"/infractions/{await _id_of(service, 'I1')}"
    own = console.nobody.of(await sign_in_client(console, caller.holder_id))
    assert b"<textarea" in (await own.get(path)).content
    service.clock.advance(days=7, seconds=1)
    own = console.nobody.of(await sign_in_client(console, caller.holder_id))
    page = (await own.get(path)).content.decode()
    assert "<textarea" not in page
    assert "The time to answer was over" in page
    assert "can be answered" not in page
    late = await own.post(f"{path}/defend", {"text": "It was delivered"})
    assert (late.status, "It was delivered</pre>" in late.content.decode()) == (422, True)
    assert "contested Pix to be answered" not in (await own.get("/")).content.decode()
    payment = f"/transfers/{await service.fetchval('select transfer_id from infraction')}"
    assert "</a>, without an answer in time" in (await own.get(payment)).content.decode()


async def test_without_rights_there_is_no_form_nor_page(service: Service, caller: Caller, console: InProcess) -> None:
    await _contest(service, caller, "I1")
    path = f"/infractions/{await _id_of(service, 'I1')}"
    reader = console.nobody.of(await sign_in(console, "reader"))
    alone = console.nobody.of(await sign_in_client(console, caller.holder_id, "infraction.read"))
    for browser in (reader, alone):
        page = await browser.get(path)
        assert (page.status, b"<textarea" in page.content) == (200, False)
        assert (await browser.post(f"{path}/defend", {"text": "mine"})).status == 403
    blind = console.nobody.of(await sign_in_client(console, caller.holder_id, "charge.read"))
    assert (await blind.get(path)).status == 403
    assert (await blind.get("/infractions")).status == 403
    assert b"contested Pix to be answered" not in (await blind.get("/")).content
    other = await open_holder(service, account_number="7007")
    stranger = console.nobody.of(await sign_in_client(console, other.holder_id))
    assert (await stranger.get(path)).status == 404
    assert (await stranger.post(f"{path}/defend", {"text": "mine"})).status == 404


async def test_what_was_taken_leads_to_its_refunds(service: Service, caller: Caller, console: InProcess) -> None:
    told = await _contest(service, caller, "I1")
    await take_reports(service.context, [decided(service, told, 400, rest_cents=600)])
    (refund,) = await service.fetch("select id from refund")
    own = console.nobody.of(await sign_in_client(console, caller.holder_id))
    page = (await own.get(f"/infractions/{await _id_of(service, 'I1')}")).content.decode()
    assert f'href="/refunds/{refund["id"]}"' in page
    assert "Decided: the payer gets it back" in page
    assert "Given back: R$ 4,00" in page.replace("\u00a0", " ")
    (charge,) = await service.fetch("select id from charge")
    assert f'href="/charges/{charge["id"]}"' in page
    # And from each of them back to it.
    (received,) = await service.fetch("select id from transfer where direction = 'IN'")
    for belonging in (f"/charges/{charge['id']}", f"/transfers/{received['id']}", f"/refunds/{refund['id']}"):
        page = (await own.get(belonging)).content.decode()
        assert 'href="/infractions/' in page, belonging
        assert ("claims the rest" in page) == ("refunds" not in belonging), belonging
        assert "Refund it" not in page, "the institution returns the rest"


async def test_operators_see_blocks_by_kind(service: Service, caller: Caller, console: InProcess) -> None:
    told = await _contest(service, caller, "I1")
    terms = BlockTerms(reference="PROC-77", kind="judicial", wanted_cents=70_000, held_cents=0)
    other = structs.replace(terms, reference="SEC-1", kind="security", wanted_cents=5)
    blocks = BlockReport(report_id="B1", party=told.party, blocks=(terms, other), reported_at=service.clock.now())
    assert await take_reports(service.context, [blocks]) == 1
    operator = console.nobody.of(await sign_in(console, "operator"))
    page = (await operator.get("/blocks")).content.decode()
    assert all(each in page for each in ("R$\u00a0700,00", "a court", "SEC-1", "I1"))
    assert "PROC-77" not in page
    page = (await operator.get("/blocks?kind=judicial", **PORTUGUESE)).content.decode()
    assert ("R$\u00a0700,00" in page, "SEC-1" in page) == (True, False)
    holder = (await operator.get(f"/holders/{caller.holder_id}")).content.decode()
    assert ("R$\u00a0700,00" in holder, "PROC-77" in holder) == (True, False)
    own = console.nobody.of(await sign_in_client(console, caller.holder_id))
    assert (await own.get("/blocks")).status == 403
