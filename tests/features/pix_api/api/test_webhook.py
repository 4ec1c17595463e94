"""``webhook``: every rule on setting, reading, listing and removing webhooks of keys, with a real database."""

from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote

import pytest
from msgspec import structs

from pixconnect.assembly.application import make_application
from pixconnect.doors.api.operation import Services
from pixconnect.features.webhooks.service.endpoint import RECEIVERS
from pixconnect.kernel.flows import holder as holder_usecases
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.rules.access import Caller
from pixconnect.platform.adapters.outgoing_http import WebhookSender
from pixconnect.platform.logging import AccessLog
from support.api import Api, HolderVerifier, told
from support.operators import as_operator
from support.records import own_key
from support.service import Service, credit_report
from support.webhooks import open_http

KEY = own_key()
PATH = f"/v2/webhook/{quote(KEY)}"
URL = "http://127.0.0.1:9/hook"
BODY = {"webhookUrl": URL}


@pytest.fixture
async def door(services: Services, service: Service, caller: Caller, other_caller: Caller) -> AsyncIterator[Api]:
    """The application over the service, with its rules on addresses; ``good`` is the caller's token."""
    async with open_http() as http:
        context = service.context.with_port(RECEIVERS, WebhookSender(http, allows_loopback=True))
        verifier = HolderVerifier({"good": caller, "other": other_caller})
        served = structs.replace(services, context=context, verifier=verifier)
        yield Api(make_application(served, AccessLog(service.context.clock, wanted="off")))


async def test_a_webhook_is_set_read_replaced_and_removed(door: Api, service: Service) -> None:
    made = await door.put(PATH, BODY | {"extra": 1})
    assert (made.status, made.content) == (200, b"")
    expected = {"webhookUrl": URL, "chave": KEY, "criacao": "2026-07-01T15:00:00.000Z"}
    assert (await door.get(PATH)).body == expected
    service.clock.advance(seconds=1)
    assert (await door.put(PATH, {"webhookUrl": f"{URL}?x"})).status == 200
    expected |= {"webhookUrl": f"{URL}?x", "criacao": "2026-07-01T15:00:01.000Z"}
    # As people write it, and with a slash at the end.
    assert (await door.get(f"/pix/v2/webhook/{quote(KEY.upper(), safe='')}/")).body == expected
    removed = await door.call("DELETE", PATH)
    assert (removed.status, removed.content) == (204, b"")
    for answer in (await door.get(PATH), await door.call("DELETE", PATH)):
        assert told(answer) == (404, "WebhookNaoEncontrado", [])


CHAVE: list[tuple[str, str | None]] = [("chave", "nada")]
REFUSED: list[tuple[str, Any, list[tuple[str, str | None]]]] = [
    (PATH, {}, [("webhook.webhookUrl", None)]),
    (PATH, {"webhookUrl": None}, [("webhook.webhookUrl", None)]),
    (PATH, {"webhookUrl": 7}, [("webhook.webhookUrl", "7")]),
    (PATH, {"webhookUrl": "loja.example.com/hook"}, [("webhook.webhookUrl", "loja.example.com/hook")]),
    (PATH, {"webhookUrl": f"https://example.com/{'a' * 1981}"}, [("webhook.webhookUrl", f"https://example.com/{'a' * 180}")]),
    (PATH, {"webhookUrl": "https://10.0.0.1/"}, [("webhook.webhookUrl", "https://10.0.0.1/")]),
    ("/v2/webhook/nada", BODY, CHAVE),
    ("/v2/webhook/nada", {}, [*CHAVE, ("webhook.webhookUrl", None)]),
    (f"/v2/webhook/{own_key('2')}", BODY, [("chave", own_key("2"))]),
    (f"/v2/webhook/{own_key('3')}", BODY, [("chave", own_key("3"))]),
    (
        f"/v2/webhook/{own_key('2')}",
        {"webhookUrl": "https://10.0.0.1/"},
        [("chave", own_key("2")), ("webhook.webhookUrl", "https://10.0.0.1/")],
    ),
    (PATH, [], []),
    (PATH, "x", []),
]


async def test_what_is_wrong_is_told_at_once_and_changes_nothing(door: Api, service: Service) -> None:
    for path, body, rows in REFUSED:
        assert told(await door.put(path, body)) == (400, "WebhookOperacaoInvalida", rows)
    assert await service.context.pool.fetch("select from webhook_endpoint") == []


async def test_anothers_webhook_is_not_there(door: Api) -> None:
    await door.put(PATH, BODY)
    for answer in (await door.get(PATH, token="other"), await door.call("DELETE", PATH, token="other")):
        assert told(answer) == (404, "WebhookNaoEncontrado", [])
    assert told(await door.get("/v2/webhook/nada")) == (400, "WebhookOperacaoInvalida", CHAVE)
    assert (await door.get("/v2/webhook", token="other")).body["webhooks"] == []
    assert (await door.get(PATH)).status == 200
    assert (await door.get(PATH, token=None)).status == 401


@pytest.mark.parametrize(("tax_id", "shown"), [("11222333000181", {"cnpj": "11222333000181"}), ("52998224725", {})])
async def test_a_company_is_told_its_cnpj(door: Api, service: Service, tax_id: str, shown: Mapping[str, str]) -> None:
    await service.execute_as_owner(f"update holder set tax_id = '{tax_id}'")
    await door.put(PATH, BODY)
    assert {name: text for name, text in (await door.get(PATH)).body.items() if name == "cnpj"} == shown


async def test_a_list_has_pages_an_interval_and_true_totals(door: Api, service: Service, caller: Caller) -> None:
    empty = (await door.get("/v2/webhook")).body
    paging = {"paginaAtual": 0, "itensPorPagina": 100, "quantidadeDePaginas": 1, "quantidadeTotalDeItens": 0}
    assert empty == {"parametros": {"paginacao": paging}, "webhooks": []}
    keys = [KEY, "a@example.com", "b@example.com"]
    for key in keys:
        if key != KEY:
            await holder_usecases.add_pix_key(as_operator(service.context), caller.holder_id, "EMAIL", key)
        assert (await door.put(f"/v2/webhook/{key}", BODY)).status == 200
        service.clock.advance(seconds=1)
    page = (await door.get("/v2/webhook?paginacao.itensPorPagina=2&paginacao.paginaAtual=0&extra=1")).body
    assert [each["chave"] for each in page["webhooks"]] == keys[:0:-1]
    assert page["parametros"]["paginacao"]["quantidadeDePaginas"] == 2
    beyond = (await door.get("/v2/webhook?paginacao.itensPorPagina=2&paginacao.paginaAtual=7")).body
    assert (beyond["webhooks"], beyond["parametros"]["paginacao"]["quantidadeTotalDeItens"]) == ([], 3)
    instant = page["webhooks"][1]["criacao"]
    one = (await door.get(f"/v2/webhook?inicio={instant}&fim={instant}")).body
    assert [each["chave"] for each in one["webhooks"]] == keys[1:2]
    assert (one["parametros"]["inicio"], one["parametros"]["fim"]) == (instant, instant)


async def test_deliveries_have_paths_of_our_own(door: Api, service: Service) -> None:
    await door.put(PATH, BODY)
    report = credit_report(service)
    await receive_credit(service.context, report)
    found = (await door.get(f"{PATH}/entregas?situacao=PENDENTE")).body
    (delivery,) = found["entregas"]
    assert delivery == {
        "id": delivery["id"], "endToEndId": report.end_to_end_id, "situacao": "PENDENTE",
        "proximoEnvio": "2026-07-01T15:00:00.000Z", "tentativas": [], "criacao": "2026-07-01T15:00:00.000Z",
    }  # fmt: skip
    assert (found["parametros"]["situacao"], found["parametros"]["paginacao"]["quantidadeTotalDeItens"]) == ("PENDENTE", 1)
    assert (await door.post(f"{PATH}/entregas/{delivery['id']}/reenvio", b"")).body == delivery
    span = {"inicio": "2026-07-01T00:00:00Z", "fim": "2026-07-02T00:00:00Z"}
    assert (await door.post(f"{PATH}/reenvio", span)).body == {"reenviados": 0}
    assert told(await door.post(f"{PATH}/reenvio", {"inicio": "x"})) == (
        400,
        "WebhookOperacaoInvalida",
        [("webhook.fim", None)],
    )
    assert told(await door.post(f"{PATH}/reenvio", span | {"fim": "x"})) == (400, "WebhookOperacaoInvalida", [("fim", "x")])
    status, _, rows = told(await door.get(f"{PATH}/entregas?situacao=x"))
    assert (status, rows) == (400, [("situacao", "x")])
    for path in (f"{PATH}/entregas/7/reenvio", f"{PATH}/entregas/x/reenvio", "/v2/webhook/a@example.com/reenvio"):
        assert told(await door.post(path, {})) == (404, "WebhookNaoEncontrado", [])


async def test_a_list_that_cannot_be_is_refused(door: Api) -> None:
    rows = [("inicio", "2026-01-01"), ("paginacao.itensPorPagina", "0")]
    answer = await door.get("/v2/webhook?inicio=2026-01-01&paginacao.itensPorPagina=0")
    assert told(answer) == (400, "WebhookConsultaInvalida", rows)
