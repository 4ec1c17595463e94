"""Many pass at once; one goes alone."""

import asyncio

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
