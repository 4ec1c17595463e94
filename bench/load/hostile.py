"""Expensive requests, sent as fast as they are answered, from a separate process."""

import asyncio
import json
import multiprocessing
import os
import ssl
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric import rsa

from pixconnect.kernel.rules import br_code
from support.institution import Institution, certify, http, serving, slow_key

CHAIN_LENGTH = 8  # the certificates of a hostile chain: this exponent makes a verification take 30 ms
EXPONENT_BITS = 3071


def compose(method: str, path: str, body: bytes = b"", *, token: str = "", media_type: str = "application/json") -> bytes:
    """A request in its raw form."""
    authorization = f"Authorization: Bearer {token}\r\n" if token else ""
    head = f"{method} {path} HTTP/1.1\r\nHost: pix.example\r\n{authorization}Content-Type: {media_type}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def form_of_nothing(octets: int) -> bytes:
    """A token request with as many empty fields as fit."""
    return compose("POST", "/oauth/token", b"&" * octets, media_type="application/x-www-form-urlencoded")


def malformed_json(token: str, octets: int) -> bytes:
    """A charge with a list of empty objects in an undeclared field."""
    body = b'{"x":[{}' + b",{}" * ((octets - 11) // 3) + b"]}"
    return compose("POST", "/v1/connect/charge", body, token=token)


def octet_chunks(token: str, octets: int) -> bytes:
    """A charge in chunks of one octet, each of which takes six octets on the wire."""
    head = compose("POST", "/v1/connect/charge", token=token).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    return head + b"1\r\na\r\n" * octets + b"0\r\n\r\n"


def blank_lines(token: str, octets: int) -> bytes:
    """A charge whose body is one chunk of blank lines, at each of which the body is cut into parts."""
    head = compose("POST", "/v1/connect/charge", token=token).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    return head + b"%x\r\n" % octets + b"\r\n" * (octets // 2) + b"\r\n0\r\n\r\n"


def repeated_members(token: str, octets: int) -> bytes:
    """A charge whose members repeat a name that is known, written with escapes: each name must be looked at closely."""
    member = b',"am\\u006funt":1'
    body = b'{"amount":1' + member * ((octets - 12) // len(member)) + b"}"
    return compose("POST", "/v1/connect/charge", body, token=token)


def lot_of_wrong_charges(token: str) -> bytes:
    """A lot of a thousand charges, of which each has three members that are wrong."""
    charge = b'{"calendario":{"dataDeVencimento":"x"},"valor":{"original":"x"},"chave":"","txid":"x"}'
    return compose("PUT", "/pix/v2/lotecobv/1", b'{"descricao":"x","cobsv":[' + b",".join([charge] * 1000) + b"]}", token=token)


def lot_of_nothing(token: str, octets: int) -> bytes:
    """A lot with as many empty lists as fit."""
    return compose("PUT", "/pix/v2/lotecobv/1", b'{"cobsv":[' + b"[]," * (octets // 3 - 5) + b"[]]}", token=token)


def read_location(txid: str) -> bytes:
    """The public location of a charge's QR code, looked up and signed each time."""
    return compose("GET", f"/v1/qr/{txid}")


def head_of(path: str) -> bytes:
    """A request for a public document that only reads the head of the response, on a new connection each time."""
    return compose("HEAD", path).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")


def pay_by_code(token: str, port: int) -> bytes:
    """A transfer by a QR code of a merchant on this port."""
    code = br_code.format_dynamic_br_code(f"127.0.0.1:{port}/qr/1", "Loja", "Recife")
    body = json.dumps({"amount": 1, "emv": code}).encode()
    return compose("POST", "/v1/connect/transfer/qrcode", body, token=token)


@contextmanager
def hostile_merchant() -> Iterator[int]:
    """Start a merchant in another process whose certificates are slow to verify; yields its port."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.kill()
        process.join()


def _serve(told: Connection) -> None:
    async def serve() -> None:
        routes: dict[str, bytes] = {}
        async with serving(routes) as (port, _):  # pyright: ignore[reportArgumentType]
            key = slow_key(rsa.generate_private_key(65537, 3072), EXPONENT_BITS)
            one = Institution("127.0.0.1", f"http://127.0.0.1:{port}/jwks", key, "RS256")
            above = certify(key, "A", ca=True)
            one.chain = [certify(key, "A", (key, above), ca=True, hosts=("127.0.0.1",)) for _ in range(CHAIN_LENGTH)]
            routes |= {"/qr/1": http(one.sign().encode()), "/jwks": http(one.key_set())}
            told.send(port)
            await asyncio.Event().wait()

    asyncio.run(serve())


class Attack:
    """The number of responses by hundreds of the status; the first are refused or closed connections."""

    def __init__(self) -> None:
        self.counts = multiprocessing.Array("q", 6)

    @property
    def answered_count(self) -> int:
        """The total, with refused connections."""
        return sum(self.counts[:])


Send = Callable[[Attack, str, bytes], Coroutine[object, object, None]]


@contextmanager
def attacking(
    base_url: str, requests: Sequence[bytes], connections: int, cores: set[int], *, hangs_up: bool = False
) -> Iterator[Attack]:
    """Send them in turn over so many connections for as long as the block runs; by TLS, without showing a certificate.

    Args:
        hangs_up: Each connection is closed once its request is sent, and no answer is read.
    """
    attack = Attack()
    process = multiprocessing.Process(
        target=_attack, args=(attack, base_url, requests, connections, cores, _hang_up if hangs_up else _send), daemon=True
    )
    process.start()
    try:
        yield attack
    finally:
        process.kill()
        process.join()


def _attack(attack: Attack, base_url: str, requests: Sequence[bytes], connections: int, cores: set[int], send: Send) -> None:
    os.sched_setaffinity(0, cores)
    # The victim shares the core: it must wait for the service, and not for the attacker's client.
    os.nice(19)

    async def run() -> None:
        await asyncio.gather(*(send(attack, base_url, requests[at % len(requests)]) for at in range(connections)))

    asyncio.run(run())


async def _send(attack: Attack, base_url: str, request: bytes) -> None:
    place = urlsplit(base_url)
    tls = _make_trusting_tls() if place.scheme == "https" else None
    has_body = not request.startswith(b"HEAD ")
    while True:
        try:
            reader, writer = await asyncio.open_connection(place.hostname, place.port, ssl=tls)
            while True:
                writer.write(request)
                status, _ = await read_answer(reader, has_body=has_body)
                attack.counts[status // 100] += 1
        # The service may close the connection; then a new one is opened.
        except (OSError, asyncio.IncompleteReadError):
            attack.counts[0] += tls is not None
            await asyncio.sleep(0.001)


async def _hang_up(attack: Attack, base_url: str, request: bytes) -> None:
    place = urlsplit(base_url)
    while True:
        with suppress(OSError):
            _, writer = await asyncio.open_connection(place.hostname, place.port)
            writer.write(request)
            await writer.drain()
            writer.close()
            attack.counts[0] += 1
        await asyncio.sleep(0.001)


def _make_trusting_tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def read_answer(reader: asyncio.StreamReader, *, has_body: bool = True) -> tuple[int, bytes]:
    """Read status and body of a response with a length."""
    head = await reader.readuntil(b"\r\n\r\n")
    if not has_body:
        return int(head.split(b" ", 2)[1]), b""
    length = next((line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), b":0")
    return int(head.split(b" ", 2)[1]), await reader.readexactly(int(length.partition(b":")[2]))
