"""``GET /pix``: every received Pix, its filters and its pages, through the central bank's API with a real database."""

import itertools
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from msgspec import structs

from pixconnect.features.locations.problem import TYPE_PREFIX
from pixconnect.features.pix_api import rules as received
from pixconnect.features.pix_api import tables as pix_store
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.transfer import KeyTransferRequest
from pixconnect.platform.base.clock import format_milliseconds
from support.api import Api
from support.records import outside_party, own_key
from support.service import STARTED_AT, Service, accepted, credit_report, make_charge

ALL = "inicio=2026-01-01T00:00:00Z&fim=2027-01-01T00:00:00Z"


async def be_paid(service: Service, **changes: Any) -> str:
    """A settled Pix from outside; afterwards a second has passed."""
    report = structs.replace(credit_report(service, txid=changes.pop("txid", None)), **changes)
    await receive_credit(service.context, report)
    service.clock.advance(seconds=1)
    return report.end_to_end_id


async def names(door: Api, query: str) -> list[str]:
    answer = await door.get(f"/v2/pix?{query}")
    assert answer.status == 200, answer
    return [pix["endToEndId"] for pix in answer.body["pix"]]


async def test_all_that_settled_is_listed_newest_first(door: Api, service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller)
    by_key = await be_paid(service, payer_message="obrigado")
    by_charge = await be_paid(service, txid=charge.txid)
    bare = await be_paid(service, txid="PEDIDO1")
    stars = await be_paid(service, txid="***")
    refused = await be_paid(service, txid=charge.txid)  # paid already
    sent = await transfer_usecases.start_transfer(
        service.context, caller, KeyTransferRequest(amount_cents=100, key=own_key("2"), key_type="EMAIL")
    )
    under_way = accepted(credit_report(service))
    await receive_credit(service.context, under_way)
    answer = await door.get(f"/pix/v2/pix/?{ALL}&desconhecido=1")
    assert answer.body["parametros"] == {
        "inicio": "2026-01-01T00:00:00.000Z",
        "fim": "2027-01-01T00:00:00.000Z",
        "paginacao": {"paginaAtual": 0, "itensPorPagina": 100, "quantidadeDePaginas": 1, "quantidadeTotalDeItens": 4},
    }
    shown = answer.body["pix"]
    assert [pix["endToEndId"] for pix in shown] == [stars, bare, by_charge, by_key]
    assert [pix.get("txid") for pix in shown] == [None, "PEDIDO1", charge.txid, None]
    assert [pix.get("componentesValor") for pix in shown] == [None, None, {"original": {"valor": "10.00"}}, None]
    assert [pix.get("infoPagador") for pix in shown] == [None, None, None, "obrigado"]
    assert shown[3]["horario"] == "2026-07-01T15:00:00.000Z"
    for each in shown:
        assert each["valor"] == "10.00"
        assert (await door.get(f"/v2/pix/{each['endToEndId']}")).body == each
    for other in (refused, under_way.end_to_end_id, sent.transfer.end_to_end_id):
        assert (await door.get(f"/v2/pix/{other}")).status == 404
    # The payee of a book transfer received it; that needs no key and no code.
    (theirs,) = (await door.get(f"/v2/pix?{ALL}", token="other")).body["pix"]
    assert theirs["endToEndId"] == sent.transfer.end_to_end_id


@pytest.fixture
async def paid(service: Service, caller: Caller) -> dict[str, str]:
    """A Pix of each special kind, the oldest first."""
    charge = await make_charge(service, caller)
    found = {"key": await be_paid(service), "charge": await be_paid(service, txid=charge.txid), "txid": charge.txid}
    company = structs.replace(outside_party(), tax_id="11444777000161")
    found["company"] = await be_paid(service, debit_party=company, txid="PEDIDO1")
    found["again"] = await be_paid(service, txid="PEDIDO1")
    return found


FILTERS = [
    ("", ["again", "company", "charge", "key"]),
    ("txIdPresente=true", ["again", "company", "charge"]),
    ("txIdPresente=false", ["key"]),
    ("devolucaoPresente=true", ["charge"]),
    ("devolucaoPresente=false", ["again", "company", "key"]),
    ("cnpj=11444777000161", ["company"]),
    ("cpf=12345678909", ["again", "charge", "key"]),
    ("cpf=11144477735", []),
    ("txid={charge}", ["charge"]),
    ("txid=PEDIDO1", ["again", "company"]),
    ("txid=PEDIDO1&cnpj=11444777000161", ["company"]),
    ("txid=pedido1", []),
    ("txid=PEDIDO1&txIdPresente=false", []),
    ("paginacao.itensPorPagina=3", ["again", "company", "charge"]),
    ("paginacao.itensPorPagina=3&paginacao.paginaAtual=1", ["key"]),
    ("paginacao.itensPorPagina=3&paginacao.paginaAtual=2", []),
    ("paginacao.paginaAtual=2147483647&paginacao.itensPorPagina=1000", []),
    ("txIdPresente=true&paginacao.itensPorPagina=1&paginacao.paginaAtual=1", ["company"]),
    ("txid=PEDIDO1&paginacao.itensPorPagina=1&paginacao.paginaAtual=1", ["company"]),
]


async def test_filters_and_pages(door: Api, paid: dict[str, str]) -> None:
    assert (await door.put(f"/v2/pix/{paid['charge']}/devolucao/1", {"valor": "1.00"})).status == 201
    for query, expected in FILTERS:
        asked = query.format(charge=paid["txid"])
        assert await names(door, f"{ALL}&{asked}") == [paid[name] for name in expected], query


@pytest.mark.parametrize("purpose", ["", "1", "FRAUDE & \u00e7\u00e3o", "x" * 200])
async def test_a_purpose_is_repeated_and_filters_nothing(door: Api, paid: dict[str, str], purpose: str) -> None:
    answer = await door.get(f"/v2/pix?{ALL}&finalidadeMED={quote(purpose)}")
    assert (answer.status, answer.body["parametros"]["finalidadeMED"]) == (200, purpose)
    assert {pix["endToEndId"] for pix in answer.body["pix"]} == {paid[name] for name in ("again", "company", "charge", "key")}


async def test_an_instant_that_was_shown_finds_its_item(door: Api, service: Service) -> None:
    service.clock.advance(microseconds=123_987)
    first = await be_paid(service)
    second = await be_paid(service)
    horario = (await door.get(f"/v2/pix/{first}")).body["horario"]
    assert horario == "2026-07-01T15:00:00.123Z"
    assert await names(door, f"inicio={horario}&fim={horario}") == [first]
    # A plus may be encoded or not.
    local = "2026-07-01T17:00:00.123+02:00"
    assert await names(door, f"inicio={local}&fim={quote(local)}") == [first]
    assert await names(door, f"inicio=2026-07-01T15:00:00.123987Z&fim={ALL[-20:]}") == [second]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("", [("inicio", None), ("fim", None)]),
        ("inicio=2026-01-02&fim=x", [("inicio", "2026-01-02"), ("fim", "x")]),
        ("inicio=2026-01-02T00:00:00Z&fim=2026-01-01T00:00:00Z", [("fim", "2026-01-01T00:00:00Z")]),
        (f"{ALL}&cpf=52998224725&cnpj=11444777000161", [("cnpj", "11444777000161")]),
        (f"{ALL}&finalidadeMED={'x' * 201}", [("finalidadeMED", "x" * 200)]),
        (f"{ALL}&paginacao.paginaAtual=-1&paginacao.itensPorPagina=-1",
         [("paginacao.paginaAtual", "-1"), ("paginacao.itensPorPagina", "-1")]),
        (f"{ALL}&txid={'a' * 36}&txIdPresente=1&devolucaoPresente=sim&cpf=1&cnpj=&paginacao.itensPorPagina=0",
         [("txid", "a" * 36), ("txIdPresente", "1"), ("devolucaoPresente", "sim"), ("cpf", "1"), ("cnpj", ""),
          ("paginacao.itensPorPagina", "0")]),
    ],
)  # fmt: skip
async def test_violations(door: Api, query: str, rows: list[tuple[str, str | None]]) -> None:
    answer = await door.get(f"/v2/pix?{query}")
    assert (answer.status, answer.body["type"]) == (400, f"{TYPE_PREFIX}PixConsultaInvalida")
    assert [(row["propriedade"], row.get("valor")) for row in answer.body["violacoes"]] == rows


async def test_a_parameter_that_stands_twice_is_refused(door: Api) -> None:
    answer = await door.get(f"/v2/pix?{ALL}&inicio=2026-01-01T00:00:00Z")
    assert (answer.status, answer.body["type"]) == (400, f"{TYPE_PREFIX}RequisicaoInvalida")


async def test_a_search_is_bounded(door: Api, paid: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pixconnect.features.pix_api.service.pix.SEARCHED_MAX", 3)
    assert received.SEARCHED_MAX > 3
    answer = await door.get(f"/v2/pix?{ALL}&cpf=12345678909")
    assert [row["propriedade"] for row in answer.body["violacoes"]] == ["inicio"]
    # By its txid it is found in any period.
    assert await names(door, f"{ALL}&cpf=12345678909&txid={paid['txid']}")


async def test_hours_that_are_over_are_counted_once(door: Api, service: Service, caller: Caller) -> None:
    for _ in range(3):
        await be_paid(service)
        service.clock.advance(minutes=40)
    known = "select count(*) from received_hour"
    assert len(await names(door, ALL)) == 3
    async with service.context.pool.acquire() as connection:
        counted = await connection.fetchval(known)
    assert counted == 1
    await be_paid(service)
    assert len(await names(door, ALL)) == 4
    # Set back, the clock lets counted hours begin again.
    async with service.context.pool.acquire() as connection:
        await pix_store.forget_hours(connection, service.clock.now(), timedelta(days=1))
        assert await connection.fetchval(known) == 0
    service.clock.real = STARTED_AT + timedelta(seconds=30)
    await be_paid(service)
    assert len(await names(door, ALL)) == 5
    for page in range(5):
        assert len(await names(door, f"{ALL}&paginacao.itensPorPagina=1&paginacao.paginaAtual={page}")) == 1


@pytest.mark.long
async def test_what_the_network_dated_back_is_listed_when_the_network_says(door: Api, service: Service) -> None:
    hours = [0, 3, 0, 0, 30, 0, -2, 1]  # dated back by how many hours, one every forty minutes
    horarios: dict[str, datetime] = {}
    for number, back in enumerate(hours):
        now = service.clock.now()
        report = credit_report(service, txid="PEDIDO1" if number % 2 else None)
        # A few seconds more or less make another instant.
        networks = now - timedelta(hours=back, seconds=0 if back else 20)
        await receive_credit(service.context, structs.replace(report, settled_at=networks))
        shown = (await door.get(f"/v2/pix/{report.end_to_end_id}")).body["horario"]
        horarios[report.end_to_end_id] = datetime.fromisoformat(shown)
        assert horarios[report.end_to_end_id] == (networks if back else now)
        service.clock.advance(minutes=40)
    newest_first = sorted(horarios, key=lambda name: horarios[name], reverse=True)
    # Before the hours are counted, and afterwards.
    for _ in range(2):
        edges = sorted({STARTED_AT + timedelta(minutes=20 * step) for step in (-100, -9, -6, -1, 0, 4, 5, 9, 15, 16, 20, 30)})
        for begin, end in itertools.combinations(edges, 2):
            span = f"inicio={format_milliseconds(begin)}&fim={format_milliseconds(end)}"
            expected = [name for name in newest_first if begin <= horarios[name] <= end]
            assert await names(door, span) == expected, span
            paged = [await names(door, f"{span}&paginacao.itensPorPagina=3&paginacao.paginaAtual={page}") for page in range(3)]
            assert list(itertools.chain(*paged)) == expected
            total = (await door.get(f"/v2/pix?{span}")).body["parametros"]["paginacao"]["quantidadeTotalDeItens"]
            assert total == len(expected)
            for filters in ("txid=PEDIDO1", "txIdPresente=true"):
                odd = [name for name in expected if list(horarios).index(name) % 2]
                assert await names(door, f"{span}&{filters}") == odd
        service.clock.advance(hours=2)
