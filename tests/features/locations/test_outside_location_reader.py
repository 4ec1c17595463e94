"""Locations of QR codes at other institutions: what is accepted, and what is refused."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from pixconnect.features.locations import outside_location_reader
from pixconnect.features.locations.certificate_chain import trust_bundle, trust_sandbox
from pixconnect.features.locations.outside_location_reader import FETCHES_OF_HOLDER_MAX, LIMITS, LocationReader, parse_payload
from pixconnect.features.sandbox.rules import MAKE_QR_CODE, REPLACE_FAULTS, FaultMatch, FaultRule, NewQrCode
from pixconnect.kernel.rules import br_code
from pixconnect.kernel.rules.location import Locations, LocationUnreachable
from pixconnect.platform.adapters.name_lookup import DnsLookup, NameLookups
from pixconnect.platform.adapters.outgoing_http import OutgoingHttp
from pixconnect.platform.adapters.system import SystemClock
from pixconnect.platform.base import errors
from pixconnect.platform.base.address_rules import Target
from pixconnect.platform.flow.shares import current_party
from pixconnect.platform.http.client import ReceivedAnswer
from support import sandbox as sandbox_support
from support.institution import PAYLOAD, Institution, certify, http, serving
from support.ports import reserved_port
from support.postgres import Addresses

RSA_KEY = rsa.generate_private_key(65537, 2048)
CREATED_AT = datetime(2026, 11, 20, 12, tzinfo=UTC)


class Clock(SystemClock):
    waited_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.waited_s


class Outside:
    """An institution on loopback, and a reader that trusts its authority."""

    def __init__(self, port: int, routes: dict[str, Any], asked: list[str]) -> None:
        self.port = port
        self.routes = routes
        self.asked = asked
        self.location = f"127.0.0.1:{port}/qr/1"
        self.jku = f"http://127.0.0.1:{port}/jwks"
        self.trusted: list[x509.Certificate] = []
        self.clock = Clock()
        self.http = OutgoingHttp(LIMITS, NameLookups(DnsLookup()))
        self.reader = self.open_reader()
        self.become(Institution("127.0.0.1", self.jku))

    def open_reader(self, **bounds: Any) -> LocationReader:
        return LocationReader(self.http, self.clock, self._read_trusted, allows_loopback=True, **bounds)

    async def _read_trusted(self) -> list[x509.Certificate]:
        return self.trusted

    def become(self, institution: Institution) -> None:
        self.one = institution
        self.trusted = [institution.authority]
        self.serve()

    def serve(self) -> None:
        self.routes["/qr/1"] = http(self.one.sign().encode())
        self.routes["/jwks"] = http(self.one.key_set())

    def serve_jws(self, jws: str) -> None:
        self.routes["/qr/1"] = http(jws.encode())


@pytest.fixture
async def outside() -> AsyncIterator[Outside]:
    routes: dict[str, Any] = {}
    async with serving(routes) as (port, asked):
        made = Outside(port, routes, asked)
        yield made
        await made.reader.close()


async def refused(outside: Outside, message: str) -> None:
    with pytest.raises(errors.InvalidQrCode, match=message) as refusal:
        await outside.reader.read(outside.location)
    assert refusal.value.message.startswith("emv: ")


def base64url(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


async def test_a_location_whose_signature_holds_is_read(outside: Outside) -> None:
    locations: Locations = outside.reader
    charge = await locations.read(outside.location)
    assert (charge.txid, charge.key, charge.amount_cents) == (PAYLOAD["txid"], "loja@pix.example", 14045)
    assert (charge.status, charge.expires_at) == ("ATIVA", CREATED_AT + timedelta(hours=1))


@pytest.mark.parametrize(
    ("alg", "key"),
    [
        *[(alg, RSA_KEY) for alg in ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")],
        ("ES384", ec.generate_private_key(ec.SECP384R1())),
        ("ES512", ec.generate_private_key(ec.SECP521R1())),
    ],
)
async def test_every_algorithm_of_the_scheme_is_verified(outside: Outside, alg: str, key: Any) -> None:
    outside.become(Institution("127.0.0.1", outside.jku, key, alg))
    assert (await outside.reader.read(outside.location)).amount_cents == 14045


async def test_an_older_thumbprint_is_enough(outside: Outside) -> None:
    outside.one.thumbprint = "x5t"
    outside.serve()
    assert (await outside.reader.read(outside.location)).amount_cents == 14045


@pytest.mark.parametrize("where", ["header", "jwk"])
@pytest.mark.parametrize("thumbprint", ["x5t", "x5t#S256"])
async def test_a_thumbprint_may_have_padding(outside: Outside, where: str, thumbprint: str) -> None:
    outside.one.thumbprint = thumbprint
    outside.one.header[thumbprint] = outside.one.jwk[thumbprint] = outside.one._digest()
    told = outside.one.header if where == "header" else outside.one.jwk
    told[thumbprint] += "="
    outside.serve()
    assert (await outside.reader.read(outside.location)).amount_cents is not None


async def test_white_space_around_and_a_wrong_alg_of_the_key_do_not_matter(outside: Outside) -> None:
    outside.one.jwk = {"alg": "RS512"}
    outside.serve()
    outside.serve_jws(f"\n{outside.one.sign()}\r\n")
    assert (await outside.reader.read(outside.location)).amount_cents == 14045


async def test_a_chain_may_climb_through_others_in_any_order(outside: Outside) -> None:
    one = outside.one
    between_key = ec.generate_private_key(ec.SECP256R1())
    between = certify(between_key, "Between", one.issuer, ca=True, path_length=0, usage="key_cert_sign")
    leaf = certify(one.key, "x", (between_key, between), hosts=("127.0.0.1",), usage="digital_signature")
    one.chain = [leaf, one.authority, between]
    outside.serve()
    assert (await outside.reader.read(outside.location)).amount_cents == 14045


async def test_the_sandboxs_own_merchants_verify(database: Addresses) -> None:
    async with sandbox_support.running(database.service_url) as sandbox:
        text = await sandbox.control.call(MAKE_QR_CODE, NewQrCode(kind="dynamic", key="a@b.example", amount_cents=1234))
        location = br_code.parse_br_code(text).location
        assert location is not None
        reader = LocationReader(
            OutgoingHttp(LIMITS, NameLookups(DnsLookup())), SystemClock(), trust_sandbox(sandbox.control), allows_loopback=True
        )
        charge = await reader.read(location)
        assert (charge.amount_cents, charge.key, charge.status) == (1234, "a@b.example", "ATIVA")
        assert charge.expires_at is not None
        assert charge.expires_at > datetime.now(UTC) + timedelta(hours=23)
        with pytest.raises(errors.InvalidQrCode, match="404"):
            await reader.read(location + "x")
        rule = FaultRule(effect="unavailable", match=FaultMatch(operation="resolve"))
        await sandbox.control.call(REPLACE_FAULTS, [rule])
        with pytest.raises(LocationUnreachable, match="503"):
            await reader.read(location)
        await reader.close()
    async with sandbox_support.connected(sandbox.url) as (_, control):
        with pytest.raises(LocationUnreachable):
            await trust_sandbox(control)()


async def test_keys_are_asked_for_once_a_minute(outside: Outside) -> None:
    for _ in range(3):
        await outside.reader.read(outside.location)
    assert outside.asked.count("/jwks") == 1
    outside.clock.waited_s = outside_location_reader.KEYS_CACHED_S
    await outside.reader.read(outside.location)
    assert outside.asked.count("/jwks") == 2


async def test_a_new_key_is_asked_for_at_once(outside: Outside) -> None:
    await outside.reader.read(outside.location)
    outside.one.kid = outside.one.header["kid"] = "2026-12"
    outside.serve()
    await outside.reader.read(outside.location)
    assert outside.asked.count("/jwks") == 2


async def test_only_so_many_key_sets_are_remembered(outside: Outside) -> None:
    reader = outside.open_reader(key_sets_max=2)
    for name in ("a", "b", "c", "a"):
        outside.one.header["jku"] = f"{outside.jku}?{name}"
        outside.serve()
        outside.routes[f"/jwks?{name}"] = outside.routes["/jwks"]
        await reader.read(outside.location)
    assert [path for path in outside.asked if "?" in path] == ["/jwks?a", "/jwks?b", "/jwks?c", "/jwks?a"]


HEADER_WITH_TWO_KIDS = b'{"alg": "ES256", "jku": "https://a.example", "x5t": "a", "kid": "a", "kid": "b"}'


def forge(outside: Outside, **changes: Any) -> str:
    """A JWS signed with the public key as a secret, or not signed."""
    header = {"kid": outside.one.kid, "jku": outside.jku, "x5t#S256": outside.one._digest(), **changes}
    text = f"{base64url(json.dumps(header).encode())}.{base64url(json.dumps(PAYLOAD).encode())}"
    secret = outside.one.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signature = b"" if header["alg"] == "none" else hmac.digest(secret, text.encode(), hashlib.sha256)
    return f"{text}.{base64url(signature)}"


def tampered(outside: Outside) -> str:
    head, _, signature = outside.one.sign().split(".")
    return f"{head}.{base64url(json.dumps({**PAYLOAD, 'chave': 'thief@pix.example'}).encode())}.{signature}"


def half_signature(outside: Outside) -> str:
    head, payload, signature = outside.one.sign().split(".")
    return f"{head}.{payload}.{signature[:40]}"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (tampered, "not signed with the key"),
        (half_signature, "not signed with the key"),
        (lambda o: o.one.sign() + "=", "no compact JWS that can be read"),
        (lambda o: "a.b", "no compact JWS$"),
        (lambda o: "", "no compact JWS$"),
        (lambda o: "<html>no. such. page</html>", "no compact JWS that can be read"),
        (lambda o: f"{base64url(b'[' * 30_000)}.e30.AAAA", "no compact JWS that can be read"),
        (lambda o: f"{base64url(b'[1]')}.e30.AAAA", "no compact JWS that can be read"),
        (lambda o: f"{base64url(HEADER_WITH_TWO_KIDS)}.e30.AAAA", "kid: stands twice"),
        (lambda o: forge(o, alg="none"), "algorithm of the scheme"),
        (lambda o: forge(o, alg="HS256"), "algorithm of the scheme"),
        (lambda o: forge(o, alg="EdDSA"), "algorithm of the scheme"),
        (lambda o: forge(o, alg="ES256", crit=["exp"], exp=1), "not support"),
        (lambda o: forge(o, alg="ES256", **{"x5t#S256": None}), "names no certificate"),
        (lambda o: forge(o, alg="RS256"), "not used for RS256"),
        (lambda o: forge(o, alg="ES384"), "not used for ES384"),
        (lambda o: forge(o, alg="ES256"), "not signed with the key"),
        (lambda o: forge(o, alg="ES256", kid="another"), r"key \(kid, x5t#S256\) that its jku does not have"),
        (lambda o: forge(o, alg="ES256", kid=7), "no compact JWS that can be read"),
        (lambda o: forge(o, alg="ES256", **{"x5t#S256": "AAAA"}), "that its jku does not have"),
    ],
)
async def test_a_jws_that_does_not_hold_fails(outside: Outside, make: Callable[[Outside], str], message: str) -> None:
    outside.serve_jws(make(outside))
    await refused(outside, message)


@pytest.mark.parametrize(
    ("jku", "message"),
    [
        ("http://localhost:{port}/jwks", "another host"),
        ("https://pix.example/jwks", "another host"),
        ("http://pix.example/jwks", "https URL"),
        ("ftp://127.0.0.1/jwks", "https URL"),
        ("http://me@127.0.0.1:{port}/jwks", "user info"),
        ("https://10.0.0.1/jwks", "."),
        ("", "https URL"),
        ("http://127.0.0.1:{port}/nothing", "its jku answered 404"),
    ],
)
async def test_a_jku_elsewhere_is_refused(outside: Outside, jku: str, message: str) -> None:
    outside.one.header["jku"] = jku.format(port=outside.port)
    outside.serve()
    await refused(outside, message)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"kid": "another"}, "does not have"),
        ({"x5t#S256": "AAAA"}, "does not have"),
        ({"x5t#S256": None}, "does not have"),
        ({"x5c": None}, "x5c"),
        ({"x5c": []}, "chain of 1 to 8"),
        ({"x5c": ["AAAA"] * 9}, "chain of 1 to 8"),
        ({"x5c": "AAAA"}, "x5c"),
        ({"x5c": ["!"]}, "x5c"),
        ({"x5c": ["AAAA"]}, "cannot be read"),
        ({"use": "enc"}, "not used for ES256"),
        ({"kty": "RSA"}, "not used for ES256"),
        ({"crv": "P-384"}, "not used for ES256"),
        ({"x": None}, "cannot be read"),
        ({"x": 7}, "cannot be read"),
        ({"x": "AAAA"}, "cannot be read"),
    ],
)
async def test_a_published_key_must_fit(outside: Outside, members: dict[str, Any], message: str) -> None:
    outside.one.jwk = members
    outside.serve()
    await refused(outside, message)


@pytest.mark.parametrize("body", [b"", b"no", b"[]", b'{"keys": 7}', b'{"keys": [7]}', b'{"keys":' + b"[" * 30_000])
async def test_what_is_no_key_set_is_refused(outside: Outside, body: bytes) -> None:
    outside.routes["/jwks"] = http(body)
    await refused(outside, "no JWK set")


async def test_a_key_set_with_a_repeated_member_is_refused(outside: Outside) -> None:
    outside.routes["/jwks"] = http(b'{"keys": [{"kid": "a", "kid": "b"}]}')
    await refused(outside, "serves no JWK set: kid: stands twice")


async def test_a_certificate_of_another_key_is_refused(outside: Outside) -> None:
    one = outside.one
    one.chain[0] = certify(ec.generate_private_key(ec.SECP256R1()), "x", one.issuer, hosts=("127.0.0.1",))
    outside.serve()
    await refused(outside, "not its certificate's")


async def test_a_thumbprint_of_another_certificate_is_refused(outside: Outside) -> None:
    outside.one.header["x5t#S256"] = outside.one.jwk["x5t#S256"] = base64url(hashlib.sha256(b"x").digest())
    outside.serve()
    await refused(outside, "not that of its certificate")


async def test_a_short_rsa_key_is_refused(outside: Outside) -> None:
    outside.become(Institution("127.0.0.1", outside.jku, rsa.generate_private_key(65537, 1024), "RS256"))  # noqa: S505
    await refused(outside, "not 2048 to 4096 bits")


NOT_TRUSTED = "does not lead to an authority that is trusted"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ends": timedelta(seconds=-1)}, "has expired"),
        ({"begins": timedelta(hours=1)}, "not valid yet"),
        ({"hosts": ("pix.example",)}, "does not name"),
        ({"hosts": ("127.0.0.2", "*.0.0.1")}, "does not name"),
        ({"usage": "key_encipherment"}, "not meant for signing"),
        ({"extra": (x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\5\0"), True)}, "not support"),
    ],
)
async def test_a_leaf_that_does_not_hold_is_refused(outside: Outside, changes: dict[str, Any], message: str) -> None:
    outside.one.certified(**changes)
    outside.serve()
    await refused(outside, message)


async def test_the_leafs_time_is_real_time(outside: Outside) -> None:
    outside.clock.set_offset(timedelta(days=3650))
    assert (await outside.reader.read(outside.location)).amount_cents == 14045


@pytest.mark.parametrize(
    "authority",
    [
        {"ca": True, "ends": timedelta(seconds=-1)},
        {"ca": False},
        {"ca": True, "usage": "digital_signature"},
        {"ca": True, "extra": (x509.NameConstraints(None, [x509.DNSName("x")]), True)},
    ],
)
async def test_an_authority_that_may_not_sign_is_refused(outside: Outside, authority: dict[str, Any]) -> None:
    one = outside.one
    one.authority = certify(one.authority_key, "Outside CA", **authority)
    one.certified()
    outside.become(one)
    await refused(outside, NOT_TRUSTED)


async def test_another_authority_of_the_same_name_is_refused(outside: Outside) -> None:
    outside.trusted = [Institution("127.0.0.1", outside.jku).authority]
    await refused(outside, NOT_TRUSTED)
    outside.trusted = []
    await refused(outside, NOT_TRUSTED)


async def test_a_leaf_that_signed_another_leaf_is_no_authority(outside: Outside) -> None:
    one = outside.one
    between_key = ec.generate_private_key(ec.SECP256R1())
    between = certify(between_key, "Between", one.issuer, hosts=("127.0.0.1",))
    one.chain = [certify(one.key, "x", (between_key, between), hosts=("127.0.0.1",)), between, one.authority]
    outside.serve()
    await refused(outside, NOT_TRUSTED)


class Wire:
    """Stands for the network; the addresses of names are tested elsewhere."""

    def __init__(self, institution: Institution) -> None:
        self.institution = institution

    async def exchange(self, target: Target, request: bytes) -> ReceivedAnswer:
        assert target.scheme == "https"
        assert request.startswith(f"GET {target.path} HTTP/1.1\r\nHost: {target.authority}\r\n".encode())
        body = self.institution.key_set() if target.path == "/jwks" else self.institution.sign().encode()
        return ReceivedAnswer(status_code=200, headers={}, body=body)


@pytest.mark.parametrize(
    ("host", "hosts", "is_named"),
    [
        ("pix.example", ("pix.example",), True),
        ("PIX.example", ("other.example", "Pix.Example"), True),
        ("qr.pix.example", ("*.pix.example",), True),
        ("a.qr.pix.example", ("*.pix.example",), False),
        ("pix.example", ("*.pix.example",), False),
        ("pix.example", ("*.example",), False),
        ("pix.example", (), True),
        ("pix.example", ("8.8.8.8",), False),
        ("8.8.8.8", ("8.8.8.8",), True),
        ("8.8.8.8", ("dns.example",), False),
    ],
)
async def test_a_leaf_names_the_host(host: str, hosts: tuple[str, ...], is_named: bool) -> None:
    one = Institution("pix.example", f"https://{host}/jwks")
    one.certified(hosts=hosts)
    pem = one.authority.public_bytes(Encoding.PEM)
    wire = cast(OutgoingHttp, Wire(one))
    reader = LocationReader(wire, SystemClock(), trust_bundle(pem), allows_loopback=False)
    if is_named:
        assert (await reader.read(f"{host}/qr/1")).amount_cents == 14045
    else:
        with pytest.raises(errors.InvalidQrCode, match="does not name the location's host"):
            await reader.read(f"{host}/qr/1")


def test_a_bundle_without_certificates_is_an_error_at_the_start() -> None:
    with pytest.raises(ValueError):
        trust_bundle(b"nothing")


@pytest.mark.parametrize(
    ("location", "allows_loopback"),
    [("10.0.0.1/qr/1", True), ("me@pix.example/qr", True), ("https://pix.example/qr", True), ("[::1]/qr", False)],
)
async def test_a_forbidden_address_is_refused(location: str, allows_loopback: bool) -> None:
    reader = LocationReader(
        OutgoingHttp(LIMITS, NameLookups(DnsLookup())), SystemClock(), cast(Any, None), allows_loopback=allows_loopback
    )
    with pytest.raises(errors.InvalidQrCode, match=r"^emv: its location "):
        await reader.read(location)


@pytest.mark.parametrize(
    ("addresses", "error"),
    [
        (["8.8.8.8", "10.0.0.1"], errors.InvalidQrCode),
        (["127.0.0.1"], errors.InvalidQrCode),
        (OSError("no such name"), LocationUnreachable),
    ],
)
async def test_the_addresses_behind_a_name_are_judged(addresses: Any, error: type[Exception]) -> None:
    async def look_up(_host: str, _port: int) -> list[str]:
        if isinstance(addresses, OSError):
            raise addresses
        return addresses

    reader = LocationReader(OutgoingHttp(LIMITS, NameLookups(look_up)), SystemClock(), cast(Any, None), allows_loopback=True)
    with pytest.raises(error):
        await reader.read("pix.example/qr/1")


@pytest.mark.parametrize("path", ["/qr/1", "/jwks"])
@pytest.mark.parametrize("status", [201, 204, 301, 302, 400, 401, 404, 410, 429])
async def test_an_answer_that_is_not_200_is_refused(outside: Outside, path: str, status: int) -> None:
    outside.routes[path] = http(b"", status, "Location: http://127.0.0.1:1/")
    await refused(outside, f"answered {status} instead of 200")


@pytest.mark.parametrize("path", ["/qr/1", "/jwks"])
@pytest.mark.parametrize("status", [500, 502, 503, 504, 599])
async def test_an_error_of_the_other_side_may_pass(outside: Outside, path: str, status: int) -> None:
    outside.routes[path] = http(b"", status)
    with pytest.raises(LocationUnreachable, match=str(status)):
        await outside.reader.read(outside.location)


@pytest.mark.parametrize("path", ["/qr/1", "/jwks"])
@pytest.mark.parametrize("is_chunked", [False, True])
async def test_more_than_64_kib_is_refused(outside: Outside, path: str, is_chunked: bool) -> None:
    body = b"a" * (64 * 1024 + 1)
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    outside.routes[path] = chunked if is_chunked else http(body)
    with pytest.raises(errors.InvalidQrCode):
        await outside.reader.read(outside.location)


async def test_a_payload_may_be_long(outside: Outside) -> None:
    outside.one.payload = {**PAYLOAD, "infoAdicionais": [{"nome": "x" * 50, "valor": "y" * 200}] * 165}
    outside.serve()
    assert len(outside.routes["/qr/1"]) > 56 * 1024
    assert (await outside.reader.read(outside.location)).amount_cents == 14045


async def hang(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(600)
    writer.close()


async def drip(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    while True:
        writer.write(b"a")
        await writer.drain()
        await asyncio.sleep(0.02)


async def break_off(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc")
    writer.close()


@pytest.mark.parametrize("path", ["/qr/1", "/jwks"])
@pytest.mark.parametrize(
    "route", [hang, drip, break_off, b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"a" * 20_000]
)
async def test_what_does_not_come_may_pass(outside: Outside, path: str, route: Any) -> None:
    outside.routes[path] = route
    started_s = time.monotonic()
    with pytest.raises(LocationUnreachable):
        await outside.open_reader(exchange_s=0.3).read(outside.location)
    assert time.monotonic() - started_s < 60


@pytest.mark.long
async def test_location_and_keys_have_their_time_together(outside: Outside) -> None:
    def slow(answer: bytes) -> Any:
        async def route(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(3)
            writer.write(answer)

        return route

    outside.routes |= {path: slow(outside.routes[path]) for path in ("/qr/1", "/jwks")}
    with pytest.raises(LocationUnreachable, match=r"not read within 5.6 s"):
        await outside.open_reader(exchange_s=5.6).read(outside.location)
    assert outside.asked == ["/qr/1", "/jwks"]


async def test_nobody_there_may_pass(outside: Outside) -> None:
    with reserved_port() as port, pytest.raises(LocationUnreachable, match="refused"):
        await outside.reader.read(f"127.0.0.1:{port}/qr/1")


def payload(**changes: Any) -> bytes:
    return json.dumps({**PAYLOAD, **changes}).encode()


@pytest.mark.parametrize(
    ("value", "amount_cents"),
    [
        ({"original": "140.45"}, 14045),
        ({"original": "0.01", "modalidadeAlteracao": 0}, 1),
        ({"original": "140,45"}, 14045),
        ({"original": "10"}, 1000),
        ({"original": "10."}, 1000),
        ({"original": "10.5"}, 1050),
        ({"original": 140.45}, 14045),
        ({"original": 140}, 14000),
        ({"original": 4.35}, 435),
        ({"original": "9999999999.99"}, 999_999_999_999),
        ({"original": "140.45", "modalidadeAlteracao": 1}, None),
        ({"original": "140.45", "modalidadeAlteracao": "1"}, None),
        ({"original": "0.00"}, None),
        ({"original": "0.00", "modalidadeAlteracao": 1}, None),
        ({"original": "100.00", "final": "95.50"}, 9550),
    ],
)
def test_amounts_are_read_liberally(value: dict[str, Any], amount_cents: int | None) -> None:
    assert parse_payload(payload(valor=value)).amount_cents == amount_cents


@pytest.mark.parametrize(
    ("calendar", "expires_at"),
    [
        ({"criacao": "2026-11-20T12:00:00Z", "expiracao": 60}, CREATED_AT + timedelta(minutes=1)),
        ({"criacao": "2026-11-20T09:00:00.123456789-03:00", "expiracao": "60"}, CREATED_AT + timedelta(seconds=60.123456)),
        ({"criacao": "2026-11-20T12:00:00", "expiracao": 60}, CREATED_AT + timedelta(minutes=1)),
        ({"criacao": "2026-11-20t12:00:00.5z", "expiracao": 60}, CREATED_AT + timedelta(minutes=1, milliseconds=500)),
        ({"criacao": "2026-11-20T12:00:00Z"}, CREATED_AT + timedelta(days=1)),
        ({"expiracao": 60}, None),
        # A Friday; the day ends at 03:00 UTC.
        ({"dataDeVencimento": "2026-11-20", "validadeAposVencimento": 0}, datetime(2026, 11, 21, 3, tzinfo=UTC)),
        # A Saturday and a Sunday: until the end of Monday.
        ({"dataDeVencimento": "2026-11-20", "validadeAposVencimento": "1"}, datetime(2026, 11, 24, 3, tzinfo=UTC)),
        ({"dataDeVencimento": "2026-11-22", "validadeAposVencimento": 0}, datetime(2026, 11, 24, 3, tzinfo=UTC)),
        ({"criacao": "2026-01-01T00:00:00Z", "dataDeVencimento": "2026-11-20"}, datetime(2026, 12, 22, 3, tzinfo=UTC)),
    ],
)
def test_the_end_is_found(calendar: dict[str, Any], expires_at: datetime | None) -> None:
    changes = {"valor": {"final": "1.00"}} if "dataDeVencimento" in calendar else {}
    assert parse_payload(payload(calendario=calendar, **changes)).expires_at == expires_at


def test_a_byte_order_mark_is_passed_over() -> None:
    assert parse_payload(b"\xef\xbb\xbf" + payload()) == parse_payload(payload())


@pytest.mark.parametrize("status", ["CONCLUIDA", "REMOVIDA_PELO_USUARIO_RECEBEDOR", "REMOVIDA_PELO_PSP"])
def test_what_can_no_longer_be_paid_is_read_too(status: str) -> None:
    assert parse_payload(payload(status=status)).status == status


@pytest.mark.parametrize(
    ("octets", "message"),
    [
        (b"", "cannot be read"),
        (b"null", "cannot be read"),
        (b"\xff{}", "cannot be read"),
        (b'{"txid": "\xff"}', "cannot be read"),
        (b'{"txid": "\\ud800"}', "cannot be read"),
        (b'{"x":' + b"[" * 40_000, "cannot be read"),
        (payload(status="ACTIVE"), "cannot be read"),
        (payload(chave=None), "cannot be read"),
        (payload(chave=""), "chave"),
        (payload(chave="x" * 78), "chave"),
        (payload(txid=""), "txid"),
        (payload(txid="***"), "txid"),
        (payload(valor={"original": "1.00"}).replace(b'"1.00"', b'"1.00", "original": "9.00"'), "original: stands twice"),
        (
            payload(valor={"original": "1.00"}).replace(b'"1.00"', b'"1.00", "x": "\xff", "original": "9.00"'),
            "cannot be read: body: must be valid JSON",
        ),
        (payload(txid="a" * 36), "txid"),
        (payload(txid="a\n"), "txid"),
        (payload(txid="٣"), "txid"),
        (payload(valor={}), "no valor.original"),
        (payload(valor={"original": None}), "no valor.original"),
        (payload(valor={"original": True}), "cannot be read"),
        (payload(valor={"original": "-1.00"}), "no amount"),
        (payload(valor={"original": "1.000"}), "no amount"),
        (payload(valor={"original": "1e3"}), "no amount"),
        (payload(valor={"original": 1e16}), "no amount"),
        (payload(valor={"original": "9" * 5000}), "no amount"),
        (payload(valor={"original": "٣.00"}), "no amount"),
        (payload(valor={"original": "1.00", "modalidadeAlteracao": "x"}), "modalidadeAlteracao"),
        (payload(calendario={"criacao": "yesterday"}), "calendario"),
        (payload(calendario={"criacao": "2026-02-30T00:00:00Z"}), "calendario"),
        (payload(calendario={"criacao": "9999-12-31T23:59:59Z"}), "calendario"),
        (payload(calendario={"criacao": "2026-11-20T12:00:00Z", "expiracao": -1}), "expiracao"),
        (payload(calendario={"criacao": "2026-11-20T12:00:00Z", "expiracao": 10**12}), "expiracao"),
        (payload(calendario={"dataDeVencimento": "2026-11-31"}, valor={"final": "1.00"}), "calendario"),
        (payload(calendario={"dataDeVencimento": "9999-12-31"}, valor={"final": "1.00"}), "calendario"),
        (payload(calendario={"dataDeVencimento": "2026-11-20"}), "no valor.final"),
    ],
)
def test_a_payload_of_another_form_is_refused(octets: bytes, message: str) -> None:
    with pytest.raises(errors.InvalidQrCode, match=message) as refusal:
        parse_payload(octets)
    assert refusal.value.message.startswith("emv: the payload at its location ")


async def test_a_signed_payload_of_another_form_is_refused(outside: Outside) -> None:
    outside.one.payload = {"hello": "service"}
    outside.serve()
    await refused(outside, "cannot be read")


class SlowWire:
    """Answers when the test sets ``open``."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.under_way_count = 0

    async def exchange(self, target: Target, request: bytes) -> ReceivedAnswer:
        self.under_way_count += 1
        try:
            await self.open.wait()
        finally:
            self.under_way_count -= 1
        return ReceivedAnswer(status_code=503, headers={}, body=b"")


async def settle(wire: SlowWire, count: int) -> None:
    """Wait until so many are under way, and some turns more for one too many."""
    async with asyncio.timeout(60):
        while wire.under_way_count < count:  # noqa: ASYNC110  no event to await
            await asyncio.sleep(0)
    for _ in range(50):
        await asyncio.sleep(0)


async def test_a_holder_reads_so_many_locations_at_once_and_leaves_permits_for_the_others() -> None:
    wire = SlowWire()
    reader = LocationReader(cast(OutgoingHttp, wire), Clock(), cast(Any, None), allows_loopback=False)

    async def read(party: str, number: int) -> None:
        current_party.set(party)
        with pytest.raises(LocationUnreachable):
            await reader.read(f"{number}.example.com/qr/1")

    evil = [asyncio.create_task(read("evil", number)) for number in range(400)]
    await settle(wire, FETCHES_OF_HOLDER_MAX)
    assert wire.under_way_count == FETCHES_OF_HOLDER_MAX
    good = asyncio.create_task(read("good", 1))
    await settle(wire, FETCHES_OF_HOLDER_MAX + 1)
    assert wire.under_way_count == FETCHES_OF_HOLDER_MAX + 1
    wire.open.set()
    await asyncio.gather(good, *evil)


@pytest.mark.parametrize("status", [201, 302, 401, 403, 404, 429])
async def test_what_a_public_host_answers_instead_of_a_payload_is_not_told(status: int) -> None:
    class Refusing:
        async def exchange(self, target: Target, request: bytes) -> ReceivedAnswer:
            return ReceivedAnswer(status_code=status, headers={}, body=b"")

    reader = LocationReader(cast(OutgoingHttp, Refusing()), Clock(), cast(Any, None), allows_loopback=True)
    with pytest.raises(errors.InvalidQrCode) as refusal:
        await reader.read("pix.example/qr/1")
    assert refusal.value.message == "emv: its location has no payload"


async def test_where_loopback_is_closed_the_sandboxs_own_merchants_are_read_all_the_same(outside: Outside) -> None:
    async def read(sandbox_authority: str | None) -> None:
        reader = LocationReader(
            outside.http, outside.clock, outside._read_trusted, allows_loopback=False,
            sandbox_authority=sandbox_authority,
        )  # fmt: skip
        assert (await reader.read(outside.location)).txid == PAYLOAD["txid"]

    await read(f"127.0.0.1:{outside.port}")
    for authority in (None, "", f"127.0.0.1:{outside.port + 1}", "127.0.0.1"):
        asked_count = len(outside.asked)
        with pytest.raises(errors.InvalidQrCode, match=r"leads to 127\.0\.0\.1"):
            await read(authority)
        assert len(outside.asked) == asked_count
