"""A write queue among several holders, a broken statement in it, and small batches while the process refuses."""

import asyncio
from typing import Any

import pytest

from pixconnect.kernel.writing.batch import Batch
from pixconnect.kernel.writing.batch_queue import BatchQueue
from pixconnect.platform.base import errors
from pixconnect.platform.flow.overload import BATCH_MAX, Overload
from support.service import Service, open_holder
from support.words import Word, Words, open_words, outcomes_of


async def write_meanwhile(words: Words, queue: BatchQueue[Word, str], later: list[Word]) -> list[str | BaseException]:
    """The outcomes of requests that wait while a first batch is written."""
    words.may_go_on.clear()
    first = asyncio.create_task(queue.submit(Word(text="first")))
    await words.first_batch()
    waiting = [asyncio.create_task(queue.submit(word)) for word in later]
    await asyncio.sleep(0)
    words.may_go_on.set()
    assert await first == "first"
    return await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_group_is_filled_from_all_holders_in_turn(service: Service) -> None:
    later = [Word(text=f"more{n}") for n in range(3)] + [Word(text="another", holder_id=2)]
    async with open_words(service, size_max=3) as (words, queue):
        await write_meanwhile(words, queue, later)
    assert words.batches == [["first"], ["more0", "another", "more1"], ["more2"]]


async def test_who_has_most_waiting_is_written_apart_and_nobody_else_waits_for_its_balance(service: Service) -> None:
    for number in ("1", "2", "3"):
        await open_holder(service, account_number=number)
    later = [Word(text=f"hot{n}") for n in range(8)] + [Word(text="calm", holder_id=2)]
    async with open_words(service, size_max=4) as (words, queue), service.context.pool.acquire() as somebody:
        words.may_go_on.clear()
        first = asyncio.create_task(queue.submit(Word(text="first", holder_id=3)))
        await words.first_batch()
        waiting = [asyncio.create_task(queue.submit(word)) for word in later]
        await asyncio.sleep(0)
        async with asyncio.timeout(60):
            async with somebody.transaction():
                await somebody.execute("select from balance where holder_id = 1 for update")
                words.may_go_on.set()
                # Neither requests that waited with the hot holder's, nor those that come while it waits for its
                # balance.
                assert await asyncio.gather(first, waiting[-1]) == ["first", "calm"]
                assert await queue.submit(Word(text="later", holder_id=3)) == "later"
                assert not any(task.done() for task in waiting[:-1])
            assert await asyncio.gather(*waiting[:-1]) == [f"hot{n}" for n in range(8)]
        assert sorted(words.batches) == [
            ["calm"], ["first"], ["hot0", "hot1", "hot2", "hot3"], ["hot4", "hot5", "hot6", "hot7"], ["later"],
        ]  # fmt: skip


async def test_a_holder_rejoins_the_others_when_nothing_of_it_has_come(service: Service) -> None:
    for number in ("1", "2"):
        await open_holder(service, account_number=number)
    later = [Word(text=f"hot{n}") for n in range(8)] + [Word(text="calm", holder_id=2)]
    async with open_words(service) as (words, queue):
        await write_meanwhile(words, queue, later)
        async with asyncio.timeout(60):
            while queue._busy.holder_id is not None:  # noqa: ASYNC110  nothing tells
                await asyncio.sleep(0.01)
        words.batches.clear()
        await write_meanwhile(words, queue, [Word(text="hot"), Word(text="calm", holder_id=2)])
    assert words.batches == [["first"], ["hot", "calm"]]


async def test_what_waits_apart_is_written_before_the_end(service: Service) -> None:
    for number in ("1", "2"):
        await open_holder(service, account_number=number)
    async with open_words(service, size_max=4) as (words, queue):
        words.may_go_on.clear()
        first = asyncio.create_task(queue.submit(Word(text="first")))
        await words.first_batch()
        later = [Word(text="hot")] * 20 + [Word(text="calm", holder_id=2)]
        waiting = [asyncio.create_task(queue.submit(word)) for word in later]
        await asyncio.sleep(0)
        words.may_go_on.set()
        async with asyncio.timeout(60):
            await first
            await queue.close()
        assert [task.result() for task in waiting] == ["hot"] * 20 + ["calm"]
        with pytest.raises(errors.ServiceUnavailable):
            await queue.submit(Word(text="after"))


async def test_a_queue_that_one_holder_has_filled_takes_another_in(service: Service) -> None:
    later = [Word(text="hot") for _ in range(8)] + [Word(text="calm", holder_id=2)] * 2
    async with open_words(service, queue_length_max=6) as (words, queue):
        outcomes = await write_meanwhile(words, queue, later)
    refused = [isinstance(outcome, errors.ServiceUnavailable) for outcome in outcomes]
    # Two were too many, and two more, the newest, made room for the other holder.
    assert refused == [False] * 4 + [True] * 4 + [False] * 2


async def test_while_others_wait_a_holder_has_half_of_the_queue(service: Service) -> None:
    later = [Word(text="calm", holder_id=2)] + [Word(text="hot") for _ in range(5)]
    async with open_words(service, queue_length_max=6) as (words, queue):
        outcomes = await write_meanwhile(words, queue, later)
    assert [isinstance(outcome, errors.ServiceUnavailable) for outcome in outcomes] == [False] * 4 + [True] * 2


async def test_what_is_written_without_an_outcome_for_each_is_not_committed_and_ends_nothing(service: Service) -> None:
    await open_holder(service)
    async with open_words(service) as (words, queue):
        write = words.write

        async def forget_one(batch: Batch[Word]) -> list[str | errors.PixConnectError]:
            return (await write(batch))[1:]

        queue._operation.write = forget_one
        async with asyncio.timeout(60):
            (outcome,) = await outcomes_of(queue, [Word(text="unsaid")])
        assert isinstance(outcome, errors.InternalError)
        queue._operation.write = write
        async with asyncio.timeout(60):
            assert await queue.submit(Word(text="after")) == "after"
        assert await words.written(service) == ["after"]


async def test_a_commit_that_nobody_could_be_told_of_is_one(service: Service) -> None:
    def fail() -> None:
        raise KeyError("a defect of ours")

    await open_holder(service)
    async with open_words(service) as (words, queue):
        words.on_commit = fail
        async with asyncio.timeout(60):
            assert await queue.submit(Word()) == "good"
        assert words.batches == [["good"]]


async def test_a_defect_of_the_queue_is_its_batchs_alone(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    await open_holder(service)

    def fail(*_: object) -> None:
        raise KeyError("a defect of ours")

    async with open_words(service) as (_, queue):
        with monkeypatch.context() as broken:
            broken.setattr(queue, "_answer", fail)
            async with asyncio.timeout(60):
                (outcome,) = await outcomes_of(queue, [Word(text="unlucky", external_id="n1")])
        assert isinstance(outcome, errors.OutcomeUnknown)
        assert "n1" in outcome.message
        async with asyncio.timeout(60):
            assert await queue.submit(Word(text="after")) == "after"


async def test_a_defect_beside_the_queue_frees_the_holder(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    await open_holder(service)

    def fail(group: list[Any], _refuse: object) -> None:
        for waiting in group:
            waiting.resolve(errors.ServiceUnavailable("nothing was done"))
        raise KeyError("a defect of ours")

    async with open_words(service) as (_, queue):
        stalled = queue._stalled
        with monkeypatch.context() as broken:
            broken.setattr(stalled, "_answer", fail)
            stalled.open(1)
            async with asyncio.timeout(60):
                stuck, behind = await asyncio.gather(
                    queue.submit(Word(text="stuck")), queue.submit(Word(text="behind")), return_exceptions=True
                )
            assert {type(stuck), type(behind)} == {errors.ServiceUnavailable}
        async with asyncio.timeout(60):
            assert await queue.submit(Word(text="after")) == "after"


class Refusing(Overload):
    """Of a process that refuses all the time."""

    def note(self, count: int, *, is_busy: bool) -> None:
        pass


def refusing(service: Service) -> Refusing:
    return Refusing(service.clock, service.context.writes._find_oldest_order, under_way_max=0)


async def test_orders_are_written_in_small_batches_while_the_process_refuses(service: Service) -> None:
    await open_holder(service)
    overload = refusing(service)
    async with open_words(service, overload=overload) as (words, queue):
        await outcomes_of(queue, [Word(text="good")] * (BATCH_MAX + 1))
        assert overload.refuses("holder")
        await outcomes_of(queue, [Word(text="good")] * (2 * BATCH_MAX))
        assert [len(batch) for batch in words.batches] == [BATCH_MAX + 1, BATCH_MAX, BATCH_MAX]


async def test_who_comes_while_a_batch_waits_goes_with_it_as_far_as_small_batches_go(service: Service) -> None:
    await open_holder(service)
    overload = refusing(service)
    async with open_words(service, overload=overload) as (words, queue):
        words.admits = True
        words.may_go_on.clear()
        first = asyncio.create_task(outcomes_of(queue, [Word(text="first")] * (BATCH_MAX + 1)))
        await words.first_batch()
        assert overload.refuses("holder")
        later = asyncio.create_task(outcomes_of(queue, [Word(text="late")]))
        await asyncio.sleep(0)
        words.may_go_on.set()
        assert await later == ["late"]
        await first
        assert [len(batch) for batch in words.batches] == [BATCH_MAX + 1, 1]
