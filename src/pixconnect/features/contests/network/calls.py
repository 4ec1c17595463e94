"""Contests by payers, the institution's decisions by hand, and holders' answers, one at a time."""

from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack
from typing import Final

from pixconnect.features.contests.network import infraction
from pixconnect.features.contests.rules.infraction import (
    DECIDE_INFRACTION,
    DEFEND,
    OPEN_INFRACTION,
    OutsideDecision,
    OutsideInfraction,
)
from pixconnect.features.sandbox.network import registry
from pixconnect.features.sandbox.network.outside import Outside, find_end, make_network_id
from pixconnect.features.sandbox.rules import CallRow, SandboxRefusal
from pixconnect.kernel.rules.block_report import Defence, DefenceAnswer, InfractionReport


async def contest_credit(outside: Outside, asked: OutsideInfraction) -> InfractionReport:
    now = outside.clock.now()
    number = next(outside.network.arrival_numbers)
    name, return_id = make_network_id(outside, "I", number), _name_return(outside, number, 1)
    async with AsyncExitStack() as expecting:
        async with outside.network.giving_back:
            paid = await infraction.find_paid(outside.pool, asked.end_to_end_id, now)
            if paid is None:
                raise SandboxRefusal("unknown", "end_to_end_id: the network has settled no such payment")
            left_cents = await infraction.find_left(outside.pool, asked.end_to_end_id, None)
            others = await infraction.list_unfinished(outside.pool)
            free_cents = min(
                infraction.find_free_funds(asked, others), infraction.find_free_of(asked.end_to_end_id, paid, others, now)
            )
            contest = infraction.open_contest(asked, paid, left_cents, free_cents, number, name, return_id, now)
            acknowledgement = await _store_and_report(outside, expecting, contest, None)
        await find_end(acknowledgement)
    return contest.report


async def judge_contest(outside: Outside, asked: OutsideDecision) -> InfractionReport:
    """Decide by hand, in place of the rule or the deadline."""
    async with outside.deciding, AsyncExitStack() as expecting:
        async with outside.network.giving_back:
            before = await _find(outside, asked.name)
            if before is None:
                raise SandboxRefusal("unknown", "id: there is no such infraction")
            return_id, next_id = (_name_return(outside, before.number, before.sequence + ahead) for ahead in (1, 2))
            left_cents = await infraction.find_left(outside.pool, before.report.end_to_end_id, before)
            now, name = outside.clock.now(), before.report.end_to_end_id
            paid = await infraction.find_paid(outside.pool, name, now)
            contests = await infraction.list_unfinished(outside.pool)
            # How much more of its payment may be blocked.
            free_cents = 0 if paid is None else infraction.find_free_of(name, paid, contests, now)
            contest = infraction.decide(before, asked, left_cents, free_cents, return_id, next_id, outside.clock.now())
            acknowledgement = await _store_and_report(outside, expecting, contest, before)
        await find_end(acknowledgement)
    return contest.report


async def receive_defences(outside: Outside, defences: Sequence[Defence]) -> list[DefenceAnswer]:
    answers: list[DefenceAnswer] = []
    for defence in defences:
        async with outside.deciding, outside.network.giving_back:
            before = await _find(outside, defence.name)
            next_id, left_cents = "", 0
            if before is not None:
                next_id = _name_return(outside, before.number, before.sequence + 2)
                left_cents = await infraction.find_left(outside.pool, before.report.end_to_end_id, before)
            contest, answer = infraction.receive_answer(before, defence, left_cents, next_id, outside.clock.now())
            if contest is not None:
                await _put(outside, contest, before)
            answers.append(answer)
    return answers


async def _store_and_report(
    outside: Outside, expecting: AsyncExitStack, contest: infraction.Contest, before: infraction.Contest | None
) -> Awaitable[str | None]:
    """Store it; returns the awaitable of the report's acknowledgement."""
    named = f"{contest.name}/{contest.sequence}"
    acknowledgement = expecting.enter_context(outside.network.expecting_acknowledgement(named))
    await _put(outside, contest, before)
    return acknowledgement


async def _put(outside: Outside, contest: infraction.Contest, before: infraction.Contest | None) -> None:
    await outside.network.change(lambda connection, now: infraction.save(connection, contest, before, now))


async def _find(outside: Outside, name: str) -> infraction.Contest | None:
    """Find a contest in its present state, including decisions by time."""
    row = await outside.pool.fetchrow(infraction.FIND, [name])
    return None if row is None else infraction.catch_up(infraction.read(row), outside.clock.now())


def _name_return(outside: Outside, number: int, sequence: int) -> str:
    """Name a contest's return, independently of other numbers after a restart."""
    return f"D{registry.ISPB}{outside.clock.now():%Y%m%d%H%M}{outside.chance.text(11, 'taken', number, sequence)}"


CALLS: Final = (
    CallRow(call=OPEN_INFRACTION, do=contest_credit),
    CallRow(call=DECIDE_INFRACTION, do=judge_contest),
    CallRow(call=DEFEND, do=receive_defences),
)
