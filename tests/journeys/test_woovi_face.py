"""A program written for Woovi runs against the sandbox: its library, unmodified, over TLS by its AppID.

The library has Woovi's key built in, so its webhook handler is tested with Woovi's sample, and our webhooks are
verified with the published keys of the simulated bank.
"""

import base64
import json
import ssl
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from support import toolchains
from support.account_at_face import run
from support.installation import Installation, running
from support.listener import Answer, LoopbackServer
from support.pages import ROOT
from support.waiting import read_until, wait_until

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("events")]

SAMPLE = ROOT / "tests" / "vectors" / "woovi" / "webhook-sample"
PAYMENT = {"type": "PIX_KEY", "value": 1234, "destinationAlias": "settle@sandbox.pix.example", "destinationAliasType": "EMAIL"}
EVENTS = ("OPENPIX:CHARGE_COMPLETED", "OPENPIX:TRANSACTION_RECEIVED", "OPENPIX:MOVEMENT_CONFIRMED", "OPENPIX:MOVEMENT_FAILED")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with running(tmp_path_factory.mktemp("faces") / "home", FACES="woovi:0,woovi+homologation:0") as one:
        yield one


class Told(LoopbackServer):
    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        super().__init__(self._take, "/", keeps=False)

    def _take(self, request: BaseHTTPRequestHandler, body: bytes) -> Answer:
        self.requests.append(({name.lower(): value for name, value in request.headers.items()}, body))
        return 200, {}, b""

    def wait_for(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        return read_until(
            lambda: [body for body in self.bodies() if body["event"] == event and "evento" not in body],
            lambda found: len(found) >= count,
        )

    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.requests]


@pytest.fixture
def told() -> Iterator[Told]:
    receiver = Told()
    yield receiver
    receiver.close()


class Program:
    """Calls the library as a program would, and plays the payer and the network."""

    def __init__(self, service: Installation, folder: Path) -> None:
        self._service = service
        self._folder = toolchains.take_node(folder)
        self.shown = self._show("woovi")
        self._client = httpx2.Client(
            verify=ssl.create_default_context(cafile=self.shown["authority_file"]),
            headers={"authorization": self.shown["app_id"]},
            timeout=60,
        )

    def close(self) -> None:
        self._client.close()

    def _show(self, face: str) -> dict[str, Any]:
        return run(self._service, "face", "show", face, "--json")

    def call(self, *calls: tuple[Any, ...]) -> list[dict[str, Any]]:
        (self._folder / "calls.json").write_text(json.dumps(calls))
        told = dict(BASE_URL=self.shown["url"], APP_ID=self.shown["app_id"])
        return toolchains.run_json(
            self._folder, "node", "woovi.js", "calls.json", NODE_EXTRA_CA_CERTS=self.shown["authority_file"], **told
        )

    def do(self, *call: Any) -> Any:
        (said,) = self.call(call)
        assert "answer" in said, said
        return said["answer"]

    def read(self, path: str) -> Any:
        """Operations without a method in the library."""
        return self._client.get(f"{self.shown['url']}/api/v1{path}").json()

    def pay(self, txid: str) -> None:
        url = self._show("woovi+homologation")["url"]
        assert self._client.get(f"{url}/openpix/testing?transactionID={txid}").json()["status"] == "OK"

    def read_total(self) -> int:
        return self.read("/account")["accounts"][0]["balance"]["total"]


@pytest.fixture
def program(service: Installation, tmp_path: Path) -> Iterator[Program]:
    one = Program(service, tmp_path)
    yield one
    one.close()


def test_the_library_charges_is_paid_refunds_sends_is_told_and_reads(program: Program, told: Told) -> None:
    hooks = [
        ("webhook", "create", {"webhook": {"event": event, "url": told.url, "authorization": "s3gredo"}}) for event in EVENTS
    ]
    made = [said["answer"]["webhook"] for said in program.call(*hooks)]
    charge = program.do("charge", "create", {"correlationID": "n1", "value": 1000})["charge"]
    assert program.do("charge", "create", {"correlationID": "n1", "value": 1000}, {"return_existing": True})["charge"] == charge
    program.pay(charge["transactionID"])
    (completed,) = told.wait_for("OPENPIX:CHARGE_COMPLETED")
    (received,) = told.wait_for("OPENPIX:TRANSACTION_RECEIVED")
    assert completed["pix"]["endToEndId"] == received["pix"]["endToEndId"]
    before = program.read_total()
    answers = program.call(
        ("charge", "get", {"id": "n1"}),
        ("chargeRefund", "create", {"chargeId": "n1", "correlationID": "r1", "value": 400}),
        ("payment", "create", PAYMENT | {"correlationID": "p1"}),
        ("payment", "create", PAYMENT | {"correlationID": "p1"}),
        ("payment", "approve", {"correlationID": "p1"}),
        ("payment", "get", {"id": "absent"}),
    )
    paid, refunded, created, again, approved, absent = answers
    assert paid["answer"]["charge"]["status"] == "COMPLETED"
    assert refunded["answer"]["refund"]["status"] == "IN_PROCESSING"
    assert (created["answer"]["payment"]["status"], approved["answer"]["payment"]["status"]) == ("CREATED", "APPROVED")
    assert again["refusal"] == {"error": "Já existe um pagamento com o correlationID fornecido"}
    assert set(absent["refusal"]) == {"error"}
    (moved,) = told.wait_for("OPENPIX:MOVEMENT_CONFIRMED")
    assert (moved["payment"]["correlationID"], moved["transaction"]["value"]) == ("p1", 1234)
    wait_until(lambda: program.do("refund", "get", {"id": "r1"})["pixTransactionRefund"]["status"] == "REFUNDED")
    listed, sent, accounts, charges, refunds = [
        said["answer"]
        for said in program.call(
            ("transactions", "list"), ("payment", "list"), ("account", "list"), ("charge", "list"),
            ("chargeRefund", "list", {"chargeId": "n1"}),
        )
    ]  # fmt: skip
    assert [each["type"] for each in listed["transactions"]] == ["WITHDRAW", "PAYMENT"]
    assert sent["payments"][0]["payment"]["status"] == "CONFIRMED"
    assert accounts["accounts"][0]["balance"]["available"] == before - 1234 - 400
    assert (len(charges["charges"]), [each["status"] for each in refunds["refunds"]]) == (1, ["CONFIRMED"])
    assert [line["value"] for line in program.read("/statement?limit=3")] in ([1234, 400, 1000], [400, 1234, 1000])
    key = load_pem_public_key(program.read("/webhook/public-keys")["public_keys"][0]["key"].encode())
    assert isinstance(key, RSAPublicKey)
    for headers, body in told.requests:
        key.verify(base64.b64decode(headers["x-webhook-signature"]), body, padding.PKCS1v15(), SHA256())
        assert headers["authorization"] == "s3gredo"
    assert all("answer" in said for said in program.call(*(("webhook", "delete", {"id": each["id"]}) for each in made)))


def test_its_own_handler_of_webhooks_takes_its_sample_and_nothing_else(tmp_path: Path) -> None:
    folder = toolchains.take_node(tmp_path)
    # The sample is older than a member that the handler requires: a good signature of it gives 404, and a bad one 400.
    assert toolchains.run_json(folder, "node", "woovi.js", SAMPLE=str(SAMPLE)) == [404, 400]
