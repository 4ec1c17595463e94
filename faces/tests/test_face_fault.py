"""Faults of a simulated bank by rules: the answer to the caller, and the effect on the money."""

import asyncio
from typing import Any, cast
from urllib.parse import quote

import pytest
from msgspec import structs

from faces.tests.test_efi import COB, SEND, TXID, Face, nome, open_face
from faces.tests.test_inter import open_inter
from faces.tests.test_sicoob import open_sicoob
from faces.tests.test_woovi import CHARGE, PAYMENT, open_woovi
from pixconnect.features.sandbox.rules import FaultRule, SandboxControl
from pixconnect.features.sandbox.service.sandbox import SANDBOX_CONTROL
from pixconnect.platform.base.clock import to_day
from support.faces import ACCOUNT, KEY, PAYEE, Bank, Control
from support.service import read_funds
from support.webhooks import running_worker

SPAN = "inicio=2020-01-01T00:00:00Z&fim=2099-01-01T00:00:00Z"


@pytest.fixture
async def control() -> Control:
    return Control()


@pytest.fixture
async def broken(bank: Bank, control: Control) -> Bank:
    context = bank.service.context.with_port(SANDBOX_CONTROL, cast("SandboxControl", control))
    service = structs.replace(bank.service, context=context)
    return structs.replace(bank, service=service, services=structs.replace(bank.services, context=context))


@pytest.fixture
async def face(broken: Bank) -> Face:
    opened = await open_face(broken)
    await opened.set_webhook(broken)
    return opened


async def reserved(bank: Bank) -> int:
    return (await read_funds(bank.service, bank.service.caller))[1]


@pytest.mark.parametrize(("effect", "is_done"), [("no_answer", True), ("lost", False)])
async def test_a_send_without_an_answer_may_have_been_done(
    face: Face, bank: Bank, control: Control, effect: str, is_done: bool
) -> None:
    control.set(("face_write", effect), key=PAYEE, amount_cents=100)
    # The server closes the connection after such a request.
    with pytest.raises(asyncio.CancelledError):
        await face.call("PUT", "/v3/gn/pix/a1", SEND)
    assert await reserved(bank) == (100 if is_done else 0)
    again = await face.call("PUT", "/v3/gn/pix/a1", SEND)
    assert again.status == (409 if is_done else 201)
    assert await reserved(bank) == 100


@pytest.mark.parametrize(("effect", "is_done"), [("html:after", True), ("html:before", False)])
async def test_a_page_with_200_says_nothing_of_it(face: Face, control: Control, effect: str, is_done: bool) -> None:
    control.set(("face_write", effect))
    answer = await face.call("PUT", "/v3/gn/pix/a1", SEND)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    asked = await face.call("GET", "/v2/gn/pix/enviados/id-envio/a1")
    assert asked.status == (200 if is_done else 404)


async def test_a_repeated_request_is_answered_as_a_duplicate(face: Face, bank: Bank, control: Control) -> None:
    control.set(("face_write", "duplicate_answer"))
    assert nome(await face.call("PUT", "/v3/gn/pix/a1", SEND)) == (409, "id_envio_duplicado")
    assert await reserved(bank) == 100


async def test_refusals_by_rules_are_in_the_institutions_form(face: Face, bank: Bank, control: Control) -> None:
    control.set(("face_write", "too_many:7"), ("face_read", "token_ended"), ("face_token", "unavailable"))
    limited = await face.call("PUT", "/v3/gn/pix/a1", SEND)
    assert nome(limited) == (429, "balde_fichas_vazio")
    assert (limited.headers["retry-after"], "bucket-size" in limited.headers) == ("7", True)
    assert await reserved(bank) == 0
    assert nome(await face.call("GET", f"/v2/cob?{SPAN}")) == (401, "invalid_token")
    credentials = {"grant_type": "client_credentials", "client_id": bank.issued.client.client_id}
    credentials["client_secret"] = bank.issued.client_secret
    assert nome(await face.call("POST", "/oauth/token", credentials)) == (503, "temporarily_unavailable")
    # Network rules and used-up rules do not affect a simulated bank.
    control.faults.replace([FaultRule(effect="unavailable")])
    assert (await face.call("PUT", "/v3/gn/pix/a1", SEND)).status == 201


async def test_a_list_that_is_late_has_not_yet_what_is_new(face: Face, control: Control) -> None:
    assert (await face.call("PUT", f"/v2/cob/{TXID}", COB)).status == 201
    assert (await face.call("PUT", "/v3/gn/pix/a1", SEND)).status == 201
    paths = [f"/v2/cob?{SPAN}", f"/v2/gn/pix/enviados?{SPAN}"]
    for path in paths:
        control.set(("face_read", "lag:60"))
        late, whole = await face.call("GET", path), await face.call("GET", path)
        assert [len(each.body.get("cobs") or each.body.get("pix") or ()) for each in (late, whole)] == [0, 1]
        assert late.body["parametros"]["fim"] == whole.body["parametros"]["fim"]
    for path in (f"/v2/cob/{TXID}", "/v2/gn/pix/enviados/id-envio/a1"):
        control.set(("face_read", "lag:60"))
        assert [(await face.call("GET", path)).status for _ in range(2)] == [400 if "cob" in path else 404, 200]
    control.set(("face_read", "lag:0"))
    assert len((await face.call("GET", paths[0])).body["cobs"]) == 1


async def test_what_has_an_institutions_own_form_is_late_too(broken: Bank, control: Control) -> None:
    inter, sicoob, woovi = await open_inter(broken), await open_sicoob(broken), open_woovi(broken)
    code = (await inter.send(1)).body["codigoSolicitacao"]
    e2e = await broken.be_paid(None)
    charge = (await woovi.do("POST", "/charge", CHARGE))["charge"]
    await woovi.do("POST", "/payment", PAYMENT | {"correlationID": "p1"})
    today = to_day(broken.service.context.clock.now())
    span = f"dataInicio={today}&dataFim={today}"
    for path in (f"/banking/v2/extrato?{span}", f"/banking/v2/extrato/completo?{span}"):
        control.set(("face_read", "lag:60"))
        assert [len((await inter.call("GET", path)).body["transacoes"]) for _ in range(2)] == [0, 2]
    month = f"/conta-corrente/v4/extrato/{today.month}/{today.year}?numeroContaCorrente={ACCOUNT}"
    control.set(("face_read", "lag:60"))
    assert [len((await sicoob.call("GET", month)).body["transacoes"]) for _ in range(2)] == [0, 2]
    for seconds, expected in ((60, [404, 200]), (0, [200, 200])):
        control.set(("face_read", f"lag:{seconds}"))
        assert [(await inter.call("GET", f"/banking/v2/pix/{code}")).status for _ in range(2)] == expected
    for path in (f"/charge/{quote(charge['correlationID'], safe='')}", f"/transaction/{e2e}", "/payment/p1"):
        control.set(("face_read", "lag:60"))
        statuses = [(await woovi.call("GET", f"/api/v1{path}")).status for _ in range(2)]
        assert (statuses[0] in (400, 404), statuses[1]) == (True, 200), path


async def test_what_is_skipped_of_woovis_lists_shifts(broken: Bank, control: Control) -> None:
    woovi = open_woovi(broken)
    for number in range(3):
        await woovi.do("POST", "/charge", CHARGE | {"correlationID": f"c{number}"})
        await woovi.do("POST", "/payment", PAYMENT | {"correlationID": f"p{number}"})
        await broken.be_paid(None, 100 + number)

    async def read(path: str, skip: int) -> Any:
        answer = await woovi.do("GET", f"{path}?limit=2&skip={skip}")
        if isinstance(answer, list):
            return [line["value"] for line in answer]
        assert answer["pageInfo"]["skip"] == skip
        (items,) = (value for value in answer.values() if isinstance(value, list))
        return [item.get("payment", item).get("correlationID") or item["value"] for item in items]

    for path in ("/charge", "/payment", "/transaction", "/statement"):
        first, second = await read(path, 0), await read(path, 2)
        control.set(("face_read", "page_shift"))
        assert await read(path, 2) == [first[1], second[0]]
        control.set(("face_read", "page_shift"))
        assert await read(path, 0) == first
    for path in ("/charge?skip=x", "/webhook?skip=x", "/payment/p1?skip=x", "/webhook/public-keys?skip=x"):
        control.set(("face_read", "page_shift"))
        assert (await woovi.call("GET", f"/api/v1{path}")).status == (400 if "charge" in path else 200)


async def test_a_page_that_shifts_repeats_what_the_page_before_had(face: Face, control: Control) -> None:
    for number in range(4):
        assert (await face.call("PUT", f"/v3/gn/pix/a{number}", SEND)).status == 201

    async def read(page: int) -> list[str]:
        paging = f"&paginacao.itensPorPagina=2&paginacao.paginaAtual={page}"
        answer = await face.call("GET", f"/v2/gn/pix/enviados?{SPAN}{paging}")
        return [pix["idEnvio"] for pix in answer.body["pix"]]

    assert [await read(0), await read(1)] == [["a3", "a2"], ["a1", "a0"]]
    control.set(("face_read", "page_shift"))
    assert await read(1) == ["a2", "a1"]


async def test_callbacks_come_twice_or_never(face: Face, broken: Bank, control: Control) -> None:
    receiver = broken.receiver
    control.set(("callback", "duplicate_answer"), ("callback", "lost"), key=KEY)
    for txid in ("efi", "fie", "ief"):
        made = await face.call("PUT", f"/v2/cob/{txid * 10}", COB)
        assert made.status == 201, made
    async with running_worker(broken.service):
        probes_count = len(receiver.received)
        await broken.be_paid("efi" * 10)
        await receiver.wait_for(probes_count + 2)
        assert receiver.received[-1].body == receiver.received[-2].body
        await broken.be_paid("fie" * 10)
        await asyncio.sleep(0.3)
        assert len(receiver.received) == probes_count + 2
        await broken.be_paid("ief" * 10)
        await receiver.wait_for(probes_count + 3)
    assert b"iefief" in receiver.received[-1].body
    assert b"fiefie" not in receiver.received[-1].body.replace(b"ief" * 10, b"")


async def test_rules_by_amount_know_how_each_institution_writes_it(broken: Bank, control: Control) -> None:
    sicoob, inter = await open_sicoob(broken), await open_inter(broken)
    name = await sicoob.initiate()
    control.set(("face_write", "unavailable"), amount_cents=1230)
    assert (await sicoob.confirm(name, valor="12,31")).status == 200
    assert (await sicoob.confirm(name, valor="12,3")).status == 503
    control.set(("face_write", "unavailable"), amount_cents=1230)
    assert (await inter.send(valor=12.3)).status == 503


@pytest.mark.parametrize("place", ["favorecido", "chave", "cob"])
async def test_half_a_letter_is_refused_before_any_rule_looks_at_it(face: Face, broken: Bank, place: str) -> None:
    if place == "favorecido":
        answer = await face.call("PUT", "/v3/gn/pix/a1", SEND | {"favorecido": {"chave": "\ud800"}})
    elif place == "cob":
        answer = await face.call("PUT", f"/v2/cob/{TXID}", COB | {"chave": "\ud800"})
    else:
        answer = await (await open_inter(broken)).send(1, chave="\ud800")
    # Inter ignores unknown members.
    assert answer.status == (200 if place == "chave" else 400)


async def test_a_rule_goes_by_the_key_and_the_amount_of_inters_sends(broken: Bank, control: Control) -> None:
    inter = await open_inter(broken)
    for match in (dict(key=PAYEE), dict(amount_cents=1234)):
        control.set(("face_write", "too_many:30"), **match)
        assert [(await inter.send(1)).status, (await inter.send(1)).status] == [429, 200]
