"""Efi's own library for Python, unmodified, speaks to the face: charge, paid, refunded, told; send, ask, balance, file."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from efipay import EfiPay
from efipay.constants import Constants

from pixconnect.domain.money.rail import Rejected, Settled
from pixconnect.usecases.money.settlement import end_orders
from support.faces import KEY, PAYEE, Bank, listening
from support.waiting import PATIENCE_S
from support.webhooks import eventually, running_worker

SPAN = {"inicio": "2020-01-01T00:00:00Z", "fim": "2099-12-31T23:59:59Z"}
TXID = "efipay0000000000000000000001"
COB = {"calendario": {"expiracao": 3600}, "valor": {"original": "10.00"}, "chave": KEY}

Call = Callable[..., Any]


@pytest.fixture
async def efi(bank: Bank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Call]:
    """The library's calls, each in a thread as a program would make it."""
    certificate = tmp_path / "certificate.pem"
    certificate.write_text("the library looks whether there is a file")
    async with listening(bank) as url:
        monkeypatch.setitem(Constants.APIS["PIX"]["URL"], "sandbox", f"{url}/faces/efi")
        credentials = dict(client_id=bank.issued.client.client_id, client_secret=bank.issued.client_secret)
        library = EfiPay({**credentials, "sandbox": True, "certificate": str(certificate)})

        async def call(name: str, body: Any = None, **params: Any) -> Any:
            deadline_s = time.monotonic() + PATIENCE_S
            while True:
                said = await asyncio.to_thread(lambda: getattr(library, name)(params=params, body=body))
                # On a machine that is busy with other tests: nothing was done, and may be asked for again.
                is_busy = isinstance(said, dict) and said.get("nome") == "servico_indisponivel"
                if not is_busy or time.monotonic() > deadline_s:
                    return said

        yield call


def told(bank: Bank) -> list[dict[str, Any]]:
    """What the webhook was told, without the probe."""
    return [pix for request in bank.receiver.received[1:] for pix in json.loads(request.body)["pix"]]


async def test_a_charge_is_made_paid_refunded_in_part_and_told(efi: Call, bank: Bank) -> None:
    assert await efi("pix_config_webhook", {"webhookUrl": bank.hook}, chave=KEY) == {"webhookUrl": bank.hook}
    assert [request.path for request in bank.receiver.received] == ["/hook?hmac=s3cret&ignorar="]
    made = await efi("pix_create_charge", COB, txid=TXID)
    assert (made["txid"], made["status"]) == (TXID, "ATIVA"), made
    assert (await efi("pix_create_charge", COB, txid=TXID))["nome"] == "txid_duplicado"
    drawn = await efi("pix_generate_qrcode", id=made["loc"]["id"])
    assert drawn["qrcode"] == made["pixCopiaECola"]
    assert drawn["imagemQrcode"].startswith("data:image/png;base64,")
    async with running_worker(bank.service):
        e2eid = await bank.be_paid(TXID)
        # Without a txid nothing is told.
        await bank.be_paid(None)
        await bank.receiver.wait_for(2)
        paid = await efi("pix_detail_charge", txid=TXID)
        assert (paid["status"], paid["pix"][0]["endToEndId"]) == ("CONCLUIDA", e2eid)
        refund = await efi("pix_devolution", {"valor": "4.00"}, e2eId=e2eid, id="d1")
        assert (refund["status"], "natureza" in refund) == ("EM_PROCESSAMENTO", False)
        again = await efi("pix_devolution", {"valor": "4.00"}, e2eId=e2eid, id="d1")
        assert again["nome"] == "devolucao_id_duplicado"
        settled = Settled(settled_at=bank.service.context.clock.now())
        await end_orders(bank.service.context, [(refund["rtrId"], settled)])
        assert (await efi("pix_detail_devolution", e2eId=e2eid, id="d1"))["status"] == "DEVOLVIDO"
        await bank.receiver.wait_for(3)
    assert [request.path for request in bank.receiver.received[1:]] == ["/hook?hmac=s3cret&ignorar=/pix"] * 2
    assert [(pix["endToEndId"], pix["txid"]) for pix in told(bank)] == [(e2eid, TXID)] * 2
    assert told(bank)[1]["devolucoes"][0]["status"] == "DEVOLVIDO"
    received = (await efi("pix_received_list", **SPAN))["pix"]
    assert [pix.get("txid") for pix in received] == [None, TXID]


async def test_a_pix_is_sent_asked_for_and_told(efi: Call, bank: Bank) -> None:
    body = {
        "valor": "12.34",
        "pagador": {"chave": KEY, "infoPagador": "nota 7"},
        "favorecido": {"chave": PAYEE, "cpf": "12345678909"},
    }
    assert (await efi("pix_send", body, idEnvio="envio1"))["nome"] == "chave_invalida"
    await efi("pix_config_webhook", {"webhookUrl": bank.hook}, chave=KEY)
    sent = await efi("pix_send", body, idEnvio="envio1")
    assert "status" in sent, sent
    assert (sent["status"], sent["valor"], sent["idEnvio"]) == ("EM_PROCESSAMENTO", "12.34", "envio1"), sent
    assert (await efi("pix_send", body, idEnvio="envio1"))["nome"] == "id_envio_duplicado"
    other = body | {"favorecido": {"chave": PAYEE, "cpf": "52998224725"}}
    assert (await efi("pix_send", other, idEnvio="envio2"))["nome"] == "chave_nao_pertence_ao_documento"
    second = await efi("pix_send", body, idEnvio="envio2")
    context = bank.service.context

    async def both_are_told() -> bool:
        return len(told(bank)) == 2

    async with running_worker(bank.service):
        now = context.clock.now()
        await end_orders(context, [(sent["e2eId"], Settled(settled_at=now))])
        await end_orders(context, [(second["e2eId"], Rejected(code="AC03", reason="no such account"))])
        await eventually(both_are_told)
    done, failed = sorted(told(bank), key=lambda pix: pix["gnExtras"]["idEnvio"])
    assert (done["status"], done["gnExtras"], done["infoPagador"]) == ("REALIZADO", {"idEnvio": "envio1"}, "nota 7")
    assert (failed["status"], failed["gnExtras"]["erro"]["codigo"]) == ("NAO_REALIZADO", "AC03")
    one = await efi("pix_send_detail_id", idEnvio="envio1")
    assert (one["status"], one["favorecido"]["chave"], one["infoPagador"]) == ("REALIZADO", PAYEE, "nota 7")
    assert await efi("pix_send_detail", e2eid=sent["e2eId"]) == one
    listed = await efi("pix_send_list", **SPAN)
    assert [pix["idEnvio"] for pix in listed["pix"]] == ["envio2", "envio1"]
    assert (await efi("get_account_balance")) == {"saldo": "9987.66"}
    absent = await efi("pix_send_detail_id", idEnvio="envio9")
    assert (absent["status"], absent["type"].rpartition("/")[2]) == (404, "PixEnviadoNaoEncontrado")
