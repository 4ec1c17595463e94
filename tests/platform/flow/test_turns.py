"""Turns: a greedy party gets what the others leave, and everything if there are none."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from pixconnect.platform.flow import turns
from pixconnect.platform.flow.turns import AT_ONCE_FREELY, AT_ONCE_MAX, Turns
from support.loop_time import LoopTime, own_loop_time


@pytest.fixture(autouse=True)
async def loop_time() -> AsyncIterator[LoopTime]:
    """No observation comes while a test still acts, however slow the machine is."""
    with own_loop_time() as time:
        yield time


def stopped() -> float:
    return 0.0


class Late:
    """Each observation comes a second late."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 1
        return self.now_s


class LateWithoutRest(Late):
    """Each observation comes late, and soon after the one before."""

    def __call__(self) -> float:
        self.now_s += 2 * turns.LATE_S + turns.LOOK_EVERY_S
        return self.now_s


class Asking:
    """Requests of parties that run until they are ended."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self.turns = Turns(monotonic_s)
        self.running: list[str] = []
        self._began = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._ends: dict[str, list[asyncio.Event]] = {}

    async def ask(self, party: str, count: int = 1) -> None:
        for _ in range(count):
            end = asyncio.Event()
            self._ends.setdefault(party, []).append(end)
            self._tasks.append(asyncio.create_task(self._run(party, end)))
        await asyncio.sleep(0)

    async def _run(self, party: str, end: asyncio.Event) -> None:
        if not self.turns.acquire_now(party):
            await self.turns.acquire(party)
        self.running.append(party)
        self._began.set()
        try:
            await end.wait()
        finally:
            self.running.remove(party)
            self.turns.release(party)

    async def until(self, party: str, count: int) -> None:
        async with asyncio.timeout(60):
            while self.running.count(party) < count:
                self._began.clear()
                await self._began.wait()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def test_a_party_that_is_alone_has_no_bound() -> None:
    asking = Asking(Late())
    await asking.ask("hot", 200)
    assert asking.running.count("hot") == 200
    await asking.stop()


async def test_beside_others_a_party_has_a_few_at_once_and_the_others_wait_for_nothing() -> None:
    asking = Asking(LateWithoutRest())
    await asking.ask("calm")
    await asking.ask("hot", 200)
    assert asking.running.count("hot") == AT_ONCE_FREELY
    await asking.ask("calm")
    await asking.ask("another")
    assert (asking.running.count("calm"), asking.running.count("another")) == (2, 1)
    await asking.stop()


async def test_however_late_the_loop_is_who_ends_a_request_begins_the_next() -> None:
    asking = Asking(LateWithoutRest())
    await asking.ask("calm")
    await asking.ask("hot", 200)
    for end in asking._ends["hot"][:AT_ONCE_FREELY]:
        end.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert asking.running.count("hot") == AT_ONCE_FREELY
    await asking.stop()


async def test_while_the_loop_is_on_time_more_are_let_in_up_to_a_bound(loop_time: LoopTime) -> None:
    asking, began_at_s = Asking(stopped), loop_time.now_s
    await asking.ask("calm")
    await asking.ask("hot", 200)
    await asking.until("hot", AT_ONCE_MAX)
    # Two at the first observation, and one more at each that follows.
    assert loop_time.now_s - began_at_s == pytest.approx(7 * turns.LOOK_EVERY_S)
    for _ in range(5):
        await asyncio.sleep(turns.LOOK_EVERY_S)
    assert asking.running.count("hot") == AT_ONCE_MAX
    await asking.stop()


@pytest.mark.parametrize(("late", "looks_count"), [(Late, 3), (LateWithoutRest, 5)])
async def test_while_late_one_enters_after_each_rest(loop_time: LoopTime, late: type[Late], looks_count: int) -> None:
    asking, began_at_s = Asking(late()), loop_time.now_s
    await asking.ask("calm")
    await asking.ask("hot", 200)
    await asking.until("hot", AT_ONCE_FREELY + 3)
    assert loop_time.now_s - began_at_s == pytest.approx(looks_count * turns.LOOK_EVERY_S)
    await asking.stop()


async def test_parties_that_ask_for_as_much_as_each_other_are_not_held_back() -> None:
    asking = Asking(stopped)
    await asking.ask("calm")
    await asking.ask("hot", 2 * AT_ONCE_MAX)
    await asking.until("hot", AT_ONCE_MAX)
    asking.turns._monotonic_s = LateWithoutRest()
    await asking.ask("as hot", 2 * AT_ONCE_MAX)
    await asking.until("as hot", AT_ONCE_MAX)
    await asking.stop()


async def test_who_is_left_alone_gets_everything() -> None:
    asking = Asking(Late())
    await asking.ask("calm")
    await asking.ask("hot", 200)
    await asking.until("hot", 200)
    await asking.stop()


async def test_what_is_cancelled_while_it_waits_takes_no_turn() -> None:
    asking = Asking(stopped)
    await asking.ask("calm")
    await asking.ask("hot", AT_ONCE_FREELY + 20)
    await asking.stop()
    assert asking.running == []
    await asking.ask("hot", AT_ONCE_FREELY)
    await asking.until("hot", AT_ONCE_FREELY)
    await asking.stop()


async def test_of_long_requests_a_party_has_one_at_a_time_beside_others_and_rests_after_it(loop_time: LoopTime) -> None:
    long_turns = Turns()
    async with long_turns.hold_long("calm"):
        pass
    async with long_turns.hold_long("hot"):
        loop_time.now_s += 0.25
    ended_at_s = loop_time.now_s
    async with long_turns.hold_long("hot"):
        assert loop_time.now_s == pytest.approx(ended_at_s + 0.25 * turns.REST_TIMES)


async def test_of_long_requests_a_party_has_one_at_a_time_beside_others_that_ask_for_short_ones() -> None:
    turns = Turns()
    assert turns.acquire_now("calm")
    turns.release("calm")
    async with turns.hold_long("hot"):
        second = asyncio.create_task(turns.hold_long("hot").__aenter__())
        await asyncio.sleep(0)
        assert not second.done()
        second.cancel()


async def test_the_rest_after_a_request_of_minutes_is_short(loop_time: LoopTime) -> None:
    long_turns = Turns()
    async with long_turns.hold_long("hot"):
        loop_time.now_s += 300
    ended_at_s = loop_time.now_s
    assert long_turns.acquire_now("calm")
    second = asyncio.create_task(long_turns.hold_long("hot").__aenter__())
    while not second.done():
        long_turns.release("calm")
        assert long_turns.acquire_now("calm")
        await asyncio.sleep(0.5)
    assert loop_time.now_s - ended_at_s == pytest.approx(turns.LONG_REST_MAX_S, abs=0.5)


async def test_a_party_that_is_alone_has_as_many_long_requests_as_it_likes_and_no_rest() -> None:
    long_turns = Turns()
    for _ in range(20):
        await long_turns.hold_long("hot").__aenter__()
