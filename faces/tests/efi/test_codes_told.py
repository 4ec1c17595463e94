"""The simulated Efi's answer about a code before its payment."""

from datetime import timedelta
from typing import Any

import pytest

from faces.tests.test_efi import COB, TXID, Face, nome, open_face
from pixconnect.kernel.rules import br_code
from pixconnect.kernel.rules.location import OutsideCharge
from support.faces import KEY, PAYEE, Bank
from support.service import STARTED_AT

LOCATION = "pix.shop.example/v2/7d9f0335"
OUTSIDE = br_code.format_dynamic_br_code(LOCATION, "Loja", "Recife")
STATIC = br_code.format_static_br_code(PAYEE, "Loja", "Recife", amount_cents=700)


async def detail(face: Face, code: str) -> Any:
    return await face.call("POST", "/v2/gn/qrcodes/detalhar", {"pixCopiaECola": code})


def ask(bank: Bank, **changes: Any) -> None:
    charge: dict[str, Any] = {"txid": "T" * 32, "key": PAYEE, "amount_cents": 500, "status": "ATIVA"}
    times = {"created_at": STARTED_AT, "expires_at": STARTED_AT + timedelta(hours=1)}
    bank.service.locations.charges[LOCATION] = OutsideCharge(**(charge | times | changes))


async def test_a_code_of_ones_own_is_told_with_who_is_asked(bank: Bank) -> None:
    face = await open_face(bank)
    asked = {"solicitacaoPagador": "Qual o pedido?", "devedor": {"cpf": "52998224725", "nome": "Ana Lima"}}
    made = (await face.call("PUT", f"/v2/cob/{TXID}", COB | asked | {"calendario": {"expiracao": 60}})).body
    answer = await detail(face, made["pixCopiaECola"])
    assert answer.status == 200, answer
    payee = (await bank.service.context.directory.read_account(bank.service.caller.holder_id)).party
    body = answer.body
    recebedor = body.pop("recebedor")
    assert recebedor["nome"] == payee.name
    assert {"cpf", "cnpj"} & set(recebedor)
    shown_at = body["calendario"].pop("apresentacao")
    assert shown_at >= made["calendario"]["criacao"]
    assert body == {
        "tipoCob": "cob",
        "txid": TXID,
        "revisao": 0,
        "calendario": {"criacao": made["calendario"]["criacao"], "expiracao": 60},
        "status": "ATIVA",
        "devedor": {"nome": "Ana Lima", "cpf": "***.982.247-**"},
        "valor": {"original": "10.00"},
        "chave": KEY,
        "solicitacaoPagador": "Qual o pedido?",
    }


async def test_a_code_of_another_institution_is_told_and_costs_a_look_up(bank: Bank) -> None:
    face = await open_face(bank)
    ask(bank, revision=3, question="Obrigado")
    before = (await face.call("GET", "/v2/gn/chaves/balde")).body["baldeA"]["fichasDisponiveis"]
    answer = (await detail(face, OUTSIDE)).body
    assert (answer["txid"], answer["revisao"], answer["valor"]) == ("T" * 32, 3, {"original": "5.00"})
    assert (answer["calendario"]["expiracao"], answer["solicitacaoPagador"]) == (3600, "Obrigado")
    assert answer["recebedor"]["nome"]
    assert (await face.call("GET", "/v2/gn/chaves/balde")).body["baldeA"]["fichasDisponiveis"] < before


@pytest.mark.parametrize(
    ("code", "changes", "expected"),
    [
        (STATIC, {}, (400, "estática")),
        ("no code", {}, (422, "inválido")),
        (OUTSIDE[:-4] + "0000", {}, (422, "inválido")),
        (OUTSIDE, {"key": "nobody@example.com"}, (400, "não foi encontrada")),
        (OUTSIDE, {"key": "no key"}, (400, "não foi encontrada")),
        (OUTSIDE, {"has_due_date": True}, (400, "vencimento")),
    ],
)
async def test_what_cannot_be_told_says_why(bank: Bank, code: str, changes: dict[str, Any], expected: tuple[int, str]) -> None:
    face = await open_face(bank)
    ask(bank, **changes)
    answer = await detail(face, code)
    assert nome(answer) == (expected[0], "QrcodeOperacaoInvalida")
    (row,) = answer.body["violacoes"]
    assert row["propriedade"] == "qrcode.pixCopiaECola"
    assert expected[1] in row["razao"]


async def test_who_looks_up_too_much_has_no_tokens_left(bank: Bank) -> None:
    face = await open_face(bank)
    ask(bank, key="nobody@example.com")
    _, left = await bank.service.context.lookups.read_left(bank.service.context, bank.service.caller.holder_id)
    said = {nome(await detail(face, OUTSIDE)) for _ in range(left // 20 + 2)}
    assert said == {(400, "QrcodeOperacaoInvalida"), (429, "BaldeFichasVazio")}


async def test_their_own_environment_tells_of_no_code_and_of_no_keys(bank: Bank) -> None:
    face = await open_face(bank, "efi+homologation")
    assert nome(await detail(face, STATIC)) == (500, "QrcodeErroInterno")
    assert nome(await face.call("GET", "/v2/gn/evp")) == (500, "erro_interno_servidor")
    assert (await (await open_face(bank)).call("GET", "/v2/gn/evp")).body == {"chaves": []}
