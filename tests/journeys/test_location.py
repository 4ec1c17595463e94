"""A charge's QR code, read by the code with which we read those of other institutions: any payer's could."""

import base64
from collections.abc import Sequence

import httpx2
import pytest
from cryptography import x509
from msgspec import structs

from pixconnect.adapters.dns_lookup import DnsLookup
from pixconnect.adapters.name_lookup import NameLookups
from pixconnect.adapters.outgoing_http import OutgoingHttp
from pixconnect.adapters.outside_location_reader import LIMITS, LocationReader
from pixconnect.adapters.system import SystemClock
from pixconnect.domain.money.br_code import parse_br_code
from pixconnect_client import Client
from support.installation import Installation

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("programs")]


async def test_a_payers_institution_reads_what_is_to_be_paid_and_to_whom(service: Installation) -> None:
    sandbox = service.sandbox
    credentials = (sandbox["client_id"], sandbox["client_secret"])
    with Client(sandbox["base_url"], *credentials, auth_url=sandbox["auth_url"]) as client:
        charge = client.charges.create(1234, sandbox["pix_keys"][0], external_id="seen-from-outside")
    keys = httpx2.get(f"{sandbox['base_url']}/v1/qr/jwks.json", timeout=60).json()["keys"]
    authority = x509.load_der_x509_certificate(base64.b64decode(keys[0]["x5c"][-1]))

    async def trusted() -> Sequence[x509.Certificate]:
        return [authority]

    # As patient as the rest: what is tried is what is read, not the machine's pace.
    patient = structs.replace(LIMITS, connect_s=60.0, exchange_s=60.0)
    http = OutgoingHttp(patient, NameLookups(DnsLookup(), lookup_s=60.0))
    location = parse_br_code(charge.emvqrcps).location
    assert location is not None
    reader = LocationReader(http, SystemClock(), trusted, allows_loopback=True, exchange_s=60.0)
    asked = await reader.read(location)
    await http.close()
    assert (asked.txid, asked.key, asked.amount_cents, asked.status) == (
        charge.transaction_identification,
        sandbox["pix_keys"][0],
        1234,
        "ATIVA",
    )
