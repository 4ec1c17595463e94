"""The simulated Inter: transfers with an optional key, states, statement, and both forms of errors.

Its own library for sending is no package, so these requests are ours, by its API document.
"""

import asyncio
import json
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from msgspec import structs

from pixconnect.features.movements.service import receive_movement
from pixconnect.kernel.rules.rail import Rejected
from pixconnect.platform.adapters.system import SystemClock
from pixconnect.platform.base.clock import to_day
from support.api import Answer
from support.faces import KEY, PAYEE, Bank, FaceClient
from support.service import movement_report, read_funds
from support.webhooks import running_worker

COB: dict[str, Any] = {"valor": {"original": "10.00"}, "chave": KEY}
SEND: dict[str, Any] = {"valor": 12.34, "descricao": "nota 7", "destinatario": {"tipo": "CHAVE", "chave": PAYEE}}
UUID = "4c5f1d1e-0000-4000-8000-00000000000"
ACCOUNT: dict[str, Any] = {
    "tipo": "DADOS_BANCARIOS", "nome": "Ana Lima", "cpfCnpj": "12345678909", "agencia": "0019",
    "contaCorrente": "10017", "tipoConta": "CONTA_PAGAMENTO", "instituicaoFinanceira": {"ispb": "99999004"},
}  # fmt: skip


class Inter(FaceClient):
    async def send(self, number: int | None = None, **changes: Any) -> Answer:
        headers = {} if number is None else {"x_id_idempotente": f"{UUID}{number}"}
        return await self.call("POST", "/banking/v2/pix", SEND | changes, **headers)

    async def ask(self, code: str) -> dict[str, Any]:
        answer = await self.call("GET", f"/banking/v2/pix/{code}")
        assert answer.status == 200, answer
        return answer.body["transacaoPix"]

    async def end(self, code: str, outcome: Rejected | None = None) -> None:
        await self.end_order((await self.ask(code))["endToEnd"], outcome)


async def open_inter(bank: Bank, name: str = "inter", **answers: str) -> Inter:
    api = bank.answering(**{f"inter.{choice}": answer for choice, answer in answers.items()})
    token = await bank.take_token(api, name)
    assert token["expires_in"] == 3600
    assert {"pagamento-pix.write", "extrato.read"} <= set(token["scope"].split())
    return Inter(bank, api, name, f"Bearer {token['access_token']}")


def title(answer: Answer) -> tuple[int, str]:
    body = answer.body
    if "type" in body:
        assert answer.headers["content-type"] == "application/problem+json"
        return answer.status, body["type"].rpartition("/")[2]
    assert answer.headers["content-type"] == "application/json"
    assert {"title", "detail", "timestamp"} <= set(body) <= {"title", "detail", "timestamp", "violacoes"}
    return answer.status, body["title"]


async def test_the_same_key_sends_once_and_none_sends_again(bank: Bank) -> None:
    inter = await open_inter(bank)
    answers = await asyncio.gather(*(inter.send(1) for _ in range(4)))
    assert {answer.status for answer in answers} == {200}
    (first, *others) = [answer.body for answer in answers]
    assert (first["tipoRetorno"], others) == ("PROCESSADO", [first] * 3)
    assert set(first) == {"tipoRetorno", "codigoSolicitacao", "dataPagamento", "dataOperacao"}
    _, reserved, *_ = await read_funds(bank.service, bank.service.caller)
    assert reserved == 1234
    # Without a key the institution pays each time.
    codes = {(await inter.send()).body["codigoSolicitacao"] for _ in range(2)}
    assert len(codes | {first["codigoSolicitacao"]}) == 3
    _, reserved, *_ = await read_funds(bank.service, bank.service.caller)
    assert reserved == 3 * 1234


async def test_a_send_is_asked_for_by_its_code_until_it_ends(bank: Bank) -> None:
    inter = await open_inter(bank)
    paid, failed = [(await inter.send(number)).body["codigoSolicitacao"] for number in (1, 2)]
    shown = await inter.ask(paid)
    assert (shown["status"], shown["valor"], shown["chave"]) == ("ENVIADO", 12.34, PAYEE)
    assert shown["recebedor"] == {"nome": "Joana Prado", "cpfCnpj": "***.456.789-**"}
    assert "dataHoraMovimento" not in shown
    await inter.end(paid)
    await inter.end(failed, Rejected(code="AC03", reason="no such account"))
    assert (await inter.ask(paid))["status"] == "PAGO"
    shown = await inter.ask(failed)
    assert (shown["status"], shown["erros"]) == ("FALHA", [{"codigoErro": "AC03", "descricaoErro": "no such account"}])
    history = (await inter.call("GET", f"/banking/v2/pix/{paid}")).body["historico"]
    assert [event["status"] for event in history] == ["CRIADO", "PAGO"]


@pytest.mark.parametrize(("code", "status"), [("DS02", "REPROVADO"), ("AB11", "EXPIRADO"), ("AM04", "CANCELADO_SEM_SALDO")])
async def test_what_a_person_must_approve_waits_and_ends_by_the_person(bank: Bank, code: str, status: str) -> None:
    inter = await open_inter(bank, approval="person")
    sent = [(await inter.send(number)).body for number in (1, 2)]
    assert [each["tipoRetorno"] for each in sent] == ["APROVACAO"] * 2
    approved, refused = [each["codigoSolicitacao"] for each in sent]
    assert (await inter.ask(approved))["status"] == "AGUARDANDO_APROVACAO"
    await inter.end(approved)
    await inter.end(refused, Rejected(code=code, reason="no"))
    assert [(await inter.ask(each))["status"] for each in (approved, refused)] == ["PAGO", status]
    available, reserved, *_ = await read_funds(bank.service, bank.service.caller)
    assert (available, reserved) == (1_000_000 - 1234, 0)


async def test_what_no_source_says_is_answered_as_was_chosen(bank: Bank) -> None:
    inter = await open_inter(bank)
    first = (await inter.send(1)).body
    assert title(await inter.send(1, valor=1)) == (422, "Identificador já utilizado")
    unknown = {"tipo": "CHAVE", "chave": "nobody@example.com"}
    assert title(await inter.send(2, destinatario=unknown)) == (400, "Chave não encontrada")
    chosen = await open_inter(
        bank, same_key_other_contents="first_answer", unknown_key="unprocessable", idempotency_header="required"
    )
    assert (await chosen.send(1, valor=1)).body == first
    assert title(await chosen.send(2, destinatario=unknown)) == (422, "Chave não encontrada")
    refused = await chosen.send()
    assert title(refused) == (400, "Requisição inválida")
    assert [row["propriedade"] for row in refused.body["violacoes"]] == ["x-id-idempotente"]


class Later(SystemClock):
    def __init__(self, ahead: timedelta) -> None:
        super().__init__()
        self._ahead = ahead

    def now(self) -> datetime:
        return super().now() + self._ahead


def later(bank: Bank, **ahead: float) -> Bank:
    context = structs.replace(bank.services.context, clock=Later(timedelta(**ahead)))
    return structs.replace(bank, services=structs.replace(bank.services, context=context))


@pytest.mark.long
async def test_a_key_that_is_forgotten_after_a_day_pays_again(bank: Bank) -> None:
    first = (await (await open_inter(bank, key_memory="day")).send(1)).body["codigoSolicitacao"]

    async def send_after(hours: float, memory: str) -> str:
        return (await (await open_inter(later(bank, hours=hours), key_memory=memory)).send(1)).body["codigoSolicitacao"]

    assert await send_after(23, "day") == first
    assert await send_after(25, "ever") == first
    assert await send_after(25, "day") != first
    _, reserved, *_ = await read_funds(bank.service, bank.service.caller)
    assert reserved == 2 * 1234
    inter = await open_inter(later(bank, days=91))
    assert title(await inter.call("GET", f"/banking/v2/pix/{first}")) == (404, "Não encontrado")


async def test_a_repeat_on_a_later_day_is_answered_as_on_the_first(bank: Bank) -> None:
    today = str(to_day(bank.service.context.clock.now()))
    first = await (await open_inter(bank)).send(1, dataPagamento=today)
    tomorrow = await open_inter(later(bank, hours=25))
    repeated = await tomorrow.send(1, dataPagamento=today)
    assert (repeated.status, repeated.body) == (200, first.body)
    assert title(await tomorrow.send(2, dataPagamento=today)) == (400, "Requisição inválida")
    _, reserved, *_ = await read_funds(bank.service, bank.service.caller)
    assert reserved == 1234


async def test_a_pix_is_sent_to_an_account_and_by_a_code(bank: Bank) -> None:
    inter = await open_inter(bank)
    code = (await inter.send(1, destinatario=ACCOUNT, valor="100.00")).body["codigoSolicitacao"]
    shown = await inter.ask(code)
    account = {"codIspb": "99999004", "codAgencia": "0019", "nroConta": "10017", "tipoConta": "CONTA_PAGAMENTO"}
    assert shown["recebedor"] == {"nome": "Ana Lima", "cpfCnpj": "***.456.789-**", **account}
    assert shown["valor"] == 100.0
    unreadable = await inter.send(2, destinatario={"tipo": "PIX_COPIA_E_COLA", "pixCopiaECola": "no code"})
    assert title(unreadable) == (422, "Não foi possível processar o QR Code")


async def test_the_statement_has_both_directions_with_their_names(bank: Bank) -> None:
    inter = await open_inter(bank)
    e2eid = await bank.be_paid(None, 5000)
    code = (await inter.send(1)).body["codigoSolicitacao"]
    await inter.end(code)
    refund = await inter.call("PUT", f"/pix/v2/pix/{e2eid}/devolucao/d1", {"valor": "4.00"})
    await inter.end_order(refund.body["rtrId"])
    today = to_day(bank.service.context.clock.now())
    span = f"dataInicio={today}&dataFim={today}"
    answer = (await inter.call("GET", f"/banking/v2/extrato/completo?{span}")).body
    lines = answer["transacoes"]
    assert [(line["tipoOperacao"], line["tipoTransacao"], line["valor"]) for line in lines] == [
        ("C", "TRANSFERENCIA", "10000.00"),
        ("C", "PIX", "50.00"),
        ("D", "PIX", "12.34"),
        ("D", "ESTORNO", "4.00"),
    ]
    received, sent, returned = [line["detalhes"] for line in lines[1:]]
    assert (received["endToEndId"], "codigoSolicitacao" in received) == (e2eid, False)
    assert (sent["codigoSolicitacao"], sent["nomeRecebedor"]) == (code, "Joana Prado")
    assert returned["endToEndId"] == e2eid
    paged = (await inter.call("GET", f"/banking/v2/extrato/completo?{span}&tipoOperacao=D&tamanhoPagina=1&pagina=1")).body
    assert (paged["totalElementos"], paged["totalPaginas"], paged["ultimaPagina"]) == (2, 2, True)
    assert paged["transacoes"] == lines[3:]
    simple = (await inter.call("GET", f"/banking/v2/extrato?{span}")).body["transacoes"]
    assert [line["valor"] for line in simple] == [line["valor"] for line in lines]
    as_pix = await open_inter(bank, return_line="PIX")
    named = (await as_pix.call("GET", f"/banking/v2/extrato/completo?{span}&tipoTransacao=PIX")).body
    assert named["totalElementos"] == 3
    balance = (await inter.call("GET", "/banking/v2/saldo")).body
    assert (balance["disponivel"], balance["limite"]) == (10_033.66, 0.0)
    assert (await inter.call("GET", f"/banking/v2/saldo?dataSaldo={today}")).body == {"disponivel": 10_033.66}
    before = today - timedelta(days=1)
    assert (await inter.call("GET", f"/banking/v2/saldo?dataSaldo={before}")).body == {"disponivel": 0.0}


async def test_the_statement_has_what_the_bank_moved_by_itself(bank: Bank) -> None:
    inter = await open_inter(bank)
    context, e2eid = bank.service.context, await bank.be_paid(None, 5000)
    party = (await context.directory.read_account(bank.service.caller.holder_id)).party
    yesterday = context.clock.now() - timedelta(days=1)
    for number, kind in enumerate(("fee", "by_hand", "judicial"), 1):
        fee = movement_report(bank.service, f"M{number}", kind=kind, party=party, end_to_end_id=e2eid, settled_at=yesterday)
        await receive_movement(context, structs.replace(fee, description=None if kind == "fee" else kind))
    today = to_day(context.clock.now())
    span = f"dataInicio={today}&dataFim={today}"
    lines = (await inter.call("GET", f"/banking/v2/extrato/completo?{span}")).body["transacoes"][2:]
    assert [(line["tipoOperacao"], line["tipoTransacao"], line["valor"], line["descricao"]) for line in lines] == [
        ("D", "TARIFA", "1.00", "Tarifa"),
        ("D", "TRANSFERENCIA", "1.00", "by_hand"),
        ("D", "OUTROS", "1.00", "judicial"),
    ]
    assert lines[0]["detalhes"] == {"endToEndId": e2eid, "tipoDetalhe": "COMPLETE"}
    assert {(line["dataInclusao"], line["dataTransacao"]) for line in lines} == {(str(today), str(today - timedelta(days=1)))}
    assert (await inter.call("GET", "/banking/v2/saldo")).body["disponivel"] == 10_047.0


async def test_the_account_is_told_how_its_sends_ended(bank: Bank) -> None:
    inter = await open_inter(bank)
    path = "/banking/v2/webhooks/pix-pagamento"
    assert title(await inter.call("GET", path)) == (404, "Não encontrado")
    assert (await inter.call("PUT", path, {"webhookUrl": "http://127.0.0.1:9/before"})).status == 204
    assert (await inter.call("PUT", path, {"webhookUrl": bank.receiver.url})).status == 204
    assert (await inter.call("GET", path)).body["webhookUrl"] == bank.receiver.url
    paid, failed = [(await inter.send(number)).body["codigoSolicitacao"] for number in (1, 2)]
    async with running_worker(bank.service):
        await inter.end(paid)
        await inter.end(failed, Rejected(code="AC03", reason="no such account"))
        await bank.receiver.wait_for(2)
    assert {request.path.rpartition("/")[2] for request in bank.receiver.received} == {"pix-pagamento"}
    bodies = [json.loads(request.body) for request in bank.receiver.received]
    told = {each["codigoSolicitacao"]: each for (each,) in bodies}
    assert (told[paid]["status"], told[paid]["valor"], told[paid]["chave"]) == ("EFETIVADO", "12.34", PAYEE)
    assert (told[failed]["status"], told[failed]["erros"][0]["codigoErro"]) == ("ERRO", "AC03")
    assert (await inter.call("DELETE", path)).status == 204
    assert title(await inter.call("PUT", "/banking/v2/webhooks/boleto-pagamento", {})) == (404, "Não encontrado")
    assert title(await inter.call("PUT", path, {"webhookUrl": "not a url"})) == (400, "Requisição inválida")


async def test_an_account_has_one_webhook_however_many_set_it_at_once(bank: Bank) -> None:
    inter, path = await open_inter(bank), "/banking/v2/webhooks/pix-pagamento"
    urls = [f"{bank.receiver.url}/{number}" for number in range(8)]
    answers = await asyncio.gather(*(inter.call("PUT", path, {"webhookUrl": url}) for url in urls))
    assert {answer.status for answer in answers} == {204}
    kept = "select url from webhook_endpoint where profile = 'inter' and pix_key is null"
    assert [row["url"] for row in await bank.service.context.pool.fetch(kept)] == [
        (await inter.call("GET", path)).body["webhookUrl"]
    ]
    assert (await inter.call("DELETE", path)).status == 204
    assert await bank.service.context.pool.fetch(kept) == []


REFUSED: list[tuple[str, str, Any, tuple[int, str]]] = [
    ("GET", "/pix/v2/cob/absent0000000000000000000001", None, (404, "CobNaoEncontrado")),
    ("PUT", "/pix/v2/cob/short", COB, (400, "CobOperacaoInvalida")),
    ("GET", "/pix/v2/cob", None, (400, "CobConsultaInvalida")),
    ("GET", "/pix/v2/pix/E99999004202611201234a1B2c3D4e5F", None, (404, "PixNaoEncontrado")),
    ("GET", f"/pix/v2/webhook/{quote(KEY)}", None, (404, "WebhookNaoEncontrado")),
    ("GET", "/pix/v2/webhook/5511987654321", None, (404, "WebhookNaoEncontrado")),
    ("GET", "/pix/v2/webhook", None, (404, "NaoEncontrado")),
    ("GET", "/pix/v2/nothing", None, (404, "NaoEncontrado")),
    ("POST", "/banking/v2/pix", [], (400, "Requisição inválida")),
    ("POST", "/banking/v2/pix", SEND | {"valor": 0}, (400, "Requisição inválida")),
    ("POST", "/banking/v2/pix", SEND | {"valor": 1.005}, (400, "Requisição inválida")),
    ("POST", "/banking/v2/pix", SEND | {"valor": 99_999_999}, (422, "Saldo insuficiente")),
    ("POST", "/banking/v2/pix", SEND | {"dataPagamento": "2999-01-01"}, (422, "Agendamento indisponível")),
    ("POST", "/banking/v2/pix", SEND | {"dataPagamento": "2020-01-01"}, (400, "Requisição inválida")),
    ("POST", "/banking/v2/pix", SEND | {"destinatario": {"tipo": "CHAVE", "chave": KEY}}, (422, "Pagamento recusado")),
    ("GET", "/banking/v2/pix/absent", None, (400, "Requisição inválida")),
    ("GET", f"/banking/v2/pix/{UUID}9", None, (404, "Não encontrado")),
    ("DELETE", "/banking/v2/pix", None, (405, "Método não permitido")),
    ("GET", "/banking/v2/saldo?dataSaldo=2999-01-01", None, (400, "Requisição inválida")),
    ("GET", "/banking/v2/extrato", None, (400, "Requisição inválida")),
    ("GET", "/banking/v2/extrato?dataInicio=2026-01-01&dataFim=2026-06-01", None, (400, "Requisição inválida")),
    ("GET", "/banking/v2/extrato/completo?dataInicio=0001-01-01&dataFim=0001-01-02", None, (400, "Requisição inválida")),
    ("POST", "/pix/v2/cob/pagar/absent0000000000000000000001", {"valor": 1}, (404, "NaoEncontrado")),
]  # fmt: skip


async def test_each_refusal_has_its_form_status_and_name(bank: Bank) -> None:
    inter = await open_inter(bank)
    found = [title(await inter.call(method, path, body)) for method, path, body, _ in REFUSED]
    assert found == [expected for *_, expected in REFUSED]
    no_key = await inter.call("POST", "/banking/v2/pix", SEND, x_id_idempotente="NOT-A-UUID")
    assert title(no_key) == (400, "Requisição inválida")
    assert no_key.body["violacoes"][0]["valor"] == "NOT-A-UUID"
