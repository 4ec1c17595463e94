"""CPU of the API for requests of each kind, before and after authentication.

``request_cost_<kind>``: the CPU of the API's processes for one request, in ``units`` of a request of ``/livez``, which
is sent in turn with it (medians over rounds). ``is_known`` is whether it had a valid token.
"""

import http.client
import json
import statistics
from collections.abc import Iterator
from ipaddress import ip_network
from itertools import cycle
from math import ceil
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from bench.figures import Row
from bench.harness.installation import Account, Installation, installed
from bench.harness.processes import CpuMeter
from bench.load.hostile import hostile_merchant, malformed_json, pay_by_code
from support.records import FIRM

KIB = 1024
FORM = "application/x-www-form-urlencoded"
CHARGE = "/v1/connect/charge"
OAUTH = "/oauth/token"
SAME_ADDRESS_MAX = 50
"""After so many requests the next ones have another address, so that no rate limit by address refuses them."""
SAME_CALLER_MAX = 50  # failing look-ups of one firm, until its budget ends them
DAY = "initial_date=2026-01-01T00:00:00Z&final_date=2026-01-02T00:00:00Z"


_ADDRESSES = cycle(ip_network("198.18.0.0/15").hosts())


class Kind(NamedTuple):
    """A kind of request."""

    what: str  # its name on the page
    method: str
    path: str
    body: bytes = b""
    media_type: str = "application/json"
    bearer: str = ""
    accepts: str = "identity"
    is_known: bool = False
    callers: Iterator[Account] | None = None  # the callers in turn


LIVEZ = Kind("`/livez`", "GET", "/livez")


def measure_request_costs(requests: int, rounds: int) -> Iterator[Row]:
    """Each kind in turn with requests of ``/livez``."""
    with (
        installed(PIXCONNECT_LOG_LEVEL="error", PIXCONNECT_TRUSTED_PROXIES="127.0.0.1/32") as service,
        hostile_merchant() as port,
    ):
        caller, *scanners = service.onboard(1 + rounds * ceil(requests / SAME_CALLER_MAX), tax_id=FIRM)
        charge = service.open_charge(caller)
        kinds = _of_nobody(service, caller.token, charge["transaction_identification"]) | {
            name: kind._replace(is_known=True, callers=cycle(scanners if name == "qr_code" else [caller]))
            for name, kind in _of_caller(charge["key"], int(charge["id"]), port).items()
        }
        for name, kind in kinds.items():
            yield _measure(service, name, kind, requests, rounds)


def _measure(service: Installation, name: str, kind: Kind, requests: int, rounds: int) -> Row:
    livez_us: list[float] = []
    units: list[float] = []
    status = 0
    for _ in range(rounds):
        unit_us, _ = _cost(service, LIVEZ, requests)
        each_us, status = _cost(service, kind, requests)
        livez_us.append(unit_us)
        units.append(each_us / unit_us)
    return {
        "name": f"request_cost_{name}",
        "what": kind.what,
        "is_known": kind.is_known,
        "status": status,
        "units": statistics.median(units),
        "livez_us": statistics.median(livez_us),
        "requests": requests,
        "rounds": rounds,
    }


def _cost(service: Installation, kind: Kind, count: int) -> tuple[float, int]:
    """CPU microseconds of the API for each of so many, and the last status."""
    place = urlsplit(service.base_url)
    headers = {"Content-Type": kind.media_type, "Accept-Encoding": kind.accepts} | (
        {"Authorization": f"Bearer {kind.bearer}"} if kind.bearer else {}
    )
    connection = http.client.HTTPConnection(place.hostname or "", place.port or 80)
    meter = CpuMeter(service.process.pid)
    status = 0
    for number in range(count):
        if number % SAME_ADDRESS_MAX == 0:
            headers["X-Forwarded-For"] = str(next(_ADDRESSES))
        if number % SAME_CALLER_MAX == 0 and kind.callers is not None:
            headers["Authorization"] = f"Bearer {next(kind.callers).token}"
        connection.request(kind.method, kind.path, kind.body, headers)
        answer = connection.getresponse()
        answer.read()
        status = answer.status
    connection.close()
    return 1e6 * meter.used_s()["api"] / count, status


def _of_nobody(service: Installation, token: str, txid: str) -> dict[str, Kind]:
    login = {name: service.sandbox[name] for name in ("client_id", "client_secret")}
    right = urlencode(login | {"grant_type": "client_credentials"}).encode()
    forged = token.rpartition(".")[0] + "." + "A" * 86
    return {
        "livez": LIVEZ,
        "health": Kind("health", "GET", "/v1/connect/health"),
        "form_of_4_kib": Kind("token request, 4 KiB of empty fields", "POST", OAUTH, b"&" * 4 * KIB, FORM),
        "form_of_64_kib": Kind("token request, 64 KiB of empty fields", "POST", OAUTH, b"&" * 64 * KIB, FORM),
        "form_of_escapes": Kind("token request, 4 KiB of escapes", "POST", OAUTH, b"%41" * 1365, FORM),
        "token": Kind("token request that is right", "POST", OAUTH, right, FORM),
        "forged_token": Kind("token with a forged signature", "GET", "/v1/connect/balance", bearer=forged),
        "long_token": Kind("4 KiB that are no token", "GET", "/v1/connect/balance", bearer="A" * 4 * KIB),
        "page": Kind("page of the documentation", "GET", "/docs/"),
        "whole_openapi": Kind("OpenAPI document", "GET", "/openapi.json"),
        "openapi": Kind("OpenAPI document, packed", "GET", "/openapi.json", accepts="gzip"),
        "key_set": Kind("keys that verify tokens", "GET", "/.well-known/jwks.json"),
        "public_key": Kind("key that verifies tokens, as PEM too", "GET", "/v1/iam/public-key"),
        "location_key_set": Kind("keys of QR codes, with certificates", "GET", "/v1/qr/jwks.json"),
        "location": Kind("payload of a QR code", "GET", f"/v1/qr/{txid}"),
        "long_path": Kind("path of 12 KiB of escapes", "GET", f"{CHARGE}/txid/" + "%41" * 4000),
    }


def _of_caller(key: str, charge_id: int, port: int) -> dict[str, Kind]:
    right = json.dumps({"amount": 1, "key": key}).encode()
    by_code = _body(pay_by_code("", port))
    endpoint = json.dumps({"url": "https://127.0.0.1:1/" + "a" * 1000, "secret": "s" * 32, "event_types": ["none"]})
    short, long = (_body(malformed_json("", octets)) for octets in (8 * KIB - 1, 64 * KIB))
    return {
        "balance": Kind("balance", "GET", "/v1/connect/ledger/balance"),
        "charge": Kind("charge", "POST", CHARGE, right),
        "charge_of_64_kib": Kind("charge, with blanks up to 64 KiB", "POST", CHARGE, right.ljust(64 * KIB)),
        "malformed_8_kib": Kind("malformed JSON of just under 8 KiB", "POST", CHARGE, short),
        "malformed_64_kib": Kind("malformed JSON of 64 KiB", "POST", CHARGE, long),
        "wrong_cob": Kind("64 KiB of JSON that the Pix API's door refuses", "POST", "/pix/v2/cob", long),
        "query": Kind("query of 64 parameters", "GET", f"{CHARGE}/list?" + "a&" * 63),
        "qr_code": Kind(
            "transfer by a code whose location elsewhere has a hostile chain", "POST", "/v1/connect/transfer/qrcode", by_code
        ),
        "picture": Kind("charge with its picture", "GET", f"{CHARGE}/{charge_id}?base64=true"),
        "endpoint": Kind("webhook endpoint that is refused", "POST", "/v1/webhook/endpoints", endpoint.encode()),
        "statement": Kind("statement of a day", "GET", f"/v1/connect/ledger/statement?{DAY}"),
    }


def _body(request: bytes) -> bytes:
    return request.partition(b"\r\n\r\n")[2]
