"""``cobv``: every rule on charges with a due date, through the central bank's API with a real database."""

import json
from datetime import UTC, date, datetime
from typing import Any

import pytest
from msgspec import structs

from pixconnect.features.locations import service as payload_usecases
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.platform.base import errors
from pixconnect.platform.base.errors import Violated
from support.api import Api, UseCases, told
from support.books import check_books
from support.records import own_key
from support.service import Service, credit_report

TXID = "boleto00000000000000000001"
PATH = f"/v2/cobv/{TXID}"
KEY = own_key()
CPF, CNPJ = "52998224725", "11222333000181"
REMOVAL = {"status": "REMOVIDA_PELO_USUARIO_RECEBEDOR"}
SPAN = "inicio=2026-07-01T00:00:00Z&fim=2026-07-31T00:00:00Z"
DUE = {"dataDeVencimento": "2026-07-10"}
DEBTOR = {"cpf": CPF, "nome": "Ana"}
DATES = [{"data": "2026-07-05", "valorPerc": "10.00"}, {"data": "2026-07-10", "valorPerc": "5.00"}]
VALUE = {
    "original": "100.00",
    "multa": {"modalidade": 2, "valorPerc": "2.00"},
    "juros": {"modalidade": 3, "valorPerc": "1.00"},
    "abatimento": {"modalidade": 1, "valorPerc": "5.00"},
    "desconto": {"modalidade": 1, "descontoDataFixa": DATES},
}


def a_body(**changes: Any) -> dict[str, Any]:
    return {"calendario": DUE, "devedor": DEBTOR, "valor": {"original": "100.00"}, "chave": KEY} | changes


def set_day(service: Service, day: int) -> None:
    """Noon of a day of July in Sao Paulo."""
    service.clock.advance(seconds=(datetime(2026, 7, day, 15, tzinfo=UTC) - service.clock.now()).total_seconds())


async def pay(service: Service, cents: int, txid: str = TXID) -> str | None:
    report = credit_report(service, amount_cents=cents, txid=txid)
    return (await receive_credit(service.context, structs.replace(report, reported_at=service.clock.now()))).refusal_code


async def read_payload(service: Service, made: dict[str, Any], day: date | None = None) -> dict[str, Any]:
    path = "cobv/" + made["location"].rpartition("/")[2]
    signed = await payload_usecases.read_payload(service.context, path, day)
    return json.loads(signed[signed.index(".{") + 1 : signed.rindex(".")])


async def test_a_charge_is_echoed_as_it_was_sent(door: Api, service: Service) -> None:
    debtor = dict(cnpj=CNPJ, nome="Loja", email="a@b.c", logradouro="Rua A, 1", cidade="Belo Horizonte", uf="MG", cep="3")
    body = a_body(
        calendario={**DUE, "validadeAposVencimento": "20"},
        devedor=debtor,
        valor=VALUE | {"juros": {"modalidade": "3", "valorPerc": "1.00"}},
        solicitacaoPagador="Qual o pedido?",
        infoAdicionais=[{"nome": "Campo", "valor": "Valor"}],
    )
    made = await door.put(f"/pix/v2/cobv/{TXID}/", body)
    assert made.status == 201
    answer = dict(made.body)
    loc, code = answer.pop("loc"), answer.pop("pixCopiaECola")
    assert answer == {
        "calendario": {
            "criacao": "2026-07-01T15:00:00.000Z",
            "dataDeVencimento": "2026-07-10",
            "validadeAposVencimento": 20,
        },
        "txid": TXID,
        "revisao": 0,
        "devedor": debtor,
        "recebedor": {
            "cpf": CPF, "nome": "Maria Souza", "logradouro": "Rua das Flores, 1", "cidade": "Sao Paulo", "uf": "SP",
            "cep": "01310100",
        },
        "location": loc["location"],
        "status": "ATIVA",
        "valor": VALUE,
        "chave": KEY,
        "solicitacaoPagador": "Qual o pedido?",
        "infoAdicionais": [{"nome": "Campo", "valor": "Valor"}],
    }  # fmt: skip
    assert (loc["txid"], loc["tipoCob"]) == (TXID, "cobv")
    assert "/cobv/" in loc["location"]
    assert len(loc["location"]) <= 77
    assert loc["location"] in code
    assert (await door.get(PATH)).body == made.body
    assert (await door.put(PATH, body)).body == made.body
    await check_books(service)


def of_value(part: str, sent: dict[str, Any]) -> dict[str, Any]:
    return {"valor": {"original": "100.00", part: sent}}


FORM: list[tuple[dict[str, Any], list[tuple[str, str | None]]]] = [
    ({"calendario": None}, [("cobv.calendario", None)]),
    ({"calendario": {}}, [("cobv.calendario.dataDeVencimento", None)]),
    *(
        ({"calendario": {"dataDeVencimento": text}}, [("cobv.calendario.dataDeVencimento", str(text))])
        for text in ("2026-02-30", "2026-7-10", "20260710", "2026-07-10T00:00:00Z", "", 20260710)
    ),
    ({"calendario": {**DUE, "validadeAposVencimento": -1}}, [("cobv.calendario.validadeAposVencimento", "-1")]),
    ({"calendario": {**DUE, "validadeAposVencimento": 1.0}}, [("cobv.calendario.validadeAposVencimento", "1.0")]),
    ({"devedor": None}, [("cobv.devedor", None)]),
    ({"devedor": DEBTOR | {"uf": "SPX", "cep": "012345678"}}, [("cobv.devedor.uf", "SPX"), ("cobv.devedor.cep", "012345678")]),
    ({"chave": None}, [("cobv.chave", None)]),
    ({"valor": None}, [("cobv.valor", None)]),
    ({"valor": {"original": "0.00"}}, [("cobv.valor.original", "0.00")]),
    *(
        (of_value(part, {"modalidade": number, "valorPerc": "1.00"}), [(f"cobv.valor.{part}.modalidade", str(number))])
        for part, number in (("multa", 0), ("multa", 3), ("juros", 0), ("juros", 9), ("abatimento", 3), ("desconto", 7))
    ),
    *(
        (of_value(part, {"modalidade": 1, "valorPerc": "1"}), [(f"cobv.valor.{part}.valorPerc", "1")])
        for part in ("multa", "juros", "abatimento")
    ),
    *(
        (of_value(part, {}), [(f"cobv.valor.{part}.modalidade", None), (f"cobv.valor.{part}.valorPerc", None)])
        for part in ("multa", "juros", "abatimento")
    ),
    ({"valor": {"original": "100.00", "multa": "2.00"}}, [("cobv.valor.multa", "2.00")]),
    ({"valor": {"original": "100.00", "desconto": {}}}, [("cobv.valor.desconto.modalidade", None)]),
    # All at once, in the standard's order of violations.
    (
        {
            "calendario": {"dataDeVencimento": "x"}, "devedor": {}, "chave": "x", "solicitacaoPagador": 1,
            "infoAdicionais": 1, "loc": 1, "valor": {},
        },
        [
            ("cobv.calendario.dataDeVencimento", "x"), ("cobv.devedor", "{}"), ("cobv.devedor.nome", None), ("cobv.chave", "x"),
            ("cobv.solicitacaoPagador", "1"), ("cobv.infoAdicionais", "1"), ("cobv.loc", "1"), ("cobv.valor.original", None),
        ],
    ),
]  # fmt: skip
DISCOUNTS: list[tuple[dict[str, Any], list[tuple[str, str | None]]]] = [
    ({"modalidade": 1, "valorPerc": "1.00", "descontoDataFixa": DATES}, [("valorPerc", "1.00")]),
    ({"modalidade": 1, "descontoDataFixa": []}, [("descontoDataFixa", "[]")]),
    ({"modalidade": 2}, [("descontoDataFixa", None)]),
    ({"modalidade": 3}, [("valorPerc", None)]),
    ({"modalidade": 6, "valorPerc": "1.00", "descontoDataFixa": []}, [("descontoDataFixa", "[]")]),
    ({"modalidade": 1, "descontoDataFixa": DATES * 2}, [("descontoDataFixa", None)]),
    (
        {"modalidade": 1, "descontoDataFixa": [{"data": "2026-02-30", "valorPerc": "1.00"}]},
        [("descontoDataFixa[0].data", "2026-02-30")],
    ),
    ({"modalidade": 2, "descontoDataFixa": [7]}, [("descontoDataFixa[0]", "7")]),
    ({"modalidade": 2, "descontoDataFixa": [{"data": "2026-07-05"}]}, [("descontoDataFixa[0].valorPerc", None)]),
]
FORM += [
    ({"valor": {"original": "100.00", "desconto": sent}}, [(f"cobv.valor.desconto.{name}", value) for name, value in rows])
    for sent, rows in DISCOUNTS
]
TERMS: list[tuple[dict[str, Any], list[tuple[str, str | None]]]] = [
    ({"calendario": {"dataDeVencimento": "2026-06-30"}}, [("cobv.calendario.dataDeVencimento", "2026-06-30")]),
    ({"chave": "else@test.example"}, [("cobv.chave", "else@test.example")]),
    ({"loc": {"id": 12345}}, [("cobv.loc.id", "12345")]),
    (
        {"calendario": {"dataDeVencimento": "2026-06-30"}, "chave": "else@test.example", "loc": {"id": 12345}, **of_value(
            "abatimento", {"modalidade": 2, "valorPerc": "100.00"}
        )},
        [
            ("cobv.calendario.dataDeVencimento", "2026-06-30"), ("cobv.chave", "else@test.example"), ("cobv.loc.id", "12345"),
            ("cobv.valor.abatimento.valorPerc", "100.00"),
        ],
    ),
    *(
        (of_value(part, {"modalidade": kind, "valorPerc": "100.00"}), [(f"cobv.valor.{part}.valorPerc", "100.00")])
        for part, kinds in (("abatimento", (1, 2)), ("desconto", (3, 4, 5, 6)))
        for kind in kinds
    ),
    *(
        (
            {"valor": {"original": "100.00", "desconto": {"modalidade": kind, "descontoDataFixa": [
                {"data": "2026-07-11", "valorPerc": "1.00"}, {"data": "2026-07-05", "valorPerc": "100.00"},
                {"data": "2026-07-05", "valorPerc": "2.00"},
            ]}}},
            [
                ("cobv.valor.desconto.descontoDataFixa[0].data", "2026-07-11"),
                ("cobv.valor.desconto.descontoDataFixa[1].valorPerc", "100.00"),
                ("cobv.valor.desconto.descontoDataFixa[2].data", "2026-07-05"),
            ],
        )
        for kind in (1, 2)
    ),
]  # fmt: skip


async def test_everything_that_breaks_a_rule_is_named(door: Api) -> None:
    for changes, rows in FORM + TERMS:
        status, name, found = told(await door.put(PATH, a_body(**changes)))
        assert (status, name) == (400, "CobVOperacaoInvalida"), changes
        assert [place for place, _ in found] == [place for place, _ in rows], changes
        with_value = {place for place, value in rows if value is not None}
        assert [value for place, value in found if place in with_value] == [value for _, value in rows if value is not None], (
            changes
        )
    assert told(await door.get(PATH)) == (404, "CobVNaoEncontrada", [])


async def test_a_patch_changes_what_it_names_and_removes_once(door: Api) -> None:
    await door.put(PATH, a_body(valor=VALUE))
    fine = {"multa": {"modalidade": 1, "valorPerc": "1.00"}}
    patched = await door.patch(PATH, {"calendario": {"validadeAposVencimento": 5}, "valor": fine})
    assert (patched.status, patched.body["revisao"]) == (200, 1)
    assert patched.body["calendario"]["dataDeVencimento"] == "2026-07-10"
    assert patched.body["valor"] == VALUE | fine
    assert (await door.patch(PATH, {})).body["revisao"] == 1
    # The date of a discount would be after the new due date.
    assert told(await door.patch(PATH, {"calendario": {"dataDeVencimento": "2026-07-09"}})) == (
        400,
        "CobVOperacaoInvalida",
        [("cobv.valor.desconto.descontoDataFixa[1].data", "2026-07-10")],
    )
    assert told(await door.patch(PATH, {"valor": {"desconto": None}}))[2] == [("cobv.valor.desconto", "null")]
    assert told(await door.patch(PATH, {"valor": {"original": "0.00"}}))[2] == [("cobv.valor.original", "0.00")]
    assert told(await door.patch(PATH, REMOVAL | {"chave": KEY}))[2] == [("cobv.status", REMOVAL["status"])]
    assert (await door.get(f"{PATH}?revisao=0")).body["valor"] == VALUE
    assert told(await door.get(f"{PATH}?revisao=7")) == (400, "CobVConsultaInvalida", [("revisao", "7")])
    assert (await door.patch(PATH, REMOVAL)).body["status"] == REMOVAL["status"]
    assert told(await door.patch(PATH, REMOVAL))[2] == [("cobv.status", REMOVAL["status"])]
    assert told(await door.put(PATH, a_body()))[2] == [("cobv.status", None)]


async def test_each_kind_is_listed_and_found_by_itself(door: Api, service: Service) -> None:
    await door.put(PATH, a_body())
    other = TXID.replace("boleto", "pedido")
    assert (await door.put(f"/v2/cob/{other}", {"valor": {"original": "1.00"}, "chave": KEY})).status == 201
    for kind, txid in (("cobv", TXID), ("cob", other)):
        listed = await door.get(f"/v2/{kind}?{SPAN}&cpf={CPF}")
        assert listed.body["parametros"]["paginacao"]["quantidadeTotalDeItens"] == (1 if kind == "cobv" else 0)
        listed = await door.get(f"/v2/{kind}?{SPAN}")
        assert [each["txid"] for each in listed.body["cobs"]] == [txid]
        assert listed.body["parametros"]["paginacao"]["quantidadeTotalDeItens"] == 1
    assert told(await door.get(f"/v2/cob/{TXID}")) == (404, "CobNaoEncontrado", [])
    assert told(await door.patch(f"/v2/cobv/{other}", {"chave": KEY})) == (404, "CobVNaoEncontrada", [])
    assert told(await door.put(f"/v2/cob/{TXID}", {"valor": {"original": "1.00"}, "chave": KEY}))[2] == [("txid", TXID)]
    assert told(await door.put(f"/v2/cobv/{other}", a_body()))[2] == [("txid", other)]
    assert told(await door.get(f"/v2/cobv?{SPAN}&status=PAGA")) == (400, "CobVConsultaInvalida", [("status", "PAGA")])
    assert (await door.get(f"/v2/cobv?{SPAN}&locationPresente=false")).body["cobs"] == []
    assert len((await door.get(f"/v2/cobv?{SPAN}&locationPresente=true")).body["cobs"]) == 1
    # The service's own API lists both.
    (location,) = (await door.get(f"/v2/loc?{SPAN}&tipoCob=cobv")).body["loc"]
    assert told(
        await door.put(f"/v2/cob/{other}", {"valor": {"original": "1.00"}, "chave": KEY, "loc": {"id": location["id"]}})
    ) == (400, "CobOperacaoInvalida", [("cob.loc.id", str(location["id"]))])
    await check_books(service)


async def test_the_payload_says_the_amount_of_a_day(door: Api, service: Service) -> None:
    made = (await door.put(PATH, a_body(valor=VALUE, devedor=DEBTOR | {"email": "a@b.c", "cep": "1"}))).body
    assert await read_payload(service, made) == {
        "calendario": made["calendario"] | {"apresentacao": "2026-07-01T15:00:00.000Z"},
        "devedor": DEBTOR,
        "recebedor": made["recebedor"],
        "valor": {"original": "100.00", "abatimento": "5.00", "desconto": "10.00", "final": "85.00"},
        "chave": KEY,
        "txid": TXID,
        "revisao": 0,
        "status": "ATIVA",
    }
    assert (await read_payload(service, made, date(2026, 7, 13)))["valor"] == {
        "original": "100.00", "multa": "1.90", "juros": "0.10", "abatimento": "5.00", "final": "97.00",
    }  # fmt: skip
    # Friday the 10th and 30 days are Sunday the 9th of August, which rolls to Monday.
    assert (await read_payload(service, made, date(2026, 8, 10)))["status"] == "ATIVA"
    for day in (date(2026, 6, 30), date(2026, 8, 11)):
        with pytest.raises(Violated) as violated:
            await read_payload(service, made, day)
        assert [(row.property, row.value) for row in violated.value.rows] == [("DPP", day.isoformat())]
    with pytest.raises(errors.NotFound):
        await payload_usecases.read_payload(service.context, made["location"].rpartition("/")[2])


@pytest.mark.parametrize(("due_on", "valid_days"), [("9999-12-30", 0), ("9999-12-20", 30), ("2026-07-10", 2**31 - 1)])
async def test_the_last_day_of_time_is_served_too(door: Api, service: Service, due_on: str, valid_days: int) -> None:
    calendar = {"dataDeVencimento": due_on, "validadeAposVencimento": valid_days}
    made = (await door.put(PATH, a_body(calendario=calendar))).body
    for day in (None, date(9999, 12, 30)):
        assert (await read_payload(service, made, day))["devedor"] == DEBTOR


async def test_what_a_payer_asks_for_is_read(door: Api, use_cases: UseCases) -> None:
    path = "/v1/qr/cobv/" + "a" * 22
    use_cases.answers |= {"read_payload": lambda *_: "a.b.c", "check_served": lambda *_: None}
    assert (await door.get(f"{path}?DPP=2026-07-13&codMun=3550308&other=1")).content == b"a.b.c"
    _, asked = use_cases.asked[-1]
    assert asked[1:] == ("cobv/" + "a" * 22, date(2026, 7, 13))
    for query, place, value in (
        ("DPP=2026-02-30", "DPP", "2026-02-30"),
        ("DPP=", "DPP", ""),
        ("codMun=355030", "codMun", "355030"),
        ("codMun=9950308", "codMun", "9950308"),
    ):
        assert told(await door.get(f"{path}?{query}")) == (400, "CobPayloadOperacaoInvalida", [(place, value)])
    del use_cases.answers["check_served"]
    assert told(await door.get(f"{path}?DPP=no")) == (404, "CobPayloadNaoEncontrado", [])


async def test_an_ended_charge_names_its_receiver_and_no_debtor(door: Api, service: Service) -> None:
    made = (await door.put(PATH, a_body(valor=VALUE, devedor={"cnpj": CNPJ, "nome": "Loja"}, solicitacaoPagador="?"))).body
    set_day(service, 13)
    assert await pay(service, 9700) is None
    ended = await read_payload(service, made)
    assert (ended["status"], ended["devedor"]) == ("CONCLUIDA", {"nome": "-", "cpf": CPF})
    assert (ended["valor"]["final"], "solicitacaoPagador" in ended) == ("97.00", False)
    read = (await door.get(PATH)).body
    (pix,) = read["pix"]
    assert (read["status"], read["valor"]) == ("CONCLUIDA", VALUE)
    assert (pix["valor"], pix["componentesValor"]) == (
        "97.00",
        {
            "original": {"valor": "100.00"},
            "multa": {"valor": "1.90"},
            "juros": {"valor": "0.10"},
            "abatimento": {"valor": "5.00"},
        },
    )
    assert (await door.get(f"/v2/pix/{pix['endToEndId']}")).body == pix
    await check_books(service)
