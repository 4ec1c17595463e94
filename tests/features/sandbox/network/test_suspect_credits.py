"""Payments that the sandbox holds as suspect: released or returned by hand, by rule or by time, and counted all the while."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from pixconnect.features.sandbox.rules import (
    JUDGE_CREDIT,
    PAY,
    READ_DUE,
    REPLACE_FAULTS,
    SET_OFFSET,
    Arrival,
    FaultMatch,
    FaultRule,
    OutsideVerdict,
    SandboxRefusal,
    Verdict,
)
from pixconnect.kernel.rules.rail import Acknowledgement, CreditCancelled, CreditHeld, CreditReport, Report
from support import sandbox as support
from support.postgres import Addresses
from support.sandbox import Sandbox, outside_transfer, position

HELD_FOR = timedelta(hours=72)
EVER = (datetime(2026, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))


async def pay(sandbox: Sandbox, suspect: Verdict | None = "release", code: str | None = None) -> tuple[Report, Arrival]:
    """A payment from outside with the service's answer; returns the report and the payer's result."""
    paying = asyncio.create_task(sandbox.control.call(PAY, outside_transfer(suspect=suspect)))
    [report] = await sandbox.rail.reports(20.0)
    await sandbox.rail.acknowledge([Acknowledgement(report_id=report.report_id, refusal_code=code)])
    return report, await paying


async def judge(sandbox: Sandbox, name: str, verdict: Verdict) -> tuple[Report, Arrival]:
    asked = OutsideVerdict(end_to_end_id=name, verdict=verdict)
    judging = asyncio.create_task(sandbox.control.call(JUDGE_CREDIT, asked))
    [report] = await sandbox.rail.reports(20.0)
    await sandbox.rail.acknowledge([Acknowledgement(report_id=report.report_id)])
    return report, await judging


async def items(sandbox: Sandbox) -> list[tuple[str, str, int]]:
    pages = [page async for page in sandbox.rail.statement(*EVER)]
    return [(item.kind, item.id[32:], item.amount_cents) for page in pages for item in page]


async def test_it_is_told_as_held_and_is_money_that_the_institution_has(sandbox: Sandbox) -> None:
    report, arrival = await pay(sandbox)
    assert isinstance(report, CreditHeld)
    assert report.until - report.reported_at == HELD_FOR
    assert (arrival.status, arrival.id) == ("PROCESSING", report.end_to_end_id)
    assert (await position(sandbox), await items(sandbox)) == (100, [("held", "/held", 100)])


@pytest.mark.parametrize("verdict", ["release", "return"])
async def test_its_time_decides_as_was_said(sandbox: Sandbox, verdict: Verdict) -> None:
    held, _ = await pay(sandbox, verdict)
    assert isinstance(held, CreditHeld)
    due_at = (await sandbox.control.call(READ_DUE, None)).next_due_at
    assert due_at is not None
    assert due_at >= held.until
    await sandbox.control.call(SET_OFFSET, HELD_FOR + timedelta(minutes=1))
    [end] = await support.next_reports(sandbox.rail)
    await _check_end(sandbox, held, end, verdict)


@pytest.mark.parametrize("planned", ["release", "return"])
@pytest.mark.parametrize("verdict", ["release", "return"])
async def test_by_hand_it_is_decided_at_once_and_once(sandbox: Sandbox, planned: Verdict, verdict: Verdict) -> None:
    held, _ = await pay(sandbox, planned)
    assert isinstance(held, CreditHeld)
    end, arrival = await judge(sandbox, held.end_to_end_id, verdict)
    assert (arrival.status, arrival.code) == (("CONFIRMED", None) if verdict == "release" else ("ERROR", "FRAD"))
    await _check_end(sandbox, held, end, verdict)
    with pytest.raises(SandboxRefusal, match="no payment of this name is held"):
        await sandbox.control.call(JUDGE_CREDIT, OutsideVerdict(end_to_end_id=held.end_to_end_id, verdict=planned))
    await sandbox.control.call(SET_OFFSET, HELD_FOR + timedelta(minutes=1))
    assert await sandbox.rail.reports(0.0) == []


async def _check_end(sandbox: Sandbox, held: CreditHeld, end: Report, verdict: Verdict) -> None:
    assert isinstance(end, CreditReport)
    assert type(end) is (CreditReport if verdict == "release" else CreditCancelled)
    assert (end.end_to_end_id, end.amount_cents, end.txid) == (held.end_to_end_id, held.amount_cents, held.txid)
    credited = [("credit", "", 100)] if verdict == "release" else []
    assert sorted(await items(sandbox)) == sorted([("held", "/held", 100), ("hold_ended", "/hold_ended", 100), *credited])
    assert await position(sandbox) == (100 if verdict == "release" else 0)


async def test_a_rule_holds_what_it_matches(sandbox: Sandbox) -> None:
    rule = FaultRule(effect="suspect:return:30", match=FaultMatch(operation="payment"), times=1)
    await sandbox.control.call(REPLACE_FAULTS, [rule])
    held, _ = await pay(sandbox, None)
    assert isinstance(held, CreditHeld)
    [end] = await support.next_reports(sandbox.rail)
    assert isinstance(end, CreditCancelled)
    plain, arrival = await pay(sandbox, None)
    assert (type(plain), arrival.status) == (CreditReport, "CONFIRMED")
    with pytest.raises(SandboxRefusal, match="suspect is of payment alone"):
        await sandbox.control.call(REPLACE_FAULTS, [FaultRule(effect="suspect:return", match=FaultMatch(operation="submit"))])


async def test_one_that_the_service_refuses_is_not_held(sandbox: Sandbox) -> None:
    held, arrival = await pay(sandbox, code="BE17")
    assert isinstance(held, CreditHeld)
    assert (arrival.status, arrival.code) == ("ERROR", "BE17")
    assert (await position(sandbox), await items(sandbox)) == (0, [])
    with pytest.raises(SandboxRefusal, match="no payment of this name is held"):
        await sandbox.control.call(JUDGE_CREDIT, OutsideVerdict(end_to_end_id=held.end_to_end_id, verdict="release"))


async def test_what_is_held_outlives_the_process_and_decisions_stay(database: Addresses) -> None:
    async with support.running(database.service_url) as sandbox:
        held, _ = await pay(sandbox, "return")
        assert isinstance(held, CreditHeld)
    async with support.running(database.service_url) as sandbox:
        await sandbox.control.call(SET_OFFSET, timedelta(hours=1))
        asked = OutsideVerdict(end_to_end_id=held.end_to_end_id, verdict="release")
        judging = asyncio.create_task(sandbox.control.call(JUDGE_CREDIT, asked))
        [first] = await sandbox.rail.reports(20.0)
        await sandbox.control.call(SET_OFFSET, timedelta(0))
        [end] = await support.next_reports(sandbox.rail)
        assert type(first) is type(end) is CreditReport
        assert (await judging).status == "CONFIRMED"
        assert await position(sandbox) == 100
