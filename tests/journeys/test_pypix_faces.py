"""pypix-api, unmodified, receives at Inter's and Sicoob's faces over TLS with its certificate, by the lines that are shown."""

import json
import ssl
import subprocess
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from support.installation import PIXCONNECT, Installation, running

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("events")]

PAYMENTS = "/pix-pagamentos/v2/pagamentos"
TOKEN = "/auth/realms/cooperado/protocol/openid-connect/token"
SCOPE = "pixpagamentos_escrita pixpagamentos_consulta pixpagamentos_webhook cco_consulta"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with running(tmp_path_factory.mktemp("faces") / "home", FACES="inter+homologation:0,sicoob:0") as one:
        yield one


def show(service: Installation, face: str, *words: str) -> str:
    asked = [*PIXCONNECT, "face", "show", face, *words]
    return subprocess.run(
        asked, env=service.environment, capture_output=True, text=True, timeout=120, check=True
    ).stdout


@pytest.mark.parametrize(
    ("face", "name", "heading"),
    [("inter+homologation", "inter", "pypix-api (Python):\n"), ("sicoob", "sicoob", "receiving:\n")],
)
def test_the_lines_that_are_shown_lead_the_library_to_the_face(
    service: Installation, monkeypatch: pytest.MonkeyPatch, face: str, name: str, heading: str
) -> None:
    shown = json.loads(show(service, face, "--json"))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", shown["authority_file"])
    names: dict[str, Any] = {}
    exec(show(service, face).partition(heading)[2], names)  # noqa: S102 - our own
    library, txid = names[name], name[0] * 30
    made = library.criar_cob(
        txid, {"calendario": {"expiracao": 3600}, "valor": {"original": "10.00"}, "chave": shown["pix_keys"][0]}
    )
    assert made["brcode" if name == "sicoob" else "pixCopiaECola"].startswith("000201")
    assert library.consultar_cob(txid)["status"] == "ATIVA"
    if name == "inter":
        paid = library.sandbox_pagar_qrcode(made["pixCopiaECola"], 10.00)
        charge = library.consultar_cob(txid)
        assert (charge["status"], charge["pix"][0]["endToEndId"]) == ("CONCLUIDA", paid["endToEnd"])


def open_client(shown: dict[str, Any]) -> httpx2.Client:
    trusting = ssl.create_default_context(cafile=shown["authority_file"])
    trusting.load_cert_chain(shown["certificate_file"], shown["key_file"])
    return httpx2.Client(base_url=shown["url"], verify=trusting, timeout=60)


def test_a_token_of_a_certificate_without_a_secret_is_of_no_use_with_another(service: Installation) -> None:
    # Each time that a face is shown its client gets another certificate.
    first = json.loads(show(service, "sicoob", "--json"))
    with open_client(first) as client:
        form = {"grant_type": "client_credentials", "client_id": first["client_id"], "scope": SCOPE}
        token = client.post(TOKEN, data=form).json()
        assert set(token["scope"].split()) == set(SCOPE.split())
    with open_client(json.loads(show(service, "sicoob", "--json"))) as another:
        refused = another.get(f"{PAYMENTS}/{'E' * 32}", headers={"authorization": f"Bearer {token['access_token']}"})
        assert (refused.status_code, refused.json()["title"]) == (403, "AcessoNegado")
