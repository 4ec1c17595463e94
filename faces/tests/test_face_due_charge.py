"""Charges with a due date at the simulated banks that have them, by the central bank's rules in each bank's words."""

from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest

from faces.tests.test_efi import nome, open_face
from pixconnect.features.institutions.profiles.profile import read_profile
from pixconnect.features.pix_api.service import charge as charge_usecases
from support.faces import KEY, Bank

TXID = "vencimento00000000000000000001"
FACES = ("efi", "inter", "sicoob", "bradesco", "santander")
REFUSALS = {
    "efi": ((400, "cobranca_nao_encontrada"), (400, "valor_invalido"), (400, "chave_invalida")),
    "sicoob": ((404, "NaoEncontrado"), (400, "CobVOperacaoInvalida"), (400, "CobVOperacaoInvalida")),
    "inter": ((404, "CobVNaoEncontrada"), (400, "CobVOperacaoInvalida"), (400, "CobVOperacaoInvalida")),
}
DEBTOR = {"cpf": "12345678909", "nome": "Ana"}


def a_body(bank: Bank, **changes: Any) -> dict[str, Any]:
    due_on = (bank.service.context.clock.now() + timedelta(days=10)).date().isoformat()
    value = {"original": "10.00", "multa": {"modalidade": 2, "valorPerc": "2.00"}}
    return dict(calendario={"dataDeVencimento": due_on}, devedor=DEBTOR, valor=value, chave=KEY) | changes


def path_of(name: str, operation: str, **names: str) -> str:
    standard = read_profile(name.partition("+")[0]).standard
    return (standard.operations[operation].path or f"{standard.prefix}/cobv/{{txid}}").format(**names)


@pytest.mark.parametrize("name", FACES)
async def test_one_is_made_revised_listed_and_paid(bank: Bank, name: str) -> None:
    face, body = await open_face(bank, name), a_body(bank)
    path = path_of(name, "cobv.criar_com_txid", txid=TXID)
    made = await face.call("PUT", path, body)
    assert made.status == (200 if name == "bradesco" else 201), made
    assert made.body["calendario"]["dataDeVencimento"] == body["calendario"]["dataDeVencimento"]
    assert made.body["valor"]["multa"] == {"modalidade": 2, "valorPerc": "2.00"}
    code = made.body["brcode" if name == "sicoob" else "pixCopiaECola"]
    assert made.body["loc"]["location"] in code
    again = await face.call("PUT", path, body)
    assert again.status == (409 if name == "efi" else made.status)
    revision = {"valor": {"original": "12.00"}}
    revised = await face.call("PATCH", path_of(name, "cobv.revisar", txid=TXID), revision)
    assert (revised.status, revised.body["revisao"], revised.body["valor"]["original"]) == (200, 1, "12.00")
    assert "multa" in revised.body["valor"]
    span = "inicio=2020-01-01T00:00:00Z&fim=2099-01-01T00:00:00Z"
    listed = await face.call("GET", f"{path.rpartition('/')[0]}?{span}")
    assert [cob["txid"] for cob in listed.body["cobs"]] == [TXID]
    await bank.be_paid(TXID, 1200)
    paid = (await face.call("GET", path)).body
    assert (paid["status"], paid["pix"][0]["valor"]) == ("CONCLUIDA", "12.00")
    assert ("componentesValor" in paid["pix"][0]) == (name != "efi")


@pytest.mark.parametrize("name", REFUSALS)
async def test_refusals_are_those_of_the_institution(bank: Bank, name: str) -> None:
    face, path = await open_face(bank, name), path_of(name, "cobv.criar_com_txid", txid=TXID)
    missing, amount, key = REFUSALS[name]
    assert nome(await face.call("GET", path)) == missing
    assert nome(await face.call("PUT", path, a_body(bank, valor={"original": "1"}))) == amount
    assert nome(await face.call("PUT", path, a_body(bank, chave="nobody@example.com"))) == key
    refused = await face.call("PUT", path, a_body(bank, calendario={"dataDeVencimento": "2020-01-01"}))
    assert refused.status == 400
    if name != "efi":
        assert [row["propriedade"] for row in refused.body["violacoes"]] == ["cobv.calendario.dataDeVencimento"]


async def test_inters_own_payer_knows_the_kinds_apart(bank: Bank) -> None:
    face = await open_face(bank, "inter+homologation")
    assert (await face.call("PUT", f"/pix/v2/cobv/{TXID}", a_body(bank))).status == 201
    assert nome(await face.call("POST", f"/pix/v2/cob/pagar/{TXID}", {"valor": 10})) == (404, "CobNaoEncontrado")
    absent = await face.call("POST", f"/pix/v2/cobv/pagar/{'b' * 30}", {"valor": 10})
    assert nome(absent) == (404, "CobVNaoEncontrada")


async def test_pictures_of_codes_are_of_either_kind(bank: Bank) -> None:
    sicoob, efi = await open_face(bank, "sicoob"), await open_face(bank, "efi")
    made = await sicoob.call("PUT", f"/pix/api/v2/cobv/{TXID}", a_body(bank))
    for path in (f"cobv/{TXID}", f"loc/{made.body['loc']['id']}"):
        drawn = await sicoob.call("GET", f"/pix/api/v2/{path}/imagem")
        assert (drawn.status, drawn.headers["content-type"]) == (200, "image/png")
    assert (await sicoob.call("GET", f"/pix/api/v2/cob/{TXID}/imagem")).status == 404
    assert (await efi.call("GET", f"/v2/loc/{made.body['loc']['id']}/qrcode")).body["qrcode"] == made.body["brcode"]
    read = await charge_usecases.read_charge(bank.service.context, bank.service.caller, TXID, kind="cobv")
    assert read.charge.br_code == made.body["brcode"]
    assert (await efi.call("GET", f"/v2/webhook/{quote(KEY)}")).status == 400
