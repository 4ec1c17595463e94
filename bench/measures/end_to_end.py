"""Charges and transfers from end to end: requested, settled over the rail, delivered by webhook and confirmed.

- ``transfer_life``, ``charge_paid``: lives a second, ``--in-flight`` at once. A transfer is accepted, handed over and
  settled; a charge is created and paid from outside; both events of each are delivered and confirmed. ``orders_open``
  and ``deliveries_due`` are the backlog, sampled every five seconds: if it does not grow, the rate can be sustained.
  ``left_after_s`` is the time to finish everything after the last life.

The generator and the receiver are one process, whose CPU by life is shown beside the service's.
"""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager

import uvloop

from bench.figures import Row, spread_ms
from bench.harness.installation import Account, Backlog, Installation, installed, read_backlog
from bench.harness.processes import CpuMeter
from bench.load.http_client import HttpClient
from bench.load.receivers import HttpReceiver, answer
from bench.measures.accepting import CHARGE, TRANSFER, TRANSFER_BODY

CHARGE_TOLD_TWICE = ("qrcode.pending", "qrcode.approved")
TRANSFER_TOLD = ("transfer.out.processing", "transfer.out.confirmed")
_TOLD_TIMEOUT_S = 60
_LOOK_EVERY_S = 5.0


class Run:
    """A caller and a receiver, and the lives that wait for an event."""

    def __init__(self, service: Installation, client: HttpClient) -> None:
        self.pix_key = service.sandbox["pix_keys"][0]
        self.client = client
        self.heard_count = 0
        self._told: dict[tuple[str, int], asyncio.Future[None]] = {}

    async def told(self, name: str, resource_id: int) -> None:
        """Wait for an event of this name for this resource."""
        async with asyncio.timeout(_TOLD_TIMEOUT_S):
            await self._future(name, resource_id)
        del self._told[name, resource_id]

    def hear(self, _: bytes, body: bytes, transport: asyncio.Transport) -> None:
        """A webhook."""
        answer(transport)
        self.heard_count += 1
        event = json.loads(body)
        future = self._future(event["name"], event["payload"]["id"])
        if not future.done():
            future.set_result(None)

    def _future(self, name: str, resource_id: int) -> asyncio.Future[None]:
        return self._told.setdefault((name, resource_id), asyncio.get_running_loop().create_future())


Story = Callable[[Run], Awaitable[None]]


async def pay_charge_told_twice(run: Run) -> None:
    """Create a charge and pay it from outside; both events are delivered."""
    charge = await run.client.post(CHARGE, {"amount": 100, "key": run.pix_key})
    await run.client.post("/sandbox/v1/payments", {"emv": charge["emvqrcps"]})
    await run.told("qrcode.pending", charge["id"])
    await run.told("qrcode.approved", charge["id"])


async def settle_transfer(run: Run) -> None:
    """Send a transfer until it is settled and both events are delivered."""
    transfer = await run.client.post(TRANSFER, TRANSFER_BODY)
    await run.told("transfer.out.processing", transfer["id"])
    await run.told("transfer.out.confirmed", transfer["id"])


def measure_paid_charges(seconds: float, in_flight: int) -> Iterator[Row]:
    """Run lives one after the other in several tasks at once."""
    yield from _measure_lives("charge_paid", pay_charge_told_twice, CHARGE_TOLD_TWICE, seconds, in_flight)


def measure_transfer_lives(seconds: float, in_flight: int) -> Iterator[Row]:
    yield from _measure_lives("transfer_life", settle_transfer, TRANSFER_TOLD, seconds, in_flight)


def _measure_lives(name: str, story: Story, told: Sequence[str], seconds: float, in_flight: int) -> Iterator[Row]:
    with installed() as service:
        lives = uvloop.run(repeat_story(service, story, told, seconds, in_flight))
        yield {"name": name, "in_flight": in_flight, **lives}


async def repeat_story(
    service: Installation, story: Story, told: Sequence[str], seconds: float, in_flight: int, accounts: Sequence[Account] = ()
) -> Row:
    """Run lives in several tasks and wait for these events of each; returns the time and CPU of a life."""
    took_s: list[float] = []
    async with running(service, told, accounts) as run:
        meter = CpuMeter(service.process.pid, generator=os.getpid())
        started_s = time.monotonic()

        async def keep_going() -> None:
            while (begun_s := time.monotonic()) - started_s < seconds:
                await story(run)
                took_s.append(time.monotonic() - begun_s)

        looking = asyncio.create_task(_look(service, seconds))
        await asyncio.gather(*(keep_going() for _ in range(in_flight)))
        lasted_s = time.monotonic() - started_s
        cost = meter.cost(len(took_s))
        left_after_s = await service.until_quiet()
        backlogs = await looking
    return {
        "seconds": lasted_s,
        "lives": len(took_s),
        "per_second": len(took_s) / lasted_s,
        **spread_ms(took_s),
        "orders_open": [backlog.orders_count for backlog in backlogs],
        "deliveries_due": [backlog.deliveries_count for backlog in backlogs],
        "left_after_s": left_after_s,
        **cost,
    }


async def _look(service: Installation, seconds: float) -> list[Backlog]:
    """Sample the backlog from time to time."""
    found: list[Backlog] = []
    connection = await service.connect()
    started_s = time.monotonic()
    while (left_s := started_s + seconds - time.monotonic()) > 0:
        await asyncio.sleep(min(_LOOK_EVERY_S, left_s))
        found.append(await read_backlog(connection))
    await connection.close()
    return found


@asynccontextmanager
async def running(service: Installation, told: Sequence[str], accounts: Sequence[Account] = ()) -> AsyncIterator[Run]:
    """Callers in turn, by default the demonstration's holder, and a receiver of their events."""
    accounts = accounts or [service.demonstration()]
    client = HttpClient(service.base_url, [account.token for account in accounts])
    run = Run(service, client)
    server = await asyncio.get_running_loop().create_server(lambda: HttpReceiver(run.hear), "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    made = [await asyncio.to_thread(service.add_endpoint, account, url, *told) for account in accounts]
    try:
        yield run
    finally:
        # The receiver has ended, so further deliveries to it would be retried for ever.
        connection = await service.connect()
        await connection.execute("delete from webhook_endpoint where id = any($1)", made)
        await connection.execute("update delivery set status = 'failed', due_at = null where status = 'pending'")
        await connection.close()
        client.close()
        server.close()
