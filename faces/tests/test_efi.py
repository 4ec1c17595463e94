"""The simulated Efi: its errors, the special amounts of its test environment, and no answers in another API's form."""

import asyncio
from typing import Any
from urllib.parse import quote

import pytest

from pixconnect.kernel.rules.br_code import format_static_br_code
from pixconnect_faces.frame import open_faces
from support.api import Answer
from support.faces import KEY, PAYEE, Bank, FaceClient
from support.service import read_funds

TXID = "efi00000000000000000000000001"
COB: dict[str, Any] = {"valor": {"original": "10.00"}, "chave": KEY}
SEND: dict[str, Any] = {"valor": "1.00", "pagador": {"chave": KEY}, "favorecido": {"chave": PAYEE}}
ACCOUNT: dict[str, Any] = {
    "nome": "Ana Lima", "cpf": "12345678909", "codigoBanco": "99999004", "agencia": "1", "conta": "10017",
    "tipoConta": "cacc",
}  # fmt: skip


class Face(FaceClient):
    async def set_webhook(self, bank: Bank) -> None:
        assert (await self.call("PUT", f"/v2/webhook/{quote(KEY)}", {"webhookUrl": bank.hook})).status == 201


async def open_face(bank: Bank, name: str = "efi", **answers: str) -> Face:
    api = bank.answering(**answers)
    return Face(bank, api, name, f"Bearer {(await bank.take_token(api, name))['access_token']}")


def nome(answer: Answer) -> tuple[int, str]:
    body = answer.body
    if "type" in body:
        assert answer.headers["content-type"] == "application/problem+json"
        return answer.status, body["type"].rpartition("/")[2]
    return answer.status, body.get("nome") or body["error"]


async def test_a_token_says_its_scopes_in_their_words_and_lasts_as_theirs(bank: Bank) -> None:
    token = await bank.take_token(bank.answering())
    assert (token["token_type"], token["expires_in"]) == ("Bearer", 3600)
    assert {"pix.send", "gn.balance.read", "cob.write"} <= set(token["scope"].split())
    assert "transfer.write" not in token["scope"]


async def test_who_has_no_token_or_not_the_scope_is_refused_as_oauth_does(bank: Bank) -> None:
    api = bank.answering()
    missing = await api.get("/faces/efi/v2/cob/x", token=None)
    assert nome(missing) == (401, "invalid_token")
    login = {"grant_type": "client_credentials", "client_id": bank.issued.client.client_id, "scope": "cob.read"}
    token = (await api.post("/faces/efi/oauth/token", login | {"client_secret": bank.issued.client_secret}, token=None)).body
    assert token["scope"] == "cob.read"
    refused = await Face(bank, api, "efi", f"Bearer {token['access_token']}").call("GET", "/v2/gn/saldo")
    assert refused.body == {"error": "insufficient_scope", "error_description": "Access token has insufficient scope"}
    wrong = await api.post("/faces/efi/oauth/token", login | {"client_secret": "wrong"}, token=None)
    assert nome(wrong) == (401, "invalid_client")


REFUSED: list[tuple[str, str, Any, tuple[int, str]]] = [
    ("GET", f"/v2/cob/{TXID}", None, (400, "cobranca_nao_encontrada")),
    ("PATCH", f"/v2/cob/{TXID}", {"valor": {"original": "1.00"}}, (400, "cobranca_nao_encontrada")),
    ("PUT", f"/v2/cob/{TXID}", {**COB, "notification_url": "https://x"}, (400, "json_invalido")),
    ("PUT", f"/v2/cob/{TXID}", {**COB, "chave": "nobody@example.com"}, (400, "chave_invalida")),
    ("PUT", f"/v2/cob/{TXID}", {**COB, "valor": {"original": "1"}}, (400, "valor_invalido")),
    ("PUT", "/v2/cob/short", COB, (400, "json_invalido")),
    ("POST", "/v2/cob", [], (400, "json_invalido")),
    ("GET", "/v2/cob?inicio=2026-02-01T00:00:00Z&fim=2026-01-01T00:00:00Z", None, (400, "valor_invalido")),
    ("GET", "/v2/cob", None, (400, "valor_invalido")),
    ("GET", "/v2/pix/E99999004202611201234a1B2c3D4e5F", None, (400, "pix_nao_encontrado")),
    ("PUT", "/v2/pix/E99999004202611201234a1B2c3D4e5F/devolucao/1", {"valor": "1.00"}, (400, "pix_nao_encontrado")),
    (
        "PUT",
        "/v2/pix/E99999004202611201234a1B2c3D4e5F/devolucao/1",
        {"valor": "1.00", "natureza": "ORIGINAL"},
        (400, "json_invalido"),
    ),
    ("GET", "/v2/pix/E99999004202611201234a1B2c3D4e5F/devolucao/1", None, (400, "devolucao_nao_encontrada")),
    ("GET", "/v2/loc/77", None, (400, "location_nao_encontrada")),
    ("GET", "/v2/loc/77/qrcode", None, (400, "location_nao_encontrada")),
    ("GET", f"/v2/webhook/{quote(KEY)}", None, (400, "webhook_nao_encontrado")),
    ("PUT", f"/v2/webhook/{quote(KEY)}", {}, (400, "valor_invalido")),
    ("PUT", f"/v2/webhook/{quote(KEY)}", {"webhookUrl": "http://127.0.0.1:9/x"}, (400, "webhook_invalido")),
    ("GET", "/v2/gn/pix/enviados/id-envio/absent", None, (404, "PixEnviadoNaoEncontrado")),
    ("GET", "/v2/gn/pix/enviados/absent", None, (404, "PixEnviadoNaoEncontrado")),
    ("GET", "/v2/gn/pix/enviados", None, (400, "PixEnviadoConsultaInvalida")),
    ("GET", "/v2/gn/relatorios/1", None, (404, "RelatorioNaoEncontrado")),
    ("GET", "/v2/gn/relatorios/999999991795320990538", None, (404, "RelatorioNaoEncontrado")),
    (
        "POST",
        "/v2/gn/relatorios/extrato-conciliacao",
        {"dataMovimento": "2999-01-01", "tipoRegistros": {}},
        (400, "RelatorioInvalido"),
    ),
    ("PUT", "/v3/gn/pix/not-a-name", SEND, (400, "json_invalido")),
    ("PUT", "/v3/gn/pix/a1", {**SEND, "valor": "0.00"}, (400, "valor_invalido")),
    ("PUT", "/v3/gn/pix/a1", {**SEND, "favorecido": {"chave": "11987654321"}}, (400, "valor_invalido")),
    ("PUT", "/v3/gn/pix/a1", {**SEND, "favorecido": {"contaBanco": {}}}, (400, "json_invalido")),
    ("PUT", "/v3/gn/pix/a1", {**SEND, "favorecido": {"chave": "nobody@example.com"}}, (404, "chave_favorecido_nao_encontrada")),
    ("PUT", "/v3/gn/pix/a1", {**SEND, "valor": "99999.00"}, (400, "valor_invalido")),
    ("PUT", "/v3/gn/pix/a1", {**SEND, "pagador": {"chave": "nobody@example.com"}}, (400, "chave_invalida")),
    ("DELETE", "/v3/gn/pix/a1", None, (405, "metodo_nao_permitido")),
    ("GET", "/v2/nothing", None, (404, "nao_encontrado")),
]  # fmt: skip


async def test_each_refusal_has_its_status_and_name(bank: Bank) -> None:
    face = await open_face(bank)
    found = [nome(await face.call(method, path, body)) for method, path, body, _ in REFUSED[:17]]
    assert found == [expected for *_, expected in REFUSED[:17]]
    await face.set_webhook(bank)
    found = [nome(await face.call(method, path, body)) for method, path, body, _ in REFUSED[17:]]
    assert found == [expected for *_, expected in REFUSED[17:]]


async def test_nobody_elses_receiver_is_called_for_a_key_that_is_not_the_callers(bank: Bank) -> None:
    face = await open_face(bank)
    answer = await face.call("PUT", "/v2/webhook/nobody%40example.com", {"webhookUrl": bank.hook})
    assert (nome(answer), bank.receiver.received) == ((400, "chave_invalida"), [])


async def test_refunds_at_once_under_one_id_are_one_and_the_others_are_duplicates(bank: Bank) -> None:
    face, e2eid = await open_face(bank), await bank.be_paid(None, 10_000)
    paths = [f"/v2/pix/{e2eid}/devolucao/d{number}" for number in range(4)]

    async def insist(path: str, valor: str) -> Answer:
        answer = await face.call("PUT", path, {"valor": valor})
        # A busy machine may answer that nothing was done.
        return await insist(path, valor) if answer.status == 503 else answer

    calls = [insist(path, valor) for path in paths for valor in ("1.00", "1.00", "2.00")]
    answers = [(each.status, each.body.get("nome")) for each in await asyncio.gather(*calls)]
    for number in range(0, len(answers), 3):
        assert sorted(answers[number : number + 3]) == [(201, None), *[(409, "devolucao_id_duplicado")] * 2]
    assert 400 <= (await read_funds(bank.service, bank.service.caller))[1] <= 800


async def test_of_two_sends_under_one_name_at_once_one_is_taken_and_money_moves_once(bank: Bank) -> None:
    face = await open_face(bank)
    await face.set_webhook(bank)
    answers = await asyncio.gather(*(face.call("PUT", "/v3/gn/pix/twice", SEND) for _ in range(5)))
    assert sorted(answer.status for answer in answers) == [201, 409, 409, 409, 409]
    available, reserved, *_ = await read_funds(bank.service, bank.service.caller)
    assert (available, reserved) == (1_000_000 - 100, 100)


async def test_of_two_charges_under_one_txid_at_once_one_is_made(bank: Bank) -> None:
    face = await open_face(bank)
    bodies = [{**COB, "valor": {"original": f"{number}.00"}} for number in range(1, 5)]
    answers = await asyncio.gather(*(face.call("PUT", f"/v2/cob/{TXID}", body) for body in bodies))
    assert sorted(answer.status for answer in answers) == [201, 409, 409, 409]
    read = await face.call("GET", f"/v2/cob/{TXID}")
    (made,) = (answer for answer in answers if answer.status == 201)
    assert (read.body["valor"], read.body["revisao"]) == (made.body["valor"], 0)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [({}, (422, "pagamento_negado")), ({"efi.above_limit": "invalid"}, (400, "valor_invalido"))],
)
async def test_its_environment_sends_by_amount(bank: Bank, answers: dict[str, str], expected: tuple[int, str]) -> None:
    rules = open_faces("efi")[0].profile.homologation
    bank.service.rail.entries[rules.rejected_key] = bank.service.rail.entries[rules.settled_key]
    face = await open_face(bank, "efi+homologation", **answers)
    await face.set_webhook(bank)
    to_test_key = {**SEND, "favorecido": {"chave": rules.test_key}}
    assert nome(await face.call("PUT", "/v3/gn/pix/a0", SEND)) == (404, "chave_favorecido_nao_encontrada")
    for number, (valor, is_taken) in enumerate([("10.00", True), ("20.00", True), ("20.01", False)], start=1):
        answer = await face.call("PUT", f"/v3/gn/pix/a{number}", {**to_test_key, "valor": valor})
        assert (answer.status if is_taken else nome(answer)) == (201 if is_taken else expected)


async def test_in_their_own_environment_the_key_is_shown_as_it_was_paid_and_codes_are_not(bank: Bank) -> None:
    rules = open_faces("efi")[0].profile.homologation
    bank.service.rail.entries[rules.settled_key] = bank.service.rail.entries[PAYEE]
    face = await open_face(bank, "efi+homologation")
    await face.set_webhook(bank)
    assert (await face.call("PUT", "/v3/gn/pix/a1", {**SEND, "favorecido": {"chave": rules.test_key}})).status == 201
    sent = await face.call("GET", "/v2/gn/pix/enviados/id-envio/a1")
    assert sent.body["favorecido"] == {"chave": rules.test_key}
    paid = await face.call("PUT", "/v2/gn/pix/a2/qrcode", {"pagador": {"chave": KEY}, "pixCopiaECola": "x"})
    assert nome(paid) == (500, "QrcodeErroInterno")


async def test_a_code_is_paid_at_what_it_asks_for(bank: Bank) -> None:
    face = await open_face(bank)
    await face.set_webhook(bank)
    body = {
        "pagador": {"chave": KEY},
        "pixCopiaECola": format_static_br_code(PAYEE, "Loja", "Recife", amount_cents=700),
    }
    paid = await face.call("PUT", "/v2/gn/pix/a1/qrcode", body)
    assert (paid.status, paid.body["valor"], paid.body["idEnvio"]) == (201, "7.00", "a1")
    assert nome(await face.call("PUT", "/v2/gn/pix/a1/qrcode", body)) == (409, "id_envio_duplicado")
    assert nome(await face.call("PUT", "/v3/gn/pix/a1", SEND)) == (409, "id_envio_duplicado")
    for code, expected in (
        (format_static_br_code(PAYEE, "Loja", "Recife"), "qrcode.pixCopiaECola"),
        ("no code", "qrcode.pixCopiaECola"),
        (format_static_br_code("nobody@pix.example", "Loja", "Recife", amount_cents=1), "qrcode.pixCopiaECola"),
        (format_static_br_code(PAYEE, "Loja", "Recife", amount_cents=10**9), "qrcode.pagador"),
        ("", "qrcode.pixCopiaECola"),
    ):
        refused = await face.call("PUT", "/v2/gn/pix/a2/qrcode", {**body, "pixCopiaECola": code})
        assert nome(refused) == (400, "QrcodeOperacaoInvalida"), refused
        assert [row["propriedade"] for row in refused.body["violacoes"]] == [expected], refused
    strange = await open_face(bank, **{"efi.refused_code": "unprocessable"})
    refused = await strange.call("PUT", "/v2/gn/pix/a2/qrcode", {**body, "pixCopiaECola": "no code"})
    assert nome(refused) == (422, "QrcodeOperacaoInvalida")
    assert (await read_funds(bank.service, bank.service.caller))[1] == 700


async def test_an_account_of_the_same_owner_is_of_nobody_else(bank: Bank) -> None:
    face = await open_face(bank)
    await face.set_webhook(bank)
    own = (await bank.service.context.directory.read_account(bank.service.caller.holder_id)).party.tax_id
    kind, other = ("cpf", "cnpj") if len(own) == 11 else ("cnpj", "cpf")
    account = {**{name: value for name, value in ACCOUNT.items() if name != other}, kind: own}
    path = "/v2/gn/pix/{}/mesma-titularidade"
    assert (await face.call("PUT", path.format("a1"), {**SEND, "favorecido": {"contaBanco": account}})).status == 201
    for payee in ({"contaBanco": ACCOUNT}, {"chave": PAYEE}, {"chave": PAYEE, "cpf": ACCOUNT["cpf"]}):
        refused = await face.call("PUT", path.format("a2"), {**SEND, "favorecido": payee})
        assert nome(refused) == (400, "chave_nao_pertence_ao_documento")


@pytest.mark.parametrize(
    ("answers", "too_much", "repeated"),
    [
        ({}, (400, "valor_invalido"), (409, "id_envio_duplicado")),
        (
            {"efi.insufficient_funds": "denied", "efi.repeat_checked": "last"},
            (422, "pagamento_negado"),
            (400, "chave_invalida"),
        ),
    ],
)
async def test_what_no_source_says_is_answered_as_chosen(
    bank: Bank, answers: dict[str, str], too_much: tuple[int, str], repeated: tuple[int, str]
) -> None:
    face = await open_face(bank, **answers)
    await face.set_webhook(bank)
    assert nome(await face.call("PUT", "/v3/gn/pix/a1", {**SEND, "valor": "99999.00"})) == too_much
    assert (await face.call("PUT", "/v3/gn/pix/a1", SEND)).status == 201
    wrong = {**SEND, "pagador": {"chave": "nobody@example.com"}}
    assert nome(await face.call("PUT", "/v3/gn/pix/a1", wrong)) == repeated
    assert nome(await face.call("PUT", "/v3/gn/pix/a1", SEND)) == (409, "id_envio_duplicado")


@pytest.mark.parametrize(("chosen", "status"), [("any", 200), ("31_days", 400)])
async def test_a_list_may_be_of_as_long_as_was_chosen(bank: Bank, chosen: str, status: int) -> None:
    face = await open_face(bank, **{"efi.interval": chosen})
    about = open_faces("efi")[0].profile.choices["interval"].about
    for path, name in (
        ("/v2/cob", "valor_invalido"),
        ("/v2/pix", "valor_invalido"),
        ("/v2/gn/pix/enviados", "PixEnviadoConsultaInvalida"),
    ):
        assert name in about
        for fim, expected in (("2026-02-01T00:00:00Z", 200), ("2026-02-01T00:00:01Z", status)):
            answer = await face.call("GET", f"{path}?inicio=2026-01-01T00:00:00Z&fim={fim}")
            assert (answer.status if expected == 200 else nome(answer)) == (200 if expected == 200 else (400, name))


async def test_the_buckets_say_how_many_keys_may_be_asked_for(bank: Bank) -> None:
    face = await open_face(bank)
    await face.set_webhook(bank)
    before = (await face.call("GET", "/v2/gn/chaves/balde")).body
    await face.call("PUT", "/v3/gn/pix/a1", {**SEND, "favorecido": {"chave": "nobody@example.com"}})
    after = (await face.call("GET", "/v2/gn/chaves/balde")).body
    assert before["baldeA"]["tiposChave"] == ["cpf", "cnpj", "evp"]
    assert after["baldeB"]["fichasDisponiveis"] < before["baldeB"]["fichasDisponiveis"] <= before["baldeB"]["capacidade"]
