"""A worker's memory of submitted orders is only a short cut."""

import asyncio
from datetime import datetime

import pytest
import structlog.testing

from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.context import UnderWay
from pixconnect.kernel.flows.handover import move_due
from pixconnect.kernel.flows.settlement import end_orders
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.kept_report import Misfit
from pixconnect.kernel.rules.rail import Rejected, Settled
from pixconnect.kernel.rules.transfer import AccountTransferRequest
from support.books import check_books
from support.postgres import Addresses
from support.records import a_refund, a_transfer, outside_party
from support.service import STARTED_AT, Service, no_fence, open_service

EARLIEST = datetime.fromisoformat("0001-01-01T00:00:00+00:00")
SETTLED = Settled(settled_at=STARTED_AT)


async def hand_over(service: Service, caller: Caller) -> str:
    request = AccountTransferRequest(amount_cents=100, credit_party=outside_party())
    view = await transfer_usecases.start_transfer(service.context, caller, request)
    await move_due(service.context, no_fence, range(256), EARLIEST, service.clock.now(), 10)
    return view.transfer.end_to_end_id


async def status_of(service: Service, caller: Caller, name: str) -> str:
    view = await transfer_usecases.read_transfer_by_end_to_end_id(service.context, caller, name)
    return view.transfer.status


def test_the_oldest_is_forgotten_first() -> None:
    under_way = UnderWay(remembered_max=2)
    names = [f"E99999003202607011500{n:011}" for n in range(3)]
    under_way.remember(a_transfer(end_to_end_id=name) for name in names[:2])
    refund = a_refund()
    under_way.remember([refund])
    assert list(under_way.recall([*names, refund.return_id])) == [names[1], refund.return_id]
    under_way.forget(names[1])
    under_way.forget(names[0])
    assert list(under_way.recall([*names, refund.return_id])) == [refund.return_id]


async def test_a_handed_over_order_just_ends(service: Service, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    name = await hand_over(service, caller)
    with monkeypatch.context() as patched:
        patched.setattr("pixconnect.kernel.tables.transfer.find_named", None)
        await end_orders(service.context, [(name, SETTLED)])
    assert await status_of(service, caller, name) == "CONFIRMED"
    assert service.context.under_way.recall([name]) == {}
    await check_books(service)


async def test_another_workers_end_is_not_ended_again(service: Service, caller: Caller, database: Addresses) -> None:
    name = await hand_over(service, caller)
    async with open_service(database, clock=service.clock) as other:
        await end_orders(other.context, [(name, SETTLED)])
    with structlog.testing.capture_logs() as logged:
        await end_orders(service.context, [(name, SETTLED)])
        assert logged == []
    assert service.context.under_way.recall([name]) == {}
    await check_books(service)


async def test_a_contradiction_is_seen_from_anywhere(service: Service, caller: Caller, database: Addresses) -> None:
    name = await hand_over(service, caller)
    async with open_service(database, clock=service.clock) as other:
        await end_orders(other.context, [(name, SETTLED)])
    [misfit] = await end_orders(service.context, [(name, Rejected(code="AC03", reason="no such account"))])
    assert isinstance(misfit, Misfit)
    assert (misfit.reason, misfit.explanation) == (
        "contradiction",
        "the rail says Rejected, and CONFIRMED is recorded here",
    )
    assert await status_of(service, caller, name) == "CONFIRMED"
    await check_books(service)


async def test_the_same_word_many_times_at_once_counts_once(service: Service, caller: Caller) -> None:
    names = [await hand_over(service, caller) for _ in range(3)]
    await asyncio.gather(*(end_orders(service.context, [(name, SETTLED) for name in names]) for _ in range(10)))
    assert [await status_of(service, caller, name) for name in names] == ["CONFIRMED"] * 3
    await check_books(service)
