"""Orders are written in small batches while the process refuses."""

import asyncio

from pixconnect.platform.flow.overload import BATCH_MAX, Overload
from support.service import Service, open_holder
from support.words import Word, open_words, outcomes_of


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
