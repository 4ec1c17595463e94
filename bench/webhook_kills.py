"""Kills webhook workers (kill -9) while events are written, and counts what was lost, out of order, and duplicated.

Usage::

    python bench/webhook_kills.py --kills 20 --events 10000

An embedded, durable PostgreSQL, two worker processes, one process that receives. Each resource has five events; one of the
workers is killed again and again, and another is started in its place.
"""

import argparse
import asyncio
import multiprocessing
import random
import sys
import tempfile
import time
from collections import defaultdict
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import uvloop

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from pixconnect.foundation import migrations
from pixconnect.foundation.embedded_postgres import EmbeddedPostgres
from pixconnect.foundation.logging import set_up_logging
from pixconnect.foundation.pool import connect
from support import postgres
from support.webhooks import Received, answer, open_receiver, open_world, start_worker

_EVENTS_OF_RESOURCE = 5


def _receive(pipe: Connection) -> None:
    """Remembers what came, in order, and takes its time to answer."""
    arrived: list[tuple[float, int, int]] = []

    async def behave(request: Received, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        event = request.event
        arrived.append((time.time(), event["payload"]["id"], event["id"]))
        await asyncio.sleep(random.random() * 0.01)
        writer.write(answer())

    async def serve() -> None:
        async with open_receiver(behave) as receiver:
            pipe.send(receiver.url)
            while not pipe.poll():  # noqa: ASYNC110  a pipe has no event
                await asyncio.sleep(0.1)
            pipe.send(arrived)

    uvloop.run(serve())


def _work(addresses: postgres.Addresses, account_number: str) -> None:
    set_up_logging("json", "error")

    async def work() -> None:
        async with open_world(addresses, account_number=account_number) as world:
            start_worker(world)
            await asyncio.sleep(3600)

    uvloop.run(work())


async def _measure(arguments: argparse.Namespace, home: Path) -> None:
    server = EmbeddedPostgres(home, version="18", connections_max=100, durable=True)
    await server.start()
    connection = await connect(server.owner_url, role=None, schema="pixconnect", name="bench")
    for schema, package in postgres.SCHEMAS.items():
        await migrations.migrate(connection, schema, migrations.read_migrations(package))
    await connection.close()
    addresses = postgres.Addresses(owner_url=server.owner_url, service_url=server.login_url)
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    receiver = spawn.Process(target=_receive, args=(there,))
    receiver.start()
    url = here.recv()
    accounts = iter(range(2, 10_000))

    def start() -> BaseProcess:
        process = spawn.Process(target=_work, args=(addresses, str(next(accounts))))
        process.start()
        return process

    async with open_world(addresses) as world:
        await world.add_endpoint(url)
        workers = [start(), start()]
        writing = asyncio.create_task(_write(world, arguments.events))
        killed_at: list[float] = []
        for _ in range(arguments.kills):
            await asyncio.sleep(random.uniform(2.5, 4.5))
            victim = workers.pop(random.randrange(2))
            victim.kill()
            killed_at.append(time.time())
            workers.append(start())
        made = await writing
        while (await world.statuses()).get("pending"):  # noqa: ASYNC110  what changes is in the database
            await asyncio.sleep(0.05)
        took_s = time.time() - killed_at[-1]
        rows = await world.fetch("select event_id, started_at from delivery_attempt join delivery on id = delivery_id")
    for process in workers:
        process.kill()
    here.send("stop")
    _tell(here.recv(), made, killed_at, took_s, len(rows))
    receiver.join()
    await server.stop()


async def _write(world: object, events_count: int) -> dict[int, float]:
    """Five events of each resource, spread over the run."""
    made: dict[int, float] = {}
    resources = events_count // _EVENTS_OF_RESOURCE
    for _ in range(_EVENTS_OF_RESOURCE):
        for start in range(1, resources + 1, 20):
            for event in await world.announce(list(range(start, min(start + 20, resources + 1)))):
                made[event.id] = time.time()
            await asyncio.sleep(0.1)
    return made


def _tell(
    arrived: list[tuple[float, int, int]],
    made: dict[int, float],
    killed_at: list[float],
    drained_s: float,
    records: int,
) -> None:
    first: dict[int, list[int]] = defaultdict(list)
    seen: dict[int, float] = {}
    again_after_s = 0.0
    for at, resource_id, event_id in arrived:
        if event_id in seen:
            again_after_s = max(again_after_s, at - seen[event_id])
        else:
            seen[event_id] = at
            first[resource_id].append(event_id)
    slowest_s = max(at - made[event_id] for event_id, at in seen.items())
    print(
        f"{len(made)} events, {len(killed_at)} kills: lost {len(made.keys() - seen.keys())},"
        f" out of order {sum(ids != sorted(ids) for ids in first.values())},"
        f" duplicated {len(arrived) - len(seen)}, sent again after at most {again_after_s:.1f} s,"
        f" slowest first delivery {slowest_s:.1f} s, records {records}, drained {drained_s:.1f} s after the last kill"
    )


def main() -> None:
    """Parse arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--events", type=int, default=10_000)
    with tempfile.TemporaryDirectory(prefix="pixconnect-kills-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)
        asyncio.run(_measure(parser.parse_args(), Path(folder)))


if __name__ == "__main__":
    main()
