"""A program written for Sicoob runs against the sandbox, over TLS with its certificate and without a secret.

pypix-api, unmodified, receives; what sends is a client of ours after the API documents, as Sicoob's own library is Java.
"""

import json
import ssl
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from support.installation import PIXCONNECT, Installation, running
from support.listener import open_hook
from support.waiting import PATIENCE_S

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("events")]

PAYMENTS = "/pix-pagamentos/v2/pagamentos"
TOKEN = "/auth/realms/cooperado/protocol/openid-connect/token"
SCOPE = "pixpagamentos_escrita pixpagamentos_consulta pixpagamentos_webhook cco_consulta"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with running(tmp_path_factory.mktemp("faces") / "home", FACES="sicoob:0", FACE_ANSWERS="sicoob.notice=bare") as one:
        yield one


def show(service: Installation, *words: str) -> str:
    asked = [*PIXCONNECT, "face", "show", "sicoob", *words]
    return subprocess.run(
        asked, env=service.environment, capture_output=True, text=True, timeout=120, check=True
    ).stdout


def test_the_lines_that_are_shown_lead_the_library_to_the_face(
    service: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = json.loads(show(service, "--json"))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", shown["authority_file"])
    names: dict[str, Any] = {}
    exec(show(service).partition("receiving:\n")[2], names)  # noqa: S102 - our own
    cob = {"calendario": {"expiracao": 3600}, "valor": {"original": "10.00"}, "chave": shown["pix_keys"][0]}
    made = names["sicoob"].criar_cob("a" * 30, cob)
    assert made["brcode"].startswith("000201")
    assert names["sicoob"].consultar_cob("a" * 30)["status"] == "ATIVA"


def open_client(shown: dict[str, Any]) -> httpx2.Client:
    trusting = ssl.create_default_context(cafile=shown["authority_file"])
    trusting.load_cert_chain(shown["certificate_file"], shown["key_file"])
    return httpx2.Client(base_url=shown["url"], verify=trusting, timeout=60)


@pytest.fixture
def sicoob(service: Installation) -> Iterator[httpx2.Client]:
    """A program with a token that its certificate got it."""
    shown = json.loads(show(service, "--json"))
    with open_client(shown) as client:
        form = {"grant_type": "client_credentials", "client_id": shown["client_id"], "scope": SCOPE}
        token = client.post(TOKEN, data=form).json()
        assert set(token["scope"].split()) == set(SCOPE.split())
        client.headers["authorization"] = f"Bearer {token['access_token']}"
        yield client


def test_a_token_is_of_no_use_with_another_certificate(service: Installation, sicoob: httpx2.Client) -> None:
    # Each time that a face is shown its client gets another certificate.
    with open_client(json.loads(show(service, "--json"))) as another:
        refused = another.get(PAYMENTS + "/" + "E" * 32, headers={"authorization": sicoob.headers["authorization"]})
        assert (refused.status_code, refused.json()["title"]) == (403, "AcessoNegado")


def until_ended(sicoob: httpx2.Client, name: str) -> str:
    deadline_s = time.monotonic() + PATIENCE_S
    while (state := sicoob.get(f"{PAYMENTS}/{name}").json()["estado"]) == "EM_PROCESSAMENTO":
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    return state


def initiate(sicoob: httpx2.Client) -> dict[str, Any]:
    name = sicoob.post(PAYMENTS, json={"chave": "settle@sandbox.pix.example"}).json()["endToEndId"]
    return {"endToEndId": name, "meioIniciacao": "CHAVE", "valor": "12,34"}


def balance(sicoob: httpx2.Client) -> float:
    return sicoob.get("/conta-corrente/v4/saldo").json()["saldo"]


def test_a_client_after_the_documents_sends_asks_and_reads_balance_and_statement(sicoob: httpx2.Client) -> None:
    before, order = balance(sicoob), initiate(sicoob)
    assert sicoob.post(f"{PAYMENTS}/confirmacao", json=order).json()["estado"] == "EM_PROCESSAMENTO"
    assert until_ended(sicoob, order["endToEndId"]) == "FINALIZADO"
    assert sicoob.post(f"{PAYMENTS}/confirmacao", json=order).status_code == 400
    assert round(before - balance(sicoob), 2) == 12.34


@pytest.mark.parametrize(
    ("effect", "operation", "is_paid"),
    [("no_answer", "face_write", True), ("lost", "face_write", False), ("reject:AC03", "submit", False)],
)
def test_a_lost_answer_and_a_failing_network_are_rules(
    service: Installation, sicoob: httpx2.Client, effect: str, operation: str, is_paid: bool
) -> None:
    before, order = balance(sicoob), initiate(sicoob)
    words = [*PIXCONNECT, "faults", "add", effect, "--operation", operation, "--times", "1"]
    subprocess.run(words, env=service.environment, capture_output=True, timeout=120, check=True)
    if operation == "face_write":
        with pytest.raises(httpx2.TransportError):
            sicoob.post(f"{PAYMENTS}/confirmacao", json=order)
    else:
        sicoob.post(f"{PAYMENTS}/confirmacao", json=order)
    if effect == "lost":
        assert sicoob.get(f"{PAYMENTS}/{order['endToEndId']}").status_code == 404
    else:
        assert until_ended(sicoob, order["endToEndId"]) == ("FINALIZADO" if is_paid else "REJEITADO")
    assert round(before - balance(sicoob), 2) == (12.34 if is_paid else 0)


def test_the_worker_tells_in_the_form_that_was_chosen(sicoob: httpx2.Client) -> None:
    told = list[bytes]()

    def listen(body: bytes) -> tuple[int, bytes]:
        told.append(body)
        return 200, b""

    with open_hook(listen) as url:
        assert sicoob.put(f"{PAYMENTS}/webhook", json={"webhookUrl": url}).status_code == 200
        order = initiate(sicoob)
        sicoob.post(f"{PAYMENTS}/confirmacao", json=order)
        deadline_s = time.monotonic() + PATIENCE_S
        while not told:
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
    assert json.loads(told[0]) == {"id": order["endToEndId"], "estado": "FINALIZADO_SUCESSO", "valor": "12.34"}
