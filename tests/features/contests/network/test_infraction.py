"""Contests and returns together: the institution never returns more of a payment than was paid."""

import asyncio
from datetime import timedelta
from typing import Literal

import pytest

from pixconnect.features.contests.rules import infraction
from pixconnect.features.sandbox import rules as commands
from pixconnect.kernel.rules.block_report import Defence, InfractionReport
from pixconnect.kernel.rules.rail import Acknowledgement, CreditReport, RejectedReport, Report
from support import sandbox as support
from support.sandbox import Sandbox, our_party, outside_transfer, position, refund_order

PAID_CENTS = 100
JUDGED_AFTER = timedelta(days=7, minutes=1)


async def pay(sandbox: Sandbox) -> str:
    paying = asyncio.create_task(sandbox.control.call(commands.PAY, outside_transfer(amount_cents=PAID_CENTS)))
    [report] = await support.next_reports(sandbox.rail)
    assert isinstance(report, CreditReport)
    await paying
    return report.end_to_end_id


async def give_back(sandbox: Sandbox, paid: str, cents: int) -> Report:
    await sandbox.rail.submit_refunds([refund_order(paid, return_id=f"D{cents:031}", amount_cents=cents)])
    [report] = await support.next_reports(sandbox.rail)
    return report


def asked_of(
    paid: str, cents: int | None = None, funds_cents: int = 10 * PAID_CENTS, judged: infraction.Judged = "by_answer"
) -> infraction.OutsideInfraction:
    return infraction.OutsideInfraction(
        end_to_end_id=paid, party=our_party(), amount_cents=cents, funds_cents=funds_cents, reason="fraud",
        situation="scam", words=None, judged=judged,
    )  # fmt: skip


async def contest(
    sandbox: Sandbox,
    paid: str,
    cents: int | None = None,
    judged: infraction.Judged = "by_answer",
    funds_cents: int = 10 * PAID_CENTS,
) -> InfractionReport:
    """Contest it, with more than enough to block, and report it to the service."""
    asked = asked_of(paid, cents, funds_cents, judged)
    return await _hear(sandbox, asyncio.create_task(sandbox.control.call(infraction.OPEN_INFRACTION, asked)))


async def decide(
    sandbox: Sandbox, name: str, cents: int | None = None, decision: Literal["take", "release", "hold"] = "take"
) -> InfractionReport:
    asked = infraction.OutsideDecision(name=name, decision=decision, amount_cents=cents)
    return await _hear(sandbox, asyncio.create_task(sandbox.control.call(infraction.DECIDE_INFRACTION, asked)))


async def _hear(sandbox: Sandbox, asking: asyncio.Task[InfractionReport]) -> InfractionReport:
    reporting = asyncio.create_task(sandbox.rail.reports(20.0))
    await asyncio.wait([asking, reporting], return_when=asyncio.FIRST_COMPLETED)
    if asking.done():
        reporting.cancel()
        return await asking
    [report] = await reporting
    await sandbox.rail.acknowledge([Acknowledgement(report_id=report.report_id)])
    return await asking


async def live(sandbox: Sandbox, count: int) -> dict[str, InfractionReport]:
    """Let the deadlines pass; returns the results of so many contests."""
    await sandbox.control.call(commands.SET_OFFSET, JUDGED_AFTER)
    reports = await support.reports_of(sandbox.rail, count)
    return {report.name: report for report in reports if isinstance(report, InfractionReport)}


async def test_of_what_was_given_back_in_part_the_rest_is_contested_and_taken(sandbox: Sandbox) -> None:
    paid = await pay(sandbox)
    await give_back(sandbox, paid, 40)
    contested = await contest(sandbox, paid)
    assert (contested.amount_cents, contested.wanted_cents, contested.held_cents) == (60, 60, 60)
    taken = (await live(sandbox, 1))[contested.name]
    assert ([part.amount_cents for part in taken.taken], taken.state) == ([60], "taken")
    assert await position(sandbox) == 0


async def test_more_than_is_left_is_not_contested(sandbox: Sandbox) -> None:
    paid = await pay(sandbox)
    await give_back(sandbox, paid, 40)
    with pytest.raises(commands.SandboxRefusal, match="amount: 60 cents"):
        await contest(sandbox, paid, 61)
    await give_back(sandbox, paid, 60)
    with pytest.raises(commands.SandboxRefusal, match="nothing is left to contest"):
        await contest(sandbox, paid)


async def test_two_contests_of_one_payment_take_it_once(sandbox: Sandbox) -> None:
    paid = await pay(sandbox)
    first, second = await contest(sandbox, paid), await contest(sandbox, paid, judged="take")
    ended = await live(sandbox, 2)
    assert [(ended[each.name].state, ended[each.name].held_cents) for each in (first, second)] == [
        ("taken", 0),
        ("released", 0),
    ]
    assert await position(sandbox) == 0


async def test_what_one_contest_has_taken_the_other_cannot_take(sandbox: Sandbox) -> None:
    paid = await pay(sandbox)
    first, second = await contest(sandbox, paid), await contest(sandbox, paid, judged="release")
    await decide(sandbox, first.name, 70)
    with pytest.raises(commands.SandboxRefusal, match="amount: 30 cents"):
        await decide(sandbox, second.name, 31)
    assert [part.amount_cents for part in (await decide(sandbox, second.name, 30)).taken] == [30]
    with pytest.raises(commands.SandboxRefusal, match="amount: 0 cents"):
        await decide(sandbox, first.name, 30)
    assert await position(sandbox) == 0


async def test_what_it_would_take_by_time_is_taken_by_hand_instead(sandbox: Sandbox) -> None:
    taken = await decide(sandbox, (await contest(sandbox, await pay(sandbox))).name)
    assert (taken.state, [part.amount_cents for part in taken.taken]) == ("taken", [PAID_CENTS])
    assert await position(sandbox) == 0


async def test_an_answer_gives_what_it_would_have_taken_to_the_other(sandbox: Sandbox) -> None:
    paid = await pay(sandbox)
    first, second = await contest(sandbox, paid), await contest(sandbox, paid, judged="release")
    answer = Defence(name=first.name, text="It was delivered")
    with pytest.raises(commands.SandboxRefusal, match="length <= 256"):
        await sandbox.control.call(infraction.DEFEND, [answer] * 257)
    await sandbox.rail.send(infraction.DEFENCES, [answer])
    await support.next_reports(sandbox.rail)
    assert [part.amount_cents for part in (await decide(sandbox, second.name, PAID_CENTS)).taken] == [PAID_CENTS]
    assert (await live(sandbox, 1))[first.name].state == "released"
    assert await position(sandbox) == 0


async def test_a_refund_under_way_leaves_only_the_rest(sandbox: Sandbox) -> None:
    paid = await pay(sandbox)
    contested = await contest(sandbox, paid, judged="release")
    await sandbox.rail.submit_refunds([refund_order(paid, return_id=f"D{1:031}", amount_cents=70)])
    with pytest.raises(commands.SandboxRefusal, match="amount: 30 cents"):
        await sandbox.control.call(
            infraction.DECIDE_INFRACTION, infraction.OutsideDecision(name=contested.name, decision="take", amount_cents=31)
        )
    await support.next_reports(sandbox.rail)
    # No more than the rest, if no amount is given.
    assert [part.amount_cents for part in (await decide(sandbox, contested.name)).taken] == [30]


async def test_a_refund_of_what_a_contest_would_take_is_rejected(sandbox: Sandbox) -> None:
    paid = await pay(sandbox)
    await contest(sandbox, paid)
    report = await give_back(sandbox, paid, 1)
    assert isinstance(report, RejectedReport)
    assert report.code == "AM09"


async def test_what_is_taken_by_hand_has_left_even_if_the_clock_was_ahead_before(sandbox: Sandbox) -> None:
    await sandbox.control.call(commands.SET_OFFSET, timedelta(days=30))
    paid = await pay(sandbox)
    contested = await contest(sandbox, paid)
    await sandbox.control.call(commands.SET_OFFSET, timedelta())
    taken = await decide(sandbox, contested.name)
    assert taken.reported_at > contested.reported_at
    assert await position(sandbox) == 0


async def test_what_was_taken_of_somebody_who_had_nothing_stays_taken_when_the_rest_is_let_go(sandbox: Sandbox) -> None:
    contested = await contest(sandbox, await pay(sandbox), funds_cents=0)
    taken = await decide(sandbox, contested.name)
    assert (taken.state, taken.taken, taken.wanted_cents) == ("taken", (), PAID_CENTS)
    let_go = await decide(sandbox, contested.name, decision="release")
    assert (let_go.state, let_go.wanted_cents) == ("taken", 0)


async def contest_at_once(sandbox: Sandbox, asked: list[infraction.OutsideInfraction]) -> list[int]:
    """All at once, reported afterwards; returns how much each holds."""
    opening = [asyncio.create_task(sandbox.control.call(infraction.OPEN_INFRACTION, each)) for each in asked]
    await support.reports_of(sandbox.rail, len(asked))
    return sorted(report.held_cents for report in await asyncio.gather(*opening))


async def test_contests_of_one_moment_hold_a_payment_once(sandbox: Sandbox) -> None:
    paid = await pay(sandbox)
    assert await contest_at_once(sandbox, [asked_of(paid)] * 4) == [0, 0, 0, PAID_CENTS]
    other = await pay(sandbox)
    assert await contest_at_once(sandbox, [asked_of(other, 60), asked_of(other, 60)]) == [40, 60]


async def test_contests_of_one_moment_hold_no_more_than_the_holder_has(sandbox: Sandbox) -> None:
    paid = [await pay(sandbox) for _ in range(3)]
    asked = [asked_of(each, funds_cents=PAID_CENTS + 50) for each in paid]
    assert await contest_at_once(sandbox, asked) == [0, 50, PAID_CENTS]


async def test_what_another_contest_of_the_payment_holds_cannot_be_held_by_hand(sandbox: Sandbox) -> None:
    paid = await pay(sandbox)
    await contest(sandbox, paid, 60)
    second = await contest(sandbox, paid, 60)
    assert (second.wanted_cents, second.held_cents) == (60, 40)
    with pytest.raises(commands.SandboxRefusal, match="amount: 0 cents"):
        await decide(sandbox, second.name, 20, decision="hold")
