"""A program written for Efi runs against the sandbox: its library, unmodified, over TLS with its certificate."""

import json
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from efipay.constants import Constants

from support import toolchains
from support.account_at_face import run
from support.installation import Installation, running
from support.listener import open_hook
from support.waiting import read_until, wait_until

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("events")]


CLOCK_AT = "2031-03-14T12:00:00Z"
CREDENTIALS = dict(DEMONSTRATION_CLIENT_ID="Client_Id_of_CI", DEMONSTRATION_CLIENT_SECRET="a secret of CI")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with running(
        tmp_path_factory.mktemp("faces") / "home", FACES="efi:0,efi+homologation:0", SANDBOX_CLOCK_AT=CLOCK_AT, **CREDENTIALS
    ) as one:
        yield one


@pytest.fixture
def hook() -> Iterator[str]:
    with open_hook(lambda body: (200, b"")) as url:
        yield url


def show(service: Installation, face: str) -> dict[str, Any]:
    return run(service, "face", "show", face, "--json")


def test_the_shown_lines_lead_to_a_face(service: Installation, hook: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(Constants.APIS["PIX"]["URL"], "sandbox", "")
    lines = run(service, "face", "show", "efi+homologation").partition("efipay (Python):\n")[2].partition("\n\n\n")[0]
    shown = show(service, "efi+homologation")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", shown["authority_file"])
    names: dict[str, Any] = {}
    exec(lines, names)  # noqa: S102 - our own
    efi, key = names["efi"], shown["pix_keys"][0]
    # From the environment, so that tests can record them.
    assert (shown["client_id"], shown["client_secret"]) == tuple(CREDENTIALS.values())
    assert efi.pix_config_webhook(params={"chave": key}, body={"webhookUrl": hook})
    txid = "efihomologation00000000000001"
    cob = {"calendario": {"expiracao": 3600}, "valor": {"original": "10.00"}, "chave": key}
    assert efi.pix_create_charge(params={"txid": txid}, body=cob)["status"] == "ATIVA"
    wait_until(lambda: efi.pix_detail_charge(params={"txid": txid})["status"] == "CONCLUIDA", "the face has paid it")
    sent = {"pagador": {"chave": key}, "favorecido": {"chave": "efipay@sejaefi.com.br"}}
    for name, valor, outcome in (("a1", "10.00", "REALIZADO"), ("a2", "10.01", "NAO_REALIZADO")):
        taken = efi.pix_send(params={"idEnvio": name}, body={"valor": valor, **sent})
        assert taken.get("status") == "EM_PROCESSAMENTO", taken
        asked = read_until(
            lambda name=name: efi.pix_send_detail_id(params={"idEnvio": name}),
            lambda found: found["status"] != "EM_PROCESSAMENTO",
        )
        assert asked["status"] == outcome
    denied = efi.pix_send(params={"idEnvio": "a3"}, body={"valor": "20.01", **sent})
    assert denied["nome"] == "pagamento_negado"
    log = Path(service.home, "faces", "efi+homologation.jsonl")
    # A line is written after its answer was sent.
    wait_until(lambda: "pagamento_negado" in log.read_text(), "the refusal is logged")
    assert shown["client_secret"] not in log.read_text()


def test_a_face_takes_no_connection_without_a_certificate(service: Installation) -> None:
    shown = show(service, "efi")
    trusting = ssl.create_default_context(cafile=shown["authority_file"])
    with httpx2.Client(base_url=shown["url"], verify=trusting, timeout=60) as client, pytest.raises(httpx2.HTTPError):
        client.get("/v2/cob")
    trusting.load_cert_chain(shown["both_file"])
    with httpx2.Client(base_url=shown["url"], verify=trusting, timeout=60) as client:
        answer = client.get("/v2/cob")
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_token")
    # Below its prefix it is also on the API's own port.
    assert httpx2.get(f"{service.base_url}/faces/efi/v2/cob", timeout=60).json()["error"] == "invalid_token"


def test_the_node_library_finds_its_schemas_at_the_face(service: Installation, hook: str, tmp_path: Path) -> None:
    folder = toolchains.take_node(tmp_path)
    shown = show(service, "efi")
    key, span = shown["pix_keys"][0], {"inicio": "2020-01-01T00:00:00Z", "fim": "2099-12-31T23:59:59Z"}

    def call(*calls: tuple[Any, ...]) -> list[dict[str, Any]]:
        (folder / "calls.json").write_text(json.dumps(calls))
        told = dict(BASE_URL=shown["url"], CLIENT_ID=shown["client_id"], CLIENT_SECRET=shown["client_secret"])
        files = dict(PKCS12_FILE=shown["pkcs12_file"], NODE_EXTRA_CA_CERTS=shown["authority_file"])
        return toolchains.run_json(folder, "node", "efi.js", "calls.json", **told, **files)

    txid = "efinode000000000000000000001"
    cob = {"calendario": {"expiracao": 3600}, "valor": {"original": "10.00"}, "chave": key}
    send = {"valor": "1.00", "pagador": {"chave": key}, "favorecido": {"chave": "settle@sandbox.pix.example"}}
    answers = call(
        ("pixConfigWebhook", None, {"chave": key}, {"webhookUrl": hook}),
        ("pixCreateCharge", "CreateCharge", {"txid": txid}, cob),
        ("pixDetailCharge", "DetailCharge", {"txid": txid}),
        ("pixListCharges", "ListCharges", span),
        ("pixSend", "Send", {"idEnvio": "node1"}, send),
        ("pixSendDetailId", "SendDetailId", {"idEnvio": "node1"}),
        ("pixSendList", "SendList", span),
        ("getAccountBalance", None, {}),
        ("pixListEvp", "ListEvp", {}),
        ("pixResendWebhook", None, {}, {"tipo": "PIX_RECEBIDO", "e2eids": ["E99999004202611201234a1B2c3D4e5F"]}),
        ("pixSend", None, {"idEnvio": "node1"}, send),
    )
    *done, again = answers
    assert [answer.get("issues") for answer in done] == [[]] * len(done), done
    assert again["refusal"]["nome"] == "id_envio_duplicado"


def test_twenty_tests_at_once_see_nothing_of_each_other_in_the_time_that_was_chosen(service: Installation) -> None:
    face = f"{service.base_url}/faces/efi"
    txid, txids, paid = "everybodytakesthesametxid0001", list[list[str]](), list[str]()

    login = dict(grant_type="client_credentials", client_id=CREDENTIALS["DEMONSTRATION_CLIENT_ID"])
    secret = dict(client_secret=CREDENTIALS["DEMONSTRATION_CLIENT_SECRET"])
    issued = httpx2.post(f"{service.base_url}/v1/iam/users/login", data=login | secret, timeout=60).json()
    as_demonstration = {"authorization": f"Bearer {issued['data']['access_token']}"}

    def run_test(number: int) -> None:
        with httpx2.Client(timeout=60) as client:
            holder = client.post(f"{service.base_url}/sandbox/v1/holders", json={}, headers=as_demonstration).json()["data"]
            own = (holder["client_id"], holder["client_secret"])
            token = client.post(f"{face}/oauth/token", json={"grant_type": "client_credentials"}, auth=own)
            client.headers["authorization"] = f"Bearer {token.json()['access_token']}"
            cob = {"calendario": {"expiracao": 3600}, "valor": {"original": f"{number + 1}.00"}, "chave": holder["key"]}
            made = client.put(f"{face}/v2/cob/{txid}", json=cob)
            assert made.status_code == 201, made.text
            assert made.json()["calendario"]["criacao"].startswith(CLOCK_AT[:7])  # others here move the clock by days
            month = {"inicio": "2031-03-01T00:00:00Z", "fim": "2031-04-01T00:00:00Z"}
            txids.append([cob["txid"] for cob in client.get(f"{face}/v2/cob", params=month).json()["cobs"]])
            paid.append(client.get(f"{face}/v2/cob/{txid}").json()["valor"]["original"])

    with ThreadPoolExecutor(20) as pool:
        for done in [pool.submit(run_test, number) for number in range(20)]:
            done.result()
    assert txids == [[txid]] * 20
    assert sorted(paid, key=float) == [f"{number}.00" for number in range(1, 21)]
