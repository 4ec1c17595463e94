"""One greedy holder sends the worst requests while nine others send few: how the nine are served.

The greedy holder runs in another process, so that the cost of sending does not count as the cost of answering::

    python -m support.greedy_holder < orders            sends until its standard input ends, then prints its answers
    python -m support.greedy_holder OCTETS              answers every request with a body of that size, and prints its
        port
"""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field

from support.waiting import PATIENCE_S

ASKED_EVERY_S = 0.2
GREEDY_ADDRESS = "127.0.0.2"
SANDBOX_PARTY = {
    "account_number": "1001", "account_type": "CHECKING", "branch": "0001", "ispb": "99999004", "name": "Maria Silva",
    "tax_id": "52998224725",
}  # fmt: skip


class Asked(Struct, frozen=True, kw_only=True):
    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"

    def written(self, host: str, token: str) -> bytes:
        content = b"" if self.body is None else self.body.encode() if isinstance(self.body, str) else _json(self.body)
        head = f"{self.method} {self.path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n"
        return f"{head}Content-Type: {self.content_type}\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content


class Orders(Struct, frozen=True, kw_only=True):
    base_url: str
    token: str
    asked: list[Asked]
    connections: int
    per_s: float = 0.0  # requests a second at most; 0 means no limit


class Told(Struct):
    statuses: dict[int, int] = field(default_factory=dict)  # the number of answers by status
    octets: int = 0  # the total of all bodies

    @property
    def count(self) -> int:
        return sum(self.statuses.values())


class Answered(Struct, frozen=True, kw_only=True):
    path: str
    status: int
    took_ms: float
    body: bytes


class HttpConnection:
    """A connection that makes one request at a time and is opened again when it ends."""

    def __init__(self, base_url: str, from_address: str | None = None) -> None:
        url = urlsplit(base_url)
        self._place = url.hostname or "", url.port or 80
        self._from = None if from_address is None else (from_address, 0)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._place, local_addr=self._from, limit=2**26)
        reader, writer = self._streams
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        body = await self._read_body(reader, head)
        if b"connection: close" in head:
            self.close()
        return int(head[9:12]), body

    async def _read_body(self, reader: asyncio.StreamReader, head: bytes) -> bytes:
        _, has_length, rest = head.partition(b"content-length:")
        if has_length:
            return await reader.readexactly(int(rest.partition(b"\r\n")[0]))
        body = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
        return body

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def worst_of(greedy_key: str, endpoint_id: int) -> dict[str, tuple[int, list[Asked]]]:
    """The worst requests of each kind of operation, and the number of connections for each."""
    span = {"initial_date": "2020-01-01T00:00:00Z", "final_date": "2100-01-01T00:00:00Z"}
    query = "page_size=1000"
    to_key = {"amount": 1, "key": "settle@sandbox.pix.example", "key_type": "EMAIL"}
    login = "grant_type=client_credentials&client_id=invented&client_secret=guess"
    charge = {"amount": 1, "key": greedy_key}
    return {
        "charges with pictures": (100, [Asked(method="POST", path="/v1/connect/charge?base64=true", body=charge)]),
        "charges": (100, [Asked(method="POST", path="/v1/connect/charge", body=charge)]),
        "transfers": (100, [Asked(method="POST", path="/v1/connect/transfer/key", body=to_key)]),
        "look-ups": (
            50,
            [
                Asked(
                    method="POST",
                    path="/v1/connect/transfer/key",
                    body=to_key | {"key": f"nobody-{number}@sandbox.pix.example"},
                )
                for number in range(200)
            ],
        ),
        "lists": (
            24,
            [
                Asked(method="GET", path=f"/v1/connect/charge/list?{query}"),
                Asked(method="GET", path=f"/v1/webhook/events?{query}"),
                Asked(method="GET", path=f"/v1/connect/transfer/list?{query}&status=PROCESSING"),
            ],
        ),
        "deliveries and replays": (
            8,
            [
                Asked(method="POST", path=f"/v1/webhook/endpoints/{endpoint_id}/replay", body=span),
                Asked(method="GET", path=f"/v1/webhook/endpoints/{endpoint_id}/deliveries?{query}"),
            ],
        ),
        "logins": (
            100,
            [Asked(method="POST", path="/v1/iam/users/login", body=login, content_type="application/x-www-form-urlencoded")],
        ),
    }


@contextmanager
def greedy(orders: Orders) -> Iterator[Told]:
    """Let the greedy holder send while the block runs; then its answers are available."""
    told = Told()
    with _program() as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(_json(orders) + b"\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"asking\n"
        yield told
        rest, _ = child.communicate(timeout=PATIENCE_S)
        after = msgspec.json.decode(rest, type=Told)
        told.statuses, told.octets = after.statuses, after.octets


@contextmanager
def idle_server(octets: int) -> Iterator[str]:
    """Run a server that only answers, to measure the cost of sending alone. Yields its address."""
    with _program(str(octets)) as child:
        assert child.stdout is not None
        yield f"http://127.0.0.1:{int(child.stdout.readline())}"


@contextmanager
def _program(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    root = str(Path(__file__).parents[1])
    child = subprocess.Popen(
        [sys.executable, "-m", "support.greedy_holder", *arguments],
        env=os.environ | {"PYTHONPATH": root},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


async def ask_calmly(base_url: str, callers: Sequence[tuple[str, str]], seconds: float) -> list[Answered]:
    """Make five requests a second for each of the others, given as a token and a Pix key."""
    answered: list[Answered] = []
    asking = (_ask_calmly(base_url, token, key, number, seconds, answered) for number, (token, key) in enumerate(callers))
    await asyncio.gather(*asking)
    return answered


async def _ask_calmly(base_url: str, token: str, key: str, number: int, seconds: float, answered: list[Answered]) -> None:
    host = urlsplit(base_url).netloc
    asked = [
        Asked(method="POST", path="/v1/connect/charge", body={"amount": 100, "key": key}),
        Asked(method="GET", path="/v1/connect/ledger/balance"),
        Asked(method="POST", path="/v1/connect/transfer/manual", body={"amount": 1, "credit_party": SANDBOX_PARTY}),
        Asked(method="GET", path="/v1/connect/charge/list"),
    ]
    connection = HttpConnection(base_url)
    ends_at_s = time.monotonic() + seconds
    await asyncio.sleep(ASKED_EVERY_S * number / 9)
    turn = 0
    while time.monotonic() < ends_at_s:
        each = asked[turn % len(asked)]
        turn += 1
        began_at_s = time.monotonic()
        status, body = await connection.ask(each.written(host, token))
        took_s = time.monotonic() - began_at_s
        answered.append(Answered(path=each.path, status=status, took_ms=took_s * 1000, body=body))
        await asyncio.sleep(max(0.0, ASKED_EVERY_S - took_s))
    connection.close()


def p99_ms(answered: Sequence[Answered]) -> float:
    took_ms = sorted(each.took_ms for each in answered)
    return took_ms[min(len(took_ms) - 1, len(took_ms) * 99 // 100)]


async def _be_greedy(orders: Orders, stop: threading.Event) -> Told:
    host = urlsplit(orders.base_url).netloc
    requests = [asked.written(host, orders.token) for asked in orders.asked]
    told = Told()
    apart_s = orders.connections / orders.per_s if orders.per_s else 0.0

    async def keep_asking(number: int) -> None:
        connection = HttpConnection(orders.base_url, GREEDY_ADDRESS)
        turn = number
        due_at_s = time.monotonic() + apart_s * number / orders.connections
        while not stop.is_set():
            await asyncio.sleep(max(0.0, due_at_s - time.monotonic()) if apart_s else 0.0)
            due_at_s += apart_s
            try:
                status, body = await connection.ask(requests[turn % len(requests)])
            except (OSError, asyncio.IncompleteReadError):
                connection.close()
                status, body = 0, b""
            told.statuses[status] = told.statuses.get(status, 0) + 1
            told.octets += len(body)
            turn += 1
        connection.close()

    await asyncio.gather(*(keep_asking(number) for number in range(orders.connections)))
    return told


async def _answer_everything(octets: int) -> None:
    answer = f"HTTP/1.1 200 OK\r\nContent-Length: {octets}\r\n\r\n".encode() + bytes(octets)

    async def answer_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0]))
                writer.write(answer)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer_connection, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


def _json(value: object) -> bytes:
    return msgspec.json.encode(value)


def _main() -> None:
    if len(sys.argv) > 1:
        asyncio.run(_answer_everything(int(sys.argv[1])))
    orders = msgspec.json.decode(sys.stdin.buffer.readline(), type=Orders)
    stop = threading.Event()

    def wait() -> None:
        sys.stdin.buffer.read()
        stop.set()

    threading.Thread(target=wait, daemon=True).start()
    sys.stdout.write("asking\n")
    sys.stdout.flush()
    sys.stdout.buffer.write(_json(asyncio.run(_be_greedy(orders, stop))))


if __name__ == "__main__":
    _main()
