"""Movements by the simulated institution: by hand, as a fee of each Pix, and backdated."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from pixconnect.features.sandbox import rules as commands
from pixconnect.features.sandbox.network.answers import FEE_TEXT, fee_id
from pixconnect.kernel.rules import rail as rails
from support import sandbox as support
from support.postgres import Addresses
from support.sandbox import Sandbox, SandboxProcess, our_party, outside_transfer, position


async def acknowledge(sandbox: Sandbox, reports: Sequence[rails.Report], code: str | None = None) -> None:
    await sandbox.rail.acknowledge([rails.Acknowledgement(report_id=one.report_id, refusal_code=code) for one in reports])


async def next_report(sandbox: Sandbox) -> rails.Report:
    [report] = await sandbox.rail.reports(20.0)
    return report


async def pay(sandbox: Sandbox, code: str | None = None) -> tuple[rails.CreditReport, commands.Arrival]:
    paying = asyncio.create_task(sandbox.control.call(commands.PAY, outside_transfer()))
    report = await next_report(sandbox)
    assert isinstance(report, rails.CreditReport)
    await acknowledge(sandbox, [report], code)
    return report, await paying


@pytest.mark.parametrize(("direction", "change_cents"), [("IN", 300), ("OUT", -300)])
async def test_a_move_is_reported_until_acknowledged(sandbox: Sandbox, direction: str, change_cents: int) -> None:
    asked = commands.OutsideMovement(party=our_party(), kind="wire", direction=direction, amount_cents=300, description="TED")  # pyright: ignore[reportArgumentType]
    moving = asyncio.create_task(sandbox.control.call(commands.MOVE, asked))
    report = await next_report(sandbox)
    assert isinstance(report, rails.MovementReport)
    assert (report.kind, report.direction, report.amount_cents, report.description) == ("wire", direction, 300, "TED")
    assert await position(sandbox) == 0
    await acknowledge(sandbox, [report])
    moved = await moving
    assert (moved.id, moved.status) == (report.item_id, "CONFIRMED")
    now = await sandbox.rail.position()
    assert now.amount_cents == change_cents
    [[item]] = [list(page) async for page in sandbox.rail.statement(now.as_of - timedelta(hours=1), now.as_of)]
    assert (item.id, item.kind, item.amount_cents) == (moved.id, f"movement_{direction.lower()}", 300)


async def test_what_the_service_refuses_is_not_moved(sandbox: Sandbox) -> None:
    asked = commands.OutsideMovement(party=our_party(), kind="by_hand", direction="OUT", amount_cents=300)
    moving = asyncio.create_task(sandbox.control.call(commands.MOVE, asked))
    await acknowledge(sandbox, [await next_report(sandbox)], "AM04")
    moved = await moving
    assert (moved.status, moved.code, await position(sandbox)) == ("ERROR", "AM04", 0)


async def test_a_fee_follows_the_payment_that_settled_and_none_the_one_that_did_not(sandbox: Sandbox) -> None:
    await sandbox.control.call(commands.REPLACE_FAULTS, [commands.FaultRule(effect="fee:7")])
    _, refused = await pay(sandbox, "BE17")
    assert refused.status == "ERROR"
    assert await sandbox.rail.reports(0.0) == []
    paid, _ = await pay(sandbox)
    fee = await next_report(sandbox)
    assert isinstance(fee, rails.MovementReport)
    assert (fee.item_id, fee.end_to_end_id) == (fee_id(paid.end_to_end_id), paid.end_to_end_id)
    assert (fee.kind, fee.direction, fee.amount_cents, fee.description) == ("fee", "OUT", 7, FEE_TEXT)
    assert fee.party == paid.credit_party
    assert await position(sandbox) == 100
    await acknowledge(sandbox, [fee])
    assert await position(sandbox) == 100 - 7


async def test_a_fee_follows_the_transfer_that_settles_and_none_the_one_that_does_not(sandbox: Sandbox) -> None:
    await sandbox.control.call(commands.REPLACE_FAULTS, [commands.FaultRule(effect="fee:7")])
    sent = support.order()
    await sandbox.rail.submit([sent, sent])
    await sandbox.rail.submit([sent])
    reports = await support.reports_of(sandbox.rail, 2)
    assert {type(one) for one in reports} == {rails.SettledReport, rails.MovementReport}
    assert await sandbox.rail.reports(0.1) == []
    assert await position(sandbox) == -107
    await sandbox.control.call(
        commands.REPLACE_FAULTS, [commands.FaultRule(effect="fee:7", match=commands.FaultMatch(operation="payment"))]
    )
    await sandbox.rail.submit([support.order()])
    assert [type(one) for one in await support.reports_of(sandbox.rail, 1)] == [rails.SettledReport]


@pytest.mark.long
async def test_killed_between_a_payment_and_its_fee_the_institution_takes_it_once(database: Addresses) -> None:
    with SandboxProcess(database.service_url) as process:
        await process.start()
        async with support.connected(process.url) as (rail, control):
            await control.call(commands.REPLACE_FAULTS, [commands.FaultRule(effect="fee:7", times=2)])
            paying = asyncio.create_task(control.call(commands.PAY, outside_transfer()))
            [paid] = await rail.reports(20.0)
            process.kill()
            await asyncio.gather(paying, return_exceptions=True)
        await process.start()
        async with support.connected(process.url) as (rail, control):
            # It is reported again, and the fee only once that is acknowledged.
            assert [one.report_id for one in await rail.reports(20.0)] == [paid.report_id]
            await rail.acknowledge([rails.Acknowledgement(report_id=paid.report_id)])
            [fee] = await rail.reports(20.0)
            assert fee.report_id == fee_id(paid.report_id)
            process.kill()
        await process.start()
        async with support.connected(process.url) as (rail, control):
            assert [one.report_id for one in await support.reports_of(rail, 1)] == [fee.report_id]
            assert await rail.reports(0.1) == []
            assert (await rail.position()).amount_cents == 93


async def test_a_pix_dated_back_says_both_instants(sandbox: Sandbox) -> None:
    await sandbox.control.call(commands.REPLACE_FAULTS, [commands.FaultRule(effect="dated_back:7200")])
    paid, _ = await pay(sandbox)
    assert paid.settled_at is not None
    assert timedelta(0) <= paid.reported_at - paid.settled_at - timedelta(hours=2) < timedelta(minutes=1)
    sent = support.order()
    await sandbox.rail.submit([sent])
    await support.reports_of(sandbox.rail, 1)
    asked = commands.OutsideReturn(end_to_end_id=sent.end_to_end_id, amount_cents=None, reason="MD06")
    returning = asyncio.create_task(sandbox.control.call(commands.GIVE_BACK, asked))
    report = await next_report(sandbox)
    assert isinstance(report, rails.ReturnReport)
    assert report.settled_at is not None
    await acknowledge(sandbox, [report])
    await returning


async def test_a_fee_that_waits_survives_a_clock_moved_either_way(sandbox: Sandbox) -> None:
    await sandbox.control.call(commands.REPLACE_FAULTS, [commands.FaultRule(effect="fee:7")])
    await sandbox.control.call(commands.SET_OFFSET, timedelta(hours=1))
    paying = asyncio.create_task(sandbox.control.call(commands.PAY, outside_transfer()))
    paid = await next_report(sandbox)
    await sandbox.control.call(commands.SET_OFFSET, timedelta(0))
    await acknowledge(sandbox, [paid])
    reports = await support.reports_of(sandbox.rail, 1)
    assert fee_id(paid.report_id) in {one.report_id for one in reports}
    await asyncio.gather(paying, return_exceptions=True)


@pytest.mark.parametrize(("effect", "operation"), [("fee:7", "refund"), ("dated_back:60", "submit"), ("fee:7", "query")])
async def test_an_effect_that_is_nothing_there_is_refused(sandbox: Sandbox, effect: str, operation: str) -> None:
    with pytest.raises(commands.SandboxRefusal, match=r"rules\[0\]\.effect"):
        await sandbox.control.call(
            commands.REPLACE_FAULTS, [commands.FaultRule(effect=effect, match=commands.FaultMatch(operation=operation))]
        )  # pyright: ignore[reportArgumentType]
