"""The simulated Efi resends the webhooks of keys on request."""

import json
from typing import Any

import pytest

from faces.tests.test_efi import COB, SEND, TXID, Face, nome, open_face
from pixconnect.kernel.flows.settlement import end_orders
from pixconnect.kernel.rules.rail import Settled
from support.api import Answer
from support.faces import Bank
from support.webhooks import running_worker

UNKNOWN = "E99999004202611201234a1B2c3D4e5F"


async def resend(face: Face, kind: str, *ids: str) -> Answer:
    return await face.call("POST", "/v2/gn/webhook/reenviar", {"tipo": kind, "e2eids": ids})


async def test_what_was_told_of_some_pix_goes_again_by_its_kind(bank: Bank) -> None:
    face, receiver = await open_face(bank), bank.receiver
    await face.set_webhook(bank)
    for txid in (TXID, "other" * 6):
        assert (await face.call("PUT", f"/v2/cob/{txid}", COB)).status == 201
    probes_count = len(receiver.received)

    def told(count: int) -> list[Any]:
        return [json.loads(each.body)["pix"][0] for each in receiver.received[-count:]]

    async with running_worker(bank.service):
        # One after the other, because webhooks that are due together share a body.
        paid = await bank.be_paid(TXID)
        await receiver.wait_for(probes_count + 1)
        other = await bank.be_paid("other" * 6)
        await receiver.wait_for(probes_count + 2)
        refund = (await face.call("PUT", f"/v2/pix/{paid}/devolucao/d1", {"valor": "1.00"})).body
        sent = (await face.call("PUT", "/v3/gn/pix/a1", SEND)).body["e2eId"]
        settled = Settled(settled_at=bank.service.context.clock.now())
        await end_orders(bank.service.context, [(refund["rtrId"], settled)])
        await receiver.wait_for(probes_count + 3)
        await end_orders(bank.service.context, [(sent, settled)])
        count = len(await receiver.wait_for(probes_count + 4))
        assert len(receiver.received) == count
        for kind, name, member in (
            ("PIX_RECEBIDO", paid, "horario"),
            ("DEVOLUCAO_ENVIADA", paid, "devolucoes"),
            ("PIX_ENVIADO", sent, "gnExtras"),
        ):
            answer = await resend(face, kind, name, UNKNOWN)
            assert (answer.status, answer.content) == (202, b"")
            count += 1
            await receiver.wait_for(count)
            (again,) = told(1)
            assert (again["endToEndId"], member in again) == (name, True), kind
        assert other not in str(told(3))
        # With the same bytes as the first time.
        assert receiver.received[-1].body in [each.body for each in receiver.received[:-1]]
        for kind, name in (("PIX_ENVIADO", paid), ("PIX_RECEBIDO", sent), ("DEVOLUCAO_RECEBIDA", sent)):
            assert (await resend(face, kind, name)).status == 202
        await resend(face, "PIX_RECEBIDO", other)
        await receiver.wait_for(count + 1)
        assert [pix["endToEndId"] for pix in told(1)] == [other]
        assert len(receiver.received) == count + 1


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"tipo": "PIX", "e2eids": [UNKNOWN]},
        {"tipo": "PIX_ENVIADO", "e2eids": []},
        {"tipo": "PIX_ENVIADO", "e2eids": UNKNOWN},
        {"tipo": "PIX_ENVIADO", "e2eids": [UNKNOWN] * 1001},
        {"tipo": "PIX_ENVIADO", "e2eids": [UNKNOWN, "E1"]},
        {"tipo": "PIX_ENVIADO", "e2eids": [UNKNOWN], "more": 1},
    ],
)
async def test_what_has_not_the_form_is_refused(bank: Bank, body: dict[str, Any]) -> None:
    answer = await (await open_face(bank)).call("POST", "/v2/gn/webhook/reenviar", body)
    assert nome(answer) == (400, "WebhookOperacaoInvalida")
    assert len(answer.body["violacoes"]) == (2 if not body else 1)
