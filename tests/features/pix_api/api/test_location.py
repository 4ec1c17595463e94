"""``loc``: every rule on locations, through the central bank's API with a real database."""

from typing import Any

import pytest

from support.api import Api, told
from support.records import own_key
from support.service import Service

SPAN = "inicio=2026-07-01T00:00:00Z&fim=2026-07-02T00:00:00Z"
TXID = "order000000000000000000001"
PATH = f"/v2/cob/{TXID}"
BODY: dict[str, Any] = {"valor": {"original": "10.00"}, "chave": own_key()}


async def make(door: Api, kind: str = "cob") -> dict[str, Any]:
    return (await door.post("/v2/loc", {"tipoCob": kind})).body


@pytest.mark.parametrize("kind", ["cob", "cobv"])
async def test_a_location_is_made_free(door: Api, kind: str) -> None:
    made = await door.post("/pix/v2/loc", {"tipoCob": kind, "extra": 1})
    assert made.status == 201
    assert made.headers["location"].endswith(f"/loc/{made.body['id']}")
    assert made.headers["location"].startswith("http")
    assert made.body.keys() == {"id", "location", "tipoCob", "criacao"}
    assert (made.body["tipoCob"], "/cobv/" in made.body["location"]) == (kind, kind == "cobv")
    assert (await door.get(f"/v2/loc/{made.body['id']}")).body == made.body


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        ({}, [("tipoCob", None)]),
        ({"tipoCob": None}, [("tipoCob", None)]),
        ({"tipoCob": "COB"}, [("tipoCob", "COB")]),
        ({"tipoCob": ["cob"]}, [("tipoCob", '["cob"]')]),
        (5, []),
    ],
)
async def test_a_kind_that_is_none_is_refused(door: Api, body: object, rows: list[tuple[str, str | None]]) -> None:
    assert told(await door.post("/v2/loc", body)) == (400, "PayloadLocationOperacaoInvalida", rows)


async def test_a_location_goes_from_charge_to_charge(door: Api, service: Service) -> None:
    free = await make(door)
    put = await door.put(PATH, BODY | {"loc": {"id": str(free["id"]), "tipoCob": "cobv"}})
    assert put.body["loc"] == free | {"txid": TXID}
    assert (await door.get(f"/v2/loc/{free['id']}")).body == free | {"txid": TXID}
    other = await door.put(f"{PATH}9", BODY | {"loc": {"id": free["id"]}})
    assert told(other) == (400, "CobOperacaoInvalida", [("cob.loc.id", str(free["id"]))])
    for _ in range(2):  # of a free one it is the same again
        taken = await door.call("DELETE", f"/v2/loc/{free['id']}/txid")
        assert (taken.status, taken.body) == (200, free)
    unbound = (await door.get(PATH)).body
    assert not unbound.keys() & {"loc", "location", "pixCopiaECola"}
    assert (unbound["status"], unbound["revisao"]) == ("ATIVA", 0)
    assert (await door.put(f"{PATH}9", BODY | {"loc": {"id": free["id"]}})).status == 201
    served = await service.context.directory.find_served(free["location"].rpartition("/")[2])
    assert getattr(served, "txid", None) == f"{TXID}9"
    bound = await door.put(PATH, BODY)
    assert (bound.status, bound.body["loc"]["txid"]) == (201, TXID)
    of_other_kind = await make(door, "cobv")
    refused = await door.patch(PATH, {"loc": {"id": of_other_kind["id"]}})
    assert told(refused)[2] == [("cob.loc.id", str(of_other_kind["id"]))]


async def test_another_location_alone_is_no_revision(door: Api) -> None:
    made = (await door.put(PATH, BODY)).body
    first, second = await make(door), await make(door)
    moved = await door.patch(PATH, {"loc": {"id": first["id"]}})
    assert (moved.status, moved.body["revisao"], moved.body["loc"]) == (200, 0, first | {"txid": TXID})
    assert moved.body["location"] == first["location"]
    put = await door.put(PATH, BODY | {"loc": {"id": second["id"]}})
    assert (put.status, put.body["revisao"], put.body["loc"]["id"]) == (201, 0, second["id"])
    assert put.body["pixCopiaECola"] != made["pixCopiaECola"]
    for place in (first, made["loc"]):
        assert "txid" not in (await door.get(f"/v2/loc/{place['id']}")).body
    # With another charge it is one, and only one.
    both = await door.patch(PATH, {"loc": {"id": first["id"]}, "solicitacaoPagador": "?"})
    assert (both.body["revisao"], both.body["loc"]["id"]) == (1, first["id"])
    assert (await door.get(f"{PATH}?revisao=0")).body["loc"]["id"] == first["id"]
    # Neither does it name a location that was taken away.
    await door.call("DELETE", f"/v2/loc/{first['id']}/txid")
    bound = await door.patch(PATH, {"loc": {"id": second["id"]}})
    assert (bound.status, bound.body["revisao"], bound.body["loc"]["id"]) == (200, 1, second["id"])


async def test_what_is_no_location_of_the_holder_is_not_found(door: Api) -> None:
    made = await make(door)
    for name in ("0", "-1", "x", "01", "1.0", str(2**53), str(2**64), "404"):
        assert told(await door.get(f"/v2/loc/{name}")) == (404, "PayloadLocationNaoEncontrado", []), name
        assert (await door.call("DELETE", f"/v2/loc/{name}/txid")).status == 404
    assert (await door.get(f"/v2/loc/{made['id']}", token="other")).status == 404
    assert (await door.call("DELETE", f"/v2/loc/{made['id']}/txid", token="other")).status == 404
    assert (await door.call("PATCH", f"/v2/loc/{made['id']}", b"{}")).status == 405


async def test_a_list_has_what_is_asked_for_newest_first(door: Api, service: Service) -> None:
    free = await make(door)
    service.clock.advance(milliseconds=1)
    bound = (await door.put(PATH, BODY)).body["loc"]
    service.clock.advance(milliseconds=1)
    of_other_kind = await make(door, "cobv")
    for query, wanted in (
        ("", [of_other_kind, bound, free]),
        ("&tipoCob=cob", [bound, free]),
        ("&txIdPresente=true", [bound]),
        ("&txIdPresente=false&tipoCob=cobv", [of_other_kind]),
        ("&txIdPresente=true&tipoCob=cobv", []),
        ("&paginacao.itensPorPagina=1&paginacao.paginaAtual=1", [bound]),
    ):
        body = (await door.get(f"/v2/loc?{SPAN}{query}")).body
        assert body["loc"] == wanted, query
    asked = (await door.get(f"/v2/loc?{SPAN}&txIdPresente=true&tipoCob=cob")).body["parametros"]
    assert (asked["txIdPresente"], asked["tipoCob"]) == (True, "cob")
    for query, name in (("&tipoCob=rec", "tipoCob"), ("&txIdPresente=1", "txIdPresente")):
        status, kind, ((found, _),) = told(await door.get(f"/v2/loc?{SPAN}{query}"))
        assert (status, kind, found) == (400, "PayloadLocationConsultaInvalida", name)
