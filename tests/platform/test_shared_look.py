"""Many callers share one query."""

import asyncio
import gc

import pytest

from pixconnect.platform.flow.shares import current_party
from pixconnect.platform.shared_look import SharedLook


class Outside:
    """A query that ends on request, and counts its runs."""

    def __init__(self) -> None:
        self.looks_count = 0
        self.may_answer = asyncio.Event()
        self.party: object = None
        self.failure: Exception | None = None

    async def look(self) -> int:
        self.looks_count += 1
        self.party = current_party.get()
        await self.may_answer.wait()
        if self.failure is not None:
            raise self.failure
        return self.looks_count


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("failure", [None, OSError("away")])
async def test_many_callers_share_a_look_or_its_failure_and_the_next_one_looks_again(failure: OSError | None) -> None:
    outside = Outside()
    outside.failure = failure
    shared = SharedLook(outside.look, "test")
    callers = [asyncio.create_task(shared.look()) for _ in range(3)]
    await turns()
    outside.may_answer.set()
    assert await asyncio.gather(*callers, return_exceptions=True) == [failure or 1] * 3
    outside.failure = None
    assert await shared.look() == 2


async def test_a_caller_that_goes_away_does_not_cancel_it() -> None:
    outside = Outside()
    shared = SharedLook(outside.look, "test")
    first, second = asyncio.create_task(shared.look()), asyncio.create_task(shared.look())
    await turns()
    first.cancel()
    await turns()
    outside.may_answer.set()
    assert await second == 1
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_failure_that_nobody_waits_for_any_more_is_not_logged_as_lost() -> None:
    lost: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: lost.append(context))
    outside = Outside()
    outside.failure = OSError("away")
    shared = SharedLook(outside.look, "test")
    caller = asyncio.create_task(shared.look())
    await turns()
    caller.cancel()
    outside.may_answer.set()
    await turns()
    del shared, caller
    gc.collect()
    assert lost == []


async def test_it_is_done_on_behalf_of_all() -> None:
    outside = Outside()
    outside.may_answer.set()
    everybody = current_party.get()
    current_party.set(7)
    await SharedLook(outside.look, "test").look()
    assert outside.party == everybody
