"""Many pass at once; one goes alone."""

import asyncio
from collections.abc import Sequence

import pytest

from pixconnect.sandbox.gate import Gate
from pixconnect.sandbox.gathering import GROUP_MAX, Gathering


async def test_whoever_goes_alone_waits_for_those_inside_and_stops_those_who_come() -> None:
    gate, seen = Gate(), []

    async def passing(name: str) -> None:
        async with gate.passing():
            await asyncio.sleep(0.02)
            seen.append(name)

    async def alone() -> None:
        async with gate.alone():
            seen.append("alone")
            await asyncio.sleep(0.02)
            seen.append("gone")

    async with asyncio.TaskGroup() as group:
        group.create_task(passing("a"))
        group.create_task(passing("b"))
        await asyncio.sleep(0.01)
        group.create_task(alone())
        await asyncio.sleep(0)
        group.create_task(passing("c"))
    assert seen == ["a", "b", "alone", "gone", "c"]


async def test_what_comes_while_a_group_is_written_is_the_next_group() -> None:
    groups: list[int] = []

    async def write(items: Sequence[int]) -> None:
        groups.append(len(items))
        await asyncio.sleep(0.01)

    gathering: Gathering[int] = Gathering(write)
    await asyncio.gather(*(gathering.add(number) for number in range(GROUP_MAX + 50)))
    assert sum(groups) == GROUP_MAX + 50
    assert max(groups) == GROUP_MAX


async def test_a_group_that_fails_fails_for_all_of_it_and_the_next_goes_on() -> None:
    fails = iter([True, False])

    async def write(_: object) -> None:
        await asyncio.sleep(0)
        if next(fails):
            raise OSError

    gathering: Gathering[int] = Gathering(write)
    with pytest.raises(OSError):
        await gathering.add(1)
    await gathering.add(2)
