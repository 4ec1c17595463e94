"""Receivers on loopback, a context that posts, events by hand, and workers, for tests of webhooks."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from msgspec import Struct, structs

from pixconnect.doors.worker.leases import SlotLeases
from pixconnect.features.webhooks.rules.endpoint import Endpoint, EndpointRequest
from pixconnect.features.webhooks.service import endpoint as endpoint_usecases
from pixconnect.features.webhooks.worker.delivery import DeliveryWorker
from pixconnect.features.webhooks.worker.delivery_queue import QueueLimits
from pixconnect.features.webhooks.worker.delivery_records import AttemptLog
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.event import Event, EventName
from pixconnect.kernel.tables.clock import service_now
from pixconnect.kernel.tables.event import EVENTS
from pixconnect.kernel.tables.fact import Changes
from pixconnect.platform.adapters.name_lookup import LOOKUP_S, DnsLookup, Lookup, NameLookups
from pixconnect.platform.adapters.outgoing_http import ExchangeLimits, OutgoingHttp, WebhookSender
from pixconnect.platform.adapters.system import SystemClock
from pixconnect.platform.pool import connect
from support import identity, postgres
from support.records import make_event
from support.service import Service, open_service
from support.waiting import PATIENCE_S

SECRET = "a secret for tests only"


class Received(Struct, frozen=True, kw_only=True):
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        return json.loads(self.body)


Behaviour = Callable[[Received, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Answers a request, well or badly."""


def answer(status: int = 200, body: bytes = b"ok", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "\r\n"]).encode() + body


def answering(status: int = 200, body: bytes = b"ok", **headers: str) -> Behaviour:
    octets = answer(status, body, **headers)

    async def behave(_: Received, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(octets)

    return behave


class Receiver:
    def __init__(self) -> None:
        self.behave: Behaviour = answering()
        self.received: list[Received] = []
        self.connections_count = 0
        self.url = ""
        self._news = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1", port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, host, port, ssl=tls)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://{host}:{port}/hook"
        self.port = port

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def wait_for(self, count: int, seconds: float = 60) -> list[Received]:
        async with asyncio.timeout(seconds), self._news:
            await self._news.wait_for(lambda: len(self.received) >= count)
        return self.received

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections_count += 1
        try:
            while (request := await _read_request(reader)) is not None:
                self.received.append(request)
                async with self._news:
                    self._news.notify_all()
                await self.behave(request, reader, writer)
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()


async def _read_request(reader: asyncio.StreamReader) -> Received | None:
    head = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
    if not head:
        return None
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines if line)
    body = await reader.readexactly(int(headers["Content-Length"]))
    return Received(path=first.split(" ")[1], headers=headers, body=body)


@asynccontextmanager
async def open_receiver(behave: Behaviour | None = None, tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    receiver = Receiver()
    receiver.behave = behave or answering()
    await receiver.start(tls)
    try:
        yield receiver
    finally:
        await receiver.stop()


@asynccontextmanager
async def open_http(
    lookup: Lookup | None = None, tls: ssl.SSLContext | None = None, **limits: float
) -> AsyncIterator[OutgoingHttp]:
    # As patient as the rest, so that no test depends on the machine's speed.
    lookups = NameLookups(lookup or DnsLookup(), lookup_s=limits.get("connect_s", LOOKUP_S))
    http = OutgoingHttp(ExchangeLimits(**limits), lookups, tls)  # type: ignore[arg-type]
    try:
        yield http
    finally:
        await http.close()


class WebhookService(Service, frozen=True, kw_only=True):
    caller: Caller

    async def add_endpoint(self, url: str, *event_types: EventName, secret: str = SECRET) -> Endpoint:
        request = EndpointRequest(url=url, secret=secret, event_types=event_types or ("qrcode.pending",))
        return await endpoint_usecases.create_endpoint(self.context, self.caller, request)

    async def announce(
        self, resource_ids: list[int], name: EventName = "qrcode.pending", holder_id: int | None = None
    ) -> list[Event]:
        """Write one event for each resource, as a use case would."""
        async with self.context.pool.acquire() as connection, connection.transaction():
            first_id = await connection.fetchval("select nextval('write_group_id')")
            # With the database's time, as a batch does: an event dated before a moved sandbox clock would wait for a
            # sweep.
            now = await service_now(self.context.clock, connection)
            made = [
                make_event(first_id + number, holder_id or self.caller.holder_id, resource_id, name, now)
                for number, resource_id in enumerate(resource_ids)
            ]
            changes = Changes()
            for event in made:
                changes.put(EVENTS, event)
            await changes.write_all(connection)
        self.context.wake_workers()
        return made

    async def statuses(self) -> dict[str, int]:
        rows = await self.fetch("select status, count(*) from delivery group by status")
        return {row["status"]: row["count"] for row in rows}


@asynccontextmanager
async def open_webhook_service(
    database: postgres.Addresses, *, clock: Any = None, account_number: str = "1001", **limits: float
) -> AsyncIterator[WebhookService]:
    """A service with one holder and real receivers on loopback."""
    # Patient: a slow machine makes no attempt fail, and none is repeated.
    patient = {"connect_s": 60.0, "exchange_s": 60.0} | limits
    async with (
        open_http(None, None, **patient) as http,
        open_service(
            database,
            clock=clock or SystemClock(),
            receivers=WebhookSender(http, allows_loopback=True),
            secret_key=identity.SECRET_KEY,
        ) as service,
    ):
        await identity.start_keyring(service.context)
        holder = await identity.make_holder(service.context, account_number=account_number)
        caller = Caller(client_id="tests", holder_id=holder.id, scopes=frozenset())
        yield WebhookService(**structs.asdict(service), caller=caller)


class RunningWorker(Struct, kw_only=True):
    leases: SlotLeases
    delivery: DeliveryWorker
    tasks: list[asyncio.Task[None]]

    async def stop(self) -> None:
        self.delivery.stop()
        await self.tasks[0]
        self.leases.stop()
        await self.tasks[1]

    async def kill(self) -> None:
        for task in self.tasks:
            task.cancel()
        self.delivery.slots_lost()
        await asyncio.gather(*self.tasks, return_exceptions=True)


def start_worker(
    service: WebhookService, limits: QueueLimits | None = None, attempt_log: AttemptLog | None = None
) -> RunningWorker:
    context = service.context

    async def open_connection() -> "asyncpg.Connection[asyncpg.Record]":
        return await connect(
            service.database.service_url, role="pixconnect_service", schema="pixconnect", name="worker of tests"
        )

    leases = SlotLeases(open_connection, context.clock)
    delivery = DeliveryWorker(context, leases, limits or QueueLimits(), attempt_log or AttemptLog(context.clock, is_on=False))
    service.wakers.append(delivery.wake)
    tasks = [asyncio.create_task(delivery.run()), asyncio.create_task(leases.run())]
    return RunningWorker(leases=leases, delivery=delivery, tasks=tasks)


@asynccontextmanager
async def running_worker(service: WebhookService, limits: QueueLimits | None = None) -> AsyncIterator[RunningWorker]:
    worker = start_worker(service, limits)
    try:
        yield worker
    finally:
        await worker.stop()


async def eventually(condition: Callable[[], Awaitable[bool]], seconds: float = PATIENCE_S) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110  what changes is in the database
            await asyncio.sleep(0.02)
