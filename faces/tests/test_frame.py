"""What all simulated banks share: tokens, and errors for missing resources."""

from typing import Any, cast

import pytest
from msgspec import structs

from pixconnect.features.institutions.profiles.profile import read_profile
from pixconnect.features.sandbox.rules import FaultAnswer, Message, SandboxControl
from pixconnect.features.sandbox.service.sandbox import SANDBOX_CONTROL
from support.api import Answer, Api
from support.faces import Bank, Control


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
    context = bank.services.context.with_port(SANDBOX_CONTROL, cast("SandboxControl", control))
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
        # It gives no access to our own API.
        token = answer.body["access_token"]
        assert (await api.get("/v1/connect/charge/list", token=token)).status == 403
    unknown = await ask_token(bank, api, client_secret=bank.issued.client_secret, scope="charge.read")
    assert (unknown.status, unknown.body["error"]) == (400, "invalid_scope")


BELOW: list[tuple[str, str, tuple[int, str, str]]] = [
    ("GET", "/faces/inter/banking/v2/nothing", (404, "application/json", "Não encontrado")),
    ("DELETE", "/faces/inter/banking/v2/pix", (405, "application/json", "Método não permitido")),
    ("GET", "/faces/inter+homologation/banking/v2/nothing", (404, "application/json", "Não encontrado")),
    ("GET", "/faces/inter%2bhomologation/banking/v2/nothing", (404, "application/json", "Não encontrado")),
    ("GET", "/faces/inter/pix/v2/nothing", (404, "application/problem+json", "NaoEncontrado")),
    ("GET", "/faces/inter/bankings", (404, "application/problem+json", "NaoEncontrado")),
    ("GET", "/faces/sicoob/conta-corrente/v4/nothing", (404, "application/json", "404")),
    ("GET", "/faces/efi+homologation/nothing", (404, "application/json", "nao_encontrado")),
    ("GET", "/faces/efi%2Bhomologation/nothing", (404, "application/json", "nao_encontrado")),
    ("GET", "/faces/efi%2Bhomologation/v2/gn/saldo", (401, "application/json", "invalid_token")),
    ("GET", "/faces/nobody/v2/cob", (404, "application/json", "NOT_FOUND")),
    ("GET", "/x/faces/efi/v2/cob", (404, "application/json", "NOT_FOUND")),
]


def read_name(answer: Answer) -> str:
    body = answer.body
    if isinstance(body.get("error"), dict):
        return body["error"]["code"]
    problem = body.get("type", "").rpartition("/")[2]
    return problem or body.get("title") or body.get("nome") or body.get("codigo") or body["error"]


@pytest.mark.parametrize(("method", "path", "expected"), BELOW, ids=[f"{row[0]} {row[1]}" for row in BELOW])
async def test_what_is_not_there_is_refused_in_the_form_of_what_is_beside_it(
    bank: Bank, method: str, path: str, expected: tuple[int, str, str]
) -> None:
    answer = await bank.answering().call(method, path, token=None)
    assert (answer.status, answer.headers["content-type"], read_name(answer)) == expected


async def test_in_live_mode_there_are_no_faces(bank: Bank) -> None:
    context = bank.services.context
    live = structs.replace(context, policy=structs.replace(context.policy, is_sandbox=False))
    api = structs.replace(bank, services=structs.replace(bank.services, context=live)).answering()
    for path in ("/faces/efi/v2/cob", "/faces/inter/banking/v2/pix", "/faces/efi%2Bhomologation/v2/cob", "/faces/efi"):
        answer = await api.get(path, token=None)
        assert (answer.status, answer.body["success"], answer.body["error"]["code"]) == (404, False, "NOT_FOUND")
