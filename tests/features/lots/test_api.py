"""``lotecobv``: lots of charges with a due date, through the central bank's API and a worker, with a real database."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from pixconnect.assembly.application import make_application
from pixconnect.doors.api.operation import Services
from pixconnect.doors.api.rates import make_request_rates
from pixconnect.features.locations.problem import TYPE_PREFIX
from pixconnect.features.lots.api import BODY_MAX
from pixconnect.features.lots.service import PageBounds, do_due_items, list_lots
from pixconnect.features.lots.tables import ItemKey
from pixconnect.features.pix_api.api.violations import ROWS_MAX
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.listing import Span
from pixconnect.kernel.rules.rail import Abilities
from pixconnect.platform.base.errors import Violated
from pixconnect.platform.logging import AccessLog
from support.api import Api, HolderVerifier, told
from support.books import check_books
from support.records import own_key
from support.service import Service

KEY = own_key()
CPF = "52998224725"
PATH = "/v2/lotecobv/7"
SPAN = "inicio=2026-07-01T00:00:00Z&fim=2026-07-31T00:00:00Z"
SLOTS = range(256)
REMOVAL = {"status": "REMOVIDA_PELO_USUARIO_RECEBEDOR"}
CREATED, REFUSED, PROCESSING = "CRIADA", "NEGADA", "EM_PROCESSAMENTO"


def a_txid(number: int) -> str:
    return f"lote{number:028d}"


def an_item(number: int, **changes: Any) -> dict[str, Any]:
    charge = {
        "txid": a_txid(number),
        "calendario": {"dataDeVencimento": "2026-07-10"},
        "devedor": {"cpf": CPF, "nome": "Ana"},
        "valor": {"original": "100.00"},
        "chave": KEY,
    }
    return charge | changes


def a_lot(*items: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"descricao": "Turno da tarde", "cobsv": list(items)} | changes


async def work(service: Service) -> None:
    while (await do_due_items(service.context, SLOTS, 100))[0]:
        pass


async def statuses(door: Api, path: str = PATH) -> list[str]:
    return [item["status"] for item in (await door.get(path)).body["cobsv"]]


async def test_its_charges_are_made_by_a_worker_one_by_one(door: Api, service: Service) -> None:
    asked = await door.put(PATH, a_lot(an_item(1), an_item(2, chave="nobody@example.com"), an_item(3)))
    assert (asked.status, asked.content) == (202, b"")
    assert await statuses(door) == [PROCESSING] * 3
    # Requests under way belong to the lot alone.
    body = {name: value for name, value in an_item(1).items() if name != "txid"}
    assert told(await door.put(f"/v2/cobv/{a_txid(1)}", body))[2] == [("txid", a_txid(1))]
    assert (await door.get(f"/v2/cobv/{a_txid(1)}")).status == 404
    await work(service)
    shown = (await door.get(PATH)).body
    assert (shown["id"], shown["descricao"]) == (7, "Turno da tarde")
    assert [item["status"] for item in shown["cobsv"]] == [CREATED, REFUSED, CREATED]
    assert ["criacao" in item for item in shown["cobsv"]] == [True, False, True]
    problem = shown["cobsv"][1]["problema"]
    assert problem["type"] == f"{TYPE_PREFIX}CobVOperacaoInvalida"
    assert [row["propriedade"] for row in problem["violacoes"]] == ["cobv.chave"]
    assert (await door.get(f"/v2/cobv/{a_txid(3)}")).body["revisao"] == 0
    # A refused creation stays in the lot, and a later request of the lot creates it.
    assert told(await door.put(f"/v2/cobv/{a_txid(2)}", body))[2] == [("txid", a_txid(2))]
    assert (await door.patch(PATH, {"cobsv": [{"txid": a_txid(2), "chave": KEY}]})).status == 202
    await work(service)
    assert await statuses(door) == [CREATED] * 3
    await check_books(service)


async def test_the_same_again_changes_nothing_and_other_contents_are_a_revision(door: Api, service: Service) -> None:
    for _ in range(2):
        assert (await door.put(PATH, a_lot(an_item(1), an_item(2)))).status == 202
    await work(service)
    assert (await door.put(PATH, a_lot(an_item(2), an_item(1)))).status == 202
    await work(service)
    assert (await door.get(f"/v2/cobv/{a_txid(1)}")).body["revisao"] == 0
    changed = an_item(1, valor={"original": "1.00"})
    assert (await door.put(PATH, a_lot(changed, an_item(2), descricao="Outro"))).status == 202
    await work(service)
    assert (await door.get(PATH)).body["descricao"] == "Outro"
    revised = (await door.get(f"/v2/cobv/{a_txid(1)}")).body
    assert (revised["revisao"], revised["valor"]["original"]) == (1, "1.00")


async def test_a_refused_change_leaves_the_charge(door: Api, service: Service) -> None:
    await door.put(PATH, a_lot(an_item(1), an_item(2)))
    await work(service)
    patch = {"cobsv": [{"txid": a_txid(1), "valor": {"original": "0.00"}}, {"txid": a_txid(2), **REMOVAL}]}
    assert (await door.patch(PATH, patch)).status == 202
    await work(service)
    assert await statuses(door) == [REFUSED, CREATED]
    assert (await door.get(f"/v2/cobv/{a_txid(1)}")).body["valor"]["original"] == "100.00"
    assert (await door.get(f"/v2/cobv/{a_txid(2)}")).body["status"] == REMOVAL["status"]
    # It is an ordinary charge, and can be changed alone.
    assert (await door.patch(f"/v2/cobv/{a_txid(1)}", {"valor": {"original": "2.00"}})).status == 200


async def test_requests_of_one_charge_are_done_in_their_order(door: Api, service: Service) -> None:
    await door.put(PATH, a_lot(an_item(1)))
    await door.patch(PATH, {"cobsv": [{"txid": a_txid(1), "valor": {"original": "2.00"}}]})
    await door.patch(PATH, {"descricao": "So o nome"})
    assert await statuses(door) == [PROCESSING]
    await work(service)
    made = (await door.get(f"/v2/cobv/{a_txid(1)}")).body
    assert (made["revisao"], made["valor"]["original"]) == (1, "2.00")
    assert await statuses(door) == [CREATED]


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        (a_lot(an_item(1), an_item(2), an_item(1)), [("loteCobV.cobsV", a_txid(1))]),
        (a_lot(), [("loteCobV.cobsV", "[]")]),
        (a_lot(*[an_item(number) for number in range(1001)]), None),
        (a_lot(an_item(1, txid="short")), [("loteCobV.cobsV", "short")]),
        ({"descricao": "", "cobsv": [7]}, [("loteCobV.descricao", ""), ("loteCobV.cobsV", "7")]),
        ({}, [("loteCobV.descricao", None), ("loteCobV.cobsV", None)]),
    ],
)
async def test_what_is_wrong_with_the_lot_is_refused_at_once(
    door: Api, body: dict[str, Any], rows: list[tuple[str, str | None]] | None
) -> None:
    status, kind, found = told(await door.put(PATH, body))
    assert (status, kind) == (400, "LoteCobVOperacaoInvalida")
    assert rows is None or found == rows
    assert (await door.get(PATH)).status == 404


async def test_a_lot_has_the_charges_of_its_first_request_and_no_others(door: Api, service: Service) -> None:
    await door.put(PATH, a_lot(an_item(1), an_item(2)))
    refused = [("loteCobV.cobsV", a_txid(2))]
    assert told(await door.put(PATH, a_lot(an_item(1))))[2] == refused
    assert told(await door.put(PATH, a_lot(an_item(1), an_item(2), an_item(3))))[2] == [("loteCobV.cobsV", a_txid(3))]
    assert told(await door.patch(PATH, {"cobsv": [{"txid": a_txid(3)}]}))[2] == [("loteCobV.cobsV", a_txid(3))]
    # In no other lot either, nor one that is a charge already.
    assert told(await door.put("/v2/lotecobv/8", a_lot(an_item(4), an_item(2))))[2] == refused
    assert (await door.get("/v2/lotecobv/8")).status == 404
    # Another holder's numbers and txids are separate.
    assert (await door.get(PATH, token="other")).status == 404
    await work(service)


@pytest.mark.parametrize("number", ["0", "07", "x", "1" * 19])
async def test_a_number_of_another_form_is_refused_or_names_nothing(door: Api, number: str) -> None:
    path = f"/v2/lotecobv/{number}"
    assert told(await door.put(path, a_lot(an_item(1))))[2] == [("id", number)]
    assert told(await door.patch(path, {}))[:2] == (404, "LoteCobVNaoEncontrado")
    assert told(await door.get(path))[:2] == (404, "LoteCobVNaoEncontrado")


async def test_lots_are_listed_newest_first(door: Api, service: Service) -> None:
    for number in (1, 2):
        await door.put(f"/v2/lotecobv/{number}", a_lot(an_item(number)))
        service.clock.advance(seconds=1)
    page = (await door.get(f"/v2/lotecobv?{SPAN}")).body
    assert [lot["id"] for lot in page["lotes"]] == [2, 1]
    assert page["parametros"]["paginacao"]["quantidadeTotalDeItens"] == 2
    assert told(await door.get("/v2/lotecobv?fim=2026-07-31T00:00:00Z"))[1] == "LoteCobVConsultaInvalida"


@pytest.mark.parametrize("bounds", [PageBounds(charges_max=11), PageBounds(refused_octets_max=500)])
async def test_a_page_of_lots_is_bounded(door: Api, service: Service, caller: Caller, bounds: PageBounds) -> None:
    for number in range(3):
        await door.put(f"/v2/lotecobv/{number + 1}", a_lot(*(an_item(10 * number + place, loc=1) for place in range(4))))
    await work(service)
    full = await door.get(f"/v2/lotecobv?{SPAN}")
    assert [[item["status"] for item in lot["cobsv"]] for lot in full.body["lotes"]] == [[REFUSED] * 4] * 3
    with pytest.raises(Violated) as violated:
        await list_lots(service.context, caller, Span(page_size=100), bounds)
    assert [(row.property, row.value) for row in violated.value.rows] == [("paginacao.itensPorPagina", "100")]
    # A single one is shown, however large it is.
    assert len((await list_lots(service.context, caller, Span(page_size=1), bounds)).items) == 1
    # However few are read at once.
    found = await list_lots(service.context, caller, Span(page_size=100), PageBounds(read_at_once=5))
    assert [len(lot.items) for lot in found.items] == [4] * 3


async def test_of_what_is_wrong_with_a_charge_no_more_is_kept_than_people_read(door: Api, service: Service) -> None:
    await door.put(PATH, a_lot(an_item(1, infoAdicionais=[{}] * 50)))
    await work(service)
    rows = (await door.get(PATH)).body["cobsv"][0]["problema"]["violacoes"]
    assert len(rows) == ROWS_MAX
    assert rows[-1] == {"propriedade": "cobv", "razao": "há mais 81 violações, que aqui não são mostradas"}


async def test_charges_are_listed_by_their_lot(door: Api, service: Service) -> None:
    await door.put(PATH, a_lot(an_item(1), an_item(2, chave="nobody@example.com"), an_item(3)))
    await door.put("/v2/lotecobv/8", a_lot(an_item(4)))
    await work(service)
    page = (await door.get(f"/v2/cobv?{SPAN}&loteCobVId=7&cpf={CPF}")).body
    assert {charge["txid"] for charge in page["cobs"]} == {a_txid(1), a_txid(3)}
    assert (page["parametros"]["loteCobVId"], page["parametros"]["paginacao"]["quantidadeTotalDeItens"]) == (7, 2)
    assert (await door.get(f"/v2/cobv?{SPAN}&loteCobVId=9")).body["cobs"] == []
    assert told(await door.get(f"/v2/cobv?{SPAN}&loteCobVId=x"))[2] == [("loteCobVId", "x")]


async def test_a_txid_of_a_charge_that_is_there_is_in_no_lot(door: Api, service: Service) -> None:
    body = {name: value for name, value in an_item(1).items() if name != "txid"}
    assert (await door.put(f"/v2/cobv/{a_txid(1)}", body)).status == 201
    assert told(await door.put(PATH, a_lot(an_item(1), an_item(2))))[2] == [("loteCobV.cobsV", a_txid(1))]
    # Nor an immediate charge under a txid of a lot.
    assert (await door.put(PATH, a_lot(an_item(2, valor={})))).status == 202
    immediate = {"valor": {"original": "1.00"}, "chave": KEY}
    for _ in range(2):
        assert told(await door.put(f"/v2/cob/{a_txid(2)}", immediate))[2] == [("txid", a_txid(2))]
        await work(service)
    assert await statuses(door) == [REFUSED]


async def test_of_thousands_of_items_that_are_wrong_some_are_named(door: Api) -> None:
    rows = told(await door.put(PATH, a_lot(*[an_item(number, txid=7) for number in range(1000)])))[2]
    assert rows == [("loteCobV.cobsV", "7")] * (ROWS_MAX - 1) + [("loteCobV", None)]


@pytest.mark.parametrize("count", [1, 999])
async def test_a_member_that_stands_twice_in_one_of_its_charges_is_refused(door: Api, count: int) -> None:
    body = json.dumps(a_lot(*map(an_item, range(count)), an_item(count, chave="x"))).encode()
    twice = body.replace(b'"chave": "x"', b'"chave": "x", "chave": "y"')
    answer = await door.call("PUT", PATH, twice)
    assert (answer.status, answer.body["detail"]) == (400, "O membro chave aparece duas vezes no mesmo objeto do corpo.")
    assert (await door.call("PUT", PATH, body)).status == 202


async def test_a_body_of_far_more_elements_than_a_lot_has_is_refused_unread(door: Api) -> None:
    for part in (b"[],", b"{},", b'"a":1,'):
        body = b'{"cobsv":[' + part * (BODY_MAX // len(part) - 8) + b"0]}"
        assert (await door.call("PUT", PATH, body)).status == 413


@pytest.mark.parametrize(
    ("method", "once", "twice"),
    [
        ("PATCH", '"txid"', '"status": "x", "status": "y", "txid"'),
        ("PUT", '"descricao"', '"descricao": "", "descricao"'),
        ("PUT", '"cobsv": [', r'"c\u006fbsv": [], "cobsv": ['),
    ],
)
async def test_a_member_of_a_large_lot_that_stands_twice_is_refused(door: Api, method: str, once: str, twice: str) -> None:
    body = json.dumps(a_lot(an_item(1)))
    await door.call("PUT", PATH, body.encode())
    answer = await door.call(method, PATH, body.replace(once, twice, 1).ljust(70_000).encode())
    assert (answer.status, "aparece duas vezes" in answer.body["detail"]) == (400, True)


async def test_a_body_may_have_four_mebibytes_and_no_octet_more(door: Api) -> None:
    body = json.dumps(a_lot(an_item(1))).encode()
    assert (await door.call("PUT", PATH, body.ljust(BODY_MAX))).status == 202
    assert (await door.call("PUT", PATH, body.ljust(BODY_MAX + 1))).status == 413


async def test_two_workers_at_the_same_charges_make_each_once(door: Api, service: Service) -> None:
    await door.put(PATH, a_lot(*map(an_item, range(50))))
    changed = [{"txid": a_txid(number), "valor": {"original": "2.00"}} for number in range(50)]
    await door.patch(PATH, {"cobsv": changed})
    while sum([done for done, _ in await asyncio.gather(*(do_due_items(service.context, SLOTS, 40) for _ in range(3)))]):
        pass
    assert set(await statuses(door)) == {CREATED}
    page = (await door.get(f"/v2/cobv?{SPAN}&loteCobVId=7")).body
    assert [charge["revisao"] for charge in page["cobs"]] == [1] * 50
    await check_books(service)


@pytest.mark.parametrize("depth", [100, 900, 935, 941, 944, 100_000])
async def test_deep_nesting_is_refused_or_done_and_breaks_nothing(door: Api, service: Service, depth: int) -> None:
    deep = "[" * depth + "]" * depth
    item = json.dumps(an_item(1)).replace('"100.00"', f'"100.00", "unknown": {deep}')
    put = await door.call("PUT", PATH, f'{{"descricao": "Fundo", "cobsv": [{item}]}}'.encode())
    assert put.status in (202, 400)
    patch = {"cobsv": [{"txid": a_txid(1), "valor": {"original": "1.00"}}]}
    changed = await door.patch(PATH, patch)
    assert changed.status in ((202, 400) if put.status == 202 else (404,))
    await work(service)
    assert put.status == 400 or await statuses(door) == [CREATED]


def open_door(services: Services, context: Any, caller: Caller, **changes: Any) -> Api:
    served = structs.replace(services, context=context, verifier=HolderVerifier({"good": caller}), **changes)
    return Api(make_application(served, AccessLog(context.clock, wanted="off")))


async def test_without_codes_no_lot_is_taken(services: Services, door: Api, service: Service, caller: Caller) -> None:
    await door.put(PATH, a_lot(an_item(1), an_item(2)))
    cannot = structs.replace(service.context.policy, abilities=Abilities(issues_codes=False))
    context = structs.replace(service.context, policy=cannot)
    other = open_door(services, context, caller)
    assert told(await other.put("/v2/lotecobv/8", a_lot(an_item(3))))[:2] == (400, "LoteCobVOperacaoInvalida")
    # Nor are earlier accepted ones created.
    await do_due_items(context, SLOTS, 10)
    assert await statuses(door) == [REFUSED] * 2


async def test_each_charge_of_a_lot_counts_as_a_request(services: Services, service: Service, caller: Caller) -> None:
    clock: Any = SimpleNamespace(monotonic_s=lambda: now_s)
    now_s = 0
    door = open_door(services, service.context, caller, rates=make_request_rates(clock, 60, 0))
    lot = a_lot(*({"txid": a_txid(number)} for number in range(1000)))
    assert (await door.put(PATH, lot)).status == 202
    refused = await door.get(PATH)
    # 60 were there, 1,000 are spent, and one more is needed.
    assert (refused.status, refused.headers["retry-after"]) == (429, str(1000 - 60 + 1))
    now_s += 1000 - 60 + 1
    assert (await door.get(PATH)).status == 200


async def test_what_cannot_be_written_now_is_left_and_the_others_are_done(door: Api, service: Service) -> None:
    await door.put(PATH, a_lot(*map(an_item, range(3))))
    left_out = {ItemKey(row["holder_id"], 7, 1) for row in await service.fetch("select holder_id from charge_lot")}
    assert await do_due_items(service.context, SLOTS, 3, left_out) == (2, set())
    assert await statuses(door) == [CREATED, PROCESSING, CREATED]
    await work(service)
    assert await statuses(door) == [CREATED] * 3


async def test_of_requests_before_others_a_part_is_looked_at_and_all_done(door: Api, service: Service) -> None:
    lots = {number: [an_item(100 * number + place) for place in range(20)] for number in (1, 2)}
    for number, items in lots.items():
        await door.put(f"/v2/lotecobv/{number}", a_lot(*items))
        for reais in range(2, 9):
            changes = [{"txid": item["txid"], "valor": {"original": f"{reais}.00"}} for item in items]
            assert (await door.patch(f"/v2/lotecobv/{number}", {"cobsv": changes})).status == 202
    taken = [(await do_due_items(service.context, SLOTS, 10))[0] for _ in range(32 + 1)]
    # Sixteen requests of each slot are read, which belong to two charges; as many more as have failed.
    assert (taken[0], sum(taken) > 100) == (4, True)
    first = {ItemKey(row["holder_id"], 1, 0) for row in await service.fetch("select holder_id from charge_lot")}
    assert (await do_due_items(service.context, SLOTS, 10, first))[0] > 0
    await work(service)
    for number in lots:
        assert await statuses(door, f"/v2/lotecobv/{number}") == [CREATED] * 20
    assert (await door.get(f"/v2/cobv/{a_txid(219)}")).body["revisao"] == 7


async def test_ten_lots_at_once_are_done_place_by_place(door: Api, service: Service) -> None:
    lots = {number: [an_item(100 * number + place) for place in range(50)] for number in range(1, 11)}
    asked = await asyncio.gather(*(door.put(f"/v2/lotecobv/{number}", a_lot(*items)) for number, items in lots.items()))
    assert {answer.status for answer in asked} == {202}
    await do_due_items(service.context, SLOTS, 100)
    for number in lots:
        assert await statuses(door, f"/v2/lotecobv/{number}") == [CREATED] * 10 + [PROCESSING] * 40
    await work(service)
    for number in lots:
        assert set(await statuses(door, f"/v2/lotecobv/{number}")) == {CREATED}
    await check_books(service)


async def test_one_lot_asked_for_twice_is_had_by_both_one_charge_by_one_lot(door: Api, service: Service) -> None:
    same = a_lot(an_item(1), an_item(2))
    assert {answer.status for answer in await asyncio.gather(*(door.put(PATH, same) for _ in range(8)))} == {202}
    others = [a_lot(an_item(3), an_item(10 + number)) for number in range(4)]
    asked = await asyncio.gather(*(door.put(f"/v2/lotecobv/{20 + n}", lot) for n, lot in enumerate(others)))
    assert sorted(answer.status for answer in asked) == [202, 400, 400, 400]
    await work(service)
    assert await statuses(door) == [CREATED] * 2
    assert [charge["revisao"] for charge in (await door.get(f"/v2/cobv?{SPAN}")).body["cobs"]] == [0] * 4
    await check_books(service)
