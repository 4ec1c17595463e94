"""Questions that are answered together."""

import asyncio
from collections.abc import Sequence

import pytest

from pixconnect.platform.flow.batches import Batches


class Oracle:
    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.may_answer = asyncio.Event()

    async def ask(self, items: Sequence[int]) -> list[int]:
        self.asked.append(list(items))
        await self.may_answer.wait()
        if 0 in items:
            raise ZeroDivisionError
        return [10 * item for item in items]


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_the_next_batch_is_what_was_asked_while_the_last_one_was_under_way() -> None:
    oracle = Oracle()
    batches = Batches(oracle.ask, 3)
    first = asyncio.create_task(batches.ask(1))
    await turns()
    others = [asyncio.create_task(batches.ask(item)) for item in range(2, 7)]
    await turns()
    assert oracle.asked == [[1]]
    oracle.may_answer.set()
    assert await asyncio.gather(first, *others) == [10, 20, 30, 40, 50, 60]
    assert oracle.asked == [[1], [2, 3, 4], [5, 6]]


async def test_a_failure_is_that_of_its_batch_and_the_next_one_is_answered() -> None:
    oracle = Oracle()
    oracle.may_answer.set()
    batches = Batches(oracle.ask, 2)
    answers = await asyncio.gather(*(batches.ask(item) for item in (0, 1, 2)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [ZeroDivisionError, ZeroDivisionError, int]


async def test_who_goes_away_is_not_asked_for_and_takes_nobody_along() -> None:
    oracle = Oracle()
    batches = Batches(oracle.ask, 3)
    tasks = [asyncio.create_task(batches.ask(1))]
    await turns()
    tasks += [asyncio.create_task(batches.ask(item)) for item in (2, 3)]
    await turns()
    for gone in tasks[:2]:
        gone.cancel()
    await turns()
    oracle.may_answer.set()
    assert await tasks[2] == 30
    assert oracle.asked == [[1], [3]]


async def test_when_the_process_ends_nobody_waits_for_ever() -> None:
    oracle = Oracle()
    batches = Batches(oracle.ask, 1)
    tasks = [asyncio.create_task(batches.ask(item)) for item in (1, 2)]
    await turns()
    assert batches._running is not None
    batches._running.cancel()
    for task in tasks:
        with pytest.raises(asyncio.CancelledError):
            await task
