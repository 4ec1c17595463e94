"""Shares: in turn, and at most half while others are there."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixconnect.platform.base import errors
from pixconnect.platform.flow import shares
from pixconnect.platform.flow.shares import FairQueue, FairSemaphore

Steps = st.lists(st.one_of(st.tuples(st.just("put"), st.integers(1, 4)), st.tuples(st.just("take"), st.integers(1, 5))))


def filled(length_max: int, *parties: str) -> tuple[FairQueue[str], list[str], list[bool]]:
    dropped: list[str] = []
    queue: FairQueue[str] = FairQueue(length_max, dropped.append)
    taken_in = [queue.put(party[0], party) for party in parties]
    return queue, dropped, taken_in


def test_one_party_alone_has_the_whole_queue_and_no_more() -> None:
    queue, dropped, taken_in = filled(4, "a1", "a2", "a3", "a4", "a5")
    assert taken_in == [True] * 4 + [False]
    assert (queue.take(10), dropped) == (["a1", "a2", "a3", "a4"], [])


def test_parties_are_served_in_turn_each_in_its_own_order() -> None:
    queue, _, _ = filled(20, "a1", "a2", "a3", "a4", "b1", "b2", "c1")
    assert queue.take(4) == ["a1", "b1", "c1", "a2"]
    assert queue.put("c", "c2")
    assert queue.take(10) == ["b2", "a3", "c2", "a4"]
    assert len(queue) == 0


def test_a_queue_that_one_party_has_filled_is_open_to_the_others() -> None:
    queue, dropped, taken_in = filled(4, "a1", "a2", "a3", "a4", "b1", "b2", "b3", "a5")
    assert taken_in == [True] * 6 + [False, False]
    assert dropped == ["a4", "a3"]
    assert queue.take(10) == ["a1", "b1", "a2", "b2"]


def test_while_others_wait_a_party_has_at_most_half_of_the_queue() -> None:
    _, dropped, taken_in = filled(6, "a1", "b1", "a2", "a3", "a4", "b2")
    assert taken_in == [True, True, True, True, False, True]
    assert dropped == []


def test_who_may_have_nothing_now_keeps_what_it_has_waiting() -> None:
    queue, _, _ = filled(20, "a1", "b1", "a2", "c1")
    assert queue.take(10, may_have=lambda party: party != "a") == ["b1", "c1"]
    assert len(queue) == 2
    assert queue.take(10, may_have=lambda party: party == "a") == ["a1", "a2"]


@pytest.mark.parametrize(
    ("waiting", "beside", "dominant"),
    [
        (["a1", "a2", "a3", "b1", "c1"], {}, "a"),
        (["a1", "b1"], {"a": 2, "c": 1}, "a"),
        ([], {"a": 3}, "a"),
        (["a1", "a2", "b1"], {}, None),
        (["a1", "a2", "a3", "b1", "b2", "c1"], {}, None),
        (["a1", "a2", "a3"], {"b": 1, "c": 2}, None),
        ([], {}, None),
    ],
    ids=["more than all others", "with those beside", "alone", "a few", "half", "half of all", "nobody"],
)
def test_one_has_more_than_all_others(waiting: list[str], beside: dict[str, int], dominant: str | None) -> None:
    queue, _, _ = filled(20, *waiting)
    assert queue.find_dominant(beside, 3) == dominant


def test_where_all_have_as_many_nobody_makes_room() -> None:
    _, dropped, taken_in = filled(3, "a1", "b1", "c1", "d1")
    assert (taken_in, dropped) == ([True, True, True, False], [])


def test_what_does_not_fit_keeps_its_place() -> None:
    queue, _, _ = filled(20, "a1!", "a2", "a3!", "b1", "a4")
    assert queue.take(10, lambda item: not item.endswith("!")) == ["b1", "a2", "a4"]
    assert queue.take(1) == ["a1!"]
    assert queue.put("a", "a5")
    assert queue.take(10) == ["a3!", "a5"]


def test_where_it_cannot_be_told_whether_something_fits_everything_stays_as_it_was() -> None:
    queue, _, _ = filled(20, "a1", "b1!", "c1", "a2", "b2", "a3?", "c2")

    def fits(item: str) -> bool:
        if item.endswith("?"):
            raise ValueError(item)
        return not item.endswith("!")

    with pytest.raises(ValueError, match="a3"):
        queue.take(10, fits, may_have=lambda party: party != "c")
    assert len(queue) == 7
    assert sorted(queue.take(3)) == ["a1", "b1!", "c1"]
    assert sorted(queue.take(3)) == ["a2", "b2", "c2"]
    assert queue.take(3) == ["a3?"]


def test_what_is_removed_takes_up_no_room() -> None:
    queue, dropped, _ = filled(3, "a1", "a2", "b1")
    for party, item in (("b", "b1"), ("b", "b1"), ("a", "b1"), ("a", "a1")):
        queue.remove(party, item)
    assert not queue.has("b")
    assert [queue.put("a", "a3"), queue.put("a", "a4"), queue.put("a", "a5")] == [True, True, False]
    assert (queue.take(10), dropped) == (["a2", "a3", "a4"], [])


@given(Steps, st.integers(1, 8), st.integers(0, 3))
def test_nothing_is_lost_doubled_or_overtaken(steps: list[tuple[str, int]], length_max: int, misfit: int) -> None:
    dropped: list[tuple[int, int]] = []
    queue: FairQueue[tuple[int, int]] = FairQueue(length_max, dropped.append)
    put: list[tuple[int, int]] = []
    taken: list[tuple[int, int]] = []
    for number, (step, argument) in enumerate(steps):
        if step == "take":
            taken += queue.take(argument, lambda item: item[0] != misfit)
        elif queue.put(argument, (argument, number)):
            put.append((argument, number))
        assert len(queue) == len(put) - len(taken) - len(dropped) <= length_max
    taken += queue.take(length_max)
    assert sorted(taken + dropped) == sorted(put)
    for party in (1, 2, 3, 4):
        of_party = [number for whose, number in taken if whose == party]
        assert of_party == sorted(of_party)


async def hold(semaphore: FairSemaphore, party: str, inside: list[str], leave: asyncio.Event) -> None:
    async with semaphore.hold(party):
        inside.append(party)
        await leave.wait()


async def holding(
    semaphore: FairSemaphore, parties: Sequence[str], inside: list[str], leave: asyncio.Event
) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(hold(semaphore, party, inside, leave)) for party in parties]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


async def test_one_party_alone_has_every_place() -> None:
    semaphore, inside, leave = FairSemaphore(4, waiting_max=10, what="tries"), list[str](), asyncio.Event()
    tasks = await holding(semaphore, "aaaaaa", inside, leave)
    assert inside == ["a"] * 4
    leave.set()
    await asyncio.gather(*tasks)
    assert inside == ["a"] * 6


async def test_while_another_is_there_a_party_has_half_and_afterwards_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "PRESENT_S", 2.0)
    semaphore, inside, leave = FairSemaphore(4, waiting_max=10, what="tries"), list[str](), asyncio.Event()
    async with semaphore.hold("b"):
        pass
    tasks = await holding(semaphore, "aaaa", inside, leave)
    assert inside == ["a", "a"]
    async with asyncio.timeout(60):
        while len(inside) < 4:  # noqa: ASYNC110  nothing tells
            await asyncio.sleep(0.01)
    leave.set()
    await asyncio.gather(*tasks)


async def test_the_share_beside_others_may_be_less_than_half() -> None:
    semaphore = FairSemaphore(100, waiting_max=100, what="requests", share_max=2)
    for _ in range(5):
        assert semaphore.acquire_now("a")
    assert semaphore.acquire_now("b")
    assert not semaphore.acquire_now("a")
    for _ in range(4):
        semaphore.release("a")
    assert semaphore.acquire_now("a")
    assert not semaphore.acquire_now("a")


async def test_a_place_that_comes_free_is_the_next_partys() -> None:
    semaphore, inside = FairSemaphore(2, waiting_max=20, what="tries"), list[str]()
    first, second = asyncio.Event(), asyncio.Event()
    tasks = await holding(semaphore, "aa", inside, first)
    tasks += await holding(semaphore, "aaaab", inside, second)
    assert inside == ["a", "a"]
    first.set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert sorted(inside[2:]) == ["a", "b"]
    second.set()
    await asyncio.gather(*tasks)
    assert sorted(inside) == ["a"] * 6 + ["b"]


async def test_a_full_line_is_full_for_who_has_filled_it_only() -> None:
    semaphore, inside, leave = FairSemaphore(1, waiting_max=4, what="tries"), list[str](), asyncio.Event()
    tasks = await holding(semaphore, "aaaaa" + "a" + "bb", inside, leave)
    leave.set()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    refused = [isinstance(answer, errors.ServiceUnavailable) for answer in answers]
    assert refused == [False, False, False, True, True, True, False, False]
    assert sorted(inside) == ["a"] * 3 + ["b"] * 2


async def test_who_goes_away_while_it_waits_is_no_longer_in_the_queue() -> None:
    semaphore, inside, leave = FairSemaphore(1, waiting_max=10, what="tries"), list[str](), asyncio.Event()
    holder, *waiting = await holding(semaphore, "abbc", inside, leave)
    for task in waiting[:2]:
        task.cancel()
    await asyncio.wait(waiting[:2])
    assert semaphore.waiting_count == 1
    leave.set()
    await asyncio.gather(holder, *waiting, return_exceptions=True)
    assert inside == ["a", "c"]


async def test_who_goes_away_leaves_no_place_behind() -> None:
    semaphore, inside, leave = FairSemaphore(1, waiting_max=10, what="tries"), list[str](), asyncio.Event()
    holder, *waiting = await holding(semaphore, "abc", inside, leave)
    waiting[0].cancel()
    leave.set()
    await holder
    waiting[1].cancel()  # it may just have been given the place
    await asyncio.gather(*waiting, return_exceptions=True)
    async with asyncio.timeout(60), semaphore.hold("d"):
        assert semaphore.waiting_count == 0
