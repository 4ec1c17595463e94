"""Measures webhook deliveries: how many a second, and what each costs in CPU.

Usage::

    python bench/webhooks.py --deliveries 20000 --endpoints 1 [--tls]
    python bench/webhooks.py --deliveries 5000 --rate 500

An embedded, durable PostgreSQL, one worker process, and one process that receives. Without a rate all deliveries are due when
the worker starts; with one, events are written while it runs, and the time from commit to the receiver's first octet is told.
"""

import argparse
import asyncio
import multiprocessing
import os
import resource
import ssl
import sys
import tempfile
import time
from pathlib import Path
from typing import ClassVar

import psutil
import uvloop
from msgspec import structs

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from pixconnect.foundation import migrations
from pixconnect.foundation.embedded_postgres import EmbeddedPostgres
from pixconnect.foundation.logging import set_up_logging
from pixconnect.foundation.notifier import Notifier
from pixconnect.foundation.pool import connect
from pixconnect.usecases import webhook
from pixconnect.worker.delivery_queue import QueueLimits
from support import postgres, tls
from support.webhooks import EndpointRequest, Limits, OutgoingHttp, WebhookSender, World, open_world, start_worker

_PARTS = {"p50": 0.5, "p99": 0.99, "max": 0.99999}
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class _Receiving(asyncio.Protocol):
    """Answers 200 to each request, as cheaply as can be."""

    arrived_at: ClassVar[dict[int, float]] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._left = b""

    def data_received(self, data: bytes) -> None:
        data = self._left + data if self._left else data
        while (end := data.find(b"\r\n\r\n")) >= 0:
            at = data.find(b"Content-Length: ", 0, end)
            length = int(data[at + 16 : data.find(b"\r\n", at)])
            name_at = data.find(b"webhook-id: evt_", 0, end)
            event_id = int(data[name_at + 16 : data.find(b"\r\n", name_at)])
            self.arrived_at.setdefault(event_id, time.time())
            if len(data) < end + 4 + length:
                break
            data = data[end + 4 + length :]
            self._transport.write(_ANSWER)
        self._left = data


def _receive(pipe: object, pem: str | None) -> None:
    async def serve() -> None:
        context = None
        if pem:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(pem)
        server = await asyncio.get_running_loop().create_server(_Receiving, "127.0.0.1", 0, ssl=context, backlog=4096)
        pipe.send(server.sockets[0].getsockname()[1])
        while not pipe.poll():  # noqa: ASYNC110  a pipe has no event
            await asyncio.sleep(0.1)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        pipe.send((usage.ru_utime + usage.ru_stime, _Receiving.arrived_at))

    uvloop.run(serve())


def _deliver(addresses: postgres.Addresses, count: int, ca: str | None, pipe: object) -> None:
    set_up_logging("json", "info")

    async def work() -> None:
        async with open_world(addresses, account_number="2002") as plain:
            world = _trusting(plain, ca) if ca else plain
            before = resource.getrusage(resource.RUSAGE_SELF)
            started_s = time.perf_counter()
            worker = start_worker(world, QueueLimits())
            while worker.delivery.attempts_count < count:  # noqa: ASYNC110  a bench looks now and then
                await asyncio.sleep(0.02)
            while (await world.statuses()).get("pending"):  # noqa: ASYNC110  what changes is in the database
                await asyncio.sleep(0.02)
            took_s = time.perf_counter() - started_s
            after = resource.getrusage(resource.RUSAGE_SELF)
            cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            pipe.send((took_s, cpu_s, worker.delivery.attempts_count, after.ru_maxrss // 1024))
            await worker.stop()

    uvloop.run(work())


def _trusting(world: World, ca: str) -> World:
    http = OutgoingHttp(Limits(), tls=ssl.create_default_context(cafile=ca))
    context = structs.replace(world.context, receivers=WebhookSender(http, is_sandbox=True))
    return structs.replace(world, context=context)


def _cpu_s(root: psutil.Process) -> float:
    times = [process.cpu_times() for process in [root, *root.children(recursive=True)]]
    return sum(one.user + one.system + one.children_user + one.children_system for one in times)


async def _measure(arguments: argparse.Namespace, home: Path) -> None:  # noqa: PLR0915  it is one story
    server = EmbeddedPostgres(home, version="18", connections_max=100, durable=True)
    await server.start()
    connection = await connect(server.owner_url, role=None, schema="pixconnect", name="bench")
    for schema, package in postgres.SCHEMAS.items():
        await migrations.migrate(connection, schema, migrations.read_migrations(package))
    await connection.close()
    addresses = postgres.Addresses(owner_url=server.owner_url, service_url=server.login_url)
    pem = ca = None
    if arguments.tls:
        authority = tls.make_authority(home)
        authority.server_context("127.0.0.1")
        pem, ca = str(home / "127.0.0.1-0.pem"), str(home / "ca.pem")
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    receiver = context.Process(target=_receive, args=(there, pem))
    receiver.start()
    port = here.recv()
    per_holder = min(arguments.endpoints, 20)
    async with open_world(addresses) as world:
        url = f"{'https' if arguments.tls else 'http'}://127.0.0.1:{port}/hook"
        for _ in range(per_holder):
            await webhook.create_endpoint(
                world.context, world.caller, EndpointRequest(url=url, secret="s" * 32, event_types=["qrcode.pending"])
            )
        events_count = arguments.deliveries // per_holder
        if not arguments.rate:
            await _announce(world, events_count, 500, 0)
    count = events_count * per_holder
    postmaster = psutil.Process(_postmaster_pid(server))
    before_s = _cpu_s(postmaster)
    ours, theirs = context.Pipe()
    worker = context.Process(target=_deliver, args=(addresses, count, ca, theirs))
    worker.start()
    committed_at: dict[int, float] = {}
    if arguments.rate:
        await asyncio.sleep(4)
        async with open_world(addresses, account_number="3003") as other:
            writer = structs.replace(other, caller=world.caller)
            committed_at = await _announce(writer, events_count, 5, 5 / arguments.rate)
    while not ours.poll():
        await asyncio.sleep(0.1)
        if not worker.is_alive() and not ours.poll():
            raise SystemExit("the worker ended")
    took_s, cpu_s, attempts_count, rss_mb = ours.recv()
    worker.join()
    postgres_s = _cpu_s(postmaster) - before_s
    here.send("stop")
    receiver_s, arrived_at = here.recv()
    receiver.join()
    print(
        f"{count} deliveries to {per_holder} endpoint(s){' over TLS' if arguments.tls else ''}: {count / took_s:.0f}/s;"
        f" CPU per delivery: worker {cpu_s / count * 1e6:.0f} us, PostgreSQL {postgres_s / count * 1e6:.0f} us,"
        f" receiver {receiver_s / count * 1e6:.0f} us; attempts {attempts_count}; worker {rss_mb} MB"
    )
    if committed_at:
        lags_ms = sorted((arrived_at[event_id] - at_s) * 1000 for event_id, at_s in committed_at.items())
        shown = ", ".join(f"{name} {lags_ms[int(len(lags_ms) * part)]:.1f}" for name, part in _PARTS.items())
        print(f"commit to first octet at {arguments.rate} events a second, ms: {shown}")
    await server.stop()


async def _announce(world: World, events_count: int, group_size: int, pause_s: float) -> dict[int, float]:
    """Write events in groups; when each was committed."""
    committed_at: dict[int, float] = {}
    notifier = Notifier(world.context.pool)
    loop = asyncio.get_running_loop()
    next_s = loop.time()
    for start in range(1, events_count + 1, group_size):
        made = await world.announce(list(range(start, min(start + group_size, events_count + 1))))
        now = time.time()
        committed_at.update({event.id: now for event in made})
        if pause_s:
            notifier.notify()
            next_s += pause_s
            await asyncio.sleep(max(next_s - loop.time(), 0))
    return committed_at


def _postmaster_pid(server: EmbeddedPostgres) -> int:
    for process in psutil.process_iter(["pid", "cmdline", "ppid"]):
        command = process.info["cmdline"] or []
        if command and command[0].endswith("/postgres") and process.info["ppid"] == os.getpid():
            return process.info["pid"]
    raise SystemExit(f"no postgres of ours: {server}")


def main() -> None:
    """Parse arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deliveries", type=int, default=20_000)
    parser.add_argument("--endpoints", type=int, default=1)
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--rate", type=int, default=0, help="events a second, written while the worker runs")
    with tempfile.TemporaryDirectory(prefix="pixconnect-bench-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)
        asyncio.run(_measure(parser.parse_args(), Path(folder)))


if __name__ == "__main__":
    main()
