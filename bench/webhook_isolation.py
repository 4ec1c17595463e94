"""Measures how much bad receivers delay good ones.

Usage::

    python bench/webhook_isolation.py --events 2000

Ten holders with 20 endpoints each. First all 200 answer; then 10 hang, 10 drip one byte a second and 10 refuse connections.
Told is the time from commit to the first octet at the endpoints that are good in both runs.
"""

import argparse
import asyncio
import multiprocessing
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import uvloop
from msgspec import structs

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from pixconnect.foundation import migrations
from pixconnect.foundation.embedded_postgres import EmbeddedPostgres
from pixconnect.foundation.logging import set_up_logging
from pixconnect.foundation.notifier import Notifier
from pixconnect.foundation.pool import connect
from support import identity, postgres
from support.webhooks import Received, World, answer, open_receiver, open_world, start_worker

_HOLDERS = 10
_ENDPOINTS = 20
_REFUSED_URL = "http://127.0.0.1:9/hook"


def _receive(pipe: Connection) -> None:
    arrived: list[tuple[float, str, int]] = []

    async def behave(request: Received, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.append((time.time(), request.path, request.event["id"]))
        if request.path.endswith("=hang"):
            await asyncio.sleep(3600)
        if request.path.endswith("=drip"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            while not writer.is_closing():
                writer.write(b".")
                await asyncio.sleep(1)
        writer.write(answer())

    async def serve() -> None:
        async with open_receiver(behave) as receiver:
            pipe.send(receiver.url)
            while not pipe.poll():  # noqa: ASYNC110  a pipe has no event
                await asyncio.sleep(0.1)
            pipe.send(arrived)

    uvloop.run(serve())


def _work(addresses: postgres.Addresses) -> None:
    set_up_logging("json", "error")

    async def work() -> None:
        async with open_world(addresses, account_number=f"9{int(time.time())}") as world:
            start_worker(world)
            await asyncio.sleep(3600)

    uvloop.run(work())


def _urls(base: str, *, is_hostile: bool) -> list[str]:
    """The first three endpoints of each holder are the bad ones."""
    kinds = ["hang", "drip", "refuse"] + ["good"] * (_ENDPOINTS - 3)
    urls = [f"{base}?{'was' if not is_hostile else 'is'}={kind}" for kind in kinds]
    if is_hostile:
        urls[2] = _REFUSED_URL
    else:
        urls[:3] = [f"{base}?was=bad{number}" for number in range(3)]
    return urls


async def _run(addresses: postgres.Addresses, events_count: int, *, is_hostile: bool) -> list[float]:
    """Milliseconds from commit to first octet at the good endpoints, sorted."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    receiver = spawn.Process(target=_receive, args=(there,))
    receiver.start()
    urls = _urls(here.recv(), is_hostile=is_hostile)
    committed_at: dict[int, float] = {}
    async with open_world(addresses, account_number=f"1{is_hostile:d}") as world:
        callers = [await _caller(world, f"{number}{is_hostile:d}") for number in range(2, _HOLDERS + 2)]
        for caller in callers:
            for url in urls:
                await structs.replace(world, caller=caller).add_endpoint(url)
        worker = spawn.Process(target=_work, args=(addresses,))
        worker.start()
        await asyncio.sleep(4)
        notifier = Notifier(world.context.pool)
        for number in range(1, events_count // _HOLDERS + 1):
            for caller in callers:
                (event,) = await structs.replace(world, caller=caller).announce([number])
                committed_at[event.id] = time.time()
                notifier.notify()
            await asyncio.sleep(0.4)
        await asyncio.sleep(2)
        worker.kill()
        here.send("stop")
        arrived = here.recv()
        await world.context.pool.execute("delete from webhook_endpoint")
    receiver.join()
    return sorted((at - committed_at[event_id]) * 1000 for at, path, event_id in arrived if path.endswith("=good"))


async def _caller(world: World, account_number: str) -> object:
    holder = await identity.make_holder(world.context, account_number)
    return structs.replace(world.caller, holder_id=holder.id)


async def _measure(arguments: argparse.Namespace, home: Path) -> None:
    server = EmbeddedPostgres(home, version="18", connections_max=100, durable=True)
    await server.start()
    connection = await connect(server.owner_url, role=None, schema="pixconnect", name="bench")
    for schema, package in postgres.SCHEMAS.items():
        await migrations.migrate(connection, schema, migrations.read_migrations(package))
    await connection.close()
    addresses = postgres.Addresses(owner_url=server.owner_url, service_url=server.login_url)
    p99_ms: list[float] = []
    for is_hostile in (False, True):
        lags_ms = await _run(addresses, arguments.events, is_hostile=is_hostile)
        expected = arguments.events // _HOLDERS * _HOLDERS * (_ENDPOINTS - 3)
        p99_ms.append(lags_ms[int(len(lags_ms) * 0.99)])
        print(
            f"{'with' if is_hostile else 'without'} 30 bad endpoints: {len(lags_ms)} of {expected} good deliveries,"
            f" p50 {lags_ms[len(lags_ms) // 2]:.1f} ms, p99 {p99_ms[-1]:.1f} ms, max {lags_ms[-1]:.1f} ms"
        )
    print(f"ratio of p99: {p99_ms[1] / p99_ms[0]:.2f}")
    await server.stop()


def main() -> None:
    """Parse arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1000)
    with tempfile.TemporaryDirectory(prefix="pixconnect-isolation-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)
        asyncio.run(_measure(parser.parse_args(), Path(folder)))


if __name__ == "__main__":
    main()
