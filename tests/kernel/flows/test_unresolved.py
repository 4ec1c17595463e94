"""The operator's view of transfers that the rail does not answer."""

from datetime import datetime, timedelta

import asyncpg

from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.flows.unresolved import count_accepted, count_silent, list_accepted, list_unresolved
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.refund import Refund, RefundRequest
from pixconnect.kernel.rules.transfer import Transfer
from support.postgres import Addresses
from support.service import Service, accepted, credit_report, send_out

EARLIEST = datetime.fromisoformat("0001-01-01T00:00:00+00:00")


async def test_only_what_was_handed_over_and_stayed_silent_is_listed(service: Service, caller: Caller) -> None:
    handed = await send_out(service, caller, 100)
    await service.work()
    await send_out(service, caller, 100)
    service.clock.advance(seconds=59)
    assert await list_unresolved(service.context, timedelta(seconds=60), None, None) == []
    service.clock.advance(seconds=1)
    ((order, found),) = await list_unresolved(service.context, timedelta(seconds=60), None, None)
    assert isinstance(found, Transfer)
    assert (found.id, order.name, order.asked_count) == (handed.id, found.end_to_end_id, 0)
    assert await list_unresolved(service.context, timedelta(0), caller.holder_id + 1, None) == []
    assert await list_unresolved(service.context, timedelta(0), None, "E" + "0" * 31) == []
    assert len(await list_unresolved(service.context, timedelta(0), caller.holder_id, found.end_to_end_id)) == 1


async def test_refunds_are_shown_like_transfers_and_both_are_counted(service: Service, caller: Caller) -> None:
    report = credit_report(service)
    await receive_credit(service.context, report)
    asked = RefundRequest(end_to_end_id=report.end_to_end_id, amount_cents=400)
    refund = await refund_usecases.start_refund(service.context, caller, asked)
    await send_out(service, caller, 100)
    await service.work()
    service.clock.advance(seconds=61)
    found = [ordered for _, ordered in await list_unresolved(service.context, timedelta(seconds=60), None, None)]
    assert sorted(type(ordered).__name__ for ordered in found) == ["Refund", "Transfer"]
    ((_, ordered),) = await list_unresolved(service.context, timedelta(0), None, refund.return_id)
    assert isinstance(ordered, Refund)
    assert ordered.return_id == refund.return_id
    assert await count_silent(service.context) == 2


async def test_a_payment_that_was_accepted_and_does_not_end_is_counted(service: Service, caller: Caller) -> None:
    report = credit_report(service)
    await receive_credit(service.context, accepted(report))
    service.clock.advance(seconds=59)
    assert await count_accepted(service.context) == 0
    service.clock.advance(seconds=1)
    assert await count_accepted(service.context) == 1
    silent_for, name = timedelta(seconds=60), report.end_to_end_id
    [found] = await list_accepted(service.context, silent_for, caller.holder_id, name)
    assert (found.end_to_end_id, found.status) == (name, "PROCESSING")
    assert await list_accepted(service.context, silent_for, caller.holder_id + 1, None) == []
    assert await list_accepted(service.context, silent_for, None, "E" + "0" * 31) == []
    assert await list_accepted(service.context, timedelta(seconds=61), None, None) == []
    await receive_credit(service.context, report)
    assert await count_accepted(service.context) == 0
    assert await list_accepted(service.context, timedelta(0), None, None) == []


async def test_an_order_without_a_transfer_is_shown(service: Service, caller: Caller, database: Addresses) -> None:
    await send_out(service, caller, 100)
    await service.work()
    owner = await asyncpg.connect(database.owner_url)
    try:
        await owner.execute("set session_replication_role = 'replica'; delete from pixconnect.transfer")
    finally:
        await owner.close()
    await service.work(seconds=61)
    assert await count_silent(service.context) == 1
    ((_, ordered),) = await list_unresolved(service.context, timedelta(seconds=60), None, None)
    assert ordered is None
    assert len(service.rail.orders) == 1, "what is not there is not sent again"
