"""pypix-api, unmodified, receives at Inter's face: charge, paid, refunded in part, told; sending has no packaged library."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from pypix_api.auth.oauth2 import OAuth2Client
from pypix_api.banks.inter import InterPixAPI
from pypix_api.exceptions import PixErroValidacaoException, PixRecursoNaoEncontradoException

from pixconnect.domain.money.rail import Settled
from pixconnect.usecases.money.settlement import end_orders
from support.faces import KEY, Bank, listening
from support.webhooks import running_worker

INICIO, FIM = "2020-01-01T00:00:00-03:00", "2099-12-31T23:59:59-03:00"
TXID = "interpypix000000000000000001"
COB = {"calendario": {"expiracao": 3600}, "valor": {"original": "10.00"}, "chave": KEY}

Call = Callable[..., Any]


@pytest.fixture
async def inter(bank: Bank, tmp_path: Path) -> AsyncIterator[Call]:
    """The library's calls, each in a thread as a program would make it."""
    certificate = tmp_path / "certificate.pem"
    certificate.write_text("the library looks whether there is a file; the journey speaks TLS")
    async with listening(bank) as url:

        class Inter(InterPixAPI):
            BASE_URL = f"{url}/faces/inter/pix/v2"

        oauth = OAuth2Client(
            token_url=f"{url}/faces/inter/oauth/v2/token",
            client_id=bank.issued.client.client_id,
            client_secret=bank.issued.client_secret,
            client_auth="body",
            cert=str(certificate),
            pvk=str(certificate),
        )
        library = Inter(oauth, conta_corrente="1001")

        async def call(name: str, *arguments: Any, **named: Any) -> Any:
            return await asyncio.to_thread(lambda: getattr(library, name)(*arguments, **named))

        yield call


async def test_a_charge_is_made_paid_refunded_in_part_and_told(inter: Call, bank: Bank) -> None:
    assert await inter("configurar_webhook", KEY, bank.receiver.url) == {}
    assert (await inter("consultar_webhook", KEY))["webhookUrl"] == bank.receiver.url
    made = await inter("criar_cob", TXID, COB)
    assert (made["txid"], made["status"]) == (TXID, "ATIVA")
    assert made["pixCopiaECola"]
    assert (await inter("revisar_cob", TXID, {"valor": {"original": "12.00"}}))["revisao"] == 1
    assert [cob["txid"] for cob in (await inter("consultar_cobs", INICIO, FIM))["cobs"]] == [TXID]
    async with running_worker(bank.service):
        e2eid = await bank.be_paid(TXID, 1200)
        other = await bank.be_paid(None)
        await bank.receiver.wait_for(1)
        assert (await inter("consultar_cob", TXID))["status"] == "CONCLUIDA"
        # The library spells this filter as the institution does.
        found = await inter("consultar_pix", INICIO, FIM, txid=TXID)
        assert [pix["endToEndId"] for pix in found["pix"]] == [e2eid]
        everything = await inter("consultar_pix", INICIO, FIM)
        assert {pix["endToEndId"] for pix in everything["pix"]} == {e2eid, other}
        refund = await inter("solicitar_devolucao_pix", e2eid, "d1", {"valor": "4.00"})
        again = await inter("solicitar_devolucao_pix", e2eid, "d1", {"valor": "4.00"})
        assert again["rtrId"] == refund["rtrId"]
        settled = Settled(settled_at=bank.service.context.clock.now())
        await end_orders(bank.service.context, [(refund["rtrId"], settled)])
        assert (await inter("consultar_devolucao_pix", e2eid, "d1"))["status"] == "DEVOLVIDO"
        await bank.receiver.wait_for(2)
    assert {request.path.rpartition("/")[2] for request in bank.receiver.received} == {"pix"}
    told = [pix for request in bank.receiver.received for pix in json.loads(request.body)["pix"]]
    assert [(pix["endToEndId"], pix["txid"]) for pix in told] == [(e2eid, TXID)] * 2
    assert told[1]["devolucoes"][0]["status"] == "DEVOLVIDO"
    assert await inter("excluir_webhook", KEY)


async def test_refusals_are_those_that_the_library_knows(inter: Call, bank: Bank) -> None:
    with pytest.raises(PixRecursoNaoEncontradoException):
        await inter("consultar_cob", TXID)
    with pytest.raises(PixErroValidacaoException) as refused:
        await inter("criar_cob", TXID, COB | {"valor": {"original": "5"}})
    assert [row["propriedade"] for row in refused.value.violacoes or []] == ["cob.valor.original"]
