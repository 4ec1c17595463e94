"""A Pix between two holders of one installation: it leaves one database and arrives in the other once, or neither."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from pixconnect.domain.money.rail import (
    Acknowledgement,
    AlreadyKnown,
    CreditReport,
    MovementReport,
    NeverTaken,
    Order,
    Rejected,
    RejectedReport,
    Report,
    ReturnReport,
    Settled,
    SettledReport,
    Taken,
)
from pixconnect.domain.simulation.sandbox_control import (
    GIVE_BACK,
    MAKE_QR_CODE,
    OPEN_INFRACTION,
    REPLACE_FAULTS,
    SET_OFFSET,
    FaultMatch,
    FaultRule,
    NewQrCode,
    OutsideInfraction,
    OutsideReturn,
    SandboxRefusal,
)
from pixconnect.sandbox import cell_transfer
from support import sandbox as support
from support.postgres import Addresses
from support.sandbox import Sandbox, SandboxProcess, our_party


@pytest.fixture
async def sandbox(database: Addresses) -> AsyncIterator[Sandbox]:
    async with support.running(database.service_url) as running:
        yield running


@pytest.fixture
def process(database: Addresses) -> Iterator[SandboxProcess]:
    with SandboxProcess(database.service_url) as process:
        yield process


def make_order(**changes: Any) -> Order:
    return support.order(credit_party=our_party(), payer_message="lunch", **changes)


async def take(sandbox: Sandbox) -> Report:
    """The only report that waits."""
    [report] = await sandbox.rail.reports(20.0)
    return report


async def acknowledge(sandbox: Sandbox, report: Report, code: str | None = None) -> None:
    await sandbox.rail.acknowledge([Acknowledgement(report_id=report.report_id, refusal_code=code)])


async def ask(sandbox: Sandbox, name: str) -> object:
    [answer] = await sandbox.rail.query([name])
    return answer


async def list_settled(sandbox: Sandbox) -> list[tuple[str, str, int]]:
    """All of the statement; the position must be its sum, and nothing is left of a Pix that has left and arrived."""
    now = await sandbox.rail.position()
    assert now.amount_cents == 0
    since = now.as_of - timedelta(days=1)
    pages = [list(page) async for page in sandbox.rail.statement(since, now.as_of + timedelta(seconds=1))]
    return [(item.kind, item.id, item.amount_cents) for page in pages for item in page]


async def cross(sandbox: Sandbox, order: Order) -> CreditReport:
    """Let an order settle; answers what its payee was told."""
    await sandbox.rail.submit([order])
    credit = await take(sandbox)
    assert isinstance(credit, CreditReport)
    await acknowledge(sandbox, credit)
    settled = await take(sandbox)
    assert isinstance(settled, SettledReport)
    assert settled.id == order.end_to_end_id
    await acknowledge(sandbox, settled)
    return credit


async def test_the_payee_is_told_first_and_the_payer_of_what_that_has_said(sandbox: Sandbox) -> None:
    order = make_order(txid="table12")
    assert await sandbox.rail.submit([order]) == [Taken()]
    credit = await take(sandbox)
    assert isinstance(credit, CreditReport)
    assert (credit.end_to_end_id, credit.amount_cents) == (order.end_to_end_id, order.amount_cents)
    assert (credit.debit_party, credit.credit_party) == (order.debit_party, order.credit_party)
    assert (credit.txid, credit.payer_message) == ("table12", "lunch")
    assert await ask(sandbox, order.end_to_end_id) == Taken()
    assert await list_settled(sandbox) == []
    await acknowledge(sandbox, credit)
    settled = await take(sandbox)
    assert isinstance(settled, SettledReport)
    assert await ask(sandbox, order.end_to_end_id) == Settled(settled_at=settled.settled_at)
    # One that comes late is of the first report and says nothing of the second.
    await acknowledge(sandbox, credit)
    assert len(await list_settled(sandbox)) == 2
    await acknowledge(sandbox, settled)
    assert await sandbox.rail.reports(0.1) == []
    assert sorted(await list_settled(sandbox)) == [
        ("credit", order.end_to_end_id, 100),
        ("order", order.end_to_end_id, 100),
    ]


def test_all_that_an_order_says_and_a_credit_can_say_is_told_to_the_payee() -> None:
    """A transfer by book keeps it, so this one may not lose what is added to both."""
    now = datetime.now(UTC)
    order = make_order(txid="table12", payer_key="a@b.example", ordered_at=now)
    credit = cell_transfer.make_credit(order, now)
    assert credit is not None
    both = set(order.__struct_fields__) & set(credit.__struct_fields__)
    assert {name for name in both if getattr(order, name) != getattr(credit, name)} == set()
    assert {name for name in both if getattr(order, name) is None} == set()


async def test_what_the_payee_refuses_is_rejected_and_moves_nothing(sandbox: Sandbox) -> None:
    order = make_order()
    await sandbox.rail.submit([order])
    await acknowledge(sandbox, await take(sandbox), "AC06")
    rejected = await take(sandbox)
    assert isinstance(rejected, RejectedReport)
    assert (rejected.id, rejected.code) == (order.end_to_end_id, "AC06")
    answer = await ask(sandbox, order.end_to_end_id)
    assert isinstance(answer, Rejected)
    assert answer.code == "AC06"
    assert await list_settled(sandbox) == []


async def test_an_order_that_comes_again_brings_nothing_again(sandbox: Sandbox) -> None:
    order = make_order()
    await sandbox.rail.submit([order, order])
    await sandbox.rail.submit([order])
    await acknowledge(sandbox, await take(sandbox))
    await sandbox.rail.submit([order])
    await acknowledge(sandbox, await take(sandbox))
    assert await sandbox.rail.reports(0.1) == []
    assert len(await list_settled(sandbox)) == 2


async def test_an_order_that_can_come_no_more_brings_nothing(sandbox: Sandbox) -> None:
    old = datetime.now(UTC) - timedelta(days=2)
    order = make_order(ordered_at=old)
    assert await ask(sandbox, order.end_to_end_id) == NeverTaken()
    assert await sandbox.rail.submit([order]) == [AlreadyKnown()]
    assert await sandbox.rail.reports(0.1) == []
    assert await list_settled(sandbox) == []


async def test_a_merchants_code_outside_is_not_paid_by_it(sandbox: Sandbox) -> None:
    """A holder's charge may have the txid of a merchant's, and asks for another amount."""
    txid = "m" * 32
    await sandbox.control.call(MAKE_QR_CODE, NewQrCode(kind="dynamic", amount_cents=300, txid=txid))
    await cross(sandbox, make_order(txid=txid))
    paying = support.order(txid=txid, amount_cents=300)
    assert await sandbox.rail.submit([paying]) == [Taken()]
    assert isinstance(await take(sandbox), SettledReport)


async def test_after_an_end_whose_commit_was_not_seen_the_payer_is_told_all_the_same(
    sandbox: Sandbox, database: Addresses
) -> None:
    order = make_order()
    await sandbox.rail.submit([order])
    credit = await take(sandbox)
    assert sandbox.application is not None
    # As its own statements leave it, whose connection broke before it heard of their COMMIT.
    connection = await asyncpg.connect(database.owner_url, server_settings={"search_path": "sandbox"})
    await connection.execute("update arrival set is_open = false, is_due = true, settled_at = now()")
    await connection.execute("update settlement set due_at = now(), is_due = true")
    await connection.close()
    sandbox.application._world.network._is_stale = True
    await acknowledge(sandbox, credit)
    assert isinstance(await take(sandbox), SettledReport)
    assert len(await list_settled(sandbox)) == 2


async def test_refunds_go_back_as_returns_until_all_is_given_back(sandbox: Sandbox) -> None:
    order = make_order()
    await cross(sandbox, order)
    for cents, code in ((60, None), (50, "AM09"), (40, None)):
        refund = support.refund_order(order.end_to_end_id, amount_cents=cents, description="cold")
        await sandbox.rail.submit_refunds([refund])
        if code is None:
            returned = await take(sandbox)
            assert isinstance(returned, ReturnReport)
            assert (returned.return_id, returned.original_end_to_end_id) == (refund.return_id, order.end_to_end_id)
            assert (returned.amount_cents, returned.reason, returned.description) == (cents, "MD06", "cold")
            assert await ask(sandbox, refund.return_id) == Taken()
            await acknowledge(sandbox, returned)
        ended = await take(sandbox)
        assert isinstance(ended, SettledReport if code is None else RejectedReport)
        assert ended.id == refund.return_id
        await acknowledge(sandbox, ended)
    assert [kind for kind, *_ in sorted(await list_settled(sandbox))] == [
        "credit",
        "order",
        "refund",
        "refund",
        "return",
        "return",
    ]


async def test_a_refund_that_the_payers_cell_refuses_may_be_tried_again(sandbox: Sandbox) -> None:
    order = make_order()
    await cross(sandbox, order)
    for code in ("AM09", None):
        await sandbox.rail.submit_refunds([support.refund_order(order.end_to_end_id)])
        await acknowledge(sandbox, await take(sandbox), code)
        ended = await take(sandbox)
        assert isinstance(ended, SettledReport if code is None else RejectedReport)
        await acknowledge(sandbox, ended)
    assert len(await list_settled(sandbox)) == 4


async def test_nobody_outside_returns_or_contests_it(sandbox: Sandbox) -> None:
    order = make_order()
    await cross(sandbox, order)
    with pytest.raises(SandboxRefusal, match="holder of this installation"):
        await sandbox.control.call(
            GIVE_BACK, OutsideReturn(end_to_end_id=order.end_to_end_id, amount_cents=None, reason="MD06")
        )
    contested = OutsideInfraction(
        end_to_end_id=order.end_to_end_id,
        party=our_party(),
        amount_cents=None,
        funds_cents=100,
        reason="fraud",
        situation="scam",
        words=None,
        judged="never",
    )
    with pytest.raises(SandboxRefusal, match="no such payment"):
        await sandbox.control.call(OPEN_INFRACTION, contested)


@pytest.mark.parametrize("effect", ["reject:AB03", "delay:300", "no_answer", "duplicate_answer", "out_of_order"])
async def test_rules_for_orders_hold_for_it_too(sandbox: Sandbox, effect: str) -> None:
    await sandbox.control.call(
        REPLACE_FAULTS, [FaultRule(effect=effect, match=FaultMatch(operation="submit"), times=1)]
    )
    order = make_order()
    await sandbox.rail.submit([order])
    if effect.startswith("reject"):
        assert isinstance(await take(sandbox), RejectedReport)
        assert await list_settled(sandbox) == []
        return
    await acknowledge(sandbox, await take(sandbox))
    answer = await ask(sandbox, order.end_to_end_id)
    assert isinstance(answer, Settled)
    # One that is never reported is asked about.
    told = [] if effect == "no_answer" else [SettledReport]
    assert [type(one) for one in await sandbox.rail.reports(0.2)] == told
    assert len(await list_settled(sandbox)) == 2


async def test_a_fee_waits_for_its_end(sandbox: Sandbox) -> None:
    await sandbox.control.call(REPLACE_FAULTS, [FaultRule(effect="fee:7")])
    for code in ("AC06", None):
        await sandbox.rail.submit([make_order()])
        credit = await take(sandbox)
        assert isinstance(credit, CreditReport)
        await acknowledge(sandbox, credit, code)
        ended = await support.reports_of(sandbox.rail, 1 if code else 2)
        assert (
            MovementReport not in {type(one) for one in ended} if code else MovementReport in {type(o) for o in ended}
        )
    assert (await sandbox.rail.position()).amount_cents == -7


async def test_a_clock_that_goes_back_and_forth_ends_nothing(sandbox: Sandbox) -> None:
    order = make_order()
    await sandbox.rail.submit([order])
    credit = await take(sandbox)
    for offset in (timedelta(days=40), timedelta(0), timedelta(days=1)):
        await sandbox.control.call(SET_OFFSET, offset)
        assert await ask(sandbox, order.end_to_end_id) == Taken()
    await acknowledge(sandbox, credit)
    assert isinstance(await take(sandbox), SettledReport)
    await sandbox.control.call(SET_OFFSET, timedelta(0))
    assert isinstance(await ask(sandbox, order.end_to_end_id), Settled)


async def test_killed_after_each_step_it_goes_on(process: SandboxProcess) -> None:
    order, refused = make_order(), make_order()
    for step in range(4):
        await process.start()
        async with support.connected(process.url) as (rail, control):
            sandbox = Sandbox(url=process.url, rail=rail, control=control)
            if step == 0:
                await rail.submit([order, refused])
            elif step == 1:
                credits_told = await rail.reports(20.0)
                assert {type(one) for one in credits_told} == {CreditReport}
                for credit in credits_told:
                    await acknowledge(sandbox, credit, "AC06" if credit.report_id == refused.end_to_end_id else None)
            elif step == 2:
                ended = await rail.reports(20.0)
                assert {one.report_id for one in ended} == {f"{o.end_to_end_id}/end" for o in (order, refused)}
                assert isinstance(await ask(sandbox, order.end_to_end_id), Settled)
                assert isinstance(await ask(sandbox, refused.end_to_end_id), Rejected)
                await rail.acknowledge([Acknowledgement(report_id=one.report_id) for one in ended])
                await asyncio.sleep(0.5)  # nothing waits for the disk when an end is acknowledged
            else:
                assert await rail.reports(0.2) == []
                assert len(await list_settled(sandbox)) == 2
        process.kill()
