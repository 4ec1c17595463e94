"""A program written for Inter runs against the sandbox, over TLS with its certificate.

pypix-api, unmodified, receives; what sends is a client of ours after the API document, as there is no package of Inter's own.
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
from support.waiting import PATIENCE_S

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("events")]

KEY = "0a1b2c3d-0000-4000-8000-000000000001"
SCOPE = "extrato.read pagamento-pix.write pagamento-pix.read"
FACES = "inter:0,inter+homologation:0"
SEND = {"valor": 12.34, "destinatario": {"tipo": "CHAVE", "chave": "settle@sandbox.pix.example"}}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with running(tmp_path_factory.mktemp("faces") / "home", FACES=FACES, FACE_ANSWERS="inter.approval=person") as one:
        yield one


def show(service: Installation, face: str, *words: str) -> str:
    asked = [*PIXCONNECT, "face", "show", face, *words]
    return subprocess.run(
        asked, env=service.environment, capture_output=True, text=True, timeout=120, check=True
    ).stdout


def test_the_lines_that_are_shown_lead_the_library_to_a_face(
    service: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = json.loads(show(service, "inter+homologation", "--json"))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", shown["authority_file"])
    names: dict[str, Any] = {}
    exec(show(service, "inter+homologation").partition("pypix-api (Python):\n")[2], names)  # noqa: S102 - our own
    inter, key = names["inter"], shown["pix_keys"][0]
    for txid, pay in (("a", lambda: inter.sandbox_pagar_cob("a" * 30, 10.00)), ("b", None)):
        made = inter.criar_cob(txid * 30, {"valor": {"original": "10.00"}, "chave": key})
        paid = pay() if pay else inter.sandbox_pagar_qrcode(made["pixCopiaECola"], 10.00)
        charge = inter.consultar_cob(txid * 30)
        assert (charge["status"], charge["pix"][0]["endToEndId"]) == ("CONCLUIDA", paid["endToEnd"])


@pytest.fixture
def inter(service: Installation) -> Iterator[httpx2.Client]:
    """A program that has a token for what sends and reads."""
    shown = json.loads(show(service, "inter", "--json"))
    trusting = ssl.create_default_context(cafile=shown["authority_file"])
    trusting.load_cert_chain(shown["certificate_file"], shown["key_file"])
    with httpx2.Client(base_url=shown["url"], verify=trusting, timeout=60) as client:
        login = {name: shown[name] for name in ("client_id", "client_secret")}
        form = login | {"grant_type": "client_credentials", "scope": SCOPE}
        token = client.post("/oauth/v2/token", data=form).json()
        assert set(token["scope"].split()) == set(SCOPE.split())
        client.headers["authorization"] = f"Bearer {token['access_token']}"
        yield client


def until_ended(inter: httpx2.Client, code: str) -> dict[str, Any]:
    deadline_s = time.monotonic() + PATIENCE_S
    while (asked := inter.get(f"/banking/v2/pix/{code}").json()["transacaoPix"])["status"] == "AGUARDANDO_APROVACAO":
        assert time.monotonic() < deadline_s, asked
        time.sleep(0.05)
    return asked


def test_a_client_after_the_document_sends_asks_and_reads_balance_and_statement(inter: httpx2.Client) -> None:
    before = inter.get("/banking/v2/saldo").json()["disponivel"]
    sent = [inter.post("/banking/v2/pix", json=SEND, headers={"x-id-idempotente": KEY}).json() for _ in range(3)]
    assert sent[1:] == sent[:1] * 2, sent
    assert sent[0]["tipoRetorno"] == "APROVACAO"
    code = sent[0]["codigoSolicitacao"]
    asked = until_ended(inter, code)
    assert (asked["status"], asked["valor"]) == ("PAGO", 12.34)
    assert round(before - inter.get("/banking/v2/saldo").json()["disponivel"], 2) == 12.34
    day = {"dataInicio": sent[0]["dataOperacao"], "dataFim": sent[0]["dataOperacao"]}
    lines = inter.get("/banking/v2/extrato/completo", params=day | {"tipoOperacao": "D"}).json()["transacoes"]
    assert [line["detalhes"]["codigoSolicitacao"] for line in lines] == [code]


@pytest.mark.parametrize(
    ("effect", "status"), [("reject:DS02", "REPROVADO"), ("reject:AB11", "EXPIRADO"), ("no_answer", "PAGO")]
)
def test_a_person_and_a_network_that_fails_are_rules(
    service: Installation, inter: httpx2.Client, effect: str, status: str
) -> None:
    words = [*PIXCONNECT, "faults", "add", effect, "--operation", "submit", "--times", "1"]
    subprocess.run(words, env=service.environment, capture_output=True, timeout=120, check=True)
    before = inter.get("/banking/v2/saldo").json()["disponivel"]
    sent = inter.post("/banking/v2/pix", json=SEND).json()
    assert until_ended(inter, sent["codigoSolicitacao"])["status"] == status
    spent = 12.34 if status == "PAGO" else 0
    assert round(before - inter.get("/banking/v2/saldo").json()["disponivel"], 2) == spent
