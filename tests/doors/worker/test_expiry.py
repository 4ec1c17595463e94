"""A charge does not expire before the rail's timely reports are recorded."""

from datetime import timedelta
from typing import Any

from pixconnect.doors.worker import orders
from pixconnect.doors.worker.orders import Expiry
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import ChargeRequest
from support.postgres import Addresses
from support.records import own_key
from support.service import EverySlot, FakeClock, Service, credit_report, open_holder, open_service


async def open_charge(service: Service) -> tuple[Caller, Any]:
    caller = await open_holder(service)
    request = ChargeRequest(amount_cents=1000, key=own_key())
    return caller, await charge_usecases.create_charge(service.context, caller, request)


async def status_of(service: Service, caller: Caller, charge: Any) -> str:
    return (await charge_usecases.read_charge_by_id(service.context, caller, charge.id)).status


async def test_what_was_reported_in_time_and_is_still_in_hand_is_paid(database: Addresses) -> None:
    async with open_service(database) as service:
        caller, charge = await open_charge(service)
        report = credit_report(service, amount_cents=1000, txid=charge.txid)
        service.rail.oldest_waits_since = report.reported_at  # a worker that was killed has it
        service.clock.advance(days=1, seconds=3)
        expiring = Expiry(service.context, EverySlot())  # type: ignore[arg-type]
        assert await expiring.expire(service.clock.now()) == orders.ASK_AGAIN_AFTER_S
        assert await status_of(service, caller, charge) == "PENDING"
        assert (await receive_credit(service.context, report)).refusal_code is None
        service.rail.oldest_waits_since = None
        await expiring.expire(service.clock.now())
        assert await status_of(service, caller, charge) == "APPROVED"


async def test_a_report_of_later_keeps_nothing_from_expiring(database: Addresses) -> None:
    async with open_service(database) as service:
        caller, charge = await open_charge(service)
        service.clock.advance(days=1, seconds=3)
        service.rail.oldest_waits_since = service.clock.now() - timedelta(seconds=1)
        await Expiry(service.context, EverySlot()).expire(service.clock.now())  # type: ignore[arg-type]
        assert await status_of(service, caller, charge) == "EXPIRED"


async def test_a_rail_that_is_away_is_waited_for_a_minute(database: Addresses) -> None:
    clock = FakeClock(monotonic_s=0.0)
    async with open_service(database, clock=clock) as service:
        caller, charge = await open_charge(service)
        service.clock.advance(days=1)
        service.rail.is_reachable = False
        expiring = Expiry(service.context, EverySlot())  # type: ignore[arg-type]
        for passed_s, status in ((0.0, "PENDING"), (59.0, "PENDING"), (1.0, "EXPIRED")):
            clock.advance(seconds=passed_s)
            await expiring.expire(service.clock.now())
            assert await status_of(service, caller, charge) == status
