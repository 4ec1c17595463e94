"""Behaviour of Efi's own test environment after a transfer."""

from typing import cast

from msgspec import structs

from faces.tests.test_efi import COB, SEND, TXID, open_face
from pixconnect.features.sandbox import rules as sandbox_control
from pixconnect.features.sandbox.rules import (
    Arrival,
    FaultAnswer,
    OutsideReturn,
    SandboxControl,
    SandboxRefusal,
    SandboxUnavailable,
)
from pixconnect.features.sandbox.service.sandbox import SANDBOX_CONTROL
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect_faces.frame import open_faces
from support.faces import PAYEE, Bank
from support.webhooks import eventually


class Control:
    """A sandbox in which a transfer settles at the second look."""

    def __init__(self) -> None:
        self.asked_count = 0
        self.returned: list[int | None] = []

    async def call(self, what: object, asked: object) -> object:
        if what is sandbox_control.DRAW_FAULT:
            return FaultAnswer(effect=None)
        assert isinstance(asked, OutsideReturn)
        self.asked_count += 1
        if self.asked_count == 1:
            raise SandboxRefusal("unknown", "the network has settled no such transfer")
        self.returned.append(asked.amount_cents)
        return Arrival(id="D", amount_cents=0, status="CONFIRMED")


async def test_a_refund_of_one_cent_is_given_to_the_network_to_be_rejected(bank: Bank) -> None:
    face, context = await open_face(bank, "efi+homologation"), bank.service.context
    e2eid = await bank.be_paid(None)
    for name, valor, description in (("d1", "0.01", "reject-ac03"), ("d2", "0.02", "")):
        answer = await face.call("PUT", f"/v2/pix/{e2eid}/devolucao/{name}", {"valor": valor})
        assert (answer.status, answer.body["status"], "descricao" in answer.body) == (201, "EM_PROCESSAMENTO", False)
        made = await refund_usecases.read_refund_by_return_id(context, bank.service.caller, answer.body["rtrId"])
        assert (made.description or "") == description


async def test_four_reais_come_back_in_two_parts_and_five_at_once(bank: Bank) -> None:
    rules, control = open_faces("efi")[0].profile.homologation, Control()
    bank.service.rail.entries[rules.settled_key] = bank.service.rail.entries[PAYEE]
    context = bank.service.context.with_port(SANDBOX_CONTROL, cast("SandboxControl", control))
    face = await open_face(structs.replace(bank, services=structs.replace(bank.services, context=context)), "efi+homologation")
    await face.set_webhook(bank)

    async def send(name: str, valor: str) -> None:
        body = {**SEND, "valor": valor, "favorecido": {"chave": rules.test_key}}
        assert (await face.call("PUT", f"/v3/gn/pix/{name}", body)).status == 201

    async def is_returned() -> bool:
        return sum(amount or 0 for amount in control.returned) == 900

    for name, valor in (("a1", "4.00"), ("a2", "5.00"), ("a3", "3.00")):
        await send(name, valor)
    await eventually(is_returned)
    assert sorted(control.returned, key=str) == [200, 200, 500]


class Away:
    """A sandbox that is away when a charge is created, and comes back."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.is_back = False

    async def call(self, what: object, asked: object) -> object:
        if what is sandbox_control.DRAW_FAULT:
            return FaultAnswer(effect=None)
        if not self.is_back:
            self.is_back = True
            raise SandboxUnavailable
        self.paid.append(str(asked))
        return Arrival(id="E", amount_cents=500, status="CONFIRMED")


async def test_a_charge_that_was_made_is_never_answered_as_if_it_were_not(bank: Bank) -> None:
    control = Away()
    context = bank.service.context.with_port(SANDBOX_CONTROL, cast("SandboxControl", control))
    face = await open_face(structs.replace(bank, services=structs.replace(bank.services, context=context)), "efi+homologation")
    answer = await face.call("PUT", f"/v2/cob/{TXID}", {**COB, "valor": {"original": "5.00"}})
    assert answer.status == 201, answer
    assert answer.body["status"] == "ATIVA"

    async def is_paid() -> bool:
        return len(control.paid) == 1

    await eventually(is_paid)
