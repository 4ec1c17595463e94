"""An outside institution: keys and certificates, signed payloads, and the server that serves them.

It shares no code with the reader under test, and uses cryptographic libraries only.
"""

import asyncio
import base64
import hashlib
import inspect
import itertools
import json
import math
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from joserfc import jws
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, RSAKey

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
NOW = datetime.now(UTC)
PAYLOAD: dict[str, Any] = {
    "calendario": {"criacao": "2026-11-20T12:00:00Z", "apresentacao": "2026-11-20T12:00:01Z", "expiracao": 3600},
    "valor": {"original": "140.45", "modalidadeAlteracao": 0},
    "chave": "loja@pix.example",
    "txid": "fc9a4366ff3d4964b5dbc6c91a8722d3",
    "revisao": 0,
    "status": "ATIVA",
}


def certify(
    key: PrivateKey,
    name: str,
    issuer: tuple[PrivateKey, x509.Certificate] | None = None,
    *,
    ca: bool = False,
    path_length: int | None = None,
    hosts: tuple[str, ...] = (),
    begins: timedelta = timedelta(days=-1),
    ends: timedelta = timedelta(days=30),
    usage: str | None = None,
    extra: tuple[x509.ExtensionType, bool] | None = None,
) -> x509.Certificate:
    """A certificate; self-signed without an issuer."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer[1].subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW + begins)
        .not_valid_after(NOW + ends)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=path_length), critical=True)
    )
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), False)
    if usage is not None:
        names = inspect.signature(x509.KeyUsage).parameters
        builder = builder.add_extension(x509.KeyUsage(**{one: one == usage for one in names}), critical=True)
    if extra is not None:
        builder = builder.add_extension(*extra)
    return builder.sign(key if issuer is None else issuer[0], SHA256())


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def slow_key(key: rsa.RSAPrivateKey, exponent_bits: int) -> rsa.RSAPrivateKey:
    """The same primes with an exponent that makes each verification slow."""
    numbers = key.private_numbers()
    phi = (numbers.p - 1) * (numbers.q - 1)
    exponent = next(e for e in itertools.count((1 << (exponent_bits - 1)) + 1, 2) if math.gcd(e, phi) == 1)
    d = pow(exponent, -1, phi)
    public = rsa.RSAPublicNumbers(exponent, numbers.public_numbers.n)
    return rsa.RSAPrivateNumbers(
        numbers.p, numbers.q, d, d % (numbers.p - 1), d % (numbers.q - 1), numbers.iqmp, public
    ).private_key(unsafe_skip_rsa_key_validation=True)


class Institution:
    """Signs payloads with one key, published at its jku. Tests change its attributes."""

    def __init__(self, host: str, jku: str, key: PrivateKey | None = None, alg: str = "ES256") -> None:
        self.key = key or ec.generate_private_key(ec.SECP256R1())
        self.authority_key = ec.generate_private_key(ec.SECP256R1())
        self.authority = certify(self.authority_key, "Outside CA", ca=True, path_length=1)
        self.issuer = (self.authority_key, self.authority)
        self.host = host
        self.chain = [certify(self.key, host, self.issuer, hosts=(host,)), self.authority]
        self.kid = "2026-11"
        self.header: dict[str, Any] = {"alg": alg, "typ": "JWS", "kid": self.kid, "jku": jku}
        self.jwk: dict[str, Any] = {}
        self.payload: dict[str, Any] = PAYLOAD
        self.thumbprint = "x5t#S256"

    def certified(self, **changes: Any) -> None:
        """Another leaf for the same key."""
        self.chain = [certify(self.key, self.host, self.issuer, **{"hosts": (self.host,), **changes}), self.authority]

    def sign(self) -> str:
        header = {self.thumbprint: self._digest(), **self.header}
        header = {name: value for name, value in header.items() if value is not None}
        registry = jws.JWSRegistry(algorithms=[header["alg"]], strict_check_header=False)
        registry.header_registry.clear()  # a test may write a header that the library would refuse
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)
            return jws.serialize_compact(header, json.dumps(self.payload), self._jose_key(), registry=registry)

    def key_set(self) -> bytes:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)
            numbers = self._jose_key().as_dict(private=False)
        chain = [base64.b64encode(one.public_bytes(Encoding.DER)).decode() for one in self.chain]
        jwk = {**numbers, "kid": self.kid, "x5c": chain, self.thumbprint: self._digest(), **self.jwk}
        other = {"kty": "OKP", "crv": "Ed25519", "x": "AAAA", "kid": "another"}
        return json.dumps({"keys": [other, {k: v for k, v in jwk.items() if v is not None}]}).encode()

    def _digest(self) -> str:
        digest = hashlib.sha256 if self.thumbprint == "x5t#S256" else hashlib.sha1
        octets = digest(self.chain[0].public_bytes(Encoding.DER)).digest()
        return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()

    def _jose_key(self) -> Any:
        pem = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return (RSAKey if isinstance(self.key, rsa.RSAPrivateKey) else ECKey).import_key(pem)


Route = bytes | Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]


@asynccontextmanager
async def serving(routes: dict[str, Route]) -> AsyncIterator[tuple[int, list[str]]]:
    """A server on loopback with raw answers by path; yields its port and the requested paths."""
    asked: list[str] = []
    tasks: set[asyncio.Task[Any]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())  # type: ignore[arg-type]
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split(b" ", 2)[1].decode()
                asked.append(path)
                route = routes.get(path, http(b"", 404))
                if isinstance(route, bytes):
                    writer.write(route)
                else:
                    await route(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], asked
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def http(body: bytes, status: int = 200, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *headers, "\r\n"]
    return "\r\n".join(lines).encode() + body
