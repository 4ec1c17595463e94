"""``cob``: every rule on immediate charges, through the central bank's API with a real database."""

from typing import Any

import pytest

from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.rules.access import Caller
from support.api import Api, told
from support.books import check_books
from support.records import own_key
from support.service import Service, credit_report

TXID = "order000000000000000000001"
PATH = f"/v2/cob/{TXID}"
KEY = own_key()
CPF, CNPJ = "52998224725", "11222333000181"
REMOVAL = {"status": "REMOVIDA_PELO_USUARIO_RECEBEDOR"}
SPAN = "inicio=2026-07-01T00:00:00Z&fim=2026-07-02T00:00:00Z"


def a_body(**changes: Any) -> dict[str, Any]:
    return {"calendario": {"expiracao": 3600}, "valor": {"original": "10.00"}, "chave": KEY} | changes


async def pay(service: Service, cents: int = 1000, txid: str = TXID) -> str | None:
    return (await receive_credit(service.context, credit_report(service, amount_cents=cents, txid=txid))).refusal_code


async def test_a_charge_is_echoed_as_it_was_sent(door: Api, service: Service) -> None:
    body = a_body(
        calendario={"expiracao": "3600"},
        devedor={"cnpj": CNPJ, "nome": "Loja", "email": "a@b.c"},
        valor={"original": "37.00", "modalidadeAlteracao": "1"},
        solicitacaoPagador="Qual o pedido?",
        infoAdicionais=[{"nome": "Campo", "valor": "Valor"}],
        txid="ignored",
    )
    made = await door.put(f"/pix/v2/cob/{TXID}/", body)
    assert made.status == 201
    assert "location" not in made.headers
    answer = made.body
    loc, code = answer.pop("loc"), answer.pop("pixCopiaECola")
    assert answer == {
        "calendario": {"criacao": "2026-07-01T15:00:00.000Z", "expiracao": 3600},
        "txid": TXID,
        "revisao": 0,
        "devedor": {"cnpj": CNPJ, "nome": "Loja"},
        "location": loc["location"],
        "status": "ATIVA",
        "valor": {"original": "37.00", "modalidadeAlteracao": 1},
        "chave": KEY,
        "solicitacaoPagador": "Qual o pedido?",
        "infoAdicionais": [{"nome": "Campo", "valor": "Valor"}],
    }
    assert (loc.keys(), loc["txid"], loc["tipoCob"]) == ({"id", "location", "tipoCob", "criacao", "txid"}, TXID, "cob")
    assert loc["location"] in code
    assert len(loc["location"]) <= 77
    assert not loc["location"].startswith("http")
    assert TXID not in loc["location"]
    assert (await door.get(PATH)).body == made.body


async def test_what_is_left_out_stays_so_and_a_post_makes_the_txid(door: Api) -> None:
    made = await door.post(
        "/v2/cob", {"valor": {"original": "0.01"}, "chave": KEY.upper(), "devedor": None, "infoAdicionais": []}
    )
    assert made.status == 201
    assert len(made.body["txid"]) == 32
    assert made.body["calendario"]["expiracao"] == 86_400
    assert made.body["valor"] == {"original": "0.01"}
    assert made.body["chave"] == KEY
    assert not made.body.keys() & {"devedor", "infoAdicionais", "solicitacaoPagador", "pix"}


LINES = [{"nome": "a", "valor": "b"}]
FORM: list[tuple[dict[str, Any], list[tuple[str, str | None]]]] = [
    ({"calendario": {"expiracao": 0}}, [("cob.calendario.expiracao", "0")]),
    ({"calendario": {"expiracao": 2**31}}, [("cob.calendario.expiracao", str(2**31))]),
    ({"calendario": 3600}, [("cob.calendario", "3600")]),
    ({"valor": None}, [("cob.valor", None)]),
    ({"valor": {}}, [("cob.valor.original", None)]),
    ({"valor": {"original": 10.0}}, [("cob.valor.original", "10.0")]),
    ({"valor": {"original": "0.00"}}, [("cob.valor.original", "0.00")]),
    ({"valor": {"original": "0.00", "modalidadeAlteracao": 0}}, [("cob.valor.original", "0.00")]),
    ({"valor": {"original": "1.00", "modalidadeAlteracao": 2}}, [("cob.valor.modalidadeAlteracao", "2")]),
    ({"valor": {"original": "1.00", "retirada": {"saque": {}}}}, [("cob.valor.retirada", '{"saque":{}}')]),
    ({"devedor": {}}, [("cob.devedor", "{}"), ("cob.devedor.nome", None)]),
    ({"devedor": {"nome": "A"}}, [("cob.devedor", '{"nome":"A"}')]),
    ({"devedor": {"cpf": CPF}}, [("cob.devedor.nome", None)]),
    ({"devedor": {"cpf": CPF, "nome": ""}}, [("cob.devedor.nome", "")]),
    ({"devedor": {"cpf": CPF, "nome": "A" * 201}}, [("cob.devedor.nome", "A" * 200)]),
    ({"devedor": {"cpf": CPF, "cnpj": CNPJ, "nome": "A"}}, [("cob.devedor.cnpj", CNPJ)]),
    ({"devedor": {"cpf": "52998224724", "nome": "A"}}, [("cob.devedor.cpf", "52998224724")]),
    ({"chave": None}, [("cob.chave", None)]),
    ({"chave": "no key"}, [("cob.chave", "no key")]),
    ({"chave": "a" * 78 + "@b.c"}, [("cob.chave", "a" * 78 + "@b.c")]),
    ({"chave": "else@test.example"}, [("cob.chave", "else@test.example")]),
    ({"solicitacaoPagador": "x" * 141}, [("cob.solicitacaoPagador", "x" * 141)]),
    ({"infoAdicionais": [1]}, [("cob.infoAdicionais[0]", "1")]),
    ({"infoAdicionais": [{"nome": "a"}]}, [("cob.infoAdicionais[0].valor", None)]),
    ({"infoAdicionais": [*LINES, {"nome": "a" * 51, "valor": "b" * 201}]},
     [("cob.infoAdicionais[1].nome", "a" * 51), ("cob.infoAdicionais[1].valor", "b" * 200)]),
    ({"loc": {}}, [("cob.loc.id", None)]),
    ({"loc": {"id": 404}}, [("cob.loc.id", "404")]),
    ({"loc": 1}, [("cob.loc", "1")]),
    ({"calendario": {"expiracao": 0}, "valor": {"original": "0.00"}, "devedor": 1, "chave": "?", "loc": {}},
     [("cob.calendario.expiracao", "0"), ("cob.valor.original", "0.00"), ("cob.devedor", "1"), ("cob.chave", "?"),
      ("cob.loc.id", None)]),
    ({"chave": "else@test.example", "loc": {"id": 404}}, [("cob.chave", "else@test.example"), ("cob.loc.id", "404")]),
]  # fmt: skip
"""Each rule on the contents, with all its violations."""


async def test_every_rule_on_contents_has_its_row_and_nothing_is_made(door: Api, service: Service) -> None:
    for changes, rows in FORM:
        for answer in (await door.put(PATH, a_body(**changes)), await door.post("/v2/cob", a_body(**changes))):
            found = told(answer)
            assert found == (400, "CobOperacaoInvalida", rows), (changes, found)
    assert (await door.get(PATH)).status == 404
    assert (await door.get(f"/v2/cob?{SPAN}")).body["cobs"] == []


async def test_lines_are_at_most_fifty(door: Api) -> None:
    assert (await door.put(PATH, a_body(infoAdicionais=LINES * 50))).status == 201
    refused = await door.put(PATH, a_body(infoAdicionais=LINES * 51))
    assert [name for name, _ in told(refused)[2]] == ["cob.infoAdicionais"]


@pytest.mark.parametrize("txid", ["a" * 25, "a" * 36, "a" * 25 + "-", "a" * 25 + "%C3%A9", "a" * 25 + "%0A"])
async def test_a_malformed_txid_names_nothing_and_makes_nothing(door: Api, txid: str) -> None:
    path = f"/v2/cob/{txid}"
    status, kind, ((name, _),) = told(await door.put(path, {}))
    assert (status, kind, name) == (400, "CobOperacaoInvalida", "txid")
    for answer in (await door.get(path), await door.patch(path, {"valor": 1})):
        assert told(answer) == (404, "CobNaoEncontrado", [])


async def test_the_order_of_refusals(door: Api) -> None:
    for call in (door.get(PATH), door.get(f"{PATH}?revisao=x"), door.patch(PATH, {}), door.patch(PATH, {"valor": 1})):
        assert told(await call) == (404, "CobNaoEncontrado", [])
    for body in (b"", b"[]", b"1", b"{"):
        assert told(await door.call("PUT", PATH, body)) == (400, "CobOperacaoInvalida", []), body
    assert (await door.put(PATH, a_body(), token=None)).status == 401
    assert (await door.call("DELETE", PATH)).status == 405


async def test_a_put_again_is_answered_with_the_charge_as_it_is(door: Api, service: Service) -> None:
    made = await door.put(PATH, a_body())
    again = await door.put(
        PATH, a_body(calendario={"expiracao": "3600"}, valor={"original": "10.00", "modalidadeAlteracao": 0})
    )
    assert (again.status, again.body) == (201, made.body)
    revised = await door.put(PATH, a_body(valor={"original": "11.00"}))
    assert (revised.status, revised.body) == (201, made.body | {"revisao": 1, "valor": {"original": "11.00"}})
    assert (await pay(service), await pay(service, 1100)) == ("AM09", None)
    again = await door.put(PATH, a_body(valor={"original": "11.00"}))
    assert (again.status, again.body["status"], again.body["revisao"]) == (201, "CONCLUIDA", 1)
    for changes, rows in (({}, []), ({"chave": "else@test.example"}, [("cob.chave", "else@test.example")])):
        refused = (400, "CobOperacaoInvalida", [*rows, ("cob.status", None)])
        assert told(await door.put(PATH, a_body(**changes))) == refused
    # Another txid, because case matters.
    assert (await door.put(PATH.replace("order", "Order"), a_body())).body["revisao"] == 0
    await check_books(service)


async def test_a_patch_changes_what_it_names_and_keeps_the_rest(door: Api, service: Service) -> None:
    made = (await door.put(PATH, a_body(devedor={"cpf": CPF, "nome": "Ana"}, infoAdicionais=LINES))).body
    for body in ({}, {"valor": {}}, {"calendario": {"expiracao": 3600}}, {"extra": 1}, {"loc": {"id": made["loc"]["id"]}}):
        answer = await door.patch(PATH, body)
        assert (answer.status, answer.body) == (200, made), body
    patched = await door.patch(PATH, {"valor": {"modalidadeAlteracao": 1}, "devedor": {"cnpj": CNPJ, "nome": "Loja"}})
    expected = made | {
        "revisao": 1,
        "valor": {"original": "10.00", "modalidadeAlteracao": 1},
        "devedor": {"cnpj": CNPJ, "nome": "Loja"},
    }
    assert (patched.status, patched.body) == (200, expected)
    free = await door.patch(PATH, {"valor": {"original": "0.00"}})
    assert free.body["valor"] == {"original": "0.00", "modalidadeAlteracao": 1}
    assert (await door.get(f"{PATH}?revisao=0")).body == made
    assert (await door.get(f"{PATH}?revisao=1")).body == expected
    assert (await door.get(f"{PATH}?revisao=2")).body == free.body
    for text in ("3", "-1", "x", "1.0"):
        assert told(await door.get(f"{PATH}?revisao={text}")) == (400, "CobConsultaInvalida", [("revisao", text)])
    await check_books(service)


PATCHES: list[tuple[dict[str, Any], list[tuple[str, str | None]]]] = [
    ({"calendario": None}, [("cob.calendario", "null")]),
    ({"calendario": {"expiracao": 0}}, [("cob.calendario.expiracao", "0")]),
    ({"valor": {"original": "0.00"}}, [("cob.valor.original", "0.00")]),
    ({"valor": {"original": "x"}}, [("cob.valor.original", "x")]),
    ({"devedor": {"nome": "A"}}, [("cob.devedor", '{"nome":"A"}')]),
    ({"chave": "?"}, [("cob.chave", "?")]),
    ({"chave": "else@test.example"}, [("cob.chave", "else@test.example")]),
    ({"solicitacaoPagador": "x" * 141}, [("cob.solicitacaoPagador", "x" * 141)]),
    ({"infoAdicionais": [{}]}, [("cob.infoAdicionais[0].nome", None), ("cob.infoAdicionais[0].valor", None)]),
    ({"loc": {"id": 404}}, [("cob.loc.id", "404")]),
    ({"status": "CONCLUIDA"}, [("cob.status", "CONCLUIDA")]),
    ({"status": "REMOVIDA_PELO_PSP"}, [("cob.status", "REMOVIDA_PELO_PSP")]),
    (REMOVAL | {"chave": KEY}, [("cob.status", REMOVAL["status"])]),
    (REMOVAL | {"loc": {"id": 1}}, [("cob.status", REMOVAL["status"])]),
]


async def test_every_rule_on_patches_has_its_row_and_nothing_is_changed(door: Api) -> None:
    made = (await door.put(PATH, a_body())).body
    for body, rows in PATCHES:
        found = told(await door.patch(PATH, body))
        assert found == (400, "CobOperacaoInvalida", rows), (body, found)
    assert (await door.get(PATH)).body == made


async def test_a_paid_charge_shows_the_pix_that_paid_it(door: Api, service: Service) -> None:
    await door.put(PATH, a_body(valor={"original": "0.00", "modalidadeAlteracao": 1}))
    assert await pay(service, 777) is None
    paid = (await door.get(PATH)).body
    (pix,) = paid["pix"]
    assert (paid["status"], paid["revisao"], paid["valor"]["original"]) == ("CONCLUIDA", 0, "0.00")
    assert (pix["txid"], pix["valor"]) == (TXID, "7.77")
    assert (await door.get(f"/v2/pix/{pix['endToEndId']}")).body == pix
    assert (await door.get(f"/v2/cob?{SPAN}")).body["cobs"] == [paid]


async def test_another_holder_sees_nothing_of_it_and_may_use_its_txid(door: Api) -> None:
    await door.put(PATH, a_body())
    for answer in (await door.get(PATH, token="other"), await door.patch(PATH, REMOVAL, token="other")):
        assert told(answer) == (404, "CobNaoEncontrado", [])
    body = a_body(chave=own_key("2"))
    made = await door.put(PATH, body, token="other")
    assert (made.status, made.body["chave"]) == (201, own_key("2"))
    assert told(await door.put(PATH, body | {"chave": KEY}, token="other"))[2] == [("cob.chave", KEY)]


async def test_a_list_has_what_is_asked_for_newest_first(door: Api, service: Service, caller: Caller) -> None:
    made: list[str] = []
    for number in range(5):
        debtor = {"devedor": {"cpf": CPF, "nome": "Ana"}} if number % 2 else {}
        made.append((await door.post("/v2/cob", a_body(**debtor))).body["txid"])
        service.clock.advance(milliseconds=1)
    assert await pay(service, txid=made[1]) is None
    await door.patch(f"/v2/cob/{made[2]}", REMOVAL)
    loc_id = (await door.get(f"/v2/cob/{made[3]}")).body["loc"]["id"]
    await door.call("DELETE", f"/v2/loc/{loc_id}/txid")
    await check_lists(door, made)
    page = (await door.get(f"/v2/cob?{SPAN}&paginacao.itensPorPagina=2&paginacao.paginaAtual=1")).body
    assert [cob["txid"] for cob in page["cobs"]] == [made[2], made[1]]
    assert page["parametros"] == {
        "inicio": "2026-07-01T00:00:00.000Z",
        "fim": "2026-07-02T00:00:00.000Z",
        "paginacao": {"paginaAtual": 1, "itensPorPagina": 2, "quantidadeDePaginas": 3, "quantidadeTotalDeItens": 5},
    }
    beyond = (await door.get(f"/v2/cob?{SPAN}&paginacao.paginaAtual=9")).body
    assert (beyond["cobs"], beyond["parametros"]["paginacao"]["quantidadeTotalDeItens"]) == ([], 5)


async def check_lists(door: Api, made: list[str]) -> None:
    for query, numbers in (
        ("", [4, 3, 2, 1, 0]),
        ("&status=ATIVA", [4, 3, 0]),
        ("&status=CONCLUIDA", [1]),
        ("&status=REMOVIDA_PELO_USUARIO_RECEBEDOR", [2]),
        ("&status=REMOVIDA_PELO_PSP", []),
        (f"&cpf={CPF}", [3, 1]),
        (f"&cpf={CPF}&status=CONCLUIDA", [1]),
        (f"&cpf={CPF}&locationPresente=false", [3]),
        (f"&cpf={CPF}&locationPresente=true", [1]),
        (f"&cnpj={CNPJ}", []),
        ("&locationPresente=false", [3]),
        ("&locationPresente=true", [4, 2, 1, 0]),
        ("&locationPresente=true&status=ATIVA", [4, 0]),
    ):
        body = (await door.get(f"/v2/cob?{SPAN}{query}")).body
        assert [cob["txid"] for cob in body["cobs"]] == [made[number] for number in numbers], query
        assert body["parametros"]["paginacao"]["quantidadeTotalDeItens"] == len(numbers), query
        asked = dict(part.split("=") for part in query.split("&") if part)
        shown = {name: str(value).lower() if value in (True, False) else value for name, value in body["parametros"].items()}
        assert asked.items() <= shown.items()
        assert all(("loc" in cob) == ("location" in cob) == ("pixCopiaECola" in cob) for cob in body["cobs"])


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("", [("inicio", None), ("fim", None)]),
        (f"{SPAN}&cpf={CPF}&cnpj={CNPJ}", [("cnpj", CNPJ)]),
        (f"{SPAN}&status=PENDING", [("status", "PENDING")]),
    ],
)
async def test_every_rule_on_lists_has_its_row(door: Api, query: str, rows: list[tuple[str, str | None]]) -> None:
    assert told(await door.get(f"/v2/cob?{query}")) == (400, "CobConsultaInvalida", rows)


@pytest.mark.parametrize("instant", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
@pytest.mark.parametrize(("path", "name"), [("cob", "cobs"), ("loc", "loc"), ("pix", "pix")])
async def test_nothing_is_found_at_the_first_and_last_instant(door: Api, path: str, name: str, instant: str) -> None:
    answer = await door.get(f"/v2/{path}?inicio={instant}&fim={instant}")
    assert (answer.status, answer.body[name]) == (200, [])
