"""Group commit among several holders, and when what it calls is broken."""

import asyncio
from typing import Any

import pytest

from pixconnect.domain import errors
from pixconnect.usecases.group_commit import GroupCommit
from support.service import Service, open_holder
from support.words import Word, Words, open_words, outcomes_of


async def write_meanwhile(words: Words, commit: GroupCommit[Word, str], later: list[Word]) -> list[str | BaseException]:
    """Outcomes of what waits while a first group is being written."""
    words.may_go_on.clear()
    first = asyncio.create_task(commit.submit(Word(text="first")))
    await words.first_group()
    waiting = [asyncio.create_task(commit.submit(word)) for word in later]
    await asyncio.sleep(0)
    words.may_go_on.set()
    assert await first == "first"
    return await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_group_is_filled_from_all_holders_in_turn(service: Service) -> None:
    later = [Word(text=f"hot{n}") for n in range(8)] + [Word(text="calm", holder_id=2)]
    async with open_words(service, size_max=4) as (words, commit):
        await write_meanwhile(words, commit, later)
    assert words.groups == [["first"], ["hot0", "calm", "hot1", "hot2"], ["hot3", "hot4", "hot5", "hot6"], ["hot7"]]


async def test_a_queue_that_one_holder_has_filled_takes_another_in(service: Service) -> None:
    later = [Word(text="hot") for _ in range(8)] + [Word(text="calm", holder_id=2)] * 2
    async with open_words(service, queue_length_max=6) as (words, commit):
        outcomes = await write_meanwhile(words, commit, later)
    refused = [isinstance(outcome, errors.ServiceUnavailable) for outcome in outcomes]
    # Two were too many, and two more, the newest, made room for the other holder.
    assert refused == [False] * 4 + [True] * 4 + [False] * 2


async def test_while_others_wait_a_holder_has_half_of_the_queue(service: Service) -> None:
    later = [Word(text="calm", holder_id=2)] + [Word(text="hot") for _ in range(5)]
    async with open_words(service, queue_length_max=6) as (words, commit):
        outcomes = await write_meanwhile(words, commit, later)
    assert [isinstance(outcome, errors.ServiceUnavailable) for outcome in outcomes] == [False] * 4 + [True] * 2


async def test_what_is_written_without_an_outcome_for_each_is_not_committed_and_ends_nothing(service: Service) -> None:
    await open_holder(service)
    async with open_words(service) as (words, commit):
        write = words.write

        async def forget_one(connection: object, group: list[Word]) -> list[object]:
            return (await write(connection, group))[1:]  # type: ignore[arg-type]

        commit._write = forget_one  # type: ignore[assignment]
        async with asyncio.timeout(60):
            (outcome,) = await outcomes_of(commit, [Word(text="unsaid")])
        assert isinstance(outcome, errors.InternalError)
        commit._write = write
        async with asyncio.timeout(60):
            assert await commit.submit(Word(text="after")) == "after"
        assert await words.written(service) == ["after"]


async def test_a_commit_that_nobody_could_be_told_of_is_one(service: Service) -> None:
    def fail(_connection: object) -> None:
        raise KeyError("a defect of ours")

    await open_holder(service)
    async with open_words(service) as (words, commit):
        commit._on_commit = fail
        async with asyncio.timeout(60):
            assert await commit.submit(Word()) == "good"
        assert words.groups == [["good"]]


async def test_a_defect_of_group_commit_itself_is_its_groups_alone(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    await open_holder(service)

    def fail(*_: object) -> None:
        raise KeyError("a defect of ours")

    async with open_words(service) as (_, commit):
        with monkeypatch.context() as broken:
            broken.setattr(commit, "_answer", fail)
            async with asyncio.timeout(60):
                (outcome,) = await outcomes_of(commit, [Word(text="unlucky", external_id="n1")])
        assert isinstance(outcome, errors.OutcomeUnknown)
        assert "n1" in outcome.message
        async with asyncio.timeout(60):
            assert await commit.submit(Word(text="after")) == "after"


async def test_a_defect_in_a_lane_gives_the_holder_back_to_everybody_elses_groups(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    await open_holder(service)

    def fail(group: list[Any], _refuse: object) -> None:
        for waiting in group:
            waiting.resolve(errors.ServiceUnavailable("nothing was done"))
        raise KeyError("a defect of ours")

    async with open_words(service) as (_, commit):
        lanes = commit._lanes
        with monkeypatch.context() as broken:
            broken.setattr(lanes, "_answer", fail)
            lanes.open(1)
            async with asyncio.timeout(60):
                stuck, behind = await asyncio.gather(
                    commit.submit(Word(text="stuck")),
                    commit.submit(Word(text="behind")),
                    return_exceptions=True,
                )
            assert {type(stuck), type(behind)} == {errors.ServiceUnavailable}
        async with asyncio.timeout(60):
            assert await commit.submit(Word(text="after")) == "after"
