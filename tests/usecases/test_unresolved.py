"""What the operator sees of transfers that the rail is silent about."""

from datetime import datetime, timedelta

from pixconnect.domain.access import Caller
from pixconnect.domain.transfer import AccountTransferRequest
from pixconnect.usecases import transfer as transfer_usecases
from pixconnect.usecases.handover import move_due
from pixconnect.usecases.unresolved import list_unresolved
from support.service import Service, no_fence, outside_party

EARLIEST = datetime.fromisoformat("0001-01-01T00:00:00+00:00")


async def test_only_what_was_handed_over_and_stayed_silent_is_listed(service: Service, caller: Caller) -> None:
    request = AccountTransferRequest(amount_cents=100, credit_party=outside_party())
    handed = await transfer_usecases.start_transfer(service.context, caller, request)
    await move_due(service.context, no_fence, range(256), EARLIEST, service.clock.now(), 10)
    await transfer_usecases.start_transfer(service.context, caller, request)
    service.clock.advance(seconds=59)
    assert await list_unresolved(service.context, timedelta(seconds=60), None, None) == []
    service.clock.advance(seconds=1)
    ((order, found),) = await list_unresolved(service.context, timedelta(seconds=60), None, None)
    assert (found.id, order.name, order.asked_count) == (handed.transfer.id, found.end_to_end_id, 0)
    assert await list_unresolved(service.context, timedelta(0), caller.holder_id + 1, None) == []
    assert await list_unresolved(service.context, timedelta(0), None, "E" + "0" * 31) == []
    assert len(await list_unresolved(service.context, timedelta(0), caller.holder_id, found.end_to_end_id)) == 1
