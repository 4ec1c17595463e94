"""Many pass at once; one goes alone."""

import asyncio
from collections.abc import Sequence

import pytest

from pixconnect.features.sandbox.network.batch_writer import BATCH_MAX, BatchWriter
from pixconnect.features.sandbox.network.outbox import SharedLock


async def test_whoever_goes_alone_waits_for_those_inside_and_stops_those_who_come() -> None:
    lock, seen = SharedLock(), []

    async def shared(name: str) -> None:
        async with lock.shared():
            await asyncio.sleep(0.02)
            seen.append(name)

    async def exclusive() -> None:
        async with lock.exclusive():
            seen.append("alone")
            await asyncio.sleep(0.02)
            seen.append("gone")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(shared("a"))
        tasks.create_task(shared("b"))
        await asyncio.sleep(0.01)
        tasks.create_task(exclusive())
        await asyncio.sleep(0)
        tasks.create_task(shared("c"))
    assert seen == ["a", "b", "alone", "gone", "c"]


@pytest.mark.long
async def test_what_comes_while_a_batch_is_written_is_the_next_batch() -> None:
    batches: list[int] = []

    async def write(items: Sequence[int]) -> None:
        batches.append(len(items))
        await asyncio.sleep(0.01)

    writer: BatchWriter[int] = BatchWriter(write)
    await asyncio.gather(*(writer.add(number) for number in range(BATCH_MAX + 50)))
    assert sum(batches) == BATCH_MAX + 50
    assert max(batches) == BATCH_MAX


async def test_a_batch_that_fails_fails_for_all_of_it_and_the_next_goes_on() -> None:
    fails = iter([True, False])

    async def write(_: object) -> None:
        await asyncio.sleep(0)
        if next(fails):
            raise OSError

    writer: BatchWriter[int] = BatchWriter(write)
    with pytest.raises(OSError):
        await writer.add(1)
    await writer.add(2)
