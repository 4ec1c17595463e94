"""One timer ends each of many waits at its own time, and nothing else."""

import asyncio

import pytest

from pixconnect.platform.shared_look import SharedTimeout


async def test_what_takes_too_long_is_ended_and_what_does_not_is_left_alone() -> None:
    timeout = SharedTimeout(0.02)
    ended: list[str] = []

    async def wait(name: str, event: asyncio.Event) -> None:
        try:
            with timeout.begin():
                await event.wait()
        except TimeoutError:
            ended.append(name)

    happens, never = asyncio.Event(), asyncio.Event()
    waits = [asyncio.create_task(wait(name, event)) for name, event in [("a", never), ("b", happens), ("c", never)]]
    await asyncio.sleep(0)
    happens.set()
    await asyncio.gather(*waits)
    assert ended == ["a", "c"]
    await wait("d", never)  # a later wait has a timer again
    assert ended == ["a", "c", "d"]


async def test_who_is_cancelled_by_another_hears_of_that_and_of_no_timeout() -> None:
    timeout = SharedTimeout(60)

    async def wait() -> None:
        with timeout.begin():
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_who_is_cancelled_as_well_as_too_late_stays_cancelled() -> None:
    timeout = SharedTimeout(0)

    async def wait() -> None:
        with timeout.begin():
            task = asyncio.current_task()
            assert task is not None
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                task.cancel()
                raise

    task = asyncio.create_task(wait())
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_error_of_the_block_is_not_hidden() -> None:
    timeout = SharedTimeout(60)
    with pytest.raises(KeyError), timeout.begin():
        raise KeyError
