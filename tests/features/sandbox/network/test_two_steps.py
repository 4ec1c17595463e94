"""Payments of our holders in two steps: accepted, then settled or cancelled; by the sandbox's setting, or by a rule."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import asyncpg
import pytest

from pixconnect.features.sandbox import rules as commands
from pixconnect.kernel.rules.rail import Acknowledgement, CreditAccepted, CreditReport, Report
from support import sandbox as support
from support.postgres import Addresses
from support.sandbox import Sandbox, outside_transfer

A_DAY_MS = 86_400_000
PAYMENT = commands.FaultMatch(operation="payment")


async def follow(sandbox: Sandbox, codes: Sequence[str | None]) -> tuple[list[Report], commands.Arrival]:
    """A payment from outside with the given answers; returns the reports and the payer's result."""
    paying = asyncio.create_task(sandbox.control.call(commands.PAY, outside_transfer()))
    seen: list[Report] = []
    for code in codes:
        [report] = await sandbox.rail.reports(20.0)
        await sandbox.rail.acknowledge([Acknowledgement(report_id=report.report_id, refusal_code=code)])
        seen.append(report)
    arrival = await paying
    assert await sandbox.rail.reports(0.0) == []
    return seen, arrival


async def test_what_is_refused_when_it_is_accepted_never_settles(sandbox: Sandbox) -> None:
    await sandbox.control.call(commands.REPLACE_FAULTS, [commands.FaultRule(effect="two_steps:1", match=PAYMENT)])
    (accepted,), arrival = await follow(sandbox, ["BE17"])
    assert isinstance(accepted, CreditAccepted)
    assert (arrival.status, arrival.code) == ("ERROR", "BE17")
    assert (await sandbox.control.call(commands.READ_DUE, None)).next_due_at is None


async def test_a_code_that_the_scheme_does_not_have_cancels_nothing(sandbox: Sandbox) -> None:
    for effect in ("cancel:XX99", "cancel:XX99:5"):
        with pytest.raises(commands.SandboxRefusal, match="XX99"):
            await sandbox.control.call(commands.REPLACE_FAULTS, [commands.FaultRule(effect=effect)])


async def test_where_all_payments_take_two_steps_the_end_comes_first_out_of_order(database: Addresses) -> None:
    async with support.running(database.service_url, two_steps_ms=1) as sandbox:
        (first, last), arrival = await follow(sandbox, [None, None])
        assert isinstance(first, CreditAccepted)
        assert type(last) is CreditReport
        assert arrival.status == "CONFIRMED"
        await sandbox.control.call(commands.REPLACE_FAULTS, [commands.FaultRule(effect="out_of_order", match=PAYMENT, times=1)])
        (first, last), arrival = await follow(sandbox, [None, None])
        assert type(first) is CreditReport
        assert isinstance(last, CreditAccepted)
        assert arrival.status == "CONFIRMED"


async def test_the_acknowledgement_of_the_first_step_does_not_close_the_second(sandbox: Sandbox) -> None:
    await sandbox.control.call(commands.REPLACE_FAULTS, [commands.FaultRule(effect="two_steps:1", match=PAYMENT)])
    paying = asyncio.create_task(sandbox.control.call(commands.PAY, outside_transfer()))
    [first] = await sandbox.rail.reports(20.0)
    said = Acknowledgement(report_id=first.report_id)
    await asyncio.gather(*(sandbox.rail.acknowledge([said]) for _ in range(5)))
    [second] = await sandbox.rail.reports(20.0)
    await sandbox.rail.acknowledge([said])
    assert (await sandbox.control.call(commands.READ_DUE, None)).reports_count == 1
    await sandbox.rail.acknowledge([Acknowledgement(report_id=second.report_id)])
    assert (await paying).status == "CONFIRMED"


async def test_the_second_step_is_due_by_the_sandbox_clock_and_outlives_the_process(database: Addresses) -> None:
    async with support.running(database.service_url) as sandbox:
        await sandbox.control.call(commands.REPLACE_FAULTS, [commands.FaultRule(effect=f"two_steps:{A_DAY_MS}", match=PAYMENT)])
        # The payer does not wait for a day.
        assert (await sandbox.control.call(commands.PAY, outside_transfer())).status == "PROCESSING"
    async with support.running(database.service_url) as sandbox:
        [accepted] = await support.next_reports(sandbox.rail)
        assert isinstance(accepted, CreditAccepted)
    async with support.running(database.service_url) as sandbox:
        due_at = (await sandbox.control.call(commands.READ_DUE, None)).next_due_at
        assert due_at is not None
        assert due_at >= accepted.reported_at + timedelta(days=1)
        await sandbox.control.call(commands.SET_OFFSET, timedelta(days=1, minutes=5))
        [settled] = await support.next_reports(sandbox.rail)
        assert type(settled) is CreditReport
        assert settled.reported_at == due_at
    assert await _codes(database) == [(None, False)]


async def _codes(database: Addresses) -> list[tuple[str | None, bool]]:
    connection = await asyncpg.connect(database.owner_url)
    try:
        return [tuple(row) for row in await connection.fetch("select code, is_open from sandbox.arrival")]
    finally:
        await connection.close()
