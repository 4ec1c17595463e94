"""Whole lives, end to end: asked for, settled over the rail, told by webhook and confirmed."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import aiohttp
from msgspec import Struct

if TYPE_CHECKING:
    from installation import Installation

LAST_TOLD_TIMEOUT_S = 30


class Seen(Struct, frozen=True, kw_only=True):
    """What came of a run.

    Attributes:
        count: Lives that ended with their last webhook.
        seconds: From the first request to the last webhook.
        p50_ms: From the first request of a life to its last webhook.
        p99_ms: The same.
        webhooks_count: Received in all.
    """

    count: int
    seconds: float
    p50_ms: float
    p99_ms: float
    webhooks_count: int


class Run:
    """One run: a session, a receiver, and who waits for what."""

    def __init__(self, service: "Installation", session: aiohttp.ClientSession) -> None:
        self.service = service
        self.session = session
        self.webhooks_count = 0
        self._told: dict[tuple[str, int], asyncio.Future[None]] = {}

    async def post(self, path: str, body: object) -> dict[str, Any]:
        """``data`` of a success."""
        async with self.session.post(self.service.base_url + path, json=body) as answer:
            content = await answer.json()
            assert content["success"], content
            return content["data"]

    async def told(self, name: str, resource_id: int) -> None:
        """Until an event of this name has come for this resource."""
        await asyncio.wait_for(self._future(name, resource_id), LAST_TOLD_TIMEOUT_S)

    def hear(self, body: bytes) -> None:
        """A webhook."""
        event = json.loads(body)
        self.webhooks_count += 1
        future = self._future(event["name"], event["payload"]["id"])
        if not future.done():
            future.set_result(None)

    def _future(self, name: str, resource_id: int) -> asyncio.Future[None]:
        return self._told.setdefault((name, resource_id), asyncio.get_running_loop().create_future())


Life = Callable[[Run], Awaitable[None]]


async def charge_life(run: Run) -> None:
    """A charge is created, paid from outside, and its approval told."""
    key = run.service.sandbox["pix_keys"][0]
    charge = await run.post("/v1/connect/charge", {"amount": 100, "key": key})
    await run.post("/sandbox/v1/payments", {"emv": charge["emvqrcps"]})
    await run.told("qrcode.approved", charge["id"])


async def transfer_life(run: Run) -> None:
    """A transfer is accepted, handed over, settled, and both its events told."""
    party = {
        "account_number": "1001",
        "account_type": "CHECKING",
        "branch": "0001",
        "ispb": "99999004",
        "name": "Maria Silva",
        "tax_id": "52998224725",
    }
    transfer = await run.post("/v1/connect/transfer/manual", {"amount": 1, "credit_party": party})
    await run.told("transfer.out.processing", transfer["id"])
    await run.told("transfer.out.confirmed", transfer["id"])


async def drive(service: "Installation", life: Life, seconds: float, workers_count: int) -> Seen:
    """Live one life after the other, in several at once, for some seconds."""
    headers = {"Authorization": f"Bearer {service.log_in()}"}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
        run = Run(service, session)
        server = await asyncio.get_running_loop().create_server(lambda: Receiver(run.hear), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        endpoint = await run.post(
            "/v1/webhook/endpoints",
            {
                "url": f"http://127.0.0.1:{port}/",
                "secret": "a secret of the benchmark",
                "event_types": ["qrcode.approved", "transfer.out.processing", "transfer.out.confirmed"],
            },
        )
        took_ms: list[float] = []
        started_s = time.monotonic()

        async def live() -> None:
            while time.monotonic() - started_s < seconds:
                begun_s = time.monotonic()
                await life(run)
                took_ms.append(1000 * (time.monotonic() - begun_s))

        await asyncio.gather(*(live() for _ in range(workers_count)))
        ended_s = time.monotonic()
        async with session.delete(f"{service.base_url}/v1/webhook/endpoints/{endpoint['id']}"):
            pass
        server.close()
    took_ms.sort()
    return Seen(
        count=len(took_ms),
        seconds=ended_s - started_s,
        p50_ms=took_ms[len(took_ms) // 2],
        p99_ms=took_ms[int(len(took_ms) * 0.99)],
        webhooks_count=run.webhooks_count,
    )


class Receiver(asyncio.Protocol):
    """Answers every POST with 200; as little of HTTP as a benchmark's receiver needs."""

    def __init__(self, hear: Callable[[bytes], None]) -> None:
        self._hear = hear
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A sender is there."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """A part of a request, or of several."""
        self._read += data
        while (end := self._read.find(b"\r\n\r\n")) >= 0:
            head = self._read[:end].lower()
            length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
            if len(self._read) < end + 4 + length:
                return
            self._hear(self._read[end + 4 : end + 4 + length])
            self._read = self._read[end + 4 + length :]
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")  # type: ignore[attr-defined]
