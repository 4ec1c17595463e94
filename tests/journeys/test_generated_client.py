"""A client generated from the served document is paid, reads lists, and recognises errors."""

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.installation import Installation
from support.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("programs")]

PACKAGE = "generated_pix_client"
# The generator does not support JWS, and the machine may be busy with other tests.
CONFIG = f"""
package_name_override: {PACKAGE}
post_hooks: []
http_timeout: 60
content_type_overrides: {{application/jose: text/plain, application/pdf: application/octet-stream}}
"""
# More than fits into 32 bits, which generators use for integers without a format.
AMOUNT = 3_000_000_000


def generate(url: str, folder: Path) -> str:
    (folder / "config.yaml").write_text(CONFIG)
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--url", url, "--meta", "none"]
    made = subprocess.run(
        [*command, "--output-path", folder / PACKAGE, "--config", folder / "config.yaml"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    return made.stdout + made.stderr


@pytest.fixture
def generated(service: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import modules of a client that was generated from the 3.1 document."""
    said = generate(f"{service.base_url}/openapi.json", tmp_path)
    assert "WARNING" not in said.upper(), said
    monkeypatch.syspath_prepend(tmp_path)
    yield lambda name: importlib.import_module(f"{PACKAGE}{name}")
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def test_a_generated_client_is_paid(service: Installation, generated: Any) -> None:
    models, sandbox = generated(".models"), service.sandbox
    grant = models.Grant(
        grant_type="client_credentials", client_id=sandbox["client_id"], client_secret=sandbox["client_secret"]
    )
    with generated("").Client(base_url=service.base_url, timeout=60) as nobody:
        token = generated(".api.identity.request_oauth_token").sync(client=nobody, body=grant).access_token
    with generated("").AuthenticatedClient(base_url=service.base_url, token=token, timeout=60) as client:
        be_paid_and_read(generated, client, sandbox["pix_keys"][0])


def be_paid_and_read(generated: Any, client: Any, key: str) -> None:
    models = generated(".models")
    request = models.CreateChargeRequest(amount=AMOUNT, key=key)
    charge = generated(".api.charges.create_charge").sync(client=client, body=request).data
    assert (charge.status, charge.amount) == (models.ChargeStatus.PENDING, AMOUNT)
    payment = models.PaymentRequest(emv=charge.emvqrcps)
    # The payer does not wait long; on a busy machine it is answered a little later.
    paid = generated(".api.sandbox.sandbox_pay").sync(client=client, body=payment).data
    assert paid.status in {"CONFIRMED", "PROCESSING"}
    read = generated(".api.charges.get_charge_by_id").sync
    is_paid = models.ChargeStatus.APPROVED
    wait_until(lambda: read(charge.id, client=client).data.status == is_paid, "the charge is paid")

    refused = read(2**53 - 1, client=client)
    assert isinstance(refused, models.ErrorResponse)
    assert refused.error.code == models.ErrorCode.NOT_FOUND
    # The event's name determines its payload.
    events = generated(".api.webhooks.list_events").sync(client=client).data
    found = {str(event.name): event for event in events}
    assert isinstance(found["qrcode.approved"].payload, models.ChargePayload)
    assert isinstance(found["transfer.in.confirmed"].payload, models.TransferPayload)
    assert found["transfer.in.confirmed"].payload.amount == AMOUNT


def test_the_form_in_3_0_is_taken_too(service: Installation, tmp_path: Path) -> None:
    said = generate(f"{service.base_url}/openapi-3.0.json", tmp_path)
    assert "WARNING" not in said.upper(), said
