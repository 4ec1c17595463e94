"""The central bank's API on a running service: its document is valid, and generated requests get the described answers."""

import json
from base64 import urlsafe_b64decode
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import uuid4

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from openapi_spec_validator import validate
from schemathesis import checks

from support.installation import Installation
from support.waiting import wait_until

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("programs")]

E2E: Final = "e2eid"
# The same cases in each run, so that random findings do not fail unrelated changes.
BOUNDED: Final = settings(
    derandomize=True,
    max_examples=10,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
CHECKS: Final[list[Any]] = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]


@pytest.fixture(scope="module")
def client(service: Installation) -> Iterator[httpx2.Client]:
    """Logged in as the demo client."""
    credentials = {name: service.sandbox[name] for name in ("client_id", "client_secret")}
    asked = {"grant_type": "client_credentials", **credentials}
    token = httpx2.post(f"{service.sandbox['auth_url']}/oauth/token", data=asked, timeout=60).json()["access_token"]
    headers = {"authorization": f"Bearer {token}"}
    with httpx2.Client(base_url=service.base_url, headers=headers, timeout=60) as opened:
        yield opened


@pytest.fixture(scope="module")
def document(client: httpx2.Client) -> Any:
    return client.get("/pix/openapi.json").json()


@pytest.fixture(scope="module")
def known(service: Installation, client: httpx2.Client) -> dict[str, str]:
    """Path parameters of existing resources."""
    key = service.sandbox["pix_keys"][0]
    asked = {"key": key, "amount": 123_456, "payer": {"tax_id": "11444777000161"}, "payer_message": "obrigado"}
    paid = client.post("/sandbox/v1/payments", json=asked).json()["data"]
    # The payer does not wait long; on a busy machine the payment arrives a little later.
    wait_until(lambda: client.get(f"/v2/pix/{paid['end_to_end_id']}").status_code == 200, "the payment has come in")
    txid = f"{key.encode().hex()}{'a' * 35}"[:35]
    loc = client.put(f"/v2/cob/{txid}", json={"chave": key, "valor": {"original": "1.00"}}).json()["loc"]["id"]
    client.put(f"/v2/webhook/{key}", json={"webhookUrl": f"{service.base_url}/livez"})
    return {E2E: paid["end_to_end_id"], "chave": key, "txid": txid, "id": str(loc)}


def test_the_document_is_valid_and_is_of_this_service(service: Installation, document: Any) -> None:
    assert document["openapi"] == "3.0.3"
    validate(document)
    assert [server["url"] for server in document["servers"]] == [f"{service.base_url}/pix/v2", f"{service.base_url}/v2"]


def test_a_pix_is_received_listed_and_given_back(client: httpx2.Client, known: dict[str, str]) -> None:
    pix = client.get(f"/v2/pix/{known[E2E]}").json()
    assert (pix["valor"], pix["infoPagador"], pix["chave"]) == ("1234.56", "obrigado", known["chave"])
    now = datetime.now(UTC)
    interval = {
        "inicio": (now - timedelta(hours=1)).isoformat(),
        "fim": (now + timedelta(hours=1)).isoformat(),
        "cnpj": "11444777000161",
    }
    assert pix in client.get("/pix/v2/pix", params=interval).json()["pix"]
    refund = client.put(f"/v2/pix/{known[E2E]}/devolucao/{known['id']}", json={"valor": "0.01"})
    assert (refund.status_code, refund.json()["natureza"]) == (201, "ORIGINAL")


def test_a_due_charge_is_paid_by_its_day(service: Installation, client: httpx2.Client, known: dict[str, str]) -> None:
    txid = f"boleto{known['chave'].encode().hex()}{'b' * 35}"[:35]
    due_on = (datetime.now(UTC) + timedelta(days=10)).date().isoformat()
    body = {
        "calendario": {"dataDeVencimento": due_on},
        "devedor": {"cpf": "12345678909", "nome": "Francisco da Silva", "email": "francisco@example.com"},
        "valor": {"original": "100.00", "abatimento": {"modalidade": 2, "valorPerc": "5.00"}},
        "chave": known["chave"],
    }
    made = client.put(f"/v2/cobv/{txid}", json=body)
    assert (made.status_code, made.json()["devedor"]) == (201, body["devedor"])
    token = made.json()["location"].rpartition("/")[2]
    signed = httpx2.get(f"{service.base_url}/v1/qr/cobv/{token}?DPP={due_on}&codMun=3550308", timeout=60)
    assert (signed.status_code, signed.headers["content-type"]) == (200, "application/jose")
    part = signed.text.split(".")[1]
    payload = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    assert payload["valor"] == {"original": "100.00", "abatimento": "5.00", "final": "95.00"}
    assert (payload["devedor"], payload["recebedor"]) == (
        {"cpf": "12345678909", "nome": "Francisco da Silva"},
        made.json()["recebedor"],
    )
    asked = {"emv": made.json()["pixCopiaECola"], "amount": 9_500}
    assert client.post("/sandbox/v1/payments", json=asked).is_success
    wait_until(lambda: client.get(f"/v2/cobv/{txid}").json()["status"] == "CONCLUIDA", "the charge is paid")
    (pix,) = client.get(f"/v2/cobv/{txid}").json()["pix"]
    assert (pix["txid"], pix["valor"], pix["componentesValor"]) == (
        txid,
        "95.00",
        {"original": {"valor": "100.00"}, "abatimento": {"valor": "5.00"}},
    )


def name_what_is_there(case: schemathesis.Case, known: dict[str, str]) -> None:
    """Give a generated request existing names, people and days, which random values would miss."""
    case.path_parameters.update({name: known[name] for name in case.path_parameters if name in known})
    if case.operation.label == "PUT /cobv/{txid}":
        case.path_parameters["txid"] = uuid4().hex
    body: Any = case.body
    if not isinstance(body, dict):
        return
    charges = body.get("cobsv", [body])
    for charge in charges if isinstance(charges, list) else []:
        if (
            isinstance(charge, dict)
            and isinstance(charge.get("calendario"), dict)
            and "dataDeVencimento" in charge["calendario"]
        ):
            charge["calendario"]["dataDeVencimento"] = (datetime.now(UTC) + timedelta(days=10)).date().isoformat()
            charge |= {"chave": known["chave"], "devedor": {"cpf": "12345678909", "nome": "Francisco da Silva"}}
            charge["valor"] = {"original": "100.00"}
            charge.pop("loc", None)
            if "cobsv" in body:
                charge["txid"] = uuid4().hex
    if case.operation.label == "PUT /lotecobv/{id}":
        case.path_parameters["id"] = str(uuid4().int)[:15].replace("0", "1")


@pytest.mark.long
def test_a_generated_request_is_answered_so(client: httpx2.Client, document: Any, known: dict[str, str]) -> None:
    schema = schemathesis.openapi.from_dict(document)
    address = f"{client.base_url}/pix/v2".replace("//pix", "/pix")
    schema.config.update(base_url=address, request_timeout=60)
    headers = {"Authorization": client.headers["authorization"]}

    succeeded: Counter[str] = Counter()

    def ask(change: Callable[[schemathesis.Case], None]) -> None:
        for found in schema.get_all_operations():
            operation: Any = found.ok()  # pyright: ignore[reportAttributeAccessIssue]  of a valid document

            @BOUNDED
            @given(case=operation.as_strategy())
            def run(case: schemathesis.Case) -> None:
                change(case)
                response = case.call_and_validate(headers=headers, checks=CHECKS)
                if response.status_code < 300:
                    succeeded[case.operation.label] += 1

            run()

    ask(lambda case: None)
    ask(lambda case: name_what_is_there(case, known))
    assert succeeded["PUT /cobv/{txid}"]
    assert succeeded["PUT /lotecobv/{id}"]


@pytest.mark.long
def test_a_success_leads_on_as_the_document_says(client: httpx2.Client, document: Any, known: dict[str, str]) -> None:
    schema = schemathesis.openapi.from_dict(document)
    address = f"{client.base_url}/pix/v2".replace("//pix", "/pix")
    schema.config.update(base_url=address, request_timeout=60)
    succeeded: Counter[str] = Counter()

    class Walk(schema.as_state_machine()):
        """Follows the links of the document."""

        def before_call(self, case: schemathesis.Case) -> None:
            # A random name leads nowhere, so an existing one is used.
            if isinstance(case.body, dict) and "chave" in case.body:
                case.body["chave"] = known["chave"]
            if E2E in case.path_parameters:
                case.path_parameters[E2E] = known[E2E]
            if "chave" in case.path_parameters:
                case.path_parameters["chave"] = known["chave"]

        def get_call_kwargs(self, case: schemathesis.Case) -> dict[str, Any]:
            return {"headers": {"Authorization": client.headers["authorization"]}}

        def validate_response(self, response: Any, case: schemathesis.Case, *_: Any, **__: Any) -> None:
            case.validate_response(response, checks=CHECKS)
            if response.status_code < 300:
                succeeded[case.operation.label] += 1

    Walk.run(settings=settings(BOUNDED, max_examples=40, stateful_step_count=8))
    assert succeeded["GET /loc/{id}"]
