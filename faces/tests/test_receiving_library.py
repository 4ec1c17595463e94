"""pypix-api, unmodified, receives at four simulated banks; Banco do Brasil and Sicredi are only profiles."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import requests
from pypix_api.auth.oauth2 import OAuth2Client
from pypix_api.banks.base import BankPixAPIBase
from pypix_api.banks.bb import BBPixAPI
from pypix_api.banks.inter import InterPixAPI
from pypix_api.banks.sicoob import SicoobPixAPI
from pypix_api.banks.sicredi import SicrediPixAPI
from pypix_api.exceptions import PixErroValidacaoException, PixRecursoNaoEncontradoException

from pixconnect.features.institutions.profiles.profile import read_profile
from pixconnect.kernel.flows.settlement import end_orders
from pixconnect.kernel.rules.rail import Settled
from support.faces import KEY, Bank, listening
from support.webhooks import running_worker

INICIO, FIM = "2020-01-01T00:00:00Z", "2099-12-31T23:59:59Z"
TXID = "receivedbypypix000000000000001"
COB = {"calendario": {"expiracao": 3600}, "valor": {"original": "10.00"}, "chave": KEY}
SCOPES = "cob.read cob.write cobv.read cobv.write pix.read pix.write webhook.read webhook.write"
LIBRARIES: dict[str, tuple[type[BankPixAPIBase], str]] = {
    "sicoob": (SicoobPixAPI, "/pix/api/v2"),
    "bb": (BBPixAPI, "/pix/v2"),
    "sicredi": (SicrediPixAPI, "/api"),
    "inter": (InterPixAPI, "/pix/v2"),
}

Call = Callable[..., Any]


@pytest.fixture(params=LIBRARIES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
async def statuses() -> list[tuple[str, int]]:
    return []


@pytest.fixture
async def library(bank: Bank, tmp_path: Path, name: str, statuses: list[tuple[str, int]]) -> AsyncIterator[Call]:
    """The library's calls, each in a thread as in a program."""
    certificate = tmp_path / "certificate.pem"
    certificate.write_text("the library looks whether there is a file; the journey speaks TLS")
    made, base = LIBRARIES[name]
    async with listening(bank) as url:
        pointed = type("Pointed", (made,), {"BASE_URL": f"{url}/faces/{name}{base}"})
        oauth = OAuth2Client(
            token_url=f"{url}/faces/{name}{read_profile(name).token.path}",
            client_id=bank.issued.client.client_id,
            client_secret=bank.issued.client_secret,
            client_auth="body" if name == "inter" else "basic",
            cert=str(certificate),
            pvk=str(certificate),
        )
        # For Banco do Brasil it only requests the scopes of received Pix by default.
        more = dict(conta_corrente="1001") if name == "inter" else dict(scopes=SCOPES if name == "bb" else None)
        opened: Any = pointed(oauth, **more)

        def note(answer: requests.Response, *_: Any, **__: Any) -> None:
            statuses.append((f"{answer.request.method} {'devolucao' in answer.url}", answer.status_code))

        opened.session.hooks["response"].append(note)

        async def call(what: str, *arguments: Any, **named: Any) -> Any:
            return await asyncio.to_thread(lambda: getattr(opened, what)(*arguments, **named))

        yield call


async def test_a_charge_lives_its_life(library: Call, bank: Bank, name: str, statuses: list[tuple[str, int]]) -> None:
    assert await library("configurar_webhook", KEY, bank.receiver.url) == {}
    made = await library("criar_cob", TXID, COB)
    assert (made["txid"], made["status"]) == (TXID, "ATIVA")
    assert made["brcode" if name == "sicoob" else "pixCopiaECola"].startswith("000201")
    assert (await library("revisar_cob", TXID, {"valor": {"original": "12.00"}}))["revisao"] == 1
    assert [cob["txid"] for cob in (await library("consultar_cobs", INICIO, FIM))["cobs"]] == [TXID]
    async with running_worker(bank.service):
        e2eid = await bank.be_paid(TXID, 1200)
        other = await bank.be_paid(None)
        await bank.receiver.wait_for(1)
        assert (await library("consultar_cob", TXID))["status"] == "CONCLUIDA"
        everything = await library("consultar_pix", INICIO, FIM)
        assert {pix["endToEndId"] for pix in everything["pix"]} == {e2eid, other}
        refund = await library("solicitar_devolucao_pix", e2eid, "d1", {"valor": "4.00"})
        settled = Settled(settled_at=bank.service.context.clock.now())
        await end_orders(bank.service.context, [(refund["rtrId"], settled)])
        assert (await library("consultar_devolucao_pix", e2eid, "d1"))["status"] == "DEVOLVIDO"
        await bank.receiver.wait_for(2)
    assert {request.path.rpartition("/")[2] for request in bank.receiver.received} == {"pix"}
    told = [pix for request in bank.receiver.received for pix in json.loads(request.body)["pix"]]
    assert [(pix["endToEndId"], pix["txid"]) for pix in told] == [(e2eid, TXID)] * 2
    assert await library("excluir_webhook", KEY)
    # Members that the profile has and the library ignores.
    created, revised, returned = {
        "sicoob": (201, 200, 201),
        "bb": (200, 201, 201),
        "sicredi": (201, 200, 200),
        "inter": (201, 200, 201),
    }[name]
    assert [status for asked, status in statuses if asked == "PUT False"] == [204 if name == "inter" else 200, created]
    assert [status for asked, status in statuses if asked == "PATCH False"] == [revised]
    assert [status for asked, status in statuses if asked == "PUT True"] == [returned]


async def test_refusals_are_those_that_the_library_knows(library: Call, bank: Bank) -> None:
    with pytest.raises(PixRecursoNaoEncontradoException):
        await library("consultar_cob", TXID)
    with pytest.raises(PixErroValidacaoException) as refused:
        await library("criar_cob", TXID, COB | {"valor": {"original": "5"}})
    assert [row["propriedade"] for row in refused.value.violacoes or []] == ["cob.valor.original"]
