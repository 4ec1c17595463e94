"""What all faces have in common: their tokens, and how they refuse what is not there."""

from __future__ import annotations

from typing import Any, cast

from msgspec import structs

from api.faces.test_face_fault import Control
from pixconnect.domain.profiles.profile import read_profile
from pixconnect.domain.simulation.sandbox_control import FaultAnswer, Message, SandboxControl
from support.api import Answer, Api
from support.faces import Bank


class Counting(Control):
    drawn_count = 0

    async def call(self, what: object, asked: Message) -> FaultAnswer:
        self.drawn_count += 1
        return await super().call(what, asked)


async def ask_token(bank: Bank, api: Api, **body: Any) -> Answer:
    login = {"grant_type": "client_credentials", "client_id": bank.issued.client.client_id}
    return await api.post("/faces/efi/oauth/token", login | body, token=None)


async def test_an_address_that_has_failed_too_often_costs_no_draw_of_a_fault(bank: Bank) -> None:
    control = Counting()
    context = structs.replace(bank.services.context, sandbox_control=cast("SandboxControl", control))
    api = structs.replace(bank, services=structs.replace(bank.services, context=context)).answering()
    statuses = [(await ask_token(bank, api, client_secret=f"wrong {number}")).status for number in range(12)]
    assert (statuses[0], statuses[-1]) == (401, 429)
    before = control.drawn_count
    assert [(await ask_token(bank, api, client_secret="wrong")).status for _ in range(3)] == [429] * 3
    assert control.drawn_count == before > 0


async def test_a_token_has_the_scopes_that_the_institution_has_words_for_and_no_others(bank: Bank) -> None:
    api, ours = bank.answering(), read_profile("efi").scopes
    for asked in ({}, {"scope": ""}):
        answer = await ask_token(bank, api, client_secret=bank.issued.client_secret, **asked)
        assert set(answer.body["scope"].split()) == set(ours)
        # It opens nothing at the contract's door that the institution does not have.
        token = answer.body["access_token"]
        assert (await api.get("/v1/connect/charge/list", token=token)).status == 403
    unknown = await ask_token(bank, api, client_secret=bank.issued.client_secret, scope="charge.read")
    assert (unknown.status, unknown.body["error"]) == (400, "invalid_scope")
