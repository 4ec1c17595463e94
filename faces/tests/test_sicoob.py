"""The simulated Sicoob: transfers in two steps, states, statement, and both forms of errors.

Its own library for sending is Java, so these requests are ours, by its API documents.
"""

import asyncio
import json
from datetime import datetime
from typing import Any
from urllib.parse import quote

import pytest
from msgspec import structs

from pixconnect.features.identity.service import access as access_usecases
from pixconnect.kernel.rules.br_code import format_static_br_code
from pixconnect.kernel.rules.listing import SEARCHED_MAX
from pixconnect.kernel.rules.order import GivenUp
from pixconnect.kernel.rules.rail import DirectoryEntry, Rejected
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.platform.base.clock import SAO_PAULO
from support.api import Answer
from support.books import check_books
from support.faces import ACCOUNT, KEY, PAYEE, Bank, FaceClient
from support.operators import as_operator
from support.records import outside_party
from support.service import read_funds
from support.webhooks import running_worker

TOKEN = "/auth/realms/cooperado/protocol/openid-connect/token"
PAYMENTS = "/pix-pagamentos/v2/pagamentos"
CONFIRM = {"meioIniciacao": "CHAVE", "valor": "12,34"}
MANUAL: dict[str, Any] = {
    "ispb": "99999004", "cpfCnpj": "12345678909", "nome": "Ana Lima", "conta": "10017", "agencia": "0019",
    "tipo": "CONTAPAGAMENTO",
}  # fmt: skip


class Sicoob(FaceClient):
    async def initiate(self, key: str = PAYEE) -> str:
        answer = await self.call("POST", PAYMENTS, {"chave": key})
        assert answer.status == 200, answer
        return answer.body["endToEndId"]

    async def confirm(self, end_to_end_id: str | None, **changes: Any) -> Answer:
        named = {} if end_to_end_id is None else {"endToEndId": end_to_end_id}
        return await self.call("POST", f"{PAYMENTS}/confirmacao", CONFIRM | named | changes)

    async def ask(self, end_to_end_id: str) -> Answer:
        return await self.call("GET", f"{PAYMENTS}/{end_to_end_id}")


async def open_sicoob(bank: Bank, name: str = "sicoob", **answers: str) -> Sicoob:
    api = bank.answering(**{f"sicoob.{choice}": answer for choice, answer in answers.items()})
    token = await bank.take_token(api, name)
    assert token["expires_in"] == 300
    assert {"pixpagamentos_escrita", "cco_consulta"} <= set(token["scope"].split())
    return Sicoob(bank, api, name, f"Bearer {token['access_token']}")


def problem(answer: Answer) -> tuple[int, str]:
    body = answer.body
    if "codigo" in body:
        assert set(body) == {"codigo", "mensagem"}
        return answer.status, body["codigo"]
    assert answer.headers["content-type"] == "application/problem+json"
    assert body["status"] == answer.status
    assert {"type", "title", "status", "detail"} <= set(body) <= {"type", "title", "status", "detail", "violacoes"}
    return answer.status, body["type"].rpartition("/")[2]


def refused(answer: Answer) -> list[str]:
    assert problem(answer) == (400, "RequisicaoInvalida"), answer
    return [row["propriedade"] for row in answer.body.get("violacoes", ())]


async def reserved(bank: Bank) -> int:
    return (await read_funds(bank.service, bank.service.caller))[1]


async def test_the_second_step_pays_under_the_name_that_the_first_told(bank: Bank) -> None:
    sicoob = await open_sicoob(bank)
    paid, failed = await sicoob.initiate(), await sicoob.initiate()
    taken = await sicoob.confirm(paid, descricao="nota 7", repeticao=False)
    assert (taken.body["estado"], taken.body["valor"], taken.body["endToEndId"]) == ("EM_PROCESSAMENTO", 12.34, paid)
    assert taken.body["destino"]["cpfCnpj"] == "12345678909"
    assert taken.body["origem"]["conta"] == ACCOUNT
    # A decimal comma is optional: these are reais.
    assert (await sicoob.confirm(failed, valor="199")).body["valor"] == 199
    assert await reserved(bank) == 1234 + 19900
    await sicoob.end_order(paid)
    await sicoob.end_order(failed, Rejected(code="AC03", reason="no such account"))
    assert (await sicoob.ask(paid)).body["estado"] == "FINALIZADO"
    shown = (await sicoob.ask(failed)).body
    assert (shown["estado"], shown["detalheRejeicao"]) == ("REJEITADO", "no such account")
    assert await reserved(bank) == 0


async def test_what_provably_never_left_is_not_done_with_its_accent(bank: Bank) -> None:
    sicoob = await open_sicoob(bank)
    name = await sicoob.initiate()
    await sicoob.confirm(name)
    await bank.service.context.pool.execute("update open_order set give_up_at = due_at")
    await sicoob.end_order(name, GivenUp())
    assert (await sicoob.ask(name)).body["estado"] == "NÃO_REALIZADO"


@pytest.mark.parametrize("choice", ["refused", "answered", "sent_again"])
async def test_a_second_confirmation_is_answered_as_was_chosen(bank: Bank, choice: str) -> None:
    sicoob = await open_sicoob(bank, repeated_confirmation=choice)
    name = await sicoob.initiate()
    assert (await sicoob.confirm(name)).status == 200
    again = await sicoob.confirm(name)
    if choice == "refused":
        assert refused(again) == []
    else:
        assert (again.status, again.body["endToEndId"]) == (200, name)
    assert await reserved(bank) == 1234 * (2 if choice == "sent_again" else 1)
    await check_books(bank.service)
    if choice == "answered":
        # Another amount is another request, and must not return the first.
        assert refused(await sicoob.confirm(name, valor="12,35")) == []
        assert await reserved(bank) == 1234


@pytest.mark.parametrize("choice", ["refused", "answered"])
async def test_of_confirmations_at_once_one_pays(bank: Bank, choice: str) -> None:
    sicoob = await open_sicoob(bank, repeated_confirmation=choice)
    name = await sicoob.initiate()
    answers = await asyncio.gather(*(sicoob.confirm(name) for _ in range(5)))
    assert sorted({answer.status for answer in answers}) == ([200] if choice == "answered" else [200, 400])
    assert await reserved(bank) == 1234


async def test_a_key_that_has_another_owner_by_the_second_step_is_not_paid(bank: Bank) -> None:
    sicoob = await open_sicoob(bank)
    name = await sicoob.initiate()
    party = structs.replace(outside_party(key=PAYEE), tax_id="52998224725")
    bank.service.rail.entries[PAYEE] = DirectoryEntry(key=PAYEE, key_type="EMAIL", party=party)
    assert refused(await sicoob.confirm(name)) == []
    assert await reserved(bank) == 0


async def test_an_equal_payment_is_refused_without_repeticao_where_that_was_chosen(bank: Bank) -> None:
    sicoob = await open_sicoob(bank, equal_payment="refused")
    assert (await sicoob.confirm(await sicoob.initiate())).status == 200
    second = await sicoob.initiate()
    assert refused(await sicoob.confirm(second, repeticao=False)) == []
    assert (await sicoob.confirm(second, repeticao=True)).status == 200
    assert (await sicoob.confirm(await sicoob.initiate(), valor="12,35")).status == 200
    assert await reserved(bank) == 1234 * 2 + 1235


async def test_a_webhook_that_is_removed_while_it_is_changed_is_set(bank: Bank) -> None:
    sicoob = await open_sicoob(bank)
    path, body = f"{PAYMENTS}/webhook", {"webhookUrl": bank.receiver.url}
    for _ in range(3):
        calls = [sicoob.call(method, path, body if method == "PUT" else None) for method in ("PUT", "DELETE") * 4]
        answers = await asyncio.gather(*calls)
        assert max(answer.status for answer in answers[::2]) < 300, answers
        assert {answer.status for answer in answers[1::2]} <= {204, 404}


async def test_equal_payments_are_looked_for_among_the_newest_however_many_there_are(bank: Bank) -> None:
    await bank.count_more(SEARCHED_MAX)
    sicoob = await open_sicoob(bank, equal_payment="refused")
    for valor in ("1,00", "2,00", "3,00"):
        assert (await sicoob.confirm(await sicoob.initiate(), valor=valor)).status == 200
    assert refused(await sicoob.confirm(await sicoob.initiate(), valor="1,00")) == []


async def test_an_account_is_paid_in_one_step(bank: Bank) -> None:
    sicoob = await open_sicoob(bank)
    sent = await sicoob.confirm(None, meioIniciacao="MANUAL", valor="0,5", destino=MANUAL)
    assert (sent.body["valor"], sent.body["destino"]) == (0.5, MANUAL | {"boolFavorecido": False})
    assert (await sicoob.ask(sent.body["endToEndId"])).body == sent.body
    named = await sicoob.confirm(await sicoob.initiate(), meioIniciacao="MANUAL", destino=MANUAL)
    assert refused(named) == ["endToEndId"]
    assert refused(await sicoob.confirm(None, meioIniciacao="MANUAL")) == ["destino"]


async def test_a_code_is_paid_in_one_step_by_its_owner_and_amount(bank: Bank) -> None:
    sicoob = await open_sicoob(bank)
    own = {
        "ispb": "02038232",
        "cpfCnpj": (await own_party(bank)).tax_id,
        "nome": "x",
        "agencia": "1",
        "tipo": "CORRENTE",
    }
    code = format_static_br_code(PAYEE, "Loja", "Recife", amount_cents=1234)
    body = {
        "qrcode": code,
        "valor": "12.34",
        "repeticao": False,
        "pagarComJurosMulta": False,
        "origem": own | {"conta": ACCOUNT, "agencia": (await own_party(bank)).branch},
        "destino": {"cpfCnpj": "12345678909"},
    }
    path = f"{PAYMENTS}/qrcode"
    paid = await sicoob.call("POST", path, body)
    assert (paid.body["valor"], paid.body["valorOriginal"], paid.body["tipoQrcode"]) == ("12.34", "12.34", "ESTATICO")
    assert (await sicoob.ask(paid.body["endToEndId"])).body["valor"] == 12.34
    assert await reserved(bank) == 1234
    for changes, rows in (
        ({"valor": "12,34"}, ["valor"]),
        ({"valor": "12.35"}, []),
        ({"destino": {"cpfCnpj": "52998224725"}}, []),
        ({"qrcode": "no code"}, []),
        ({"origem": body["origem"] | {"conta": "999"}}, ["origem.conta"]),
    ):
        assert refused(await sicoob.call("POST", path, body | changes)) == rows
    assert await reserved(bank) == 1234


async def own_party(bank: Bank) -> Any:
    return (await bank.service.context.directory.read_account(bank.service.caller.holder_id)).party


async def test_wrong_confirmations_name_what_is_wrong_and_move_nothing(bank: Bank) -> None:
    sicoob = await open_sicoob(bank)
    name = await sicoob.initiate()
    for changes, rows in (
        ({"valor": "12.34"}, ["valor"]),
        ({"valor": 12.34}, ["valor"]),
        ({"valor": "0,00"}, ["valor"]),
        ({"valor": "1,234"}, ["valor"]),
        ({"valor": "9" * 18}, ["valor"]),
        ({"meioIniciacao": "chave"}, ["meioIniciacao"]),
        ({"endToEndId": None}, ["endToEndId"]),
        ({"endToEndId": "E" * 32}, ["endToEndId"]),
        ({"dataAgendamento": "2999-01-01"}, ["dataAgendamento"]),
        ({"repeticao": "sim"}, ["repeticao"]),
        ({"destino": {"cpfCnpj": "52998224725"}}, ["destino.cpfCnpj"]),
        ({"origem": {"conta": "999"}}, ["origem.conta"]),
        ({"valor": "9999999,00"}, []),
    ):
        assert refused(await sicoob.confirm(name, **changes)) == rows, changes
    assert refused(await sicoob.call("POST", PAYMENTS, {"chave": "x"})) == ["chave"]
    assert refused(await sicoob.call("POST", PAYMENTS, {"chave": "nobody@example.com"})) == []
    assert refused(await sicoob.call("POST", PAYMENTS, {"chave": KEY})) == []
    assert await reserved(bank) == 0


async def test_nobody_else_confirms_what_one_initiated(bank: Bank) -> None:
    name = await (await open_sicoob(bank)).initiate()
    found = await transfer_store.find_by_end_to_end_id(bank.service.context.pool, bank.service.caller.holder_id, name)
    assert found is None
    context = bank.service.context
    row = await context.pool.fetchrow("select holder_id from initiated_transfer where end_to_end_id = $1", name)
    assert row is not None
    assert row["holder_id"] == bank.service.caller.holder_id


@pytest.mark.parametrize("form", ["payload", "bare", "status"])
async def test_the_account_is_told_how_its_payments_ended(bank: Bank, form: str) -> None:
    sicoob = await open_sicoob(bank)
    path = f"{PAYMENTS}/webhook"
    assert problem(await sicoob.call("GET", path)) == (404, "NaoEncontrado")
    assert (await sicoob.call("PUT", path, {"webhookUrl": bank.receiver.url})).status == 200
    assert (await sicoob.call("GET", path)).body["webhookUrl"] == bank.receiver.url
    paid, failed = await sicoob.initiate(), await sicoob.initiate()
    assert {(await sicoob.confirm(name)).status for name in (paid, failed)} == {200}
    async with running_worker(bank.choosing(**{"sicoob.notice": form})):
        await sicoob.end_order(paid)
        await sicoob.end_order(failed, Rejected(code="AC03", reason="no such account"))
        await bank.receiver.wait_for(2)
    assert {request.path.rpartition("/")[2] for request in bank.receiver.received} == {"lancamento"}
    bodies = [json.loads(request.body) for request in bank.receiver.received]
    told = {each["id"]: each for each in (body["payload"] if form == "payload" else body for body in bodies)}
    word = "status" if form == "status" else "estado"
    assert told[paid] == {"id": paid, word: "FINALIZADO_SUCESSO", "valor": "12.34"}
    assert told[failed] == {
        "id": failed, word: "FINALIZADO_REJEICAO", "valor": "12.34", "detalheRejeicao": "no such account",
    }  # fmt: skip
    assert (await sicoob.call("DELETE", path)).status == 204
    assert problem(await sicoob.call("DELETE", path)) == (404, "NaoEncontrado")


async def test_the_statement_has_both_directions_and_the_balance_agrees(bank: Bank) -> None:
    sicoob = await open_sicoob(bank)
    e2eid = await bank.be_paid(None, 5000)
    name = await sicoob.initiate()
    await sicoob.confirm(name)
    await sicoob.end_order(name)
    now = datetime.now(SAO_PAULO)
    path = f"/conta-corrente/v4/extrato/{now.month}/{now.year}?numeroContaCorrente={ACCOUNT}"
    shown = (await sicoob.call("GET", path)).body
    assert [(line["tipo"], line["valor"]) for line in shown["transacoes"]] == [
        ("CREDITO", "10000.00"), ("CREDITO", "50.00"), ("DEBITO", "12.34"),
    ]  # fmt: skip
    assert (shown["saldoAnterior"], shown["saldoAtual"]) == ("0.00", "10037.66")
    assert e2eid not in {line["transactionId"] for line in shown["transacoes"]}
    balance = (await sicoob.call("GET", "/conta-corrente/v4/saldo")).body
    assert balance == {"saldo": 10_037.66, "saldoLimite": 0.0, "saldoBloqueado": 0.0}
    chosen = await open_sicoob(bank, account_answer="resultado", transaction_id="end_to_end_id")
    assert (await chosen.call("GET", "/conta-corrente/v4/saldo")).body == {"resultado": balance}
    named = (await chosen.call("GET", path)).body["resultado"]["transacoes"]
    assert [line["transactionId"] for line in named[1:]] == [e2eid, name]
    for wrong in ("extrato/13/2026?numeroContaCorrente=1001", "extrato/2/2026", "saldo?numeroContaCorrente=7",
                  "extrato/2/2026?numeroContaCorrente=1001&diaInicial=30"):  # fmt: skip
        assert problem(await sicoob.call("GET", f"/conta-corrente/v4/{wrong}")) == (400, "400"), wrong


async def test_codes_are_told_as_brcode_and_drawn(bank: Bank) -> None:
    sicoob = await open_sicoob(bank)
    cob = {"calendario": {"expiracao": 3600}, "valor": {"original": "10.00"}, "chave": KEY}
    made = (await sicoob.call("PUT", f"/pix/api/v2/cob/{'a' * 30}", cob)).body
    assert made["brcode"].startswith("000201")
    assert "pixCopiaECola" not in made
    span = "inicio=2020-01-01T00:00:00Z&fim=2099-01-01T00:00:00Z"
    listed = (await sicoob.call("GET", f"/pix/api/v2/cob?{span}")).body["cobs"]
    assert [each["brcode"] for each in listed] == [made["brcode"]]
    for path in (f"cob/{'a' * 30}/imagem?largura=400", f"loc/{made['loc']['id']}/imagem"):
        picture = await sicoob.call("GET", f"/pix/api/v2/{path}")
        assert (picture.status, picture.headers["content-type"], picture.content[:4]) == (200, "image/png", b"\x89PNG")
    assert problem(await sicoob.call("GET", f"/pix/api/v2/cob/{'b' * 30}/imagem")) == (404, "NaoEncontrado")
    without = {name: value for name, value in cob.items() if name != "calendario"}
    answer = await sicoob.call("PUT", f"/pix/api/v2/cob/{'c' * 30}", without)
    assert problem(answer) == (400, "CobOperacaoInvalida")
    assert [row["propriedade"] for row in answer.body["violacoes"]] == ["cob.calendario"]


async def test_refusals_have_their_forms_by_path(bank: Bank) -> None:
    sicoob = await open_sicoob(bank)
    for method, path, expected in (
        ("GET", f"/pix/api/v2/cob/{'z' * 30}", (404, "NaoEncontrado")),
        ("GET", f"/pix/api/v2/webhook/{quote(KEY)}", (404, "NaoEncontrado")),
        ("GET", "/pix/api/v2/cob", (400, "CobOperacaoInvalida")),
        ("GET", "/nothing", (404, "NaoEncontrado")),
        ("DELETE", PAYMENTS, (405, "MetodoNaoPermitido")),
    ):
        assert problem(await sicoob.call(method, path)) == expected
    stranger = Sicoob(bank, bank.answering(), "sicoob", "Bearer wrong")
    assert problem(await stranger.ask("E" * 32)) == (403, "AcessoNegado")
    assert problem(await stranger.call("GET", "/conta-corrente/v4/saldo")) == (403, "403")


async def test_its_own_test_environment_sends_nothing(bank: Bank) -> None:
    sicoob = await open_sicoob(bank, "sicoob+homologation")
    assert {await sicoob.initiate(key) for key in (PAYEE, KEY)} == {"stringstringstringstringstringst"}
    assert refused(await sicoob.confirm("stringstringstringstringstringst")) == ["origem"]


@pytest.mark.parametrize(
    ("scope", "done"),
    [("pixpagamentos_webhook", [200, 403, 403]), ("pixpagamentos_escrita", [403, 200, 403]),
     ("cco_consulta", [403, 403, 200])],
)  # fmt: skip
async def test_each_scope_allows_what_it_is_called_for(bank: Bank, scope: str, done: list[int]) -> None:
    api, client_id = bank.answering(), bank.issued.client.client_id
    login = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": bank.issued.client_secret}
    token = await api.post(f"/faces/sicoob{TOKEN}", login | {"scope": scope}, token=None)
    assert token.body["scope"] == scope
    sicoob = Sicoob(bank, api, "sicoob", f"Bearer {token.body['access_token']}")
    webhook = {"webhookUrl": bank.receiver.url}
    answers = (
        await sicoob.call("PUT", f"{PAYMENTS}/webhook", webhook),
        await sicoob.call("POST", PAYMENTS, {"chave": PAYEE}),
        await sicoob.call("GET", "/conta-corrente/v4/saldo"),
    )
    assert [answer.status for answer in answers] == done
    assert (await sicoob.call("GET", f"{PAYMENTS}/webhook")).status == done[0]


async def test_a_certificate_that_names_the_client_stands_in_for_the_secret_and_binds_the_token(bank: Bank) -> None:
    api, client_id = bank.answering(), bank.issued.client.client_id
    form = f"grant_type=client_credentials&client_id={client_id}&scope=cco_consulta%20openid".encode()

    async def login(certificate: tuple[str, str] | None, name: str = "sicoob", path: str = TOKEN) -> Answer:
        kind = "application/x-www-form-urlencoded"
        return await api.call("POST", f"/faces/{name}{path}", form, token=None, content_type=kind, certificate=certificate)

    mine, anothers = (client_id, "m" * 43), ("another", "a" * 43)
    for certificate in (None, anothers):
        assert (await login(certificate)).body["error"] == "invalid_client"
    assert (await login(mine, "inter", "/oauth/v2/token")).body["error"] == "invalid_client"
    taken = await login(mine)
    assert (taken.status, taken.body["scope"]) == (200, "cco_consulta openid")
    token, path = taken.body["access_token"], "/faces/sicoob/conta-corrente/v4/saldo"
    assert (await api.call("GET", path, token=token, certificate=mine)).status == 200
    for certificate in (None, anothers, (client_id, "n" * 43)):
        assert problem(await api.call("GET", path, token=token, certificate=certificate)) == (403, "403")
    operator = as_operator(bank.service.context)
    await access_usecases.set_certificate(operator, client_id, "r" * 43)
    assert (await login(mine)).body["error"] == "invalid_client"
    assert (await login((client_id, "r" * 43))).status == 200
    await access_usecases.disable_client(operator, client_id)
    assert (await login((client_id, "r" * 43))).body["error"] == "invalid_client"
