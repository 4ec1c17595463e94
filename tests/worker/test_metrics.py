"""What a worker tells of its deliveries is what happened to them."""

import asyncio
from collections.abc import Sequence
from typing import Any

from pixconnect.foundation.metrics import Histogram, Measured
from pixconnect.worker import metrics
from support import postgres
from support.webhooks import Received, World, answering, eventually, open_receiver, open_world, running_worker


async def is_told(read: Any, name: str, value: Any) -> bool:
    return values(await read())[name] == value


def values(measured: Sequence[Measured]) -> dict[str, Any]:
    """By name; of those with labels, by their values."""
    found: dict[str, Any] = {}
    for one in measured:
        plain = {",".join(words): value for words, value in one.values.items()}
        found[one.family.name] = plain if one.family.labels else plain[""]
    return found


async def test_every_attempt_is_counted_as_what_it_was(database: postgres.Addresses) -> None:
    async def break_off(_: Received, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok")
        writer.close()

    async with open_world(database) as world, running_worker(world) as worker:
        read = metrics.make_read(world.context, worker.leases, worker.delivery)
        async with open_receiver() as well, open_receiver(answering(503)) as badly, open_receiver(break_off) as half:
            for receiver in (well, badly, half):
                await world.add_endpoint(receiver.url)
            await world.announce([1, 2])
            attempts = {"delivered": 2, "refused": 2, "broken": 2}
            await eventually(lambda: is_told(read, "pixconnect_delivery_attempts_total", attempts))
            await eventually(lambda: is_told(read, "pixconnect_deliveries_in_flight", 0))
            told = values(await read())
    assert list(told) == [family.name for family in metrics.FAMILIES]
    first = told["pixconnect_delivery_first_attempt_seconds"]
    assert isinstance(first, Histogram)
    assert (sum(first.counts), first.total < 5) == (6, True)
    assert told["pixconnect_deliveries_given_up_total"] == 0
    assert told["pixconnect_slots_held"] == 256
    sizes = told["pixconnect_group_size"]["record_group"]
    assert (sizes.total, sum(sizes.counts) <= 6) == (6, True)
    assert told["pixconnect_group_queue_length"] == {"record_group": 0}


async def test_what_is_due_is_counted_and_dated_without_a_worker_too(database: postgres.Addresses) -> None:
    async with open_world(database) as world, open_receiver() as receiver:
        read = _read_without_worker(world)
        assert values(await read()) == {
            "pixconnect_deliveries_due": 0, "pixconnect_delivery_oldest_due_age_seconds": 0.0,
        }  # fmt: skip
        await world.add_endpoint(receiver.url)
        await world.announce([1, 2, 3])
        await asyncio.sleep(0.2)
        told = values(await read())
        assert told["pixconnect_deliveries_due"] == 3
        assert 0.2 <= told["pixconnect_delivery_oldest_due_age_seconds"] < 10


async def test_what_only_the_database_knows_is_left_out_while_it_is_away(database: postgres.Addresses) -> None:
    async with open_world(database) as world, running_worker(world) as worker:
        read = metrics.make_read(world.context, worker.leases, worker.delivery)
        await eventually(lambda: is_told(read, "pixconnect_slots_held", 256))
        await worker.stop()
        await world.context.pool.close()
        told = values(await read())
        assert list(told) == [family.name for family in metrics.FAMILIES[2:]]


def _read_without_worker(world: World) -> Any:
    return lambda: metrics._measure_due(world.context)
